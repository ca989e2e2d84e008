"""Updates on their way into `KnowledgeBase.stream`, and changes on their way out.

The stream looks ahead: while it works on one update it may already have taken the next. So an update that fails
must not take its successors with it. The feed remembers what was taken and not yet answered, and gives it again.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import TidelogError
from tidelog.formats import Unread, Update

if TYPE_CHECKING:
    from tidelog.knowledge_base import Change, KnowledgeBase


class _Taken(NamedTuple):
    place: str
    update: Update


class Feed:
    """An iterator of updates that survives bad ones if it is told to go on, and else ends before them."""

    def __init__(self, updates: Iterable[Unread], go_on: bool) -> None:
        self._updates = iter(updates)
        self._go_on = go_on
        self._again: deque[_Taken] = deque()
        self._unanswered: deque[_Taken] = deque()
        self._error: TidelogError | None = None

    def __iter__(self) -> Iterator[Update]:
        return self

    def __next__(self) -> Update:
        self._unanswered.append(self._again.popleft() if self._again else self._next_good())
        return self._unanswered[-1].update

    def _next_good(self) -> _Taken:
        while self._error is None:
            try:
                unread = next(self._updates)
                return _Taken(unread.place, unread.read())
            except TidelogError as error:
                self._refuse(error)
        raise StopIteration

    def _refuse(self, error: TidelogError) -> None:
        if self._go_on:
            print(f"error: {error}", file=sys.stderr)
        else:
            self._error = error

    def changes(self, kb: KnowledgeBase, marking: bool) -> Iterator[Change]:
        """One change per good update. Without `go_on`, the first error is raised once what comes before is answered."""
        while self._error is None:
            try:
                for change in kb.stream(self, marking=marking):
                    self._unanswered.popleft()
                    yield change
                break
            except TidelogError as error:
                failed = self._unanswered.popleft()
                self._again.extendleft(reversed(self._unanswered))
                self._unanswered.clear()
                self._refuse(TidelogError(f"{failed.place}: {error}"))
        if self._error is not None:
            raise self._error
