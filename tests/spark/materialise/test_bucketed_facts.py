"""Facts in buckets: what tasks find to be new, and what is written again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidelog.spark.data import bucketed_facts, fact_parts
from tidelog.spark.data.bucketed_facts import Buckets, Gathered, number_of_buckets
from tidelog.spark.data.fact_parts import Relations


def batch(rows: Iterable[Sequence[int]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    types = [pa.int32(), pa.int32(), pa.int64(), pa.int64()]
    return pa.record_batch([pa.array(one, type_) for one, type_ in zip(columns, types, strict=True)], ROW)


ROW = ["bucket", "p", "c0", "c1"]


def test_rows_are_gathered_by_bucket_and_predicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucketed_facts, "_BATCH_ROWS", 3)
    found = Gathered({7: 2, 8: 1})
    for rows in ([(0, 7, 1, 2), (0, 7, 1, 2)], [(0, 8, 5, -1), (1, 7, 3, 4)], [(0, 7, 1, 2), (0, 7, 2, 2)]):
        found.add(batch(rows))
    found.sort_out()
    gathered = {place: sorted(zip(*table.to_pydict().values(), strict=True)) for place, table in found.items()}
    assert gathered == {(0, 7): [(1, 2), (2, 2)], (0, 8): [(5,)], (1, 7): [(3, 4)]}


def test_a_bucket_for_each_partition_and_more_for_more_facts() -> None:
    most = bucketed_facts.BUCKET_FACTS
    assert [number_of_buckets(facts, 3) for facts in (0, 3 * most, 3 * most + 1, 12 * most)] == [3, 3, 6, 12]


def add(relations: Relations, rows: Iterable[tuple[int, int]], one: Iterable[int] = ()) -> dict[str, int]:
    """Add rows of `e`, and rows of `n`, in a round."""
    relations.settle(relations)
    wide = [(relations["e"].number, *row) for row in rows] + [(relations["n"].number, value, -1) for value in one]
    return relations.add_round(relations.spark.createDataFrame(wide, "p int, c0 bigint, c1 bigint"), ["e", "n"])


def test_rounds_add_what_is_new(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts from elsewhere, many parts, and more buckets than before: none is lost, and none is there twice."""
    relations = Relations(spark, str(tmp_path))
    relations.declare("e", 2)
    relations.declare("n", 1)
    given = spark.createDataFrame([(relations["e"].number, 1, 2)], "p int, c0 bigint, c1 bigint")
    assert relations.add_new(given, ["e"]) == {"e": 1}
    assert add(relations, [(1, 2), (1, 3), (1, 3)], [5]) == {"e": 1, "n": 1}
    assert [part.bucket_count for part in relations["e"].parts] == [2, 2]
    monkeypatch.setattr(fact_parts, "MOST_PARTS", 1)
    assert add(relations, [(1, 3), (2, 2)], [5, 6]) == {"e": 1, "n": 1}
    assert [part.count for part in relations["e"].parts] == [2, 1]
    monkeypatch.setattr(bucketed_facts, "BUCKET_FACTS", 1)
    assert add(relations, [(1, 2), (2, 2), (3, 3)], [6]) == {"e": 1, "n": 0}
    assert {part.bucket_count for part in relations["e"].parts} == {8}
    assert sorted(map(tuple, relations.frame("e").collect())) == [(1, 2), (1, 3), (2, 2), (3, 3)]
    assert sorted(map(tuple, relations.frame("n").collect())) == [(5,), (6,)]


def test_jobs_of_one_round_stay_apart(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first job of a round has found is known to the second one, and both are what the next round takes."""
    monkeypatch.setattr(fact_parts, "MOST_PARTS", 0)
    relations = Relations(spark, str(tmp_path))
    relations.declare("e", 2)
    frames = [
        spark.createDataFrame([(relations["e"].number, *row) for row in rows], "p int, c0 bigint, c1 bigint")
        for rows in ([(1, 1)], [(1, 1), (1, 2)], [(1, 2), (2, 2)])
    ]
    relations.add_round(frames[0], ["e"])
    relations.settle(["e"])
    assert [relations.add_round(frame, ["e"])["e"] for frame in frames[1:]] == [1, 1]
    assert [part.count for part in relations["e"].old_parts] == [1]
    assert [part.count for part in relations["e"].delta_parts] == [1, 1]


def test_buckets_without_rows_tell_nothing(tmp_path: Path) -> None:
    buckets = Buckets(2, {7: 2}, {}, frozenset(), str(tmp_path))
    assert list(buckets._told(iter([]))) == []
