"""Damaged input of every kind: refused with an error of tidelog, or it behaves. A crash is a failure, and has its seed.

A few hundred cases of each kind run here, the same every time. With `TIDELOG_SOAK=60` each kind runs for a minute
instead, from a seed of the day's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("fuzz_worker.py")
CASES = {"arrays": 1500, "ipc": 150, "parquet": 150, "files": 300, "updates": 150, "spool": 300}
SECONDS = float(os.environ.get("TIDELOG_SOAK", "0"))


@pytest.mark.parametrize("kind", CASES)
def test_damaged_input_is_refused_or_behaves(kind: str) -> None:
    if kind == "spool":
        pytest.importorskip("pyspark")
    first, cases = (int(time.time()) * 1000, 0) if SECONDS else (0, CASES[kind])
    command = [sys.executable, str(WORKER), kind, str(first), str(cases)]
    # Cases that crash an interpreter must not take this one along.
    done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    try:
        out, problem = done.communicate(timeout=SECONDS or None)
    except subprocess.TimeoutExpired:
        done.kill()
        done.communicate()
        return
    seeds = out.split()
    assert done.returncode == 0, f"`{WORKER.name} {kind} {seeds[-1]} 1` ends with {done.returncode}:\n{problem[-3000:]}"
    assert len(seeds) == cases
