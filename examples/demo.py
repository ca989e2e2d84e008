"""`make demo`: the wind farm in this process; then many farms on Spark, a pipeline and a stream of their readings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING

import wind_farm

if TYPE_CHECKING:
    from tidelog.spark.streams.metrics import View

EXAMPLES = Path(__file__).parent
PIPELINE = EXAMPLES / "pipeline"
STREAMING = EXAMPLES / "streaming"


@contextmanager
def quietly() -> Iterator[None]:
    """Without what Spark's launcher and the progress of a pipeline say on standard error."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)


def on_spark() -> None:
    """The pipeline of `examples/pipeline`; Spark's own start takes most of the time."""
    from tidelog.spark.pipeline.pipeline import run_pipeline

    wind_farm.step("Twenty farms on Spark", "Readings, damaged rows among them, to published tables: examples/pipeline")
    subprocess.run([sys.executable, str(PIPELINE / "generate.py")], check=True)
    with quietly():
        run_pipeline(str(PIPELINE / "pipeline.toml"))


def as_a_stream() -> None:
    """The stream of `examples/streaming`, in the same Spark session, until the sensors have sent all they have."""
    sys.path.insert(0, str(STREAMING))
    import sensors

    from tidelog.spark import open_session
    from tidelog.spark.pipeline.pipeline_config import read_config
    from tidelog.spark.streams.stream_run import StreamRun

    wind_farm.step(
        f"{sensors.FARMS} farms as a stream",
        f"{sensors.TURBINES} readings a farm and tick, kept true in Spark's state, a farm a key: examples/streaming",
    )
    for folder in ("incoming", "state", "changes", "refused"):
        shutil.rmtree(STREAMING / folder, ignore_errors=True)
    ticks = list(sensors.ticks())
    sensors.send(0, ticks[0])
    next_tick = threading.Semaphore(1)
    run = StreamRun(open_session(), read_config(str(STREAMING / "stream.toml")), lambda view: seen(view))

    def seen(view: View) -> None:
        show_anomalies(view.batch)
        next_tick.release()
        if view.batch == len(ticks) - 1:
            run.stop()

    def send_all() -> None:
        """A tick as soon as the last but one has been seen: the stream always has something to do."""
        for number, lines in enumerate(ticks[1:], 1):
            next_tick.acquire()
            sensors.send(number, lines)

    threading.Thread(target=send_all, daemon=True).start()
    for line in run.run().lines():
        wind_farm.console.print("  " + line, markup=False)


def show_anomalies(batch: int) -> None:
    """What a batch changed, of what one wants to know."""
    for path in (STREAMING / "changes").glob(f"batch={batch}/*"):
        for line in path.read_text(encoding="utf-8").splitlines():
            change = json.loads(line)
            if change["predicate"] in ("anomaly", "technician"):
                sign, colour = ("+", "green") if change["op"] == "added" else ("−", "red")
                arguments = ", ".join(change["arguments"])
                wind_farm.console.print(f"  tick {batch}  [{colour}]{sign} {change['predicate']}({arguments})[/]")


if __name__ == "__main__":
    wind_farm.main()
    on_spark()
    as_a_stream()
