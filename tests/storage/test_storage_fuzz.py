"""Hostile stores: see `storage_fuzz.py`. With the environment variable TIDELOG_SOAK, it goes on for that many seconds
with seeds that nobody has tried.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys

import pytest

from places import worker
from soaking import soak_seconds, tell

CASES = 60


@pytest.mark.plain
def test_changed_stores_are_refused_or_behave() -> None:
    seconds = soak_seconds()
    first = random.randrange(10**9) if seconds else 0
    # Without the compiler everything is slow.
    cases = CASES // 5 if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0" else CASES
    command = [sys.executable, worker("storage_fuzz.py"), str(first)]
    command.append(f"{seconds}s" if seconds else str(cases))
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    *seeds, last = result.stdout.split("\n")[:-1] or [""]
    assert result.returncode == 0, f"seed {last}, exit code {result.returncode}: {result.stderr}"
    counts = re.fullmatch(r"refused (\d+), opened (\d+)", last)
    assert counts is not None
    # Both must have happened, or nothing was tested.
    assert min(map(int, counts.groups())) > len(seeds) // 20
    tell("changed stores", len(seeds))
