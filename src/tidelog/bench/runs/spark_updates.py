"""Spark: an update of a part of LUBM against a materialisation in Parquet, beside materialising again.

All of one size run in one session on `local[2]`: the materialisation is made; one fact in a thousand, of every
predicate, is deleted, given as Arrow tables, and the same facts are added again, twice over, because the first updates
of a session read files that later ones know; a rule goes and comes again, and then one over many facts. At last the
consequences of the facts, which are encoded already, are materialised again by the batch engine. That writes no version
and knows no derivation counts; what an update would really spare a user is making the materialisation anew. CPU seconds
are those of Spark's Java process and of all Python processes. The facts after all updates must be as many as before.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from tidelog.bench.data.lubm import generate, rules
from tidelog.bench.measure import Failed, isolated, tree_cpu
from tidelog.bench.options import Options
from tidelog.bench.report import Check, Report, Table

_SIZES = (1, 5, 10, 50)
_SHARE = 0.001
_TIMES = ("", ", later")
_RULES = {
    "closure rule": "ub:subOrganizationOf(X, Z) :- ub:subOrganizationOf(X, Y), ub:subOrganizationOf(Y, Z).",
    "large rule": "ub:Person(X) :- ub:emailAddress(X, Y).",
}
_UPDATES = (
    *(f"{what}{when}" for when in _TIMES for what in ("delete", "add")),
    *(f"{what} {name}" for name in _RULES for what in ("without", "with")),
)
_WAYS = ("create", *_UPDATES, "again")


def run(options: Options) -> Report:
    report = Report("Spark: updates of LUBM against a materialisation in Parquet, on local[2]")
    tables = {kind: Table(f"{kind} seconds", ["universities", "facts", "changed", *_WAYS]) for kind in ("CPU", "wall")}
    ratios = {kind: Table(f"materialising again / update, {kind} time", ["universities", *_UPDATES]) for kind in tables}
    report.tables += [*tables.values(), *ratios.values()]
    if find_spec("pyspark") is None:
        tables["CPU"].note = "PySpark is not installed: pip install 'tidelog[spark]'"
        return report
    for universities in _SIZES[:1] if options.quick else _SIZES:
        count = max(1, int(universities * options.size))
        options.progress(f"LUBM({count})")
        found = isolated(measured, count, options.seed, timeout=options.timeout * 30)
        if isinstance(found, Failed):
            tables["CPU"].rows.append([count, found, *[None] * (len(_WAYS) + 1)])
            continue
        for kind, taken in found["taken"].items():
            tables[kind].rows.append([count, found["facts"], found["changed"], *(taken[way] for way in _WAYS)])
            ratios[kind].rows.append([count, *(taken["again"] / taken[way] for way in _UPDATES)])
        report.checks.append(Check(f"facts of LUBM({count}) after all updates, and again", *found["counts"]))
    return report


def measured(universities: int, seed: int) -> dict[str, Any]:
    """One size, in a session of its own."""
    from tidelog.spark import open_session

    with tempfile.TemporaryDirectory() as folder:
        settings = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "4"}
        spark = open_session("local[2]", settings)
        found = steps(spark, folder, generate(universities, seed), seed)
        spark.stop()
        return found


def steps(spark: Any, folder: str, tables: dict[str, pa.Table], seed: int, share: float = _SHARE) -> dict[str, Any]:
    """What each step took, from making a materialisation of these facts on."""
    from tidelog.spark import Materialisation

    facts = {name: spark.createDataFrame(rows) for name, rows in tables.items()}
    picked = {name: rows for name, rows in _sample(tables, seed, share).items() if rows.num_rows}
    cpu: dict[str, float] = {}
    wall: dict[str, float] = {}

    def timed(way: str, work: Callable[[], Any]) -> Any:
        started, used = time.perf_counter(), tree_cpu()
        result = work()
        cpu[way], wall[way] = tree_cpu() - used, time.perf_counter() - started
        return result

    made = timed("create", lambda: Materialisation.create(spark, f"{folder}/made", rules(harder=False), facts))
    whole = len(made)
    for when in _TIMES:
        timed(f"delete{when}", partial(made.update, delete=picked))
        timed(f"add{when}", partial(made.update, add=picked))
    for name, rule in _RULES.items():
        timed(f"without {name}", partial(made.update, remove_rules=rule))
        timed(f"with {name}", partial(made.update, add_rules=rule))
    engine = _engine(spark, made, folder)
    timed("again", engine.materialise)
    return {
        "facts": whole,
        "changed": sum(rows.num_rows for rows in picked.values()),
        "taken": {"CPU": cpu, "wall": wall},
        "counts": ([whole, whole], [len(made), engine.relations.total]),
    }


def _sample(tables: dict[str, pa.Table], seed: int, share: float) -> dict[str, pa.Table]:
    dice = random.Random(seed)
    return {
        name: rows.take(pa.array(dice.sample(range(rows.num_rows), round(rows.num_rows * share)), pa.int64()))
        for name, rows in tables.items()
    }


def _engine(spark: Any, made: Any, folder: str) -> Any:
    """The batch engine over the explicit facts of a materialisation, which are encoded already."""
    from pyspark.sql import functions as F

    from tidelog.language import parse_program
    from tidelog.spark import SparkEngine

    version, reader = made._version, made._reader
    engine = SparkEngine(spark, parse_program(rules(harder=False)), f"{folder}/again", reader.dictionary())
    given = {name: stored for name, stored in version.stored.items() if stored.explicit}
    for name, stored in given.items():
        engine.relations.declare(name, stored.arity)
    numbers = {stored.number: engine.relations[name].number for name, stored in given.items()}
    number = F.create_map(*(F.lit(item) for pair in numbers.items() for item in pair))[F.col("p")]
    explicit = reader.snapshot.rows(given).where("e").drop("e", "n", "h")
    engine.relations.add_wide(explicit.withColumn("p", number), list(given))
    engine.relations.settle(given)
    return engine
