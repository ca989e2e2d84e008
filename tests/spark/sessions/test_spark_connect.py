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
from stream_files import wait_for
from tidelog import TidelogError
from tidelog.spark.streams import handover
from tidelog.spark.streams.handover import Handover


@pytest.mark.slow
def test_everything_on_a_server(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    command = [sys.executable, worker("connect_client.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
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


class SignClock:
    """A clock of its own: a second goes by from one sign of life to the next, and the tenth sign lets the client go on.

    So whether a client is given up does not depend on how fast this machine is."""

    def __init__(self, folder: Path, go_on: threading.Event) -> None:
        self._sign = folder / "alive"
        self._go_on = go_on
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, _: float) -> None:
        before = handover._read(self._sign)
        wait_for(lambda: handover._read(self._sign) != before)
        self._now += 1
        if self._now == 10:
            self._go_on.set()


def test_a_slow_client_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "_SIGN_SECONDS", 0.01)
    go_on = threading.Event()
    run = Handover(tmp_path / "handover", lambda *_: go_on.wait() and None)
    folder = Path(run.function.keywords["folder"])
    monkeypatch.setattr(handover, "time", SignClock(folder, go_on))
    with run.running():
        handover.hand_over(Rows(1), 0, str(folder), patience=2)
    assert go_on.is_set()
