"""Two streams, one after the other, with a driver that kills itself at a point; run by `test_spark_streams.py`.

    python stream_driver.py FOLDER POINT

The points lie between effect, sink and commit. At none of them has the driver a chance to tidy up.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from quick import QUICK
from stream_files import run_stream
from tidelog.spark import open_session
from tidelog.spark.streams import keyed_engine as keyed
from tidelog.spark.streams import memory_engine as memory
from tidelog.spark.streams import queued_engine as queued
from tidelog.spark.streams.sink import Sink

KILLED_IN = 1  # the batch


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str) -> None:
    """Die instead of making the first call with the batch."""
    function = getattr(owner, name)

    def call(self: Any, number: int, *arguments: Any) -> Any:
        return die() if number == KILLED_IN else function(self, number, *arguments)

    setattr(owner, name, call)


def after(owner: Any, name: str) -> None:
    """Die after the first call with the batch."""
    function = getattr(owner, name)

    def call(self: Any, number: int, *arguments: Any) -> Any:
        result = function(self, number, *arguments)
        return die() if number == KILLED_IN else result

    setattr(owner, name, call)


POINTS = {
    "applied, not in the sink": lambda: before(Sink, "write"),
    "taken in, not committed": lambda: after(queued.Inbox, "put"),
    "in the inbox's past, not committed": lambda: after(memory.MemoryEngine, "take"),
    "keys done, not in the sink": lambda: before(keyed.KeyedEngine, "take"),
    "keys in the sink, not committed": lambda: after(keyed.KeyedEngine, "take"),
}


def main(folder: Path, point: str) -> None:
    POINTS[point]()
    spark = open_session("local[2]", QUICK | {"spark.driver.memory": "512m"})
    print("Java:", os.environ.get("JAVA_HOME"), flush=True)
    for name in ("memory", "keyed"):
        run_stream(spark, str(folder / name / "pipeline.toml"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
