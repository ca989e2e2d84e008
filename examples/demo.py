"""`make demo`: the wind farm in this process, then a pipeline over many farms on Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import wind_farm

PIPELINE = Path(__file__).parent / "pipeline"


def on_spark() -> int:
    """The pipeline of `examples/pipeline`; Spark's own start takes most of the time."""
    wind_farm.step("Twenty farms on Spark", "Readings, damaged rows among them, to published tables: examples/pipeline")
    subprocess.run([sys.executable, str(PIPELINE / "generate.py")], check=True)
    command = [sys.executable, "-m", "tidelog", "pipeline", "run", str(PIPELINE / "pipeline.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in (done.stdout or done.stderr).splitlines():
        wind_farm.console.print("  " + line, markup=False)
    return done.returncode


if __name__ == "__main__":
    wind_farm.main()
    sys.exit(on_spark())
