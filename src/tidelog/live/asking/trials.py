"""Trials: the state that an update would lead to, to be looked at and taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tidelog.engine.engine import Engine
from tidelog.engine.update.deltas import Outcome, Request
from tidelog.engine.what_if import what_if
from tidelog.errors import BrokenError
from tidelog.runtime.knowledge_lock import KnowledgeLock

if TYPE_CHECKING:
    from tidelog.facts.paper_trace import PaperTracer

Found = TypeVar("Found")


class Trials:
    """Makes updates and takes them back. The caller has the lock."""

    def __init__(self, engine: Engine, lock: KnowledgeLock, tracer: PaperTracer | None) -> None:
        self._engine = engine
        self._lock = lock
        self._tracer = tracer

    def look(self, request: Request, look: Callable[[Outcome], Found]) -> Found:
        """What `look` finds in the state that an update leads to, which is then taken back."""
        waiting = None if self._tracer is None else self._tracer.waiting
        try:
            return what_if(self._engine, request, look)
        except BrokenError as broken:
            self._lock.refuse(str(broken))
            raise
        finally:
            if self._tracer is not None:
                self._tracer.waiting = waiting or []
