"""When an update is over, nothing of it is left that only Python's garbage collector would find: memory goes at once,
and a server does not stop now and then to look for it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidelog import KnowledgeBase, LimitError

RULES = {
    "copy": "q(X, Y) :- e(X, Y).",
    "recursion": "q(X, Y) :- e(X, Y). q(X, Z) :- q(X, Y), e(Y, Z), not stop(Y, Y).",
    "closure": "q(X, Y) :- e(X, Y). q(X, Z) :- q(X, Y), q(Y, Z).",
    "aggregate": "q(X, count(Y)) :- e(X, Y). r(N) :- q(_, N).",
}


@contextmanager
def circles() -> Iterator[list[str]]:
    """A context at whose end the list holds the parts of the engine that the garbage collector finds."""
    found: list[str] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += (type(part).__name__ for part in gc.garbage if type(part).__module__.startswith("tidelog.engine."))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def come_and_go(kb: KnowledgeBase, live: bool) -> None:
    """Some edges come, and some of them go."""
    for number in range(3):
        rows = [(number, number + 1), (number + 1, number + 7)]
        for update in ({"add": {"e": rows}}, {"delete": {"e": rows[:1]}}):
            if live:
                mode = kb.live()
                mode.submit(**update)
                mode.settle()
            else:
                kb.update(**update)


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("case", RULES)
def test_an_update_leaves_no_circles(case: str, live: bool) -> None:
    kb = KnowledgeBase(RULES[case])
    kb.update(add={"e": [(number, number + 1) for number in range(10, 60)], "stop": [(-1, -1)]})
    come_and_go(kb, live)  # The first updates make what stays.
    with circles() as found:
        come_and_go(kb, live)
    assert found == []


def test_an_update_that_fails_leaves_no_circles() -> None:
    kb = KnowledgeBase(RULES["copy"], max_facts=5)
    with circles() as found, pytest.raises(LimitError):
        kb.update(add={"e": [(number, number) for number in range(10)]})
    assert found == []
