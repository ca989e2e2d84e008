"""Histories of hundreds to hundreds of thousands of facts: what begins at a size is walked at that size.

Arrays that grow and move, rows of many words, forms that change when they are large, tables that double, gaps that are
closed: a handful of nodes shows none of this. Facts, changes (including those that are read late), answers, failed
updates and stores are compared with sets of bits and sorted keys (`large.py`). `make soak` continues with fresh seeds,
on kernels that check each memory access; `python tests/whole/test_sizes.py KIND SEED` runs a history again.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pytest

import tidelog.machine.array_memory
import tidelog.machine.growth
from generate import Dice
from large import Longs, Pairs, Rows, Table, bits_of
from large_graphs import CLOSURES, Derived, Facts, GraphHistory, Step
from large_tables import TableHistory
from places import BY_HAND
from soaking import seeds, soak_seconds
from tidelog import KnowledgeBase, LimitError
from tidelog.closures import closed_graph, directed, history
from tidelog.engine.algorithms.names import MAINTENANCE
from tidelog.engine.update.runner import Limits
from tidelog.facts.results import Change
from tidelog.live.fully_dynamic import Snapshot
from tidelog.machine.jit import JIT_DISABLED

# A soak goes as far as the oracle can; other runs have half a minute, in which plain Python does not get far.
MOST_NODES = 5_000 if soak_seconds() else 75 if JIT_DISABLED else 1_500
MOST_ROWS = 300_000 if soak_seconds() else 1_000 if JIT_DISABLED else 40_000
MOST_UPDATES = 120 if JIT_DISABLED else 10_000

KINDS = [*CLOSURES, "tables"]

# Up to this many rows are compared one by one; beyond that, their number and a sample.
COMPARED = 400_000

# The forms and pauses of large arrays, already for smaller ones.
NEARER = [
    (directed, "DENSE_BYTES", (0, 1 << 10, 1 << 14, 1 << 18)),
    (directed, "MANY_EDGES", (1, 100, 1_000)),
    (closed_graph, "SLICE", (1 << 8, 1 << 12, 1 << 16)),
    (closed_graph, "PIECE", (7, 100, 1_000)),
    (history, "PIECE", (10, 1 << 10)),
    (tidelog.machine.growth, "PIECE", (100, 1 << 10)),
    (tidelog.engine.update.runner, "STRIDE", (1, 100)),
    (tidelog.machine.array_memory, "LARGE", (1 << 12, 1 << 16)),
]


@contextmanager
def nearer(dice: Dice) -> Iterator[None]:
    """Lower some of the size limits."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, sizes in dice.some(NEARER, dice.pick((0, 30, 60))):
            patch.setattr(owner, name, dice.pick(sizes))
        yield


class History(Protocol):
    """Updates of large sets, and what holds after each."""

    arities: dict[str, int]
    program: str
    universe: int

    def derive(self, facts: Facts) -> Derived: ...
    def steps(self, facts: Facts) -> Iterator[Step]: ...


class Words:
    """The values for the oracle's numbers: the numbers themselves, or texts, some of them long."""

    def __init__(self, dice: Dice, count: int, texts: bool) -> None:
        self._texts: list[str] | None = None
        if texts:
            longest = dice.pick((3, 100, 100 if JIT_DISABLED else 100_000))
            lengths = [longest if dice.below(max(4, count // 50)) == 0 else dice.below(8) for _ in range(count)]
            self._texts = [f"{number}{'-é'[length & 1] * length}" for number, length in enumerate(lengths)]
            self._numbers = {text: number for number, text in enumerate(self._texts)}

    def rows(self, table: Table, dice: Dice) -> Any:
        """As Python values, or as an Arrow table."""
        columns = [self._values(column) for column in table.columns()]
        if len(table) < 50 or dice.chance(20):
            return list(zip(*columns, strict=True))
        return pa.table({f"c{place}": pa.array(column) for place, column in enumerate(columns)})

    def _values(self, numbers: Longs) -> list[Any]:
        return numbers.tolist() if self._texts is None else [self._texts[number] for number in numbers.tolist()]

    def table(self, rows: Any, arity: int) -> Table:
        """Facts or changes that were read."""
        arrow = rows.to_arrow()
        assert arrow.num_rows == len(rows)
        if not arrow.num_rows:
            return Table.empty(arity)
        read = Table.of(*(self._numbers_of(column) for column in arrow.columns))
        assert len(read) == arrow.num_rows, "a row came twice"
        return read

    def _numbers_of(self, column: pa.ChunkedArray) -> Longs:
        if self._texts is None or pa.types.is_integer(column.type):
            numbers: Longs = column.to_numpy()
            return numbers
        return np.array([self._numbers[text] for text in column.to_pylist()], np.int64)

    def written(self, number: int) -> str:
        return str(number) if self._texts is None else f'"{self._texts[number]}"'


class Held(NamedTuple):
    """Something taken at some moment, to be read later, and what it must say."""

    taken: Change | Snapshot
    added: Mapping[str, Rows]
    removed: Mapping[str, Rows]


class Course:
    """A knowledge base on its way through a history, and everything that is expected of it."""

    def __init__(self, dice: Dice, history: History, kb: KnowledgeBase, words: Words, folder: Path) -> None:
        self._dice, self._history, self._kb, self._words, self._folder = dice, history, kb, words, folder
        self._explicit: Facts = {name: Table.empty(arity) for name, arity in history.arities.items()}
        self._expected = history.derive(self._explicit)
        self._held: list[Held] = []
        self._journal = False
        self.updates = 0

    def run(self) -> None:
        for step in islice(self._history.steps(self._explicit), MOST_UPDATES):
            self._take(step)
            if self._dice.chance(8):
                self._look_at_all()
            if self._dice.chance(20):
                self._ask()
            if self._dice.chance(20) and self._held:
                self._read(self._held.pop(self._dice.below(len(self._held))))
            if self._dice.chance(3):
                self._save_and_open()
            if self._dice.chance(3):
                self._take_snapshot()
        self._look_at_all()
        for held in self._held:
            self._read(held)
        self._kb.close()

    # --- updates ------------------------------------------------------------------------------------------------------

    def _take(self, step: Step) -> None:
        for name, rows in step.delete.items():
            self._explicit[name] = self._explicit[name].minus(rows)
        for name, rows in step.add.items():
            self._explicit[name] = self._explicit[name].plus(rows)
        before, after = self._expected, self._history.derive(self._explicit)
        change = self._update(self._mapping(step), before, after)
        self._expected = after
        self.updates += 1
        names = before.keys() | after.keys()
        added = {name: _minus(after, before, name) for name in names}
        removed = {name: _minus(before, after, name) for name in names}
        held = Held(change, _not_empty(added), _not_empty(removed))
        self._look_at_sizes(self._expected)
        if self._dice.chance(50):
            self._compare_sizes(held)
        if self._dice.chance(50):
            self._held.append(held)
        elif self._dice.chance(60):
            self._read(held)

    def _mapping(self, step: Step) -> dict[str, Any]:
        rules = {"add_rules": step.add_rules, "remove_rules": step.remove_rules}
        facts = {
            kind: {name: self._words.rows(rows, self._dice) for name, rows in given.items() if len(rows)}
            for kind, given in (("add", step.add), ("delete", step.delete))
        }
        return facts | {kind: text for kind, text in rules.items() if text}

    def _update(self, update: dict[str, Any], before: Derived, after: Derived) -> Change:
        if self._dice.chance(7):
            self._kb._engine.limits = Limits(max_facts=self._dice.below(sum(map(len, after.values())) + 1))
            try:
                return self._kb.update(**update)
            except LimitError:
                self._look_at_sizes(before)
            finally:
                self._kb._engine.limits = Limits()
        if self._dice.chance(7) and not update.keys() & {"add_rules", "remove_rules"}:
            flux = self._kb.live()
            flux.submit(**update)
            flux.step(self._dice.below(1000))
            return flux.settle()
        return self._kb.update(**update)

    # --- comparing ----------------------------------------------------------------------------------------------------

    def _look_at_sizes(self, expected: Derived) -> None:
        for name, rows in expected.items():
            assert len(self._kb.facts(name)) == len(rows), name

    def _look_at_all(self) -> None:
        for name, rows in self._expected.items():
            self._compare(name, self._kb.facts(name), rows)
        for name, table in self._explicit.items():
            self._compare(f"explicit {name}", self._kb.explicit(name), table)

    def _compare(self, name: str, found: Any, expected: Rows) -> None:
        assert len(found) == len(expected), name
        if len(expected) <= COMPARED:
            table = expected.table()
            assert np.array_equal(self._words.table(found, table.arity).keys, table.keys), name

    def _compare_sizes(self, held: Held) -> None:
        assert isinstance(held.taken, Change)
        for sign, found, expected in (("+", held.taken.added, held.added), ("-", held.taken.removed, held.removed)):
            sizes = {name: len(rows) for name, rows in expected.items()}
            assert {name: len(rows) for name, rows in found.items()} == sizes, sign

    def _read(self, held: Held) -> None:
        if isinstance(held.taken, Snapshot):
            assert set(held.taken.predicates) == held.added.keys()
            for name, rows in held.added.items():
                self._compare(f"snapshot {name}", held.taken.facts(name), rows)
            return
        self._compare_sizes(held)
        for sign, found, expected in (("+", held.taken.added, held.added), ("-", held.taken.removed, held.removed)):
            for name, rows in expected.items():
                self._compare(f"{sign} {name}", found[name], rows)

    def _ask(self) -> None:
        """A question by some columns, and whether a few facts hold."""
        name = self._dice.pick([*self._history.arities, *(("p",) if "p" in self._expected else ())])
        expected = self._expected[name]
        number = self._dice.below(self._history.universe)
        if isinstance(expected, Pairs):
            arity, place = 2, 0
            rows = Table.of(bits_of(expected.successors[number]))
        else:
            arity, place = expected.arity, self._dice.below(expected.arity)
            if len(expected) and self._dice.chance(80):
                number = int(expected.columns()[place][self._dice.below(len(expected))])
            chosen = expected.where(expected.columns()[place] == number)
            rows = chosen.project(*(other for other in range(arity) if other != place)) if arity > 1 else chosen
        arguments = [self._words.written(number) if at == place else f"V{at}" for at in range(arity)]
        answers = self._kb.query(f"{name}({', '.join(arguments)})")
        if arity == 1:
            assert len(answers) == len(rows)
        else:
            assert np.array_equal(self._words.table(answers, arity - 1).keys, rows.keys), (name, arguments)

    # --- stores and snapshots -----------------------------------------------------------------------------------------

    def _save_and_open(self) -> None:
        if not self._journal or self._dice.chance(50):
            self._kb.save(self._folder)
        self._kb.close()
        self._journal = self._dice.chance(50)
        self._kb = KnowledgeBase.open(self._folder, journal=self._journal)
        self._look_at_sizes(self._expected)

    def _take_snapshot(self) -> None:
        if sum(map(len, self._expected.values())) <= COMPARED:
            self._held.append(Held(self._kb.live().snapshot(), _not_empty(self._expected), {}))


def _minus(left: Derived, right: Derived, name: str) -> Rows:
    """What is only on the left side."""
    rows, others = left.get(name), right.get(name)
    if rows is None:
        return Table.empty(1)
    if others is None:
        return rows
    if isinstance(rows, Pairs) and isinstance(others, Pairs):
        return rows.minus(others)
    return rows.table().minus(others.table())


def _not_empty(facts: Mapping[str, Rows]) -> Mapping[str, Rows]:
    return {name: rows for name, rows in facts.items() if len(rows)}


def run(kind: str, seed: int) -> int:
    """Go through a history; how many updates it had."""
    dice = Dice(seed * len(KINDS) + KINDS.index(kind))
    texts = dice.chance(25)
    modules = JIT_DISABLED or dice.chance(85)
    history: History
    if kind in CLOSURES:
        history = GraphHistory(dice, kind, modules, MOST_NODES)
    else:
        history = TableHistory(dice, min(MOST_ROWS, 70_000) if texts else MOST_ROWS, texts)
    words = Words(dice, history.universe, texts)
    with tempfile.TemporaryDirectory() as folder, nearer(dice):
        kb = KnowledgeBase(history.program, maintenance=dice.pick(MAINTENANCE), modules=modules)
        course = Course(dice, history, kb, words, Path(folder) / "kb")
        course.run()
    return course.updates


def check(kind: str, seed: int) -> None:
    try:
        run(kind, seed)
    except Exception as problem:
        problem.add_note(f"`{BY_HAND} tests/whole/test_sizes.py '{kind}' {seed}`")
        raise


def _kinds() -> list[list[str]]:
    """Those of each test: a soak has one test, and plain Python no time for closures that it goes through by pairs."""
    if soak_seconds():
        return [KINDS]
    return [[kind] for kind in KINDS if not (JIT_DISABLED and kind in CLOSURES and CLOSURES[kind].most < 1_000)]


@pytest.mark.plain
@pytest.mark.parametrize("kinds", _kinds(), ids=", ".join)
def test_large_histories(kinds: list[str]) -> None:
    count = 1 if JIT_DISABLED else 5 if kinds == ["tables"] else 2
    for seed in seeds(range(count), "sizes"):
        check(kinds[seed % len(kinds)], seed)


if __name__ == "__main__":
    check(sys.argv[1], int(sys.argv[2]))
