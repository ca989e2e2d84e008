"""Saving that fails and files that are damaged: full disks, killed processes, foreign and missing files."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from audit import audit, fingerprint
from places import worker
from storage_util import copy_of, rewrite_manifest, snapshot_of
from tidelog import KnowledgeBase, StorageError


def files_of(home: Path) -> Iterator[Path]:
    yield from (path for path in sorted(home.rglob("*")) if path.is_file() and path.name != "LOCK")


def test_every_file_is_needed_and_guarded(home: Path) -> None:
    for path in list(files_of(home)):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(StorageError):
            KnowledgeBase.open(home)
        path.write_bytes(content[:-1])
        if not path.name.startswith("journal"):
            with pytest.raises(StorageError, match="damaged"):
                KnowledgeBase.open(home)
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        with pytest.raises(StorageError, match="damaged"):
            KnowledgeBase.open(home)
        path.write_bytes(content)
    audit(KnowledgeBase.open(home))


def test_newer_and_foreign_folders(home: Path, tmp_path: Path) -> None:
    current = json.loads((home / "CURRENT").read_text())
    (home / "CURRENT").write_text(json.dumps({**current, "version": 99}))
    with pytest.raises(StorageError, match="newer tidelog"):
        KnowledgeBase.open(home)
    (home / "CURRENT").write_text(json.dumps({**current, "format": "something"}))
    with pytest.raises(StorageError, match="not of a tidelog"):
        KnowledgeBase.open(home)
    with pytest.raises(StorageError, match=r"no saved knowledge base.*kb\.save"):
        KnowledgeBase.open(tmp_path)
    with pytest.raises(StorageError, match="no folder"):
        KnowledgeBase.open(tmp_path / "nowhere", journal=True)


def test_terms_and_relations_must_fit_together(home: Path) -> None:
    manifest = json.loads((snapshot_of(home) / "manifest.json").read_text())
    wide = next(item for item in manifest["relations"] if item["name"] == "edge")
    wide["file"] = next(item for item in manifest["relations"] if item["name"] == "node")["file"]
    rewrite_manifest(home, manifest)
    with pytest.raises(StorageError, match="cannot be understood"):
        KnowledgeBase.open(home)


# Full disks


@contextmanager
def full_disk_at(number: int) -> Iterator[None]:
    """Let the n-th fsync find the disk full."""
    original, calls = os.fsync, iter(range(1000))

    def full(file: int) -> None:
        if next(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full)
        yield


def test_a_full_disk_leaves_the_old_state(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase.open(home, journal=True)
    before = fingerprint(kb)
    names = sorted(os.listdir(home))
    monkeypatch.setattr(kb._knowledge, "home", None)
    kb.update(add={"node": [("unsaved",)]})
    monkeypatch.undo()
    failures = 0
    for number in range(1000):
        with full_disk_at(number), pytest.raises(StorageError, match="disk is full"):
            kb.save(home)
        failures += 1
        if sorted(os.listdir(home)) != names:
            break  # the last fsync of all: the new state counts already
        assert copy_of(home) == before
    assert failures > 5
    assert copy_of(home) != before


def test_a_failed_save_into_a_new_folder_leaves_nothing(tmp_path: Path) -> None:
    kb = KnowledgeBase("p(a).")
    failures = 0
    for number in range(1000):
        with full_disk_at(number), pytest.raises(StorageError, match="disk is full"):
            kb.save(tmp_path / "new" / "folder")
        if list(tmp_path.iterdir()):
            break  # the last fsync of all: the new state counts already
        failures += 1
    assert failures > 5
    assert ("a",) in KnowledgeBase.open(tmp_path / "new" / "folder").facts("p")


# Crashes


def test_kill_9_at_every_step() -> None:
    """After a killed save, the old or the new state; after a killed update, nothing that was acknowledged is lost."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, worker("crash_worker.py")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    saves, updates, random_ones = map(int, result.stdout.split())
    assert saves > 30
    assert updates > 15
    assert random_ones > 0
