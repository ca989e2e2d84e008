"""All pairs of public methods in two threads: exact for some state, or refused with a clear error; never a crash."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from crowd import CLASSES, OPERATIONS, public_names
from crowd_worker import ENVIRONMENT
from places import worker
from soaking import soak_seconds, tell

SHARES = 4


def test_the_table_holds_every_public_method() -> None:
    public = {f"{kind.__name__}.{name}" for kind in CLASSES for name in public_names(kind)}
    assert public == OPERATIONS.keys(), "each public method needs an operation in `tests/support/scenes/crowd.py`"


@pytest.mark.parametrize("share", [0] if soak_seconds() else range(SHARES))
def test_every_pair_in_two_threads(share: int) -> None:
    seconds = soak_seconds()
    seed = time.time_ns() if seconds else 0
    command = [sys.executable, worker("crowd_worker.py"), str(share), str(SHARES)]
    done = subprocess.run(
        [*command, str(seconds), str(seed)],
        capture_output=True,
        text=True,
        env=os.environ | ENVIRONMENT,
        timeout=seconds + 900,
        check=False,
    )
    said = done.stdout.splitlines()
    if "end" not in said:
        pytest.fail(f"{said[-1:]} ended the process with {done.returncode} (seed {seed}):\n{done.stderr[-6000:]}")
    assert done.returncode == 0, f"seed {seed}\n" + "\n".join(said[said.index("end") + 1 :])
    tell("pairs of methods in two threads", said.index("end"))
