"""A few constants and their ids, straight from the files of the dictionary: no Spark job is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.formats.batch import IRI_KIND, LITERAL, FactBatch
from tidelog.language.syntax import Constant
from tidelog.spark.data.dictionary import FIELDS, Dictionary, Fields, Key, Term, fields_of, key_of, value_of
from tidelog.spark.data.fact_records import structs_of_column
from tidelog.values import Value

Ids = tuple[int, ...]
"""A fact as the ids of its arguments, or the key made of some of them."""

Fact = tuple[str, Ids]

GIVE, TAKE = "give", "take"

# The driver encodes up to this many values itself.
FEW_VALUES = 50_000

_BATCH_ROWS = 1 << 18


@dataclass(frozen=True)
class Met:
    """Constants by key: the ids of those that are in the dictionary, and the terms that the others will be."""

    known: Mapping[Key, int]
    new: Mapping[Key, Term]

    def id(self, key: Key) -> int:
        return self.known[key] if key in self.known else self.new[key][0]


def meet(dictionary: Dictionary, wanted: Iterable[Fields], others: Iterable[Term] = ()) -> Met:
    """Look constants up. `others` are terms that are not in the dictionary yet, and have their ids.

    A constant whose id belongs to another one is not in the dictionary, and will have another id."""
    constants = {key_of(fields): fields for fields in wanted}
    known: dict[Key, int] = {}
    new: dict[Key, Term] = {}
    taken = {id_: key_of(fields) for id_, fields in others}
    open_ids = dict(zip(constants, dictionary.ids.of_fields(list(constants.values())), strict=True))
    attempt = 0
    while open_ids:
        taken |= {id_: key_of(fields) for id_, fields in _terms(dictionary.parts, set(open_ids.values()))}
        for key, id_ in open_ids.items():
            if taken.setdefault(id_, ()) == key:
                known[key] = id_
            elif taken[id_] == ():
                taken[id_] = key
                new[key] = id_, constants[key]
        left = [key for key in open_ids if key not in known and key not in new]
        attempt += 1
        open_ids = dict(zip(left, dictionary.ids.hashes([constants[key] for key in left], attempt), strict=True))
    return Met(known, new)


def ids_of_constants(dictionary: Dictionary, constants: Iterable[Constant]) -> dict[Constant, int]:
    """The ids of constants in rules; those that are not in the dictionary are added, without a job."""
    wanted = {constant: fields_of(constant.value) for constant in constants}
    found = meet(dictionary, wanted.values())
    dictionary.append(list(found.new.values()))
    return {constant: found.id(key_of(fields)) for constant, fields in wanted.items()}


def values_of_ids(parts: Iterable[str], wanted: set[int]) -> dict[int, Value]:
    """The constants of ids, from one pass over the ids of the dictionary."""
    return {id_: value_of(fields) for id_, fields in _terms(parts, wanted)}


def _terms(parts: Iterable[str], wanted: set[int]) -> Iterator[Term]:
    """The terms with these ids. Apart from the ids, only row groups that have one of them are read."""
    ids = pa.array(sorted(wanted), pa.int64())
    for file in _files(parts if wanted else ()):
        for group in range(file.num_row_groups):
            fits = pc.is_in(file.read_row_group(group, ["id"]).column("id"), ids)
            if pc.any(fits).as_py():
                yield from _rows(file.read_row_group(group, ["id", *FIELDS]).filter(fits))


def values_that_name(parts: Iterable[str], start: str) -> dict[int, Value]:
    """The IRIs that begin with a text, and the literals whose datatype may, by id."""
    found: dict[int, Value] = {}
    for file in _files(parts):
        for batch in file.iter_batches(_BATCH_ROWS, columns=["id", *FIELDS]):
            kind, text = batch.column("kind"), batch.column("text")
            iris = pc.and_(pc.equal(kind, IRI_KIND), pc.starts_with(text, start))
            literals = pc.and_(pc.equal(kind, LITERAL), pc.match_substring(text, start))
            found |= {id_: value_of(fields) for id_, fields in _rows(batch.filter(pc.or_(iris, literals)))}
    return found


def _files(parts: Iterable[str]) -> Iterator[pq.ParquetFile]:
    for part in parts:
        for path in sorted(Path(part).glob("*.parquet")):
            with pq.ParquetFile(path) as file:
                yield file


def _rows(rows: pa.Table | pa.RecordBatch) -> Iterator[Term]:
    cells = rows.to_pydict()
    return zip(cells["id"], zip(*(cells[name] for name in FIELDS), strict=True), strict=True)


@dataclass(frozen=True)
class Encoded:
    """Facts to give and to take, and the constants that are new with them."""

    terms: list[Term] = field(default_factory=list)
    give: frozenset[Fact] = frozenset()
    take: frozenset[Fact] = frozenset()


def encode_few(
    dictionary: Dictionary, give: Sequence[FactBatch], take: Sequence[FactBatch] = (), others: Sequence[Term] = ()
) -> Encoded:
    """The facts of a few batches; the dictionary stays as it is. A fact with an unknown constant cannot be taken.

    `others` are terms that are not in the dictionary yet, and have their ids."""
    given, taken = ([(batch.predicate, _rows_of(batch)) for batch in batches] for batches in (give, take))
    found = meet(dictionary, (fields for _, rows in given for row in rows for fields in row), others)
    known = dict(found.known)
    terms = list(found.new.values())
    asked = {key_of(fields): fields for _, rows in taken for row in rows for fields in row}
    # What is taken may have been given in the same update.
    known |= meet(dictionary, (fields for key, fields in asked.items() if key not in known), others).known
    known |= {key: id_ for key, (id_, _) in found.new.items()}

    def encoded(batches: Iterable[tuple[str, list[list[Fields]]]]) -> Iterator[Fact]:
        for predicate, rows in batches:
            for row in rows:
                ids = tuple(id_ for fields in row if (id_ := known.get(key_of(fields))) is not None)
                if len(ids) == len(row):
                    yield predicate, ids

    return Encoded(terms, frozenset(encoded(given)), frozenset(encoded(taken)))


def _rows_of(batch: FactBatch) -> list[list[Fields]]:
    if not batch.columns:
        return [[]]
    columns = [structs_of_column(column).to_pylist() for column in batch.columns]
    return [[tuple(cell[name] for name in FIELDS) for cell in row] for row in zip(*columns, strict=True)]
