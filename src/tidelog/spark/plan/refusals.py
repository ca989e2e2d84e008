"""Rules that are not for Spark: `min` and `max` within a recursion, their witnesses, and aggregates of booleans."""

from __future__ import annotations

from tidelog.errors import StratificationError
from tidelog.language.parse_messages import mistake
from tidelog.language.printer import render
from tidelog.language.syntax import Aggregate, Rule
from tidelog.program.graph import RuleGraph

HINT = "the engine in memory has it: `--engine memory`, or `tidelog.KnowledgeBase`"


def check_fit(graph: RuleGraph) -> None:
    """Refuse rules that Spark cannot evaluate, and name what it is."""
    for rule in graph.rules.values():
        for term in rule.head.arguments:
            if isinstance(term, Aggregate):
                _check_aggregate(graph, rule, term)


def _check_aggregate(graph: RuleGraph, rule: Rule, term: Aggregate) -> None:
    if rule.head.predicate in graph.component(rule.head.predicate).lattices:
        raise _unfit(rule, term, f"`{term.function}` within a recursion")
    if term.witness is not None:
        raise _unfit(rule, term, f"the witness `{render(term)}`")
    if term.function in ("any", "all"):
        raise _unfit(rule, term, f"the aggregate `{term.function}`")


def _unfit(rule: Rule, term: Aggregate, what: str) -> StratificationError:
    return mistake(
        StratificationError, term.place or rule.place, f"the Spark engine does not have {what}", render(rule), HINT
    )
