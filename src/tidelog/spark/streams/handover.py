"""Batches that a Connect server hands over to its client, which has the engine.

On Spark Connect, the function of `foreachBatch` runs in a process of the server, where nothing of the client is. So the
function only writes the rows of a batch to a file, in a folder that both can reach, and waits for the client's answer;
the client takes the batch and answers. As in a classic session, Spark commits a batch once the engine has taken it, and
hands it over again if anything fails before that. Every run has a folder of its own: an answer is never that of another
run, and what an earlier one left is removed. A client that gives no sign of life is given up.
"""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame

from tidelog.errors import TidelogError
from tidelog.storage.durable_files import storage_errors

TakeRows = Callable[[int, pa.Table], None]
"""Takes the rows of a batch; it is safe when this returns."""

# A client that has given no sign of life for so many seconds is gone.
PATIENCE = 60.0

_POLL_SECONDS = 0.02
_SIGN_SECONDS = 1.0
_NAME = re.compile(r"(\d+)\.arrow")


def hand_over(frame: DataFrame, number: int, folder: str, patience: float = PATIENCE) -> None:
    """Write a batch for the client, and return once it has been taken: the function of `foreachBatch`."""
    place = Path(folder)
    rows = frame.toArrow()
    with storage_errors("write", place):
        with pa.OSFile(str(place / f".{number}"), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        (place / f".{number}").replace(place / f"{number}.arrow")
    answer = place / f"{number}.answer"
    sign, since = "", time.monotonic()
    while not answer.exists():
        latest = _read(place / "alive")
        if latest != sign:
            sign, since = latest, time.monotonic()
        elif time.monotonic() - since > patience:
            raise TidelogError(f"the client that should take batch {number} from {place} gives no sign of life")
        time.sleep(_POLL_SECONDS)
    if reason := _read(answer):
        raise TidelogError(reason)


def _read(path: Path) -> str:
    """The content of a file; nothing where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


class Handover:
    """The client's side: takes what the server hands over, in a thread."""

    def __init__(self, folder: Path, take: TakeRows) -> None:
        self._folder = folder / uuid4().hex
        self._take = take
        self._ended = threading.Event()

    @property
    def function(self) -> Callable[[DataFrame, int], None]:
        """The function for `foreachBatch`."""
        return partial(hand_over, folder=str(self._folder.absolute()))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Take batches within this context."""
        with storage_errors("write", self._folder):
            shutil.rmtree(self._folder.parent, ignore_errors=True)
            self._folder.mkdir(parents=True)
        taker = threading.Thread(target=self._work, name="tidelog handover", daemon=True)
        taker.start()
        try:
            yield
        finally:
            self._ended.set()
            taker.join()
            shutil.rmtree(self._folder.parent, ignore_errors=True)

    def _work(self) -> None:
        # The server waits for an answer as long as there are signs of life, however long a batch takes.
        alive = threading.Thread(target=self._live, name="tidelog sign of life", daemon=True)
        alive.start()
        while not self._ended.wait(_POLL_SECONDS):
            for number in self._waiting():
                self._answer(number)
        alive.join()

    def _live(self) -> None:
        count = 0
        while not self._ended.wait(_SIGN_SECONDS):
            count += 1
            self._put("alive", str(count))

    def _waiting(self) -> list[int]:
        found = (int(name[1]) for path in self._folder.iterdir() if (name := _NAME.fullmatch(path.name)))
        return sorted(found)

    def _answer(self, number: int) -> None:
        """Take a batch, and tell the server how that went; whoever takes it keeps the problem itself."""
        path = self._folder / f"{number}.arrow"
        with pa.OSFile(str(path)) as file:
            rows = pa.ipc.open_file(file).read_all()
        reason = ""
        try:
            self._take(number, rows)
        except BaseException as problem:
            reason = str(problem) or type(problem).__name__
        path.unlink()
        self._put(f"{number}.answer", reason)

    def _put(self, name: str, text: str) -> None:
        beside = self._folder / f".{name}"
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._folder / name)
