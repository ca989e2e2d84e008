"""Results as data sets of decoded terms, one for each predicate.

A job for each predicate would join it with the whole dictionary, once for each column. So predicates whose columns have
the same types are decoded by one job, which writes a folder for each of them; a rename gives the folder its name.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import functions as F

from tidelog.spark.data.dictionary import Dictionary
from tidelog.spark.data.fact_parts import Relations
from tidelog.spark.data.part_files import of_kinds
from tidelog.spark.data.wide_frames import keys
from tidelog.spark.materialise.spark_engine import SparkEngine

Kinds = tuple[frozenset[int], ...]
"""The kinds of constants in each column of a predicate."""


def publish(engine: SparkEngine, paths: Mapping[str, Path]) -> None:
    """Write the facts of predicates as data sets of decoded terms to these paths, which lie in one folder."""
    relations = engine.relations
    kinds = kinds_of_columns(relations, engine.dictionary)
    groups: dict[Kinds, list[str]] = {}
    for name in paths:
        if relations.count(name):
            groups.setdefault(kinds[name], []).append(name)
        else:
            of_kinds(engine.values(name), kinds[name]).write.parquet(str(paths[name]))
    for columns, names in groups.items():
        _write_together(engine, columns, {name: paths[name] for name in names})


def _write_together(engine: SparkEngine, columns: Kinds, paths: Mapping[str, Path]) -> None:
    """Write predicates whose columns have the same kinds, by one job."""
    wide = engine.relations.wide(paths)
    values = engine.dictionary.with_values(wide, {name: f"a{name[1:]}" for name in keys(len(columns))})
    unnamed = next(iter(paths.values())).with_name(".unnamed")
    of_kinds(values, columns, "p").write.partitionBy("p").parquet(str(unnamed))
    for name, path in paths.items():
        (unnamed / f"p={engine.relations[name].number}").rename(path)
    shutil.rmtree(unnamed)


def kinds_of_columns(relations: Relations, dictionary: Dictionary) -> dict[str, Kinds]:
    """The kinds of all columns, by one job; by the dictionary alone if all its constants are of one kind."""
    present = dictionary.kinds()
    filled = [name for name in relations if relations.count(name) and relations[name].arity]
    if len(present) <= 1 or not filled:
        return {name: (present if name in filled else frozenset(),) * relations[name].arity for name in relations}
    found = _kinds_by_place(relations, dictionary, filled)
    return {
        name: tuple(found.get((relations[name].number, place), frozenset()) for place in range(relations[name].arity))
        for name in relations
    }


def _kinds_by_place(
    relations: Relations, dictionary: Dictionary, names: Sequence[str]
) -> dict[tuple[int, int], frozenset[int]]:
    """The kinds by number of the predicate and place of the column."""
    wide = relations.wide(names)
    cells = F.posexplode(F.array(*keys(relations.width(names)))).alias("place", "id")
    kinds = dictionary.frame().select("id", F.col("value.kind").alias("kind"))
    found = wide.select("p", cells).join(kinds, "id").groupBy("p", "place").agg(F.collect_set("kind").alias("kinds"))
    return {(row["p"], row["place"]): frozenset(row["kinds"]) for row in found.collect()}
