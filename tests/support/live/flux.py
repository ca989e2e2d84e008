"""Readers at every pause of an update: whoever comes in sees what was committed last, whatever has happened since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import tidelog.engine.update.runner
from tidelog import KnowledgeBase
from tidelog.closures import closed_graph
from tidelog.machine import registers as M
from tidelog.runtime.knowledge_lock import KnowledgeLock

Look = Callable[[KnowledgeBase], object]


class Visitor:
    """Comes in at the pauses of updates, in the place of another thread, and looks."""

    def __init__(self, kb: KnowledgeBase, look: Look, every: int) -> None:
        self._kb = kb
        self._look = look
        self._every = every
        self._looks = False  # An update that it makes pauses as well.
        self.pauses = 0

    def visit(self, lock: KnowledgeLock, at_rest: bool) -> None:
        """A pause: do as the lock does for a thread that has waited."""
        self.pauses += 1
        if self._looks or self.pauses % self._every:
            return
        self._looks = True
        work, worker = lock._work[-1], lock._worker
        work.at_rest, lock._worker = at_rest, 0
        try:
            self._look(self._kb)
        finally:
            self._looks = False
            work.at_rest, lock._worker = False, worker


def pause_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels pause as often as they can, those of closures as well."""
    monkeypatch.setattr(tidelog.engine.update.runner, "LEAST", 1)
    monkeypatch.setattr(tidelog.engine.update.runner, "STRIDE", 1)
    monkeypatch.setattr(closed_graph, "SLICE", 1)
    monkeypatch.setattr(closed_graph, "PIECE", 3)


@contextmanager
def visited(kb: KnowledgeBase, look: Look, every: int = 1) -> Iterator[Visitor]:
    """Within, `look` is called at every pause of the updates of a knowledge base, or at every second one and so on;
    and kernels pause at every step.
    """
    engine, lock = kb._engine, kb._lock
    visitor, let_in = Visitor(kb, look, every), engine.let_in

    def pause(at_rest: bool) -> None:
        try:
            visitor.visit(lock, at_rest)
        finally:
            engine.store.machine[M.ASKED] = 1

    engine.let_in = pause
    engine.store.machine[M.ASKED] = 1
    try:
        yield visitor
    finally:
        engine.let_in = let_in
        engine.store.machine[M.ASKED] = 0
