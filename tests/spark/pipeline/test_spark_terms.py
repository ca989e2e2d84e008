"""Constants: ids that never change and are never shared, constants in files, and arithmetic on them."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tidelog import KnowledgeBase
from tidelog.formats import read_file, values_of
from tidelog.formats.batch import INT
from tidelog.language import parse_program
from tidelog.language.syntax import Atom, Constant, Program
from tidelog.spark import SparkEngine
from tidelog.spark.data.decoded_files import Target, write_decoded
from tidelog.spark.data.dictionary import Dictionary, TermIds, fields_of, value_of, values_frame
from tidelog.spark.data.fact_records import batches_of_atoms
from tidelog.spark.data.fact_sources import Source
from tidelog.spark.data.term_hashes import MOST
from tidelog.spark.data.term_lookup import ids_of_constants
from tidelog.spark.data.wide_frames import NOT_A_TERM
from tidelog.spark.plan.sql_expressions import _row_function, arithmetic
from tidelog.values import IRI, Literal, Value

VALUES: tuple[Value, ...] = (1, 1.0, "1", True, "", "é\n", -0.0, float("nan"), float("inf"), 2**63 - 1, IRI("1"))


def terms(dictionary: Dictionary) -> dict[Constant, int]:
    found = dictionary.frame().select("id", "value.*").collect()
    result = {Constant(value_of(tuple(row[1:]))): row[0] for row in found}
    assert len(result) == len(found)
    return result


@pytest.mark.parametrize("mask", [MOST, 0xFF], ids=["whole hashes", "hashes of one byte"])
def test_ids_stay_and_no_two_constants_share_one(spark: SparkSession, tmp_path: Path, mask: int) -> None:
    """Hashes of a byte clash with each other, and with those that are there."""
    dictionary = Dictionary(spark, str(tmp_path), ids=TermIds(mask=mask))
    values = [*VALUES, Literal("chat", language="fr"), Literal("chat", datatype="http://e/t"), 0.0]
    assert dictionary.extend(values_frame(spark, values)) == len(values) - 1
    first = terms(dictionary)
    many: list[Value] = [*values, *range(100, 200)]
    assert dictionary.extend(values_frame(spark, many)) == 100
    second = terms(dictionary)
    assert second.items() > first.items()
    assert dictionary.extend(values_frame(spark, many)) == 0
    more = ids_of_constants(dictionary, [Constant(value) for value in (1, 1.0, *range(150, 250))])
    assert more.items() > {Constant(value): second[Constant(value)] for value in (1, 1.0, 150)}.items()
    last = terms(dictionary)
    assert len(set(last.values())) == len(last) == len(second) + 50 == dictionary.size
    assert bool(dictionary.ids.exceptions) == (mask != MOST)
    # Java and Python agree on every id, and those of constants that nobody has met are not those of others.
    asked = [constant.value for constant in last]
    column = dictionary.with_known_ids(values_frame(spark, [*asked, *range(1000, 1100)]), {"value": "id"})
    found = {Constant(value_of(row["value"])): row["id"] for row in column.collect()}
    assert found == last | dict.fromkeys(map(Constant, range(1000, 1100)), NOT_A_TERM)
    assert dictionary.ids.of_fields([fields_of(value) for value in asked]) == list(last.values())


TEXTS = ["", *("".join(random.Random(length).choices("abé😀/ ", k=length)) for length in range(80))]


def test_java_and_python_hash_alike(spark: SparkSession) -> None:
    values = [*VALUES, *TEXTS, *map(IRI, TEXTS[1:]), -1, -(2**63), False, -math.inf]
    column = values_frame(spark, values).select(TermIds().column("value").alias("id"))
    assert [row["id"] for row in column.collect()] == TermIds().hashes([fields_of(value) for value in values])


@pytest.mark.parametrize("tasks", [False, True], ids=["driver", "tasks"])
def test_facts_whose_constants_share_hashes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: bool
) -> None:
    """Read by the driver or by tasks, in several blocks; they differ as if their hashes did."""
    for name in ("DRIVER_BYTES", "DRIVER_ROWS") if tasks else ():
        monkeypatch.setattr(f"tidelog.spark.data.taking_in.{name}", 0)
    rows = [(f"n{number}", (number + 1) % 300) for number in range(300)]
    for part in range(3):
        lines = [f"{name},{number}" for name, number in rows[part * 80 : part * 80 + 140]]
        (tmp_path / f"edge-{part}.csv").write_text("\n".join(lines))
    dictionary = Dictionary(spark, str(tmp_path / "terms"), ids=TermIds(mask=0x3FF))
    program = parse_program("named(N) :- edge(_, N), N >= 0. both(X, N) :- edge(X, N), named(N).")
    engine = SparkEngine(spark, program, str(tmp_path / "work"), dictionary)
    assert engine.load([Source(f"{tmp_path}/edge-*.csv", "edge", header=False)]) == 300
    engine.materialise()
    found = engine.values("both").collect()
    assert {(value_of(row["a0"]), value_of(row["a1"])) for row in found} == set(rows)
    assert len(dictionary.ids.exceptions) > 100


@pytest.mark.parametrize("format", ["parquet", "jsonl", "dlog"])
def test_facts_of_all_kinds_are_read_back_from_files(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """Those of one column, in which several kinds share the type of the column."""
    values = [*VALUES, -math.inf, -(2**63), 2**53 + 1, Literal("chat", language="fr")]
    atoms = [Atom("p", (Constant(value),)) for value in values]
    engine = SparkEngine(spark, Program(facts=tuple(atoms)), str(tmp_path / "work"))
    engine.load(batches=batches_of_atoms(atoms, "test"))
    path = tmp_path / f"p.{format}"
    write_decoded(engine.relations, engine.dictionary, {"p": Target(path, "p")}, str(tmp_path / "decoded"), format)
    found = [Constant(value) for batch in read_file(path) for column in batch.columns for value in values_of(column)]
    assert Counter(found) == Counter(map(Constant, values))


def test_a_function_may_return_whatever_a_fact_can_hold() -> None:
    """As in the embedded engine, which carries out small updates."""
    same = _row_function(lambda value: value)
    for value in VALUES:
        assert repr(same(fields_of(value))) == repr(fields_of(value))
    plain = (date(2024, 2, 29), timedelta(1), Decimal("1.10"), (1, ("a",)), np.float32(1.5), np.int64(3))
    kb = KnowledgeBase()
    kb.register("plain", lambda place: plain[place])
    kb.add_rules("result(X, plain(X)) :- X in range(0, 6).")
    for place, value in kb.facts("result"):
        assert _row_function(plain.__getitem__)(fields_of(place)) == fields_of(value)
    assert len(kb.facts("result")) == len(plain)
    for refused in (None, 2**63, "\ud800", b"bytes"):
        assert _row_function(lambda _, result=refused: result)(fields_of(1)) is None


def test_quotients_of_integers_are_rounded_once(spark: SparkSession) -> None:
    """The way Python divides integers of any size."""
    sizes = (*(0, 1, 3, 7, 10**18 + 9, 2**63 - 1), *(2**power + step for power in (31, 53, 54, 62) for step in (-1, 1)))
    integers = [*sizes, *(-size for size in sizes), -(2**63)]
    pairs = spark.createDataFrame([(x, y) for x in integers for y in integers], "x bigint, y bigint")
    value = f"named_struct('kind', {INT}Y, 'text', '', 'integer', {{0}}, 'number', 0D) AS {{0}}".format
    quotient = f"({arithmetic('/', ['x', 'y'])}).number AS quotient"
    found = pairs.selectExpr(value("x"), value("y")).selectExpr("x.integer AS x", "y.integer AS y", quotient).collect()
    assert [row for row in map(tuple, found) if row[2] != (row[0] / row[1] if row[1] else None)] == []
