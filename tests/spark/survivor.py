"""Materialises on a cluster of two executors and kills one of them in the middle; prints what came out, as JSON.

A process of its own, because a session, and with it the Java machine, lasts as long as its process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from tidelog.language import parse_program
from tidelog.spark import Options, SparkEngine, open_session
from tidelog.spark.records import records_of_atoms
from tidelog.spark.session import SHORT_JOB_JAVA_OPTIONS

LENGTH = 12
PROGRAM = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z). odd(X, Y, X + Y) :- path(X, Y), X < 3."


def executors(spark: SparkSession) -> list[int]:
    """The process ids of the executors: each task asks for the parent of the daemon that forked it."""

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            yield pa.RecordBatch.from_pydict({"pid": [int(daemon.rpartition(")")[2].split()[1])]})

    found = spark.range(0, 64, 1, 16).mapInArrow(ask, "pid bigint").distinct().collect()
    return [row["pid"] for row in found]


def main(folder: str) -> None:
    settings = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": SHORT_JOB_JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": SHORT_JOB_JAVA_OPTIONS,
        "spark.sql.shuffle.partitions": "2",
    }
    spark = open_session("local-cluster[2,1,512]", settings)
    running = executors(spark)
    killed: list[int] = []

    def kill_one(line: str) -> None:
        if "round 3" in line and not killed:
            killed.append(running[0])
            os.kill(running[0], signal.SIGKILL)

    edges = "".join(f"edge({node}, {node + 1})." for node in range(LENGTH))
    program = parse_program(edges + PROGRAM)
    engine = SparkEngine(spark, program, folder, options=Options(local_facts=0, closure_edges=0), on_progress=kill_one)
    engine.load(records_of_atoms(spark, program.facts, "test"))
    engine.materialise()
    counts = {name: engine.relations.count(name) for name in engine.relations}
    print(json.dumps({"executors": len(running), "killed": len(killed), "counts": counts}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
