"""Queries: conjunctions over the materialisation, planned like rule bodies. Nothing is materialised for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from tidelog.engine.engine import Engine
from tidelog.engine.propagation.match_sets import SHOWN
from tidelog.engine.update.failures import NO_FAILURES, Failures, failures_of
from tidelog.engine.update.match_rows import distinct, distinct_matches, matches
from tidelog.language.syntax import Atom, Constant, Query, Rule, Term, Variable, variables
from tidelog.language.written.independent_parts import independent_parts
from tidelog.program.equality import answer_rules
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.program.plan import ALL, make_plan
from tidelog.store.relation_parts import Cells


def derived_answers(engine: Engine, head: Atom) -> tuple[list[str], Cells]:
    """The answers of a query that have been derived."""
    relation = engine.store.find(head.predicate)
    rows = np.empty((0, head.arity), np.int32) if relation is None else relation.rows()
    return answer_names(variables(head)), distinct(rows.copy())


def answer_names(found: Sequence[Variable]) -> list[str]:
    """The names of variables in answers: without `?`, except where `X` and `?X` both occur."""
    written = {variable.name for variable in found}
    bare = [variable.name.removeprefix("?") for variable in found]
    return [variable.name if name in written else name for variable, name in zip(found, bare, strict=True)]


def run_query(
    engine: Engine,
    query: Query,
    most: int | None = None,
    patience: int | None = None,
    answer: tuple[Atom, list[Rule]] | None = None,
) -> tuple[list[str], Cells, Failures]:
    """The names of the variables, each answer once, and the matches that failed since an expression had no value. A
    query without variables has one empty answer if it holds. Its parts, if any, have been derived. When there are
    `most` answers, no others are looked for; when about so many candidates have been looked at as `patience` says, it
    raises `OutOfPatience`. `answer` is what `answer_rules` gives for the query, if somebody knows that already.
    """
    head, rules = answer or answer_rules(query, engine.graph.equality)
    found = tuple(variables(head))
    parts = [_with_parts_apart(engine, rule, lambda _: str(query), most, patience) for rule in rules]
    rows, failures = zip(*parts, strict=True)
    answers = distinct(rows[0] if len(rows) == 1 else np.concatenate(rows))[:most]
    return answer_names(found), answers, sum(failures, NO_FAILURES)


def _with_parts_apart(
    engine: Engine, rule: Rule, rule_text: Callable[[int], str], most: int | None, patience: int | None
) -> tuple[Cells, Failures]:
    """The head of each match of a rule. Of a part of its body that has nothing to do with the rest of it, one match is
    looked for.
    """
    parts = independent_parts(rule)
    if sum(map(len, parts)) == len(rule.body):
        parts = parts[1:]  # Something has to be left.
    failures = NO_FAILURES
    for part in parts:
        found, failed = _matches(engine, normalise(Rule(Atom("#part"), part)), rule_text, 1, patience)
        failures += failed
        if not len(found):
            return np.empty((0, rule.head.arity), np.int32), failures
    rest = rule
    if parts:
        taken = {id(item) for part in parts for item in part}
        rest = replace(rule, body=tuple(item for item in rule.body if id(item) not in taken))
    rows, failed = _matches(engine, normalise(rest), rule_text, most, patience, engine.limits.max_matches)
    return rows, failures + failed


def needs_parts(head: Atom, rules: Iterable[Rule]) -> bool:
    """Whether a query, of which these are the `answer_rules`, has parts that must be derived before it is answered."""
    return any(rule.head.predicate != head.predicate for rule in rules)


def originals(engine: Engine, predicate: str, row: Cells, most: int | None = None) -> Cells:
    """The rows that stand for a fact under the equality of the program, itself among them if it is one."""
    equality = engine.graph.equality
    if equality is None or not equality.applies_to(predicate) or engine.store.find(predicate) is None:
        return np.empty((0, len(row)), np.int32)
    terms: list[Term] = []
    pairs: list[Atom] = []
    for place, term in enumerate(row):
        constant, other = Constant(engine.store.terms.table.decode(int(term))), Variable(f"V{place}")
        # A constant that is equal to others is equal to itself, too.
        is_met = engine.holds(equality.predicate, np.array([term, term], np.int32))
        terms.append(other if is_met else constant)
        pairs += [Atom(equality.predicate, (other, constant))] if is_met else []
    rule = Rule(Atom("#original", tuple(terms)), (Atom(predicate, tuple(terms)), *pairs))
    return distinct(_matches(engine, normalise(rule), engine.rule_text, most)[0])


def rule_matches(engine: Engine, rule: NormalRule) -> tuple[tuple[Variable, ...], Cells]:
    """Every instance of a rule that holds: its variables, without those that occur only in negated atoms, and their
    terms in each instance.
    """
    matched = [variable for atom in rule.positives for variable in variables(atom)]
    found = tuple(dict.fromkeys(matched + [definition.variable for definition in rule.definitions]))
    rows, _ = _matches(engine, replace(rule, head=Atom("#instance", found)), engine.rule_text)
    return found, rows


def _matches(
    engine: Engine,
    rule: NormalRule,
    rule_text: Callable[[int], str],
    most: int | None = None,
    patience: int | None = None,
    limit: int | None = None,
) -> tuple[Cells, Failures]:
    """The head of each match of a rule, or `most` different ones, and the matches that failed. Of all of them there can
    be no more than a `limit`.
    """
    plan = make_plan(rule, ALL, (), engine.store.estimate)
    runner = engine.runner()
    with engine.store.borrowed(), runner.patience(patience):
        offset = engine.store.assemble(plan, None, rule.head.arguments, 0)
        sets, width = SHOWN[engine.store.shown], rule.head.arity
        if most is None:
            runner.max_rows = limit
            rows = matches(runner, sets, offset, width)
        else:
            rows = distinct_matches(runner, sets, offset, width, most if width else 1)
        return rows, failures_of(engine.store, rule_text)
