"""A handful of records as facts of ids, without a job: constants are looked up in the files of the dictionary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from tidelog.spark.data.dictionary import FIELDS, Fields
from tidelog.spark.small.constant_lookup import Key, ids_of, key_of
from tidelog.spark.small.keyed_files import Ids

GIVE, TAKE = "give", "take"

# So many values of constants are a handful.
FEW_VALUES = 50_000

Fact = tuple[str, Ids]


@dataclass(frozen=True)
class Encoded:
    """Facts to give and to take, and the constants that are new with them, in the order of their ids."""

    terms: list[Fields] = field(default_factory=list)
    give: frozenset[Fact] = frozenset()
    take: frozenset[Fact] = frozenset()


def encoded(parts: Iterable[str], size: int, records: pa.Table) -> Encoded:
    """The facts of records, by a dictionary of `size` constants in files.

    All of them are given but for those whose source is `TAKE`; of these, one with an unknown constant is no fact."""
    columns = (records.column(name).to_pylist() for name in ("predicate", "source", "arguments"))
    rows = [
        (predicate, source == TAKE, [tuple(cell[name] for name in FIELDS) for cell in arguments])
        for predicate, source, arguments in zip(*columns, strict=True)
    ]
    known = ids_of(parts, (fields for _, _, cells in rows for fields in cells))
    new: dict[Key, Fields] = {}
    for _, takes, cells in rows:
        for fields in cells:
            if not takes and (key := key_of(fields)) not in known:
                known[key] = size + len(new)
                new[key] = fields
    facts: tuple[set[Fact], set[Fact]] = (set(), set())
    for predicate, takes, cells in rows:
        ids = tuple(id_ for fields in cells if (id_ := known.get(key_of(fields))) is not None)
        if len(ids) == len(cells):
            facts[takes].add((predicate, ids))
    return Encoded(list(new.values()), frozenset(facts[False]), frozenset(facts[True]))
