"""The journal: what it holds after each update, when it is replayed, and what a torn or damaged one means."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from audit import audit, fingerprint
from engine_util import ALGORITHMS, knowledge_base
from generate import EVERYTHING, soak
from storage_util import journal_of, rewrite_manifest, snapshot_of
from tidelog import DataError, KnowledgeBase, StorageError, StorageWarning, TidelogError
from tidelog.storage.journal import MAGIC, encode_record, read_journal

# The journal


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_journalled_updates_are_there_after_a_crash(maintenance: str, tmp_path: Path) -> None:
    for seed in (10, 12):
        case, stream = soak(seed, EVERYTHING, length=5)
        knowledge_base(case.state, maintenance).save(tmp_path / f"{seed}")
        kb = KnowledgeBase.open(tmp_path / f"{seed}", journal=True)
        for number, update in enumerate(stream):
            kb.update(**update.mapping())  # type: ignore[arg-type]
            # A copy is what a crash leaves; the lock is not held on it.
            copy = tmp_path / f"{seed}-{number}"
            shutil.copytree(tmp_path / f"{seed}", copy)
            opened = KnowledgeBase.open(copy)
            assert fingerprint(opened) == fingerprint(kb)
            audit(opened)
        kb.save(tmp_path / f"{seed}")
        assert read_journal(journal_of(tmp_path / f"{seed}")).payloads == []
        kb.close()
        assert fingerprint(KnowledgeBase.open(tmp_path / f"{seed}")) == fingerprint(kb)


def test_every_way_to_change_is_journalled(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.add_rules("@prefix new: <http://new/> . new:p(X) :- node(X).")
        kb.remove_rules("lonely(A) :- node(A), not path(A, _).")
        list(kb.stream([{"add": {"node": [("streamed",)]}}, {"delete": {"node": [("a",)]}}]))
        kb.update(add={"empty": [], "flag": [()]}, delete={"flag": [()]})
        kb.update()
        before = fingerprint(kb)
    assert len(read_journal(journal_of(home)).payloads) == 5
    assert fingerprint(KnowledgeBase.open(home)) == before


def test_a_note_is_committed_with_its_update(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        assert kb.commit_info == {}
        kb.update(add={"edge": [("x", "y")]}, commit={"batch": "1"})
        kb.update(add={"edge": [("x", "z")]})
        kb.update(commit={"batch": "2"})  # nothing but the note
        with pytest.raises(TidelogError):
            kb.update(add={"edge": [("too", "many", "values")]}, commit={"batch": "3"})
        with pytest.raises(DataError, match="mapping of texts"):
            kb.update(commit={"batch": 3})  # type: ignore[dict-item]
        assert kb.commit_info == {"batch": "2"}
    told: list[tuple[Any, Any]] = []
    with KnowledgeBase.open(home, journal=True, on_replay=lambda note, change: told.append((note, change))) as kb:
        assert kb.commit_info == {"batch": "2"}
        assert [note for note, _ in told] == [{"batch": "1"}, {}, {"batch": "2"}]
        assert told[0][1].added["edge"] == {("x", "y")}
        assert not told[2][1]
        kb.save(home)
    assert KnowledgeBase.open(home).commit_info == {"batch": "2"}


def test_what_failed_is_not_replayed(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"node": [("kept",)]})
        with pytest.raises(TidelogError):
            kb.update(add={"node": [("lost",)], "edge": [(1,)]})
        with pytest.raises(TidelogError):
            kb.update(add={"edge": [(x, y) for x in range(100) for y in range(101)]})
        before = fingerprint(kb)
    assert fingerprint(KnowledgeBase.open(home)) == before
    assert len(read_journal(journal_of(home)).payloads) == 1


def test_limits_do_not_bind_a_replay(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"node": [("x",)]})
    manifest = json.loads((snapshot_of(home) / "manifest.json").read_text())
    manifest["options"]["max_facts"] = 1
    rewrite_manifest(home, manifest)
    assert ("x",) in KnowledgeBase.open(home).facts("node")


def test_a_full_disk_under_the_journal_undoes_the_update(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase.open(home, journal=True)
    kb.update(add={"node": [("kept",)]})
    before = fingerprint(kb)
    original = os.pwrite

    def half(file: int, data: bytes, at: int) -> int:
        original(file, data[: len(data) // 2], at)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(StorageError, match="disk is full"):
        kb.update(add={"node": [("lost",)]}, add_rules="@prefix z: <http://z/> . z:p(X) :- node(X).")
    monkeypatch.undo()
    assert fingerprint(kb) == before
    audit(kb)
    kb.update(add={"node": [("after",)]})
    kb.close()
    assert fingerprint(KnowledgeBase.open(home)) == fingerprint(kb)


def test_a_journal_that_cannot_be_cut_takes_nothing_more(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase.open(home, journal=True)
    before = fingerprint(kb)

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    monkeypatch.setattr(os, "ftruncate", broken)
    with pytest.raises(StorageError, match="Input/output error"):
        kb.update(add={"node": [("lost",)]})
    monkeypatch.undo()
    with pytest.raises(StorageError, match="open it again"):
        kb.update(add={"node": [("after",)]})
    assert fingerprint(kb) == before
    kb.save(home)  # a new snapshot and a new journal
    kb.update(add={"node": [("after",)]})
    kb.close()
    assert fingerprint(KnowledgeBase.open(home)) == fingerprint(kb)


# Torn tails and damage


def test_a_torn_tail_is_cut(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"node": [("first",)]})
        first = fingerprint(kb)
        end = journal_of(home).stat().st_size
        kb.update(add={"node": [("second",)]})
    whole = journal_of(home).read_bytes()
    tails = [whole[end:cut] for cut in {end + 1, end + 3, end + 4, end + 19, end + 20, end + 21, len(whole) - 1}]
    tails += [bytes(40), b"\x9eREC", b"\x9eREC" * 9, bytes([whole[end] ^ 1]) + whole[end + 1 :], whole[end:-1] + b"?"]
    for tail in tails:
        journal_of(home).write_bytes(whole[:end] + tail)
        with pytest.warns(StorageWarning, match="never took place"):
            assert fingerprint(KnowledgeBase.open(home)) == first
        with pytest.warns(StorageWarning):
            kb = KnowledgeBase.open(home, journal=True)
        assert journal_of(home).stat().st_size == end
        kb.update(add={"node": [("third",)]})
        kb.close()
        assert {("first",), ("third",)} <= set(KnowledgeBase.open(home).facts("node"))


def test_damage_inside_the_journal_is_no_torn_tail(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        for number in range(3):
            kb.update(add={"node": [(number,)]})
    whole = journal_of(home).read_bytes()
    second = whole.index(b"\x9eREC", len(MAGIC) + 1)
    for at in (0, len(MAGIC), len(MAGIC) + 5, len(MAGIC) + 14, len(MAGIC) + 30, second, second + 25):
        journal_of(home).write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        with pytest.raises(StorageError, match=r"damaged"):
            KnowledgeBase.open(home, journal=True)
    journal_of(home).write_bytes(whole[:second] + whole[whole.index(b"\x9eREC", second + 1) :])
    with pytest.raises(StorageError, match="damaged after update 1"):
        KnowledgeBase.open(home)
    # The second was complete before the third was begun, even if neither is whole any more.
    third = whole.index(b"\x9eREC", second + 1)
    for end in (third + 10, len(whole)):
        damaged = whole[: third - 10] + bytes(end - third + 10) + whole[end:]
        journal_of(home).write_bytes(damaged)
        with pytest.raises(StorageError, match=r"damaged after update 1 .* more updates behind"):
            KnowledgeBase.open(home, journal=True)
        assert journal_of(home).read_bytes() == damaged


def test_a_record_that_is_whole_and_makes_no_sense(home: Path) -> None:
    journal_of(home).write_bytes(MAGIC + encode_record(1, b'{"terms": 7}'))
    with pytest.raises(StorageError, match="cannot be understood"):
        KnowledgeBase.open(home)


def test_a_backup_while_the_journal_is_open(home: Path, tmp_path: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"node": [("one",)]})
        kb.save(tmp_path / "backup")
        kb.update(add={"node": [("two",)]})
        assert ("two",) not in KnowledgeBase.open(tmp_path / "backup").facts("node")
    assert ("two",) in KnowledgeBase.open(home).facts("node")
