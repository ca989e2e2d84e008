"""The core of what runs on Spark, through Spark Connect: a client and a server in processes of their own.

    python connect_client.py FOLDER

Prints, as JSON, what a pipeline, a materialisation, an update and a stream came to. A process cannot be
a client of Connect and have a classic session as well.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from quick import QUICK
from stream_files import drop, run_stream, write_config
from stream_util import changes_in, record, refused_in, replayed
from tidelog.spark import Materialisation, Options, Pipeline, open_session
from tidelog.spark.session import is_connect, parallelism

PROGRAM = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."
KEYED = "path(F, X, Y) :- edge(F, X, Y). path(F, X, Z) :- edge(F, X, Y), path(F, Y, Z)."
ON_SPARK = Options(local_facts=0)


def pipeline(spark: SparkSession, folder: Path) -> dict[str, int]:
    (folder / "edge.csv").write_text("a,b\nb,c\nbad\n")
    run = Pipeline(spark, f"{PROGRAM} reach(X, count(Y)) :- path(X, Y).", str(folder / "published"))
    run.add(str(folder / "edge.csv"), header=False)
    run.add(spark.createDataFrame([("c", "d")], ["from", "to"]), predicate="edge")
    report = run.run()
    assert run.read("path").count() == report.facts["path"]
    return {**report.facts, "quarantined": sum(report.quarantined.values())}


def materialisation(spark: SparkSession, folder: Path) -> list[dict[str, int]]:
    """Updates by lookups of the client, and one on sets, by jobs."""
    made = Materialisation.create(spark, str(folder / "graph"), PROGRAM)
    first = made.update(add={"edge": spark.createDataFrame([("a", "b"), ("b", "c"), ("c", "d")], ["from", "to"])})
    by_sets = Materialisation.open(spark, str(folder / "graph"), ON_SPARK)
    second = by_sets.update(delete={"edge": [("a", "b")]})
    assert {tuple(row) for row in second.removed["path"].collect()} == {("a", end) for end in "bcd"}
    return [dict(first.added_counts), dict(second.removed_counts)]


def stream(spark: SparkSession, folder: Path) -> dict[str, object]:
    """By the engine `keyed`, which needs the most of the server; the batches of others are handed over alike."""
    config = write_config(folder, KEYED, "keyed")
    drop(folder / "in", 1, [record("add", "edge", 1, *pair) for pair in ("ab", "bc")] + ["poison"])
    drop(folder / "in", 2, [record("delete", "edge", 1, "a", "b")])
    view = run_stream(spark, config)
    facts = sorted(replayed(changes_in(folder / "sink")))
    return {"facts": facts, "refused": refused_in(folder / "refused"), "batches": view.totals.batches}


def main(folder: Path) -> None:
    os.environ["SPARK_REMOTE"] = "local[2]"
    spark = open_session(settings=QUICK | {"spark.driver.memory": "1g"})
    found = {
        "connect": is_connect(spark),
        "tasks": parallelism(spark),
        "pipeline": pipeline(spark, folder),
        "materialisation": materialisation(spark, folder),
        "stream": stream(spark, folder / "stream"),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
