"""Updates on their way into `KnowledgeBase.stream`, changes on their way out, and what becomes of bad updates.

Whether an update is bad shows when its line is read or when it is applied. Either way it is told with its place, and
the updates after it go on or not, as the user wishes.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from queue import Queue
from typing import TYPE_CHECKING, Any

from tidelog.errors import TidelogError
from tidelog.formats import Unread, Update

if TYPE_CHECKING:
    from tidelog.api.knowledge_base import KnowledgeBase
    from tidelog.facts.results import Change


class Feed:
    """Updates of which bad ones are left out, if it is told to go on, or the first bad one ends the stream.

    Those of a file are at hand: the stream always sees the next one, and its work is the same every time. Those of
    live input are not: the stream looks whether the next one is there, and does not wait for it.
    """

    def __init__(self, updates: Iterable[Unread], go_on: bool, live: bool = False) -> None:
        self._updates = iter(updates)
        self._go_on = go_on
        self._source = self._good() if live else _AtHand(self._good())
        self._places: deque[str] = deque()
        self._unreadable: TidelogError | None = None

    def changes(self, kb: KnowledgeBase, marking: bool) -> Iterator[Change]:
        """One change per good update. Without `go_on`, the first error is raised once what comes before is answered."""
        stream = kb.stream(self._source, marking=marking)
        while True:
            try:
                change = next(stream, None)
            except TidelogError as error:
                refused = TidelogError(f"{self._places.popleft()}: {error}")
                if not self._go_on:
                    raise refused from None
                _tell(refused)
                continue
            if change is None:
                break
            self._places.popleft()
            yield change
        if self._unreadable is not None:
            raise self._unreadable

    def _good(self) -> Iterator[Update]:
        """The updates that can be read."""
        while self._unreadable is None:
            try:
                unread = next(self._updates, None)
                if unread is None:
                    return
                update = unread.read()
            except TidelogError as error:
                if self._go_on:
                    _tell(error)
                else:
                    self._unreadable = error
                continue
            self._places.append(unread.place)
            yield update


def _tell(error: TidelogError) -> None:
    print(f"error: {error}", file=sys.stderr)


class _AtHand(Queue[Any]):
    """A queue that never makes one wait: its next update is read when it is asked for; None ends it."""

    def __init__(self, updates: Iterator[Update]) -> None:
        super().__init__()
        self._updates = updates

    def get(self, block: bool = True, timeout: float | None = None) -> Update | None:
        return next(self._updates, None)
