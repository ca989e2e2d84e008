"""A few constants and their ids, straight from the files of the dictionary: no Spark job is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.formats.batch import IRI_KIND, LITERAL
from tidelog.language.syntax import Constant
from tidelog.spark.data.dictionary import ARROW_VALUE, FIELDS, Dictionary, Fields, fields_of, value_of
from tidelog.values import Value

Key = tuple[Any, ...]

Ids = tuple[int, ...]
"""A fact as the ids of its arguments, or the key made of some of them."""

Fact = tuple[str, Ids]

GIVE, TAKE = "give", "take"

# The driver encodes up to this many values itself.
FEW_VALUES = 50_000

_BATCH_ROWS = 1 << 18


def key_of(fields: Sequence[Any]) -> Key:
    """A key for the fields of a constant, equal exactly when the constants are: NaN is one constant."""
    kind, text, integer, number = fields
    return kind, text, integer, "nan" if number != number else number


def ids_of(parts: Iterable[str], wanted: Iterable[Fields]) -> dict[Key, int]:
    """The ids of those constants that have one."""
    keys = {key_of(fields): fields for fields in wanted}
    found: dict[Key, int] = {}
    if not keys:
        return found
    # The fields that do not count are fixed: rows that fit in every field are the wanted ones, and hardly any others.
    sought = {
        field.name: pa.array({fields[place] for fields in keys.values()}, field.type)
        for place, field in enumerate(ARROW_VALUE)
    }
    for batch in _batches(parts):
        fits = (pc.is_in(batch.column(name), cells) for name, cells in sought.items())
        rows = _rows(batch.filter(reduce(pc.and_, fits)))
        found.update((key, id_) for id_, fields in rows if (key := key_of(fields)) in keys)
    return found


def ids_of_constants(dictionary: Dictionary, constants: Iterable[Constant]) -> dict[Constant, int]:
    """The ids of constants in rules; those without one get one. No job is needed if the dictionary is local."""
    if not dictionary.is_local:
        return dictionary.ids_of(constants)
    wanted = {constant: fields_of(constant.value) for constant in constants}
    known = ids_of(dictionary.parts, wanted.values())
    new = [fields for fields in wanted.values() if key_of(fields) not in known]
    known |= {key_of(fields): dictionary.size + place for place, fields in enumerate(new)}
    dictionary.append(new)
    return {constant: known[key_of(fields)] for constant, fields in wanted.items()}


def values_of_ids(parts: Iterable[str], wanted: set[int]) -> dict[int, Value]:
    """The constants of ids, from one pass over the dictionary."""
    ids = pa.array(wanted, pa.int64())
    found: dict[int, Value] = {}
    for batch in _batches(parts if wanted else ()):
        found |= _values(batch.filter(pc.is_in(batch.column("id"), ids)))
    return found


def values_that_name(parts: Iterable[str], start: str) -> dict[int, Value]:
    """The IRIs that begin with a text, and the literals whose datatype may, by id."""
    found: dict[int, Value] = {}
    for batch in _batches(parts):
        kind, text = batch.column("kind"), batch.column("text")
        iris = pc.and_(pc.equal(kind, IRI_KIND), pc.starts_with(text, start))
        literals = pc.and_(pc.equal(kind, LITERAL), pc.match_substring(text, start))
        found |= _values(batch.filter(pc.or_(iris, literals)))
    return found


def _batches(parts: Iterable[str]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        for path in sorted(Path(part).glob("*.parquet")):
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(_BATCH_ROWS, columns=["id", *FIELDS])


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, Fields]]:
    rows = batch.to_pydict()
    return zip(rows["id"], zip(*(rows[name] for name in FIELDS), strict=True), strict=True)


def _values(batch: pa.RecordBatch) -> dict[int, Value]:
    return {id_: value_of(fields) for id_, fields in _rows(batch)}


@dataclass(frozen=True)
class Encoded:
    """Facts to give and to take, and the constants that are new with them, in the order of their ids."""

    terms: list[Fields] = field(default_factory=list)
    give: frozenset[Fact] = frozenset()
    take: frozenset[Fact] = frozenset()


def encode_few(dictionary: Dictionary, records: pa.Table) -> Encoded:
    """The facts of a few records; the dictionary stays as it is.

    Records whose source is `TAKE` are taken, all others given. A fact with an unknown constant cannot be taken."""
    columns = (records.column(name).to_pylist() for name in ("predicate", "source", "arguments"))
    rows = [
        (predicate, source == TAKE, [tuple(cell[name] for name in FIELDS) for cell in arguments])
        for predicate, source, arguments in zip(*columns, strict=True)
    ]
    known = ids_of(dictionary.parts, (fields for _, _, cells in rows for fields in cells))
    new: dict[Key, Fields] = {}
    for _, takes, cells in rows:
        for fields in cells:
            if not takes and (key := key_of(fields)) not in known:
                known[key] = dictionary.size + len(new)
                new[key] = fields
    facts: tuple[set[Fact], set[Fact]] = (set(), set())
    for predicate, takes, cells in rows:
        ids = tuple(id_ for fields in cells if (id_ := known.get(key_of(fields))) is not None)
        if len(ids) == len(cells):
            facts[takes].add((predicate, ids))
    return Encoded(list(new.values()), frozenset(facts[False]), frozenset(facts[True]))
