"""Saved knowledge bases: round trips, the journal, damage, full disks, the lock, and crashes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from audit import audit, explicit_facts, fingerprint
from engine_util import ALGORITHMS, knowledge_base
from generate import EVERYTHING, soak
from naive import without_empty
from places import worker
from tidelog import IRI, DataError, KnowledgeBase, Literal, StorageError, StorageWarning, TidelogError
from tidelog.api.persistence import image_of
from tidelog.closures.closure import Closure
from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.engine.update.runner import Runner
from tidelog.errors import BrokenError
from tidelog.storage.folder_lock import FolderLock
from tidelog.storage.home import Home
from tidelog.storage.journal import MAGIC, encode_record, read_journal

RULES = """
    @prefix ex: <http://example.org/> .
    path(X, Y) :- edge(X, Y).
    path(X, Z) :- path(X, Y), path(Y, Z).
    ex:degree(X, count(Y)) :- edge(X, Y).
    lonely(X) :- node(X), not path(X, _).
    pair(X, Y) :- edge(X, Y), edge(Y, X).
"""
VALUES: list[Any] = [
    *("", "a", "été\n\t\"'", "🙂" * 40, 0, -1, 2**63 - 1, -(2**63), 1, 1.0, True, False, "1", "true", 0.1, 1e300),
    *(float("inf"), float("-inf"), float("nan"), IRI("http://example.org/a"), IRI(""), IRI("a")),
    *(Literal("a", language="en"), Literal("a", "http://www.w3.org/2001/XMLSchema#date"), Literal("", "x", "")),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a saved knowledge base."""
    kb = KnowledgeBase(RULES, maintenance="backward-forward-counting", max_facts=10_000, timeout=60.5)
    kb.update(add={"edge": [("a", "b"), ("b", "c"), ("c", "a")], "node": [("z",), ("a",)], "flag": [()]})
    kb.save(tmp_path / "home")
    return tmp_path / "home"


def snapshot_of(home: Path) -> Path:
    return next(path for path in home.iterdir() if path.name.startswith("snapshot"))


def journal_of(home: Path) -> Path:
    return next(path for path in home.iterdir() if path.name.startswith("journal"))


# Round trips


@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("modules", [True, False])
def test_what_is_opened_is_what_was_saved(maintenance: str, modules: bool, tmp_path: Path) -> None:
    for seed in range(2):
        case, stream = soak(seed, EVERYTHING, length=4)
        kb, state = knowledge_base(case.state, maintenance, modules=modules), case.state
        for number, update in enumerate(stream):
            kb.save(tmp_path / f"{seed}-{number}")
            opened = open_without_reasoning(tmp_path / f"{seed}-{number}")
            assert fingerprint(opened) == fingerprint(kb)
            audit(opened)
            expected = kb.update(**update.mapping())  # type: ignore[arg-type]
            change = opened.update(**update.mapping())  # type: ignore[arg-type]
            assert (change.added, change.removed) == (expected.added, expected.removed)
            assert fingerprint(opened) == fingerprint(kb)
            audit(opened)
            state = state.apply(update)
            assert explicit_facts(opened) == without_empty(state.explicit)
            kb = opened


def open_without_reasoning(folder: Path) -> KnowledgeBase:
    """Open, while nothing can be derived."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(Runner, "run")
        return KnowledgeBase.open(folder)


def test_every_value_comes_back_as_it_was(tmp_path: Path) -> None:
    kb = KnowledgeBase("@prefix p: <http://p/> . p:q(X) :- value(X). # a comment")
    kb.update(add={"value": [(value,) for value in VALUES], "<http://é/1>": [("x", 1)]})
    kb.save(tmp_path / "kb")
    opened = KnowledgeBase.open(tmp_path / "kb", journal=True)
    assert fingerprint(opened) == fingerprint(kb)
    opened.update(delete={"value": [(value,) for value in VALUES]})
    opened.update(add={"value": [(value,) for value in VALUES]})
    opened.close()
    assert fingerprint(KnowledgeBase.open(tmp_path / "kb")) == fingerprint(kb)


def test_options_and_numbers_of_rules(home: Path) -> None:
    kb = KnowledgeBase.open(home)
    options = image_of(kb._knowledge).options
    assert options == {
        "maintenance": "backward-forward-counting",
        "modules": True,
        "max_facts": 10_000,
        "timeout": 60.5,
    }
    kb.update(remove_rules="lonely(X) :- node(X), not path(X, _).", add_rules="last(X) :- node(X).")
    kb.save(home)
    again = KnowledgeBase.open(home)
    assert list(again._engine.graph.rules) == [1, 2, 3, 5, 6]
    assert again._engine.graph.next_number == 7
    assert again.rules == kb.rules
    assert again.prefixes == {"ex": "http://example.org/"}


def test_an_empty_knowledge_base(tmp_path: Path) -> None:
    KnowledgeBase().save(tmp_path / "a" / "b")
    kb = KnowledgeBase.open(tmp_path / "a" / "b")
    assert len(kb) == 0
    kb.update(add={"p": [(1,)]}, add_rules="q(X) :- p(X).")
    assert set(kb.facts("q")) == {(1,)}


def test_saving_replaces_and_leaves_no_litter(home: Path) -> None:
    kb = KnowledgeBase.open(home)
    for number in range(3):
        kb.update(add={"edge": [("new", number)]})
        kb.save(home)
        generation = number + 2
        assert sorted(os.listdir(home)) == ["CURRENT", "LOCK", f"journal-{generation}.log", f"snapshot-{generation}"]
        assert fingerprint(KnowledgeBase.open(home)) == fingerprint(kb)


# Functions


def test_functions_are_named_when_they_are_missing(tmp_path: Path) -> None:
    kb = KnowledgeBase()
    kb.register("twice", lambda number: 2 * number)
    kb.update(add={"n": [(1,), (2,)]}, add_rules="double(X, Y) :- n(X), Y = twice(X) + abs(X).")
    kb.save(tmp_path)
    with pytest.warns(StorageWarning, match="`twice`"):
        opened = KnowledgeBase.open(tmp_path)
    assert opened.missing_functions == ["twice"]
    assert set(opened.facts("double")) == {(1, 3), (2, 6)}
    opened.update(add={"other": [(1,)]})
    before = fingerprint(opened)
    with pytest.raises(TidelogError, match="`twice` is not registered"):
        opened.update(add={"n": [(3,)]})
    assert fingerprint(opened) == before
    opened.register("twice", lambda number: 2 * number)
    opened.update(add={"n": [(3,)]}, delete={"n": [(1,)]})
    assert set(opened.facts("double")) == {(2, 6), (3, 9)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KnowledgeBase.open(tmp_path, functions={"twice": lambda number: 2 * number})


def test_a_journal_that_needs_a_function_says_so(tmp_path: Path) -> None:
    KnowledgeBase().save(tmp_path)
    functions = {"twice": lambda number: 2 * number}
    with KnowledgeBase.open(tmp_path, journal=True, functions=functions) as kb:
        kb.update(add={"n": [(1,)]}, add_rules="double(Y) :- n(X), Y = twice(X).")
    with pytest.raises(StorageError, match=r"update 1 of the journal.*`twice` is not registered"):
        KnowledgeBase.open(tmp_path, journal=True)
    with KnowledgeBase.open(tmp_path, journal=True, functions=functions) as kb:
        assert set(kb.facts("double")) == {(2,)}


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


def rewrite_manifest(home: Path, manifest: dict[str, Any]) -> None:
    """As a program would that keeps the checksums right."""
    from tidelog.storage.durable_files import checksum

    content = json.dumps(manifest).encode()
    (snapshot_of(home) / "manifest.json").write_bytes(content)
    current = json.loads((home / "CURRENT").read_text())
    (home / "CURRENT").write_text(json.dumps({**current, "manifest": checksum(content)}))


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
    # The second was there before the third was begun, also where neither is whole any more.
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
    """The n-th fsync finds the disk full."""
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
    monkeypatch.setattr(kb, "_home", None)
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


def copy_of(home: Path) -> dict[str, Any]:
    copy = home.parent / "copy"
    shutil.copytree(home, copy)
    found = fingerprint(KnowledgeBase.open(copy))
    shutil.rmtree(copy)
    return found


# The lock


def test_a_second_writer_is_kept_out(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        for attempt in (
            lambda: KnowledgeBase.open(home, journal=True),
            lambda: KnowledgeBase.open(home),
            lambda: KnowledgeBase().save(home),
        ):
            with pytest.raises(StorageError, match=f"in use by process {os.getpid()} on .*close"):
                attempt()
        kb.update(add={"node": [("still here",)]})
    with pytest.raises(StorageError, match="has been closed"):
        kb.update(add={"node": [("too late",)]})
    with KnowledgeBase.open(home, journal=True) as kb:
        assert ("still here",) in kb.facts("node")
        assert ("too late",) not in kb.facts("node")


def test_a_full_disk_does_not_leak_the_lock(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        patched.setattr(os, "ftruncate", full)
        KnowledgeBase.open(home, journal=True).close()  # the name of the holder is a courtesy
    KnowledgeBase.open(home, journal=True).close()


def test_an_interrupted_open_does_not_leak_the_lock(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", interrupt)
        with pytest.raises(KeyboardInterrupt):
            KnowledgeBase.open(home, journal=True)
    KnowledgeBase.open(home, journal=True).close()


def test_a_lock_that_was_removed_locks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited for a lock whose holder took the folder away does not hold the folder that somebody made since."""
    holder = FolderLock.for_writing(tmp_path)
    original = fcntl.flock

    def wait(file: int, kind: int) -> None:
        holder.discard()
        holder.release()
        original(file, kind)

    monkeypatch.setattr(fcntl, "flock", wait)
    with pytest.raises(StorageError, match="cannot lock"):
        FolderLock.for_writing(tmp_path)


@pytest.mark.parametrize("away", ["LOCK", ""])
def test_who_lost_the_lock_writes_no_more(home: Path, tmp_path: Path, away: str) -> None:
    """Nobody keeps a second writer from the journal any more; and what goes into a folder that is gone is lost."""
    with KnowledgeBase.open(home, journal=True) as kb:
        (home / away).rename(tmp_path / "away")
        before = fingerprint(kb)
        for change in (lambda: kb.update(add={"node": [("lost",)]}), lambda: kb.save(home)):
            with pytest.raises(StorageError, match="was moved or removed, or its lock was"):
                change()
        assert fingerprint(kb) == before
        kb.save(tmp_path / "elsewhere")
    assert ("a",) in KnowledgeBase.open(tmp_path / "elsewhere").facts("node")


def test_a_save_into_a_folder_that_goes_tells_its_own_failure(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanish(*_: object) -> None:
        shutil.rmtree(home)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("tidelog.storage.home.write_snapshot", vanish)
    with KnowledgeBase.open(home, journal=True) as kb, pytest.raises(OSError, match="Input/output error"):
        kb.save(home)


def test_a_lock_dies_with_its_process(home: Path) -> None:
    code = (
        "import os, sys; from tidelog import KnowledgeBase\n"
        f"kb = KnowledgeBase.open({str(home)!r}, journal=True); kb.update(add={{'node': [('other',)]}})\n"
        "print(os.getpid(), flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        holder = int(process.stdout.readline())
        with pytest.raises(StorageError, match=f"in use by process {holder} "):
            KnowledgeBase.open(home)
        process.kill()
    with KnowledgeBase.open(home, journal=True) as kb:
        assert ("other",) in kb.facts("node")


def test_a_backup_while_the_journal_is_open(home: Path, tmp_path: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"node": [("one",)]})
        kb.save(tmp_path / "backup")
        kb.update(add={"node": [("two",)]})
        assert ("two",) not in KnowledgeBase.open(tmp_path / "backup").facts("node")
    assert ("two",) in KnowledgeBase.open(home).facts("node")


# Crashes


def test_kill_9_at_every_step() -> None:
    """Old or new after a killed save; nothing acknowledged lost after a killed update."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, worker("crash_worker.py")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    saves, updates, random_ones = map(int, result.stdout.split())
    assert saves > 30
    assert updates > 15
    assert random_ones > 0


def test_what_cannot_be_taken_back_refuses_to_be_used_and_opens_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    kb = KnowledgeBase.open(home, journal=True)
    before = set(kb.facts("path"))
    monkeypatch.setattr(Home, "record", no_memory)
    monkeypatch.setattr(Closure, "undo", no_memory)
    monkeypatch.setattr(ClosureNode, "take_over", no_memory)
    with pytest.raises(BrokenError, match="open its folder again"):
        kb.update(add={"edge": [("new", "newer")]})
    monkeypatch.undo()
    uses = (
        lambda: kb.update(add={"edge": [(1, 2)]}),
        lambda: len(kb.facts("path")),
        lambda: kb.query("path(X, Y)"),
        lambda: "path(a, b)" in kb,
        lambda: kb.save(home),
    )
    for use in uses:
        with pytest.raises(BrokenError, match="can no longer be used"):
            use()
    kb.close()
    again = KnowledgeBase.open(home)
    assert set(again.facts("path")) == before


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_counters_of_a_recursion_that_was_a_closure_are_saved(tmp_path: Path, maintenance: str) -> None:
    kb = KnowledgeBase("p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z).", maintenance=maintenance)
    kb.update(add={"e": [(1, 2), (2, 4), (1, 3), (3, 4)]})
    kb.add_rules("e(X, Y) :- p(X, Y), g(X).")
    kb.save(tmp_path / "kb")
    again = KnowledgeBase.open(tmp_path / "kb")
    audit(again)
    again.update(delete={"e": [(1, 2)]})
    assert set(again.facts("p")) == {(1, 3), (2, 4), (3, 4), (1, 4)}
