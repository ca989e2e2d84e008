"""Queries: conjunctions over the materialisation, planned like rule bodies. Nothing is materialised for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidelog.engine.engine import Engine
from tidelog.engine.propagation.match_sets import HOLDING
from tidelog.engine.update.match_rows import matches
from tidelog.language.syntax import Atom, Negation, Query, Rule, Variable, variables
from tidelog.machine import registers as M
from tidelog.program.normal_form import normalise
from tidelog.program.plan import ALL, make_plan
from tidelog.store.relation_parts import Cells


def answer_variables(query: Query) -> tuple[Variable, ...]:
    """The named variables of a query in the order of the text, without those that occur only in negated atoms."""
    positive = {v for item in query.body if not isinstance(item, Negation) for v in variables(item)}
    found = dict.fromkeys(variable for item in query.body for variable in variables(item))
    return tuple(variable for variable in found if variable in positive and not variable.anonymous)


def answer_names(found: Sequence[Variable]) -> list[str]:
    """The names of variables in answers: without `?`, except where `X` and `?X` both occur."""
    written = {variable.name for variable in found}
    bare = [variable.name.removeprefix("?") for variable in found]
    return [variable.name if name in written else name for variable, name in zip(found, bare, strict=True)]


def run_query(engine: Engine, query: Query) -> tuple[list[str], Cells, int]:
    """The names of the variables, each answer once, and how many matches failed since an expression had no value. A
    query without variables has one empty answer if it holds.
    """
    found = answer_variables(query)
    rule = normalise(Rule(Atom("#query", found), query.body))
    plan = make_plan(rule, ALL, (), engine.store.estimate)
    runner = engine.runner()
    with engine.store.borrowed():
        offset = engine.store.assemble(plan, None, rule.head.arguments, 0)
        rows = matches(runner, HOLDING, offset, len(found))
    errors = int(runner.machine[M.ERRORS])
    return answer_names(found), np.unique(rows, axis=0) if found else rows[:1], errors
