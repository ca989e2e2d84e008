"""Facts on their way in: what a task reads from a source, and columns of values as structs.

A source yields facts of one predicate with the numbers of their rows, and rows that are no facts, each with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.formats.batch import BOOL, FLOAT, INT, FactBatch, Part, column_of_kinds, join_parts, parts
from tidelog.formats.columns.tables import columns_of_rows
from tidelog.language.syntax import Atom
from tidelog.spark.data.dictionary import ARROW_VALUE


@dataclass(frozen=True)
class Facts:
    """Facts of one predicate, and the numbers of their rows: by default, they follow the first line of the batch."""

    batch: FactBatch
    rows: Sequence[int] | None = None

    @property
    def numbers(self) -> Sequence[int]:
        first = self.batch.first_line
        return range(first, first + self.batch.rows) if self.rows is None else self.rows


@dataclass(frozen=True)
class Rejected:
    """Rows of a source that are no facts, and why. A row of None is the source as a whole."""

    source: str
    rows: Sequence[int | None]
    reasons: Sequence[str]
    predicate: str | None = None


Found: TypeAlias = Facts | Rejected


def batches_of_atoms(atoms: Iterable[Atom], source: str) -> Iterator[FactBatch]:
    """The facts of a program's text."""

    def shape(atom: Atom) -> tuple[str, int]:
        return atom.predicate, atom.arity

    for (predicate, _), alike in groupby(sorted(atoms, key=shape), key=shape):
        rows = list(alike)
        columns = columns_of_rows([atom.row for atom in rows], lambda row: f"{source}, fact {row + 1}")
        assert columns is not None
        yield FactBatch(predicate, columns, source, rows[0].place.line if rows[0].place else 1)


# ── columns as structs ───────────────────────────────────────────────────────────────────────────────────────────────


def structs_of_column(column: pa.Array) -> pa.StructArray:
    """A column of facts as structs."""
    found = parts(column)
    return join_parts(found, [structs_of_part(part) for part in found])


def structs_of_part(part: Part) -> pa.StructArray:
    """The constants of one kind as structs."""
    count = len(part.values)
    kinds = pa.array(np.full(count, part.kind, np.int8))
    text, integer, number = (pa.repeat(fixed, count) for fixed in ("", 0, 0.0))
    if part.kind in (INT, BOOL):
        integer = part.values.cast(pa.int64())
    elif part.kind == FLOAT:
        number = pc.add(part.values.cast(pa.float64()), 0.0)
    else:
        text = part.values.cast(pa.string())
    return pa.StructArray.from_arrays([kinds, text, integer, number], fields=list(ARROW_VALUE))


def column_of_structs(structs: pa.StructArray) -> pa.Array:
    """A column of facts from structs."""
    kinds = structs.field("kind").to_numpy(zero_copy_only=False).astype(np.int8)
    integers, numbers, texts = (structs.field(name) for name in ("integer", "number", "text"))

    def of_kind(kind: int, mask: np.ndarray[Any, Any] | None) -> pa.Array:
        values = {INT: integers, BOOL: integers, FLOAT: numbers}.get(kind, texts)
        chosen = values if mask is None else values.filter(pa.array(mask))
        return chosen.cast(pa.bool_()) if kind == BOOL else chosen

    return column_of_kinds(kinds, of_kind)
