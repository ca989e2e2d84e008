"""Two workers: one is killed in the middle of a materialisation, executors in the middle of updates."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from places import worker
from survivor import LENGTH


def pairs(length: int) -> dict[str, int]:
    """What the program derives from a chain of this many edges."""
    return {"edge": length, "path": length * (length + 1) // 2, "odd": length + (length - 1) + (length - 2)}


@pytest.mark.slow
def test_a_worker_and_executors_are_lost(tmp_path: Path) -> None:
    command = [sys.executable, worker("survivor.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["executors"], found["new"]) == ([2, 1], True)
    assert found["counts"] == pairs(LENGTH)
    assert found["updated"] == pairs(LENGTH - 1)
