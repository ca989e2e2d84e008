"""How far the compiler is, told on the standard error: a bar on terminals and in notebooks, elsewhere two lines."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, suppress
from types import TracebackType

_WIDTH = 24


class Progress:
    """A bar with a total and the time left. It asks for nothing but a stream that knows carriage returns."""

    def __init__(self, what: str, total: float) -> None:
        self._what = what
        self._total = total
        self._done = 0.0
        self._began = time.perf_counter()
        self._expected: float | None = None  # the end, estimated when something was done last
        self._stream = sys.stderr  # None where it was closed before Python began
        self._lively = self._stream is not None and (self._stream.isatty() or _in_notebook())
        if not self._lively:
            tell(f"compiling {what}, once for this machine …")

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._clear()

    def advance(self, done: float) -> None:
        """So much more of the total is done."""
        self._done += done
        now = time.perf_counter()
        self._expected = now + (now - self._began) * (self._total / self._done - 1)
        self.draw()

    def draw(self) -> None:
        """Draw the bar again: time goes on."""
        if self._lively:
            share = self._done / self._total
            bar = ("━" * round(share * _WIDTH)).ljust(_WIDTH, "─")
            self._write(f"tidelog: compiling {self._what}, once for this machine {bar} {share:4.0%}{self._left()}")

    def end(self, where: str) -> None:
        """Say how long it took."""
        self._clear()
        tell(f"compiled {self._what} in {time.perf_counter() - self._began:.0f} s, {where}")

    def _clear(self) -> None:
        if self._lively:
            self._write("")

    def _left(self) -> str:
        if self._expected is None:
            return ""
        left = round(max(self._expected - time.perf_counter(), 0.0))
        return f", {left // 60}:{left % 60:02} left"

    def _write(self, line: str) -> None:
        with _unheard():
            print(f"\r{line.ljust(100)}" if line else f"\r{' ' * 100}\r", end="", file=self._stream, flush=True)


def tell(message: str) -> None:
    """Tell the user something, if anybody listens."""
    if sys.stderr is not None:
        with _unheard():
            print(f"tidelog: {message}", file=sys.stderr, flush=True)


def _unheard() -> AbstractContextManager[None]:
    """Kernels are compiled even if nobody can be told: the stream is closed, or goes to a disk that is full."""
    return suppress(OSError, ValueError)


def _in_notebook() -> bool:
    return type(sys.stderr).__module__.startswith("ipykernel")
