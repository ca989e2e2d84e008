"""Kills a child process with `kill -9` at every step of streams, starts another one, and looks at what is in the sink.

Run by `test_stream_engines.py` in a process of its own, as `crash_worker.py` is. `Driver` stands in for Spark: it hands
over batches by number, notes a batch as done once it was taken, and otherwise hands it over again.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from crash_worker import die_at, run_child
from stream_util import changes_in, entries, facts_of, record, refused_in, replayed
from tidelog import StorageWarning
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.spark.streams.keyed_engine import KeyedEngine
from tidelog.spark.streams.memory_engine import MemoryEngine
from tidelog.spark.streams.resident import KeyedProgram
from tidelog.spark.streams.sink import Quarantine, Sink
from tidelog.spark.streams.update_records import parse_entry

RULES = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z). degree(X, count(Y)) :- edge(X, Y)."
BATCHES = [
    [record("add", "edge", "a", "b"), record("add", "edge", "b", "c")],
    [record("add", "edge", "c", "a"), "rubbish", record("add", "edge", 1), record("delete", "edge", "a", "b")],
    [record("add_rules", "", "loop(X) :- path(X, X)."), record("add", "edge", "a", "b")],
]
REFUSED = [(1, "rubbish"), (1, record("add", "edge", 1))]


class Driver:
    """What Spark keeps of a stream: which batches are done."""

    def __init__(self, folder: Path) -> None:
        self._committed = folder / "committed"

    def feed(self, take: Callable[[int], None], count: int) -> None:
        done = int(self._committed.read_text()) if self._committed.exists() else 0
        for number in range(done, count):
            take(number)
            beside = self._committed.with_name("committing")
            beside.write_text(str(number + 1))
            os.rename(beside, self._committed)


# The memory engine


def stream_in_memory(folder: Path) -> None:
    sink, quarantine = Sink(folder / "sink", "jsonl"), Quarantine(folder / "refused")
    engine = MemoryEngine(folder / "state", lambda: KnowledgeBase(RULES), sink, quarantine, parse_entry)
    engine.start()
    Driver(folder).feed(lambda number: engine.take(number, entries(*BATCHES[number])), len(BATCHES))
    engine.close()


def truth() -> list[set[tuple[str, str]]]:
    """What holds after each batch."""
    kb = KnowledgeBase(RULES)
    found = []
    for number, batch in enumerate(BATCHES):
        for body in batch:
            if (number, body) not in REFUSED:
                kb.update(**parse_entry(body))
        found.append(facts_of(kb))
    return found


def check_memory(folder: Path, expected: Sequence[set[tuple[str, str]]], where: object) -> None:
    changes = changes_in(folder / "sink")
    for number in range(len(BATCHES)):
        so_far = {known: rows for known, rows in changes.items() if known <= number}
        assert replayed(so_far) == expected[number], (where, number)
    assert refused_in(folder / "refused") == REFUSED, where
    assert facts_of(KnowledgeBase.open(folder / "state" / "kb")) == expected[-1], where
    assert not list((folder / "state" / "inbox").iterdir()), where


# The keyed engine, with the output of the keys simulated


def rows_of(number: int) -> pa.Table:
    columns = ("kind", "op", "predicate", "arguments", "place", "body", "reason")
    rule = json.dumps({"add_rules": f"p{number}(F, X) :- q(F, X)."})
    rows = [
        ("change", "added", "q", f'["f", {number}]', None, None, None),
        ("refused", None, None, None, "test", f"bad {number}", "bad"),
        ("rules", None, None, None, "test", rule if number else "{}x", None),
        ("work", None, None, None, None, '{"insertion": 1, "records": 3}', None),
    ]
    return pa.table({name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(columns)})


def stream_keyed(folder: Path) -> None:
    sink, quarantine = Sink(folder / "sink", "parquet"), Quarantine(folder / "refused")
    program = KeyedProgram(folder / "programs", 1, {}, shards=range(2))
    program.begin("p(F, X) :- q(F, X).")
    engine = KeyedEngine(program, sink, quarantine, lambda *_: None)
    Driver(folder).feed(lambda number: engine.take(number, rows_of(number)), 2)


def check_keyed(folder: Path, where: object) -> None:
    expected = {number: [("added", ("q", f'["f", {number}]'))] for number in range(2)}
    assert changes_in(folder / "sink") == expected, where
    assert refused_in(folder / "refused") == [(0, "bad 0"), (0, "{}x"), (1, "bad 1")], where
    program = KeyedProgram(folder / "programs", 1, {}, shards=range(2))
    assert [program.number_for(number) for number in range(4)] == [0, 0, 2, 2], where
    assert [name for name in ("p0", "p1") if f"{name}(F, X)" in program.text(2)] == ["p1"], where


# Crashes


def crash_everywhere(
    folder: Path, work: Callable[[Path], None], check: Callable[[Path, object], None], twice: bool
) -> int:
    """Die at each step of a run; let the next run finish, or (`twice`) die as well and the third one finish."""
    step = died = 0
    while True:
        place = folder / str(step)
        place.mkdir()
        lives = (step, step // 2 + 3) if twice else (step,)
        killed = [_live(work, place, number) for number in lives]
        _live(work, place, None)
        check(place, lives)
        shutil.rmtree(place)
        if not killed[0]:
            return died
        died += sum(killed)
        # Dying after a step is dying before the next one, so every other number will do.
        step += 12 if twice else 2


def _live(work: Callable[[Path], None], place: Path, step: int | None) -> bool:
    def child(_: int) -> None:
        if step is not None:
            die_at(step)
        work(place)

    return run_child(child)[0]


def main() -> None:
    warnings.simplefilter("ignore", StorageWarning)  # of torn tails, which crashes leave
    expected = truth()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        folder = Path(name)
        for work in (stream_in_memory, stream_keyed):  # what it loads is then there in every child
            (folder / work.__name__).mkdir()
            work(folder / work.__name__)

        def check(place: Path, where: object) -> None:
            check_memory(place, expected, where)

        in_memory = crash_everywhere(folder, stream_in_memory, check, twice=False)
        in_memory += crash_everywhere(folder, stream_in_memory, check, twice=True)
        keyed = crash_everywhere(folder, stream_keyed, check_keyed, twice=False)
    print(in_memory, keyed)


if __name__ == "__main__":
    main()
