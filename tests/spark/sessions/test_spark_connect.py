"""Spark Connect: the same on a server, and how batches of a stream are handed over to the client."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from places import worker
from tidelog import TidelogError
from tidelog.spark.streams import handover
from tidelog.spark.streams.handover import Handover


@pytest.mark.slow
def test_everything_on_a_server(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    command = [sys.executable, worker("connect_client.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["connect"], found["tasks"]) == (True, 2)
    assert found["pipeline"] == {"edge": 3, "path": 6, "reach": 3, "quarantined": 1}
    assert found["materialisation"] == [{"edge": 3, "path": 6}, {"edge": 1, "path": 3}]
    assert found["stream"] == {
        "facts": [["edge", '[1, "b", "c"]'], ["path", '[1, "b", "c"]']],
        "refused": [[0, "poison"]],
        "batches": 2,
    }


class Rows:
    """Stands in for the frame of a batch."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers

    def toArrow(self) -> pa.Table:
        return pa.table({"number": list(self._numbers)})


def test_a_batch_is_handed_over_once_it_is_taken(tmp_path: Path) -> None:
    taken: list[Any] = []

    def take(number: int, rows: pa.Table) -> None:
        if number == 2:
            raise TidelogError("the disk is full")
        taken.append((number, rows.column("number").to_pylist()))

    run = Handover(tmp_path / "handover", take)
    with run.running():
        run.function(Rows(3, 1), 0)
        run.function(Rows(), 1)
        assert taken == [(0, [3, 1]), (1, [])]
        with pytest.raises(TidelogError, match="the disk is full"):
            run.function(Rows(7), 2)
    assert not (tmp_path / "handover").exists()


def test_a_client_that_died_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(TidelogError, match="no sign of life"):
        handover.hand_over(Rows(1), 0, str(tmp_path), patience=0.1)


def test_a_slow_client_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "_SIGN_SECONDS", 0.02)
    go_on = threading.Event()
    run = Handover(tmp_path / "handover", lambda *_: go_on.wait() and None)
    with run.running():
        threading.Timer(0.5, go_on.set).start()
        handover.hand_over(Rows(1), 0, run.function.keywords["folder"], patience=0.2)
    assert go_on.is_set()
