"""Works on a cluster of two workers that it loses in the middle, one way and the other; prints what came out, as JSON.

While it materialises, a worker is killed, and its executor with it; during an update of a materialisation, the executor
of the other worker, which starts another one. A process of its own, because a session, and with it the Java machine,
lasts as long as its process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from cluster import standalone
from quick import QUICK
from tidelog.language import parse_program
from tidelog.spark import Materialisation, Options, SparkEngine, open_session
from tidelog.spark.data.fact_records import batches_of_atoms

LENGTH = 4
PROGRAM = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z). odd(X, Y, X + Y) :- path(X, Y), X < 3."
BY_ROUNDS = Options(local_facts=0, closure_edges=0)


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def executors(spark: SparkSession) -> list[int]:
    """The process ids of the executors: each task asks for the parent of the daemon that forked it."""

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            time.sleep(0.1)  # Long enough for every executor to get a task.
            yield pa.RecordBatch.from_pydict({"pid": [parent(os.getppid())]})

    found = spark.range(0, 64, 1, 16).mapInArrow(ask, "pid bigint").distinct().collect()
    return [row["pid"] for row in found]


def when(word: str, act: Callable[[], None]) -> Callable[[str], None]:
    """Listens to progress, and acts once, at the first line with a word in it."""
    done: list[str] = []

    def listen(line: str) -> None:
        if word in line and not done:
            done.append(line)
            act()

    return listen


def materialise(spark: SparkSession, folder: str, on_progress: Callable[[str], None]) -> dict[str, int]:
    edges = "".join(f"edge({node}, {node + 1})." for node in range(LENGTH))
    program = parse_program(edges + PROGRAM)
    engine = SparkEngine(spark, program, folder, options=BY_ROUNDS, on_progress=on_progress)
    engine.load(batches=batches_of_atoms(program.facts, "test"))
    engine.materialise()
    return {name: engine.relations.count(name) for name in engine.relations}


def update(spark: SparkSession, folder: str, kill: Callable[[], None]) -> dict[str, int]:
    edges = [(node, node + 1) for node in range(LENGTH)]
    Materialisation.create(spark, folder, PROGRAM, {"edge": edges}, BY_ROUNDS)
    made = Materialisation.open(spark, folder, BY_ROUNDS, on_progress=when("edge", kill))
    made.update(delete={"edge": [(LENGTH - 1, LENGTH)]})
    return {name: made.facts(name).count() for name in made.predicates}


def main(folder: str) -> None:
    settings = QUICK | {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",  # The ratio of registered resources is of this: without it, Spark does not wait.
        "spark.driver.host": "127.0.0.1",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    }
    with standalone(Path(folder)) as cluster:
        spark = open_session(cluster.master, settings)
        before = executors(spark)
        counts = materialise(spark, f"{folder}/engine", when("round 2", cluster.workers[0].kill))
        between = executors(spark)
        updated = update(spark, f"{folder}/made", lambda: os.kill(between[0], signal.SIGKILL))
        after = executors(spark)
        print(
            json.dumps(
                {
                    "executors": [len(before), len(between)],
                    "new": after != between,
                    "counts": counts,
                    "updated": updated,
                }
            )
        )
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
