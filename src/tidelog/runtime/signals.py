"""Signals while a knowledge base is in work: noted at once, handled at the next place where the work can be left.

Python runs the handler of a signal in the main thread, between any two instructions, and what the handler raises is
raised there: even between the instruction that moves an array and the one that tells the kernels its new address.
Ctrl-C raises `KeyboardInterrupt`; time limits of test runners and task queues, `sys.exit` on SIGTERM and event loops
have handlers of their own that raise. So while a knowledge base is in work in the main thread, every signal that has a
handler in Python is only noted. `check` runs the handlers of what was noted; it is called wherever an update can be
rolled back, which is every few tens of milliseconds. A Python function that rules call can be interrupted at any
point: see `interruptible`.

A signal that comes too late, when the update has been committed, must not be raised by an update that took place, and
must not get lost either: it is sent again a moment later.

An exception that another thread injects (`PyThreadState_SetAsyncExc`) or that a trace function raises cannot be
deferred; tidelog does not survive those.
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

# Seconds after which the call that deferred a signal has returned.
MOMENT = 0.002

# Seconds between two looks for signals while a thread waits.
LOOK_EVERY = 0.1

# `signal` turns numbers and handlers into members of enumerations, which takes five times as long as the functions
# that it wraps; and every update defers signals.
_get_handler: Callable[[int], Any] = _signal.getsignal
_set_handler: Callable[[int, Any], Any] = _signal.signal
_SIGNALS = tuple(sorted(map(int, signal.valid_signals())))

# The handler that asyncio has for signals of `loop.add_signal_handler`.
_NOTHING_DONE = ("asyncio.unix_events", "_sighandler_noop")

# The attribute that marks an exception as raised by a handler. Nobody keeps the exception itself: its traceback would
# keep everything alive that the interrupted call has used.
_FROM_HANDLER = "_tidelog_raised_by_handler"


class _Deferral:
    """The state of deferred signals. Only the main thread uses it.

    The order of the lines below matters: a handler may raise after each of them, until `_depth` says otherwise.
    """

    def __init__(self) -> None:
        self._depth = 0  # how many times signals are deferred; zero if they are not
        self._outer: list[bool] = []  # for each time but the first, whether handlers ran at once before it
        self._at_once = False
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self.pending: dict[int, FrameType | None] = {}
        self._found: list[Any] = []  # the handlers of all signals, as of the last time
        self._places: list[int] = []  # of those to defer
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
        """Put the handlers back, except those that were replaced meanwhile."""
        for number, handler in self._handlers.items():
            if _get_handler(number) == self.note:
                _set_handler(number, handler)

    def _send_again(self) -> None:
        while self.pending:
            number, frame = self.pending.popitem()
            try:
                threading.Timer(MOMENT, _send, (number,)).start()
            except RuntimeError:  # There can be no more threads. So send it now, once it is no longer just noted.
                if self._depth:
                    self.pending[number] = frame
                    return
                _send(number)

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler of each signal while signals are deferred."""
        if not self._depth:
            # A handler raised while handlers were put back, and left this one in place.
            _set_handler(number, self._handlers[number])
            self._handlers[number](number, frame)
        elif self._at_once:
            # Stays so if it raises: the call that was to be interrupted is over then.
            self._at_once = False
            self._handle(number, frame)
            self._at_once = True
        else:
            self.pending[number] = frame

    def _handle(self, number: int, frame: FrameType | None) -> None:
        try:
            self._handlers[number](number, frame)
        except BaseException as problem:
            with suppress(AttributeError, TypeError):
                setattr(problem, _FROM_HANDLER, True)
            raise

    def check(self) -> None:
        while self.pending:
            number = next(iter(self.pending))
            self._handle(number, self.pending.pop(number))

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call a function within which handlers run at once."""
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
        """If another thread than the main one forked, nobody in the child will end the main thread's deferral."""
        if not self._forked_by_main:
            self._depth, self._at_once = 0, False
            self._outer.clear()
            self.pending.clear()
            self._give_back()


_deferral = _Deferral()
os.register_at_fork(before=_deferral.before_fork, after_in_child=_deferral.after_fork_in_child)


def _does_nothing(handler: Callable[..., Any]) -> bool:
    """Whether a handler is the empty one of an event loop: the loop learns of the signal by itself, and would learn of
    it twice if the signal were sent again.
    """
    return (getattr(handler, "__module__", ""), getattr(handler, "__name__", "")) == _NOTHING_DONE


def _send(number: int) -> None:
    """Send a signal to this process, unless the program has removed its handler: it might not survive it."""
    if callable(_get_handler(number)):
        os.kill(os.getpid(), number)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def defer() -> None:
    """From now on only `check` runs the handlers of signals, until `resume`. Both may be nested. In threads other than
    the main one, which get no signals, they do nothing.
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
    if _deferral.pending and _is_main():
        _deferral.check()


def wait_until(attempt: Callable[[float], bool]) -> None:
    """Repeat an attempt, which may take the given seconds, until it succeeds. Signals are handled in between."""
    while not attempt(LOOK_EVERY):
        check()


def interruptible(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that may take long and that may be abandoned: signals interrupt it."""
    if not _is_main():
        return function(*arguments)
    check()
    return _deferral.call(function, arguments)


def comes_from_signal(problem: BaseException) -> bool:
    """Whether a problem is what the handler of a signal raised, or was raised while that was handled."""
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
