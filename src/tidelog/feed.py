"""Updates on their way into `KnowledgeBase.stream`, and changes on their way out.

The stream looks ahead: while it works on one update it may already have taken the next. So an update that fails must
not take its successors with it. A feed remembers what was taken and not yet answered, and gives it again. Live input
comes through a queue that a thread fills: there the stream looks ahead only to what has arrived, and each update is
answered before the next one comes.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from queue import Queue
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.errors import TidelogError
from tidelog.formats import Unread, Update

if TYPE_CHECKING:
    from tidelog.knowledge_base import KnowledgeBase
    from tidelog.results import Change

WAITING_UPDATES = 64


class _Read(NamedTuple):
    place: str
    update: Update


class Feed:
    """Updates of which bad ones are left out, if it is told to go on, or the first bad one ends the stream."""

    def __init__(self, updates: Iterable[Unread], go_on: bool, live: bool = False) -> None:
        self._updates = iter(updates)
        self._go_on = go_on
        self._error: TidelogError | None = None
        self._line = _LiveLine(self._good()) if live else _Line(self._good())

    def changes(self, kb: KnowledgeBase, marking: bool) -> Iterator[Change]:
        """One change per good update. Without `go_on`, the first error is raised once what comes before is answered."""
        while True:
            try:
                for change in kb.stream(self._line, marking=marking):
                    self._line.answered()
                    yield change
                break
            except TidelogError as error:
                failed = self._line.answered()
                self._line.put_back()
                self._refuse(TidelogError(f"{failed.place}: {error}"))
                if not self._go_on:
                    break
        if self._error is not None:
            raise self._error

    def _good(self) -> Iterator[_Read]:
        while True:
            try:
                unread = next(self._updates, None)
                if unread is None:
                    return
                yield _Read(unread.place, unread.read())
            except TidelogError as error:
                self._refuse(error)
                if not self._go_on:
                    return

    def _refuse(self, error: TidelogError) -> None:
        if self._go_on:
            print(f"error: {error}", file=sys.stderr)
        else:
            self._error = self._error or error


class _Line:
    """Updates that wait for the stream, as an iterator; those that it took first may come back."""

    def __init__(self, updates: Iterator[_Read]) -> None:
        self._updates = updates
        self._again: deque[_Read] = deque()
        self._unanswered: deque[_Read] = deque()

    def __iter__(self) -> Iterator[Update]:
        return self

    def __next__(self) -> Update:
        self._unanswered.append(self._again.popleft() if self._again else next(self._updates))
        return self._unanswered[-1].update

    def answered(self) -> _Read:
        """The stream is through with the earliest update that it holds."""
        return self._unanswered.popleft()

    def put_back(self) -> None:
        """The stream has ended, and what it still holds will be taken once more."""
        self._again.extendleft(reversed(self._unanswered))
        self._unanswered.clear()


class _LiveLine(Queue[Any]):
    """The same as a queue, filled by a thread; None ends it."""

    def __init__(self, updates: Iterator[_Read]) -> None:
        super().__init__(WAITING_UPDATES)
        self._unanswered: deque[_Read | None] = deque()
        threading.Thread(target=self._fill, args=(updates,), daemon=True).start()

    def _fill(self, updates: Iterator[_Read]) -> None:
        for update in updates:
            self.put(update)
        self.put(None)

    def _get(self) -> Update | None:
        taken: _Read | None = super()._get()
        self._unanswered.append(taken)
        return taken and taken.update

    def answered(self) -> _Read:
        taken = self._unanswered.popleft()
        assert taken is not None, "the end of the stream has no answer"
        return taken

    def put_back(self) -> None:
        with self.mutex:
            self.queue.extendleft(reversed(self._unanswered))
        self._unanswered.clear()
