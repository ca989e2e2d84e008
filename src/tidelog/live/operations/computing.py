"""Expressions and comparisons of rules: the engine computes them, so that there is one arithmetic.

The values that a step needs become facts of a relation that lasts as long as the question, and the step becomes a query
over it. Answers are remembered until terms may be given back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidelog.engine.engine import Engine
from tidelog.engine.queries import rule_matches
from tidelog.language.syntax import Atom, Comparison, Expression, Rule, Variable, variables
from tidelog.live.operations.facts import Row
from tidelog.machine import flags as F
from tidelog.program.normal_form import Definition, NormalRule

_RESULT = Variable("#result")
_GIVEN = "#given"

Item = Comparison | Expression


class Computer:
    """What comparisons and expressions come to. The caller has the lock of the knowledge base."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[Item, dict[Row, int | None]] = {}

    def forget(self) -> None:
        """Term numbers may get another meaning."""
        self._known.clear()

    def holds(self, comparison: Comparison, rows: Sequence[Row]) -> list[bool]:
        """Whether a comparison holds for the values of its variables, in the order in which they occur."""
        return [found is not None for found in self._answers(comparison, rows)]

    def values(self, expression: Expression, rows: Sequence[Row]) -> list[int | None]:
        """The value of an expression for each row of its variables; None if it has none."""
        return self._answers(expression, rows)

    def _answers(self, item: Item, rows: Sequence[Row]) -> list[int | None]:
        known = self._known.setdefault(item, {})
        missing = list(dict.fromkeys(row for row in rows if row not in known))
        if missing:
            known.update(dict.fromkeys(missing))
            known.update(self._asked(item, missing))
        return [known[row] for row in rows]

    def _asked(self, item: Item, rows: Sequence[Row]) -> dict[Row, int]:
        given = Atom(_GIVEN, variables_of(item))
        compares = isinstance(item, Comparison)
        definitions = () if isinstance(item, Comparison) else (Definition(_RESULT, item),)
        conditions = (item,) if isinstance(item, Comparison) else ()
        rule = NormalRule(Rule(given, ()), given, (given,), (), definitions, conditions, ())
        store = self._engine.store
        with store.borrowed():
            relation = store.relation(_GIVEN, given.arity)
            relation.load(np.array(rows, np.int32).reshape(len(rows), given.arity), F.IN | F.OLD)
            _, cells = rule_matches(self._engine, rule)
        width = given.arity
        return {tuple(row[:width]): 1 if compares else row[width] for row in cells.tolist()}


def variables_of(item: Item) -> tuple[Variable, ...]:
    """The variables that an answer depends on, each once."""
    return tuple(dict.fromkeys(variables(item)))
