"""Signals while a knowledge base is in work: noted at once, handled at the next place where the work can be left.

Python runs the handler of a signal in the main thread, between any two instructions, and what the handler raises is
raised there: also between the instruction that moves an array and the one that tells the kernels its new address.
Ctrl-C raises `KeyboardInterrupt`; time limits of test runners and task queues, `sys.exit` on SIGTERM and event loops
have handlers of their own that raise. So while a knowledge base is in work in the main thread, every signal that has a
handler in Python is only noted. `check` runs the handlers of what was noted; it is called wherever an update can be
rolled back, which is every few tens of milliseconds. A Python function that rules call can be interrupted in its
middle: see `interruptible`.

A signal that comes too late, when the update has been committed, must not be raised by an update that took place, and
must not get lost either: it is sent again a moment later.

An exception that another thread injects (`PyThreadState_SetAsyncExc`) or that a trace function raises cannot be
deferred by anybody; tidelog does not survive those.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

# By then the call that deferred the signal has returned.
MOMENT = 0.002

# `signal` turns numbers into members of enumerations and handlers into what they may be, which takes five times as long
# as what its functions are made of; and every update defers signals.
_get_handler: Callable[[int], Any] = _signal.getsignal
_set_handler: Callable[[int, Any], Any] = _signal.signal
_SIGNALS = tuple(sorted(map(int, signal.valid_signals())))

# The handler that asyncio has for signals of `loop.add_signal_handler`.
_NOTHING_DONE = ("asyncio.unix_events", "_sighandler_noop")

# The attribute of an exception that a handler has raised. The exception itself is kept by nobody: its traceback would
# keep all that the interrupted call has used.
_FROM_HANDLER = "_tidelog_raised_by_handler"


class _Deferral:
    """What is known of signals; all of it is used by the main thread alone.

    The order of the lines below matters: a handler may raise after each of them, until `_depth` says otherwise.
    """

    def __init__(self) -> None:
        self._depth = 0  # how often signals are deferred; none is unless it is positive
        self._outer: list[bool] = []  # for each time but the first, whether handlers were run at once before it
        self._at_once = False
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._pending: dict[int, FrameType | None] = {}
        self._found: list[Any] = []  # the handlers of all signals, as they were the last time
        self._places: list[int] = []  # those of them that are to be deferred
        self._forked_by_main = True

    def begin(self) -> None:
        if self._depth:
            at_once, self._at_once = self._at_once, False
            self._outer.append(at_once)
            self._depth += 1
            return
        try:
            self._take_over()
            self._depth = 1
        except BaseException:
            self._give_back()
            raise

    def end(self) -> None:
        if self._depth > 1:
            self._depth -= 1
            self._at_once = self._outer.pop()
            return
        self._send_again()
        self._depth = 0
        try:
            self._give_back()
        finally:
            self._send_again()

    def _take_over(self) -> None:
        found = list(map(_get_handler, _SIGNALS))
        if found != self._found:
            self._places = [place for place, handler in enumerate(found) if self._is_deferred(handler)]
            self._found = found
        for place in self._places:
            self._handlers[_SIGNALS[place]] = found[place]
            _set_handler(_SIGNALS[place], self.note)

    def _is_deferred(self, handler: Any) -> bool:
        return callable(handler) and handler != self.note and not _does_nothing(handler)

    def _give_back(self) -> None:
        """Put the handlers back, but for those that were replaced meanwhile."""
        for number, handler in self._handlers.items():
            if _get_handler(number) == self.note:
                _set_handler(number, handler)

    def _send_again(self) -> None:
        while self._pending:
            number, frame = self._pending.popitem()
            try:
                threading.Timer(MOMENT, _send, (number,)).start()
            except RuntimeError:  # There can be no more threads. Then at once, as soon as nobody notes it again.
                if self._depth:
                    self._pending[number] = frame
                    return
                _send(number)

    def note(self, number: int, frame: FrameType | None) -> None:
        """What handles each signal while signals are deferred."""
        if not self._depth:
            # Left in place by a handler that raised while they were put back.
            _set_handler(number, self._handlers[number])
            self._handlers[number](number, frame)
        elif self._at_once:
            # No longer if it raises: the call that was to be interrupted is over then.
            self._at_once = False
            self._handle(number, frame)
            self._at_once = True
        else:
            self._pending[number] = frame

    def _handle(self, number: int, frame: FrameType | None) -> None:
        try:
            self._handlers[number](number, frame)
        except BaseException as problem:
            with suppress(AttributeError, TypeError):
                setattr(problem, _FROM_HANDLER, True)
            raise

    def check(self) -> None:
        while self._pending:
            number = next(iter(self._pending))
            self._handle(number, self._pending.pop(number))

    @property
    def is_pending(self) -> bool:
        return bool(self._pending)

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call a function, within which handlers are run at once."""
        if not self._depth:
            return function(*arguments)
        self._at_once = True
        try:
            return function(*arguments)
        finally:
            self._at_once = False

    # --- children ---

    def before_fork(self) -> None:
        self._forked_by_main = _is_main()

    def after_fork_in_child(self) -> None:
        """Where another thread has forked, nobody in the child will end what the main thread has deferred."""
        if not self._forked_by_main:
            self._depth, self._at_once = 0, False
            self._outer.clear()
            self._pending.clear()
            self._give_back()


_deferral = _Deferral()
os.register_at_fork(before=_deferral.before_fork, after_in_child=_deferral.after_fork_in_child)


def _does_nothing(handler: Callable[..., Any]) -> bool:
    """Whether an event loop has put a handler there that does nothing: the loop hears of the signal by itself, and
    would do so once more if the signal were sent again.
    """
    return (getattr(handler, "__module__", ""), getattr(handler, "__name__", "")) == _NOTHING_DONE


def _send(number: int) -> None:
    """Send a signal to this process, unless the program has given its handler up: it might not survive it then."""
    if callable(_get_handler(number)):
        os.kill(os.getpid(), number)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def defer() -> None:
    """From now on `check` alone runs the handlers of signals, until `resume`. Both may be nested, and neither does
    anything in other threads than the main one, which get no signals.
    """
    if _is_main():
        _deferral.begin()


def resume() -> None:
    if _is_main():
        _deferral.end()


@contextmanager
def deferred() -> Iterator[None]:
    """Defer signals within."""
    defer()
    try:
        yield
    finally:
        resume()


def check() -> None:
    """Run the handlers of the signals that came, and raise what they raise."""
    if _deferral.is_pending and _is_main():
        _deferral.check()


def interruptible(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that may take long and that nothing depends on if it does not return: signals interrupt it."""
    if not _is_main():
        return function(*arguments)
    check()
    return _deferral.call(function, arguments)


def comes_from_signal(problem: BaseException) -> bool:
    """Whether a problem is, or was raised in the course of, what the handler of a signal raised."""
    if not _is_main():
        return False
    found: BaseException | None = problem
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        if getattr(found, _FROM_HANDLER, False):
            return True
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return False
