"""Ctrl-C while an update is in work: noted at once, raised at the next place where the update can be rolled back.

Python raises `KeyboardInterrupt` between any two instructions, also between those that move an array and those that
tell the kernels its new address. So while arrays and registers are in motion the signal is only noted, and `check`
raises it: whenever a kernel pauses, which is every few tens of milliseconds. A Python function that rules call can be
interrupted in its middle.

An interrupt that comes too late, when the update has been committed, must not be raised by an update that took place,
and must not get lost either: it is sent again a moment later.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# By then the call that deferred the interrupt has returned.
MOMENT = 0.002

# `signal` turns numbers into members of enumerations and handlers into what they may be, which takes five times as long
# as what its functions are made of; and every update defers interrupts.
_get_handler: Callable[[int], Any] = _signal.getsignal
_set_handler: Callable[[int, Any], Any] = _signal.signal
_INTERRUPT = int(signal.SIGINT)


class _Deferral:
    """What is known of interrupts; only the main thread gets any."""

    def __init__(self) -> None:
        self.pending = False
        self.interruptible = False

    def note(self, _number: int, _frame: FrameType | None) -> None:
        if self.interruptible:
            raise KeyboardInterrupt
        self.pending = True


_deferral = _Deferral()


def _applies() -> bool:
    """Whether an interrupt would be raised here, and is not deferred yet; a program's own handler stays in charge."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and _get_handler(_INTERRUPT) is signal.default_int_handler


@contextmanager
def deferred() -> Iterator[None]:
    """Within, interrupts are raised by `check` alone."""
    if not _applies():
        yield
        return
    _set_handler(_INTERRUPT, _deferral.note)
    try:
        yield
    finally:
        _set_handler(_INTERRUPT, signal.default_int_handler)
        if _deferral.pending:
            _deferral.pending = False
            threading.Timer(MOMENT, os.kill, (os.getpid(), signal.SIGINT)).start()


def check() -> None:
    """Raise the interrupt that came, if one did."""
    if _deferral.pending and threading.current_thread() is threading.main_thread():
        _deferral.pending = False
        raise KeyboardInterrupt


def interruptible(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that may take long and that nothing depends on if it does not return."""
    check()
    _deferral.interruptible = True
    try:
        return function(*arguments)
    finally:
        _deferral.interruptible = False
