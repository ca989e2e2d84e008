"""A cluster of two executors, one of which is killed in the middle of a materialisation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from survivor import LENGTH


@pytest.mark.slow
def test_an_executor_is_lost(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("survivor.py")), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    pairs = LENGTH * (LENGTH + 1) // 2
    assert (found["executors"], found["killed"]) == (2, 1)
    assert found["counts"] == {"edge": LENGTH, "path": pairs, "odd": LENGTH + (LENGTH - 1) + (LENGTH - 2)}
