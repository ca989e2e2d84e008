"""Queries: conjunctions over the materialisation, planned like rule bodies. Nothing is materialised for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tidelog.engine.engine import Engine
from tidelog.engine.propagation.match_sets import SHOWN
from tidelog.engine.update.failures import Failures, failures_of
from tidelog.engine.update.match_rows import matches
from tidelog.language.syntax import Atom, Negation, Query, Rule, Variable, variables
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import ALL, make_plan
from tidelog.store.relation_parts import Cells

# Sorting up to this many rows takes Python less time than NumPy takes to begin.
FEW_ROWS = 64


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


def run_query(engine: Engine, query: Query) -> tuple[list[str], Cells, Failures]:
    """The names of the variables, each answer once, and the matches that failed since an expression had no value. A
    query without variables has one empty answer if it holds.
    """
    found = answer_variables(query)
    rows, failures = _matches(engine, normalise(Rule(Atom("#query", found), query.body)), lambda _: str(query))
    return answer_names(found), _distinct(rows), failures


def _distinct(rows: Cells) -> Cells:
    """Each row once, in order."""
    if len(rows) <= 1 or not rows.shape[1]:
        return rows[:1]
    if len(rows) > FEW_ROWS:
        return np.unique(rows, axis=0)
    return np.array(sorted(set(map(tuple, rows.tolist()))), np.int32)


def rule_matches(engine: Engine, rule: NormalRule) -> tuple[tuple[Variable, ...], Cells]:
    """Every instance of a rule that holds: its variables, without those that occur only in negated atoms, and their
    terms in each instance.
    """
    matched = [variable for atom in rule.positives for variable in variables(atom)]
    found = tuple(dict.fromkeys(matched + [definition.variable for definition in rule.definitions]))
    rows, _ = _matches(engine, replace(rule, head=Atom("#instance", found)), engine.rule_text)
    return found, rows


def _matches(engine: Engine, rule: NormalRule, rule_text: Callable[[int], str]) -> tuple[Cells, Failures]:
    """The head of each match of a rule, and the matches that failed."""
    plan = make_plan(rule, ALL, (), engine.store.estimate)
    runner = engine.runner()
    with engine.store.borrowed():
        offset = engine.store.assemble(plan, None, rule.head.arguments, 0)
        rows = matches(runner, SHOWN[engine.store.shown], offset, rule.head.arity)
        return rows, failures_of(engine.store, rule_text)
