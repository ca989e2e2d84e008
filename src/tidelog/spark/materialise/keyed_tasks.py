"""Blocks of components in tasks, each of which solves the keys that it is dealt (`plan/key_blocks.py`).

Tasks read and write files of ids by themselves: to pass the rows through Java takes longer than to solve the rules. So
each task reads all files, those columns of them that its rules ask for, and keeps the facts of its keys; it gives them
to the embedded engine and writes what is new. That the files are read by every task is cheaper than a shuffle as long
as there are few tasks. A file that a task writes counts only if the task tells of it, as in `encoded_blocks.py`.

A block without keys is solved by one task; a small one by the driver, since a job would take longer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.errors import LimitError
from tidelog.formats.batch import FactBatch
from tidelog.language.printer import plain_text
from tidelog.language.syntax import Constant
from tidelog.spark.data.encoded_blocks import FactFile, Layout, told_as_text
from tidelog.spark.data.wide_frames import keys
from tidelog.spark.materialise.embedded_tasks import Cells, minus, over_ids, solved, units
from tidelog.spark.plan.key_blocks import Input, KeyBlock

TASK_FACTS = 8 << 20
"""About so many facts are dealt to a task at most."""

MOST_TASKS = 32
"""More tasks would spend most of their time on reading what is not theirs."""

DRIVER_FACTS = 200_000
"""Up to so many facts the driver solves by itself."""

BEYOND = "beyond"
"""What a task tells that found more facts than it may hold."""


@dataclass(frozen=True)
class Derived:
    """A predicate that tasks derive: its number, its arity, and which of its columns is the key."""

    predicate: str
    number: int
    arity: int
    key: int | None

    @property
    def whole(self) -> Input:
        """All that is known of it beforehand, for those who have its keys."""
        return Input(self.predicate, tuple(range(self.arity)), self.key)


@dataclass(frozen=True)
class BlockProgram:
    """What tasks are to solve: rules over ids, what they derive and read by the names in the rules, files by predicate.

    A task may find `limit` facts. Files go to `folder`."""

    rules: str
    derived: Mapping[str, Derived]
    inputs: Mapping[str, Input]
    files: Mapping[str, Sequence[str]]
    tasks: int
    limit: int
    folder: str

    @classmethod
    def of(
        cls,
        block: KeyBlock,
        ids: Mapping[Constant, int],
        numbers: Mapping[str, tuple[int, int]],
        files: Mapping[str, Sequence[str]],
        tasks: int,
        limit: int,
        folder: str,
    ) -> BlockProgram:
        """The program of a block, given ids of constants, and the numbers and arities of what it derives."""
        rules = "\n".join(plain_text(over_ids(rule, ids)) for rule in block.rules)
        derived = {
            name: Derived(predicate, *numbers[predicate], block.homes[predicate])
            for predicate, name in block.names.items()
        }
        inputs = {name: one for one, name in block.inputs.items()}
        return cls(rules, derived, inputs, files, tasks, limit, folder)

    def told(self, number: int) -> Iterator[str]:
        """What one of the tasks tells."""
        try:
            yield from map(told_as_text, self.solve(number))
        except LimitError:
            yield BEYOND

    def solve(self, number: int) -> Iterator[FactFile]:
        """Files of the new facts with the keys of a task."""
        start, inputs = self._read(number), self._inputs
        dealt = [name for name, one in inputs.items() if one.key is not None]
        if dealt and not any(name in start for name in dealt):
            return  # Each rule needs a fact with its key.
        facts = [_batch(name, cells, inputs[name].columns) for name, cells in start.items()]
        kb, _ = solved(self.rules, facts, limit=self.limit + sum(cells.num_rows for cells in start.values()))
        for name, one in self.derived.items():
            found = _cells(kb.facts(name), one.arity)
            new = minus(found, start[name]) if name in start else found
            if new.num_rows:
                yield self._write(one, new)

    @property
    def _inputs(self) -> dict[str, Input]:
        return {**self.inputs, **{name: one.whole for name, one in self.derived.items()}}

    def _read(self, number: int) -> dict[str, Cells]:
        """What a task starts from, by the names in the rules."""
        by_predicate: dict[str, dict[str, Input]] = defaultdict(dict)
        for name, one in self._inputs.items():
            by_predicate[one.predicate][name] = one
        found: dict[str, Cells] = {}
        for predicate, wanted in by_predicate.items():
            parts: dict[str, list[Cells]] = defaultdict(list)
            for path in self.files[predicate]:
                for name, cells in self._read_file(path, wanted, number):
                    parts[name].append(cells)
            for name, tables in parts.items():
                whole = pa.concat_tables(tables)
                if whole.num_rows:
                    found[name] = whole if wanted[name].columns else units(1)
        return found

    def _read_file(self, path: str, wanted: Mapping[str, Input], number: int) -> Iterator[tuple[str, Cells]]:
        """The rows of a file, as each of several inputs wants them."""
        # A row without columns would not count, so one is read in any case.
        columns = {column for one in wanted.values() for column in one.columns or (0,)}
        columns |= {one.key for one in wanted.values() if one.key is not None}
        with pq.ParquetFile(path) as file:
            table = file.read([f"c{column}" for column in sorted(columns)])
        dealt = {key: self._own(table, key, number) for key in {one.key for one in wanted.values()}}
        for name, one in wanted.items():
            rows = dealt[one.key]
            yield name, rows.select([f"c{column}" for column in one.columns or (0,)])

    def _own(self, table: Cells, key: int | None, number: int) -> Cells:
        """The rows whose keys a task has. Ids are hashes, so their remainders are spread evenly."""
        if key is None or self.tasks == 1:
            return table
        return table.filter(pa.array(table.column(f"c{key}").to_numpy() % self.tasks == number))

    def _write(self, derived: Derived, new: Cells) -> FactFile:
        path = Layout(self.folder).new_file()
        numbers = pa.array(np.full(new.num_rows, derived.number, np.int32))
        pq.write_table(new.add_column(0, "q", numbers), path, use_dictionary=["q"], compression="none")
        count = new.num_rows
        return FactFile(derived.predicate, derived.arity, derived.number, count, count, str(path), None, [])


def _batch(name: str, cells: Cells, columns: Iterable[int]) -> FactBatch:
    return FactBatch(name, [cells.column(f"c{column}").combine_chunks() for column in columns], "a task", 1)


def _cells(facts: Iterable[object], arity: int) -> Cells:
    """Facts of the embedded engine as rows of ids."""
    if not arity:
        return units(len(facts))  # type: ignore[arg-type]
    return facts.to_arrow().rename_columns(keys(arity))  # type: ignore[attr-defined]


def files_of(folders: Iterable[str]) -> list[str]:
    """The Parquet files in folders."""
    return [str(path) for folder in folders for path in sorted(Path(folder).glob("*.parquet"))]


def number_of_tasks(facts: int, cores: int) -> int | None:
    """How many tasks solve so many facts; None if they would be too many."""
    tasks = max(cores, -(-facts // TASK_FACTS))
    return tasks if tasks <= max(cores, MOST_TASKS) else None
