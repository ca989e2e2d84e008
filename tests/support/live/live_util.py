"""Rules, facts and steps for tests of the fully dynamic mode."""

from __future__ import annotations

from collections.abc import Mapping

from engine_util import explicit, facts_of, materialisation
from naive import State, change, without_empty
from tidelog import KnowledgeBase
from tidelog.live.fully_dynamic import Live

PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."


COMPUTES = PATHS + 'far(X, concat("to ", str(Y))) :- path(X, Y), X != Y. reach(X, count(Y)) :- path(X, Y).'


def chain(length: int, first: int = 0) -> Mapping[str, list[tuple[int, int]]]:
    return {"edge": [(number, number + 1) for number in range(first, first + length)]}


def in_the_middle(live: Live) -> None:
    """Work until an update is in work and pauses."""
    live.step()
    assert live.pending


def check_settled(kb: KnowledgeBase, live: Live, before: State, after: State) -> None:
    net = live.settle()
    expected = without_empty(after.materialise())
    assert materialisation(kb) == expected
    assert explicit(kb) == without_empty(after.explicit)
    added, removed = change(without_empty(before.materialise()), expected)
    assert facts_of(net.added) == without_empty(added)
    assert facts_of(net.removed) == without_empty(removed)
