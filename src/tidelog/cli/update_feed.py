"""Updates on their way into `KnowledgeBase.stream`, changes on their way out, and what happens to bad updates.

An update turns out to be bad when its line is read or when it is applied. Either way the error names its place, and the
stream goes on with the next update or stops, as the user wishes.
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
    """Updates for a stream. Bad ones are left out where it is to go on; otherwise the first one ends the stream.

    The updates of a file are available: the stream always sees the next one, so its work is the same every time. Those
    of live input may not be: the stream checks whether the next one has arrived, and does not wait for it.
    """

    def __init__(self, updates: Iterable[Unread], go_on: bool, live: bool = False) -> None:
        self._updates = iter(updates)
        self._go_on = go_on
        self._source = self._readable() if live else _Available(self._readable())
        self._places: deque[str] = deque()
        self._unreadable: TidelogError | None = None

    def changes(self, kb: KnowledgeBase, marking: bool) -> Iterator[Change]:
        """One change per good update. Without `go_on`, the first error is raised after the changes before it."""
        stream = kb.stream(self._source, marking=marking)
        while True:
            try:
                change = next(stream, None)
            except TidelogError as error:
                refused = TidelogError(f"{self._places.popleft()}: {error}")
                if not self._go_on:
                    raise refused from None
                _print_error(refused)
                continue
            if change is None:
                break
            self._places.popleft()
            yield change
        if self._unreadable is not None:
            raise self._unreadable

    def _readable(self) -> Iterator[Update]:
        """The updates that can be read."""
        while self._unreadable is None:
            try:
                unread = next(self._updates, None)
                if unread is None:
                    return
                update = unread.read()
            except TidelogError as error:
                if self._go_on:
                    _print_error(error)
                else:
                    self._unreadable = error
                continue
            self._places.append(unread.place)
            yield update


def _print_error(error: TidelogError) -> None:
    print(f"error: {error}", file=sys.stderr)


class _Available(Queue[Any]):
    """A queue that never waits: its next update is read when it is asked for; None ends it."""

    def __init__(self, updates: Iterator[Update]) -> None:
        super().__init__()
        self._updates = updates

    def get(self, block: bool = True, timeout: float | None = None) -> Update | None:
        return next(self._updates, None)
