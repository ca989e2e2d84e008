"""Damaged input of every kind: accepted, or refused with an error of tidelog. A crash is a failure, told with its seed.

A few hundred cases of each kind run here, the same every time. A soak shares its time among the kinds, from a seed of
the day's own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from places import worker
from soaking import soak_seconds, tell

WORKER = Path(worker("fuzz_worker.py"))
CASES = {"arrays": 1500, "ipc": 150, "parquet": 150, "files": 300, "updates": 150, "spool": 300}


@pytest.mark.parametrize("kind", CASES)
def test_damaged_input_is_refused_or_behaves(kind: str) -> None:
    if kind == "spool":
        pytest.importorskip("pyspark")
    seconds = soak_seconds() / len(CASES)
    first, enough = (int(time.time()) * 1000, f"{seconds}s") if seconds else (0, str(CASES[kind]))
    # Cases that crash an interpreter must not take this one along.
    command = [sys.executable, str(WORKER), kind, str(first), enough]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    seeds = done.stdout.split()
    problem = f"`{WORKER.name} {kind} {seeds[-1:]} 1` ends with {done.returncode}:\n{done.stderr[-3000:]}"
    assert done.returncode == 0, problem
    assert seconds or len(seeds) == CASES[kind]
    tell(f"damaged {kind}", len(seeds))
