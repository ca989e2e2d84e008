"""What an update would do: it is made, looked at before it is committed, and taken back.

Facts, rules and closures come back by the undo log, as after an update that fails. What an update that fails may leave
behind, since it is no fact, is put back here: the statistics of rules, and what `auto` has learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tidelog.engine.engine import Engine
from tidelog.engine.update.deltas import Outcome, Request
from tidelog.store.relation_parts import Row

Found = TypeVar("Found")


class _TakenBack(Exception):
    """The update has been looked at."""


def what_if(engine: Engine, request: Request, look: Callable[[Outcome], Found]) -> Found:
    """What `look` finds in the state that an update leads to, given its outcome, whose rows can be read only there.
    Afterwards the engine is as before. Raises what the update would raise.
    """
    found: list[Found] = []

    def before_commit(outcome: Outcome) -> None:
        found.append(look(outcome))
        raise _TakenBack

    learnt = _Learnt(engine)
    try:
        with engine.watches.resting():
            engine.update(request, before_commit)
    except _TakenBack:
        pass
    finally:
        learnt.restore()
    return found[0]


class _Learnt:
    """What an engine knows beside facts and rules, to be put back."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._of_rules = [array.copy() for array in _counts_of_rules(engine)]
        self._seconds = dict(engine.seconds)
        self._costs = engine.nodes.costs()
        closures = engine.closures.each()
        self._costs_of_bases = [(node, replace(node.costs)) for closure in closures for node in closure.base.nodes]

    def restore(self) -> None:
        engine = self._engine
        for array, before in zip(_counts_of_rules(engine), self._of_rules, strict=True):
            array[: len(before)], array[len(before) :] = before, 0
        engine.seconds = self._seconds
        engine.nodes.restore_costs(self._costs)
        for node, costs in self._costs_of_bases:
            node.costs = costs


def _counts_of_rules(engine: Engine) -> tuple[Row, Row, Row]:
    counts = engine.store.rule_counts
    return counts.work, counts.facts, counts.time
