"""A reader beside a writer: `open(read_only=True)` and `refresh`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit import audit, fingerprint
from places import worker
from soaking import seeds
from storage_util import journal_of, snapshot_of
from tidelog import KnowledgeBase, StorageError, StorageWarning
from tidelog.storage import follower
from tidelog.storage.journal import MARK


def facts(kb: KnowledgeBase) -> dict[str, set[tuple[object, ...]]]:
    return {name: set(kb.facts(name)) for name in kb.predicates}


def test_a_reader_sees_what_is_committed_beside_a_writer(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"node": [("first",)]})
        reader = KnowledgeBase.open(home, read_only=True)
        assert fingerprint(reader) == fingerprint(kb)
        kb.update(add={"edge": [("c", "d")]}, delete={"edge": [("a", "b")]}, commit={"batch": "2"})
        kb.update(add={"node": [("second",)]}, delete={"node": [("first",)]})
        assert ("c", "d") not in reader.facts("edge")
        view = reader.facts("path")
        change = reader.refresh()
        assert set(change.added["node"]) == {("second",)}
        assert set(change.removed["node"]) == {("first",)}
        assert set(change.removed["edge"]) == {("a", "b")}
        assert set(view) == set(kb.facts("path"))
        assert reader.commit_info == {"batch": "2"}
        assert fingerprint(reader)["facts"] == fingerprint(kb)["facts"]
        audit(reader)
        assert change.explain("edge(c, d)") is not None
        assert not reader.refresh()
        kb.update(add={"edge": [("d", "e")]})
    assert set(reader.refresh().added["edge"]) == {("d", "e")}


def test_only_what_is_new_is_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = KnowledgeBase.open(home, read_only=True)
    with KnowledgeBase.open(home, journal=True) as kb:
        for number in range(5):
            kb.update(add={"node": [(number,)]})
        reader.refresh()
        kb.update(add={"node": [("last",)]})
        monkeypatch.setattr(follower, "read_snapshot", None)
        payloads = reader._knowledge.followed.news().payloads  # type: ignore[union-attr]
        assert len(payloads) == 1
        assert set(reader.refresh().added["node"]) == {("last",)}


def test_a_reader_follows_saves(home: Path) -> None:
    reader = KnowledgeBase.open(home, read_only=True)
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"edge": [("c", "d")], "new": [(1, "x", 2.5)]}, delete={"flag": [()]})
        kb.update(add_rules="@prefix late: <http://late.org/> . late:p(X) :- node(X).")
        kb.remove_rules("pair(X, Y) :- edge(X, Y), edge(Y, X).")
        kb.save(home)
        kb.update(add={"node": [("after",)]}, commit={"batch": "9"})
        change = reader.refresh()
        assert facts(reader) == facts(kb)
        assert (reader.prefixes, reader.commit_info) == (kb.prefixes, {"batch": "9"})
        assert sorted(reader.rules) == sorted(kb.rules)
        assert set(change.added["new"]) == {(1, "x", 2.5)}
        assert set(change.removed["flag"]) == {()}
        assert set(change.added["late:p"]) == set(kb.facts("late:p"))
        audit(reader)
        kb.save(home)
        kb.save(home)
        assert not reader.refresh()
        kb.update(add={"edge": [("d", "a")]})
        assert ("d", "a") in reader.refresh().added["edge"]


def test_what_is_being_written_is_left_for_the_next_time(home: Path, recwarn: pytest.WarningsRecorder) -> None:
    reader = KnowledgeBase.open(home, read_only=True)
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"node": [("one",)]})
        end = journal_of(home).stat().st_size
        kb.update(add={"node": [("two",)]})
    whole = journal_of(home).read_bytes()
    for cut in range(end, len(whole)):
        journal_of(home).write_bytes(whole[:cut])
        fresh = KnowledgeBase.open(home, read_only=True)
        assert ("two",) not in fresh.facts("node")
        assert ("one",) in fresh.facts("node")
        reader.refresh()
        assert ("two",) not in reader.facts("node")
    journal_of(home).write_bytes(whole)
    assert set(reader.refresh().added["node"]) == {("two",)}
    assert not [told for told in recwarn if issubclass(told.category, StorageWarning)]


def test_a_record_that_was_taken_back_goes_here_too(home: Path) -> None:
    """A record can be complete and yet not be committed: if forcing it to the disk fails, it is cut off again."""
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"node": [("kept",)]})
        before = journal_of(home).read_bytes()
        kb.update(add={"node": [("taken back",)]})
    reader = KnowledgeBase.open(home, read_only=True)
    assert ("taken back",) in reader.facts("node")
    journal_of(home).write_bytes(before)
    assert set(reader.refresh().removed["node"]) == {("taken back",)}
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"node": [("instead",)]})
    assert set(reader.refresh().added["node"]) == {("instead",)}


def test_updates_are_refused(home: Path, tmp_path: Path) -> None:
    reader = KnowledgeBase.open(home, read_only=True)
    before = fingerprint(reader)
    for attempt in (
        lambda: reader.update(add={"node": [("x",)]}),
        lambda: reader.add_rules("p(X) :- node(X)."),
        lambda: reader.load([]),
        lambda: reader.stream([{}]),
        reader.live,
        lambda: reader.save(home),
    ):
        with pytest.raises(StorageError, match="open for reading only"):
            attempt()
    assert fingerprint(reader) == before
    assert reader.what_if(add={"node": [("x",)]})
    reader.save(tmp_path / "copy")
    assert fingerprint(KnowledgeBase.open(tmp_path / "copy"))["facts"] == before["facts"]
    with KnowledgeBase.open(home, journal=True) as kb, reader:
        kb.update(add={"node": [("y",)]})
        kb.save(home)


def test_what_makes_no_sense_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="keeps no journal"):
        KnowledgeBase.open(home, journal=True, read_only=True)
    with pytest.raises(StorageError, match="read_only=True can be refreshed"):
        KnowledgeBase.open(home).refresh()
    with pytest.raises(StorageError, match="there is no folder"):
        KnowledgeBase.open(tmp_path / "nowhere", read_only=True)


def test_damage_is_told_and_nothing_changes(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"node": [("one",)]})
        reader = KnowledgeBase.open(home, read_only=True)
        kb.update(add={"node": [("two",)]})
        kb.update(add={"node": [("three",)]})
    whole = journal_of(home).read_bytes()
    place = whole.rindex(MARK, 0, whole.rindex(MARK)) + 30
    journal_of(home).write_bytes(whole[:place] + b"?" + whole[place + 1 :])
    before = fingerprint(reader)
    with pytest.raises(StorageError, match="is damaged after update 1"):
        reader.refresh()
    assert fingerprint(reader) == before
    journal_of(home).write_bytes(whole)
    assert set(reader.refresh().added["node"]) == {("two",), ("three",)}
    (snapshot_of(home) / "terms.arrays").unlink()
    with pytest.raises(StorageError, match="terms"):
        KnowledgeBase.open(home, read_only=True)


def test_another_knowledge_base_in_its_place(home: Path) -> None:
    reader = KnowledgeBase.open(home, read_only=True)
    KnowledgeBase("only(this).").save(home)
    reader.refresh()
    assert facts(reader) == {"only": {("this",)}}
    before = fingerprint(reader)
    KnowledgeBase("only(this, that).").save(home)
    with pytest.raises(StorageError, match=r"cannot be taken in.*argument"):
        reader.refresh()
    assert fingerprint(reader) == before


def test_functions_are_called_here_too(tmp_path: Path) -> None:
    def double(number: int) -> int:
        return 2 * number

    kb = KnowledgeBase()
    kb.register("double", double)
    kb.update(add={"n": [(1,)]}, add_rules="m(Y) :- n(X), Y = double(X).")
    kb.save(tmp_path)
    with KnowledgeBase.open(tmp_path, journal=True, functions={"double": double}) as kb:
        with pytest.warns(StorageWarning, match="`double`"):
            without = KnowledgeBase.open(tmp_path, read_only=True)
        reader = KnowledgeBase.open(tmp_path, read_only=True, functions={"double": double})
        kb.update(add={"n": [(2,)]})
        assert set(reader.refresh().added["m"]) == {(4,)}
        kb.update(add={"n": [(3,)]})
        kb.save(tmp_path)
        assert set(reader.refresh().added["m"]) == {(6,)}
        with pytest.raises(StorageError, match="double"):
            without.refresh()
        without.register("double", double)
        assert set(without.refresh().added["m"]) == {(4,), (6,)}


def test_a_folder_that_cannot_be_written_to_is_followed(home: Path) -> None:
    (home / "LOCK").unlink()
    reader = KnowledgeBase.open(home, read_only=True)
    assert not reader.refresh()
    assert sorted(path.name for path in home.iterdir()) == ["CURRENT", "journal-1.log", "snapshot-1"]


@pytest.mark.parametrize("seed", [1])
def test_any_interleaving_with_a_writer_that_is_killed(seed: int) -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    for each in seeds([seed], "a reader beside a writer"):
        command = [sys.executable, worker("follow_worker.py"), str(each), "60", "3"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"seed {each}: {done.stderr}"
        updates, kills, brought = map(int, done.stdout.split())
        assert (updates, kills) == (60, 3)
        assert brought > 5
