"""What holds for all tests: no deadlines, since a first call may compile; what fails says how to see it again.

Random input is the same in each run, so that a test fails because of a change. `make soak` looks for what nobody has
thought of.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from hypothesis import settings

from places import FOLDERS
from soaking import soak_seconds

same_each_time = not soak_seconds()
settings.register_profile(
    "tidelog", deadline=None, print_blob=True, max_examples=60, derandomize=same_each_time, database=None
)
settings.load_profile("tidelog")

# Workers in processes of their own find the helpers, too.
os.environ["PYTHONPATH"] = os.pathsep.join((*map(str, FOLDERS), os.environ.get("PYTHONPATH", ""))).rstrip(os.pathsep)

# A shell that runs the tests in the background lets them ignore Ctrl-C, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Their tests share what a fixture takes many seconds to make.
TOGETHER = ("test_spark_pipeline.py", "test_spark_versions.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under `--dist loadgroup`, the tests of these files go to one worker each; all in the order of their collection.

    Groups by `xdist_group` are lost: pytest-xdist 3.8 puts their names where pytest 9.2 does not look."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class InFiles(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file.endswith(TOGETHER) else nodeid

    config.option.loadscopereorder = False
    return InFiles(config, log)


@pytest.fixture
def _tiny_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make slices of the fully dynamic mode so small that every transaction pauses halfway."""
    monkeypatch.setattr("tidelog.live.worker.SLICE", 3)
