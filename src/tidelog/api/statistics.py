"""What each rule has done so far, so that a slow rule is found at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.engine.engine import Engine
from tidelog.language import render
from tidelog.language.names import is_hidden
from tidelog.language.syntax import Rule
from tidelog.program.graph import Component


class ListedRule(str):
    """A rule as text, with what the rule has done so far: see `RuleStatistics`."""

    __slots__ = ("applications", "facts", "seconds")

    applications: int
    facts: int
    seconds: float

    @classmethod
    def of(cls, found: RuleStatistics) -> ListedRule:
        rule = cls(found.rule)
        rule.applications, rule.facts, rule.seconds = found.applications, found.facts, found.seconds
        return rule


@dataclass(frozen=True, slots=True)
class RuleStatistics:
    """The work of one rule since the knowledge base was made.

    `applications` are the instances of the rule that updates looked at. `facts` are those that the rule was the first
    to derive; one that goes and comes back counts once. `seconds` is the time that updates spent in the component of
    the rule (the predicates that depend on each other), divided among its rules by how long the joins of each ran. A
    closure module applies no rules: the pairs that it adds to its base count for its recursive rule, its time for all
    of its rules.

    Examples:
        >>> kb = tidelog.KnowledgeBase("back(Y, X) :- edge(X, Y).  edge(a, b).")
        >>> kb.rule_statistics()[0].applications
        1
    """

    rule: str
    seconds: float
    applications: int
    facts: int


def rule_statistics(engine: Engine, prefixes: Mapping[str, str]) -> dict[int, RuleStatistics]:
    """What each rule has done as it is written, by the number of the first of its plain rules."""
    found: dict[Rule, tuple[int, RuleStatistics]] = {}
    for number, part in _plain_statistics(engine, prefixes).items():
        rule = engine.graph.rule(number)
        first, so_far = found.get(rule.written, (number, RuleStatistics(part.rule, 0.0, 0, 0)))
        facts = 0 if is_hidden(rule.head.predicate) else part.facts
        seconds, applications = so_far.seconds + part.seconds, so_far.applications + part.applications
        found[rule.written] = first, RuleStatistics(part.rule, seconds, applications, so_far.facts + facts)
    return dict(found.values())


def _plain_statistics(engine: Engine, prefixes: Mapping[str, str]) -> dict[int, RuleStatistics]:
    rules, counts = engine.graph.rules, engine.store.rule_counts
    found: dict[int, RuleStatistics] = {}
    totals: dict[Component, tuple[float, int]] = {}  # seconds of a component, and how long all joins of its rules ran
    for number, rule in rules.items():
        component = engine.graph.component(rule.head.predicate)
        if component not in totals:
            spent = sum(engine.seconds.get(predicate, 0.0) for predicate in component.predicates)
            totals[component] = spent, sum(_entry(counts.time, other) for other in component.rules)
        seconds, total = totals[component]
        share = seconds * _entry(counts.time, number) / total if total else seconds / len(component.rules)
        applications, facts = _entry(counts.work, number), _facts(engine, component, number)
        found[number] = RuleStatistics(render(rule, prefixes), share, applications, facts)
    return found


def _entry(by_rule: npt.NDArray[np.int64], number: int) -> int:
    return int(by_rule[number]) if number < len(by_rule) else 0


def _facts(engine: Engine, component: Component, number: int) -> int:
    """The facts of a rule. One of a closure module stands for the pairs of the base, or those that recursion adds."""
    closure = engine.closures.get(engine.graph.rules[number].head.predicate)
    if closure is None or number not in closure.module.rules:
        return _entry(engine.store.rule_counts.facts, number)
    base = engine.store.find(closure.base.predicate)
    given = 0 if base is None else len(base)
    if number not in component.recursive_rules:
        return given
    return max(0, len(closure.relation) - given) if number == max(component.recursive_rules) else 0
