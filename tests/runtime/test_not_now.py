"""Readers who do not wait: they are answered at once, or told that they would have to wait."""

from __future__ import annotations

import threading

import pytest

from tidelog import KnowledgeBase
from tidelog.runtime.knowledge_lock import NotNow


def test_who_does_not_wait_is_answered_at_once_or_not_at_all() -> None:
    kb = KnowledgeBase("big(X, Y) :- n(X), n(Y).  n(1).  n(2).")
    knowledge = kb._knowledge
    assert len(knowledge.questions.query_at("big(X, Y)", waits=False)[1]) == 4
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with knowledge.lock.working():
            inside.set()
            leave.wait(20)

    worker = threading.Thread(target=work)
    worker.start()
    inside.wait(20)
    try:
        with pytest.raises(NotNow):
            knowledge.questions.query_at("big(X, Y)", waits=False)
    finally:
        leave.set()
        worker.join(20)
    assert len(knowledge.questions.query_at("big(X, Y)", waits=False)[1]) == 4


def test_who_does_not_wait_gives_a_long_search_up() -> None:
    kb = KnowledgeBase("n(0).")
    kb.update(add={"n": [(number,) for number in range(400)]})
    knowledge = kb._knowledge
    with pytest.raises(NotNow):
        knowledge.questions.query_at("n(X), n(Y), X + Y = -1", waits=False)
    assert len(knowledge.questions.query_at("n(X), X < 3", waits=False)[1]) == 3
    assert len(knowledge.questions.query_at("n(X), n(Y), X + Y = 1")[1]) == 2
