"""Backups: a copy of a saved knowledge base in one file, and a knowledge base from it."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from audit import fingerprint
from tidelog import KnowledgeBase, StorageError
from tidelog.storage.backups import backup, restore


def test_what_is_restored_is_what_was_there(home: Path, tmp_path: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"node": [("late",)]})
        assert backup(home, tmp_path / "b.tar") == 1
        restore(tmp_path / "b.tar", tmp_path / "new" / "store")
        assert fingerprint(KnowledgeBase.open(tmp_path / "new" / "store")) == fingerprint(kb)


def not_whole(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zipped_and_not_whole(file: Path) -> None:
    file.write_bytes(gzip.compress(file.read_bytes()))
    not_whole(file)


def more_than_a_store(file: Path) -> None:
    with tarfile.open(file, "a") as archive:
        member = tarfile.TarInfo("../outside")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))


def without_its_last_member(file: Path) -> None:
    with tarfile.open(file) as archive:
        last = archive.getmembers()[-1]
    file.write_bytes(file.read_bytes()[: last.offset])


def with_another_byte(file: Path) -> None:
    with tarfile.open(file) as archive:
        terms = archive.getmember("snapshot-1/terms.arrays")
    content = bytearray(file.read_bytes())
    content[terms.offset_data + terms.size // 2] ^= 1
    file.write_bytes(content)


def no_archive(file: Path) -> None:
    file.write_bytes(b"no tar at all")


@pytest.mark.parametrize(
    "damage",
    [no_archive, not_whole, zipped_and_not_whole, more_than_a_store, without_its_last_member, with_another_byte],
)
def test_a_backup_that_cannot_be_restored_leaves_nothing_behind(
    home: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    backup(home, tmp_path / "b.tar")
    damage(tmp_path / "b.tar")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StorageError):
        restore(tmp_path / "b.tar", tmp_path / "new" / "store")
    assert sorted(tmp_path.rglob("*")) == before


def save(folder: Path, _: Path) -> None:
    KnowledgeBase("p(a).").save(folder)


def save_and_restore(folder: Path, file: Path) -> None:
    KnowledgeBase("p(a).").save(file.parent / "other")
    backup(file.parent / "other", file)
    restore(file, folder)


@pytest.mark.parametrize("write", [save, save_and_restore])
def test_a_new_folder_is_there_after_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, Path], None]
) -> None:
    """Its name is on disk, and those of the new folders that it lies in."""
    forced, original = set(), os.fsync

    def note(file: int) -> None:
        found = os.fstat(file)
        forced.add((found.st_dev, found.st_ino))
        original(file)

    (tmp_path / "old").mkdir()
    monkeypatch.setattr(os, "fsync", note)
    folder = tmp_path / "old" / "new" / "inner" / "store"
    write(folder, tmp_path / "b.tar")
    for parent in (folder, *folder.parents[:3]):
        found = parent.stat()
        assert (found.st_dev, found.st_ino) in forced, parent
