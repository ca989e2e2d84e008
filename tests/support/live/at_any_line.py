"""Something happens at the n-th line that tidelog executes: a signal arrives, whose handler raises.

A trace function counts the lines of tidelog's own modules (and of the context managers and locks that they enter), and
sends the signal from there. Python runs the handler at once, at that very line, as it would if the signal had come from
outside.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import tidelog

PACKAGE = str(Path(tidelog.__file__).parent)
# Where a lock could be lost between being taken and being known to be taken.
ALSO = ("contextlib.py", "threading.py")


class Struck(Exception):
    """What the handler raises: an ordinary exception, as time limits are, so that `except Exception` meets it too."""


class Lines:
    """Counts lines, and sends the signal at a chosen one."""

    def __init__(self, strike_at: int, strike: Callable[[], None]) -> None:
        self.count = 0
        self._strike_at = strike_at
        self._strike = strike

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE) and not name.endswith(ALSO):
            return None
        if event == "line":
            self.count += 1
            if self.count == self._strike_at:
                self._strike()
        return self.trace


@dataclass(frozen=True)
class Strike:
    """How many lines there were, and whether what the handler raised came out of them."""

    lines: int
    raised: bool


def struck_at(line: int, act: Callable[[], object], number: int = signal.SIGALRM) -> Strike:
    """Do something, while a signal arrives as soon as so many lines have been executed. Its handler raises; where it
    runs only a moment later, as for a late signal, it is awaited.
    """

    def handler(_number: int, _frame: object) -> None:
        struck.append(line)
        raise Struck

    struck: list[int] = []
    lines = Lines(line, lambda: signal.raise_signal(number))
    before, tracing = signal.signal(number, handler), sys.gettrace()
    raised = False
    try:
        sys.settrace(lines.trace)
        act()
    except Struck:
        raised = True
    finally:
        sys.settrace(tracing)
        if lines.count >= line > 0:
            _await(struck)
        assert signal.getsignal(number) is handler
        signal.signal(number, before)
    return Strike(lines.count, raised)


def count_lines(act: Callable[[], object]) -> int:
    """How many lines are executed."""
    return struck_at(0, act).lines


def _await(struck: list[int]) -> None:
    deadline = time.monotonic() + 30
    with suppress(Struck):
        while not struck:
            assert time.monotonic() < deadline, "the signal got lost"
            time.sleep(0.001)
