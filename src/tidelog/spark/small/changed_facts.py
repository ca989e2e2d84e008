"""What an update changed, read and decoded without a job: it is on its way to a sink that the driver writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from tidelog.formats.updates import Facts
from tidelog.spark.data.parquet_reading import read_together
from tidelog.spark.maintain.version_history import Version
from tidelog.spark.small.constant_lookup import values_of_ids
from tidelog.spark.small.keyed_files import Ids
from tidelog.values import Value

Changed = Mapping[str, list[Ids]]


def changed_facts(root: Path, version: Version) -> tuple[Facts, Facts]:
    """The facts that came with a version and those that went, by predicate."""
    tables = {name: _rows(root / changed.path) for name, changed in version.changed.items()}
    came = {name: _facts(table, version.stored[name].arity, "h", "h0") for name, table in tables.items()}
    went = {name: _facts(table, version.stored[name].arity, "h0", "h") for name, table in tables.items()}
    wanted = {id_ for side in (came, went) for facts in side.values() for fact in facts for id_ in fact}
    values = values_of_ids([str(root / part) for part in version.terms], wanted)
    return _decoded(came, values), _decoded(went, values)


def _rows(path: Path) -> pa.Table:
    return read_together(sorted(path.glob("*.parquet")))


def _facts(table: pa.Table, arity: int, has: str, lacks: str) -> list[Ids]:
    """The facts of rows that have one flag and lack another."""
    flags = table.column(has).to_numpy() & ~table.column(lacks).to_numpy()
    chosen = table.filter(pa.array(flags))
    columns = [chosen.column(f"c{place}").to_pylist() for place in range(arity)]
    return list(zip(*columns, strict=True)) if arity else [()] * chosen.num_rows


def _decoded(facts: Changed, values: Mapping[int, Value]) -> Facts:
    return {name: [tuple(values[id_] for id_ in ids) for ids in found] for name, found in facts.items() if found}
