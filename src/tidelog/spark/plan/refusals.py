"""What is not for Spark: constraints, an equality, `min` and `max` within a recursion, their witnesses, aggregates of
booleans, lattices of the user's own, and time that passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.errors import ParseError, StratificationError, TidelogError
from tidelog.language.functions.registered import Lattice
from tidelog.language.parse_messages import mistake
from tidelog.language.printer import render
from tidelog.language.syntax import Aggregate, Expiry, Rule, joined_by
from tidelog.language.written.windows import windows_in
from tidelog.program.graph import RuleGraph

HINT = "the engine in memory has it: `--engine memory`, or `tidelog.KnowledgeBase`"


def check_fit(graph: RuleGraph) -> None:
    """Refuse rules that Spark cannot evaluate, and name what it is."""
    for rule in graph.rules.values():
        if rule.written.is_constraint:
            what = f"the Spark engine does not have constraints, such as `{render(rule)}`"
            raise mistake(StratificationError, rule.place, what, render(rule), HINT)
        refuse_equality(rule, "the Spark engine")
        refuse_windows(rule, "the Spark engine")
        for term in rule.head.arguments:
            if isinstance(term, Aggregate):
                _check_aggregate(graph, rule, term)


def refuse_equality(rule: Rule, who: str) -> None:
    """Refuse a rule that makes a predicate an equality; `who` does not have that."""
    if rule.written.is_equality:
        what = f"{who} does not have an equality, such as `{render(rule)}`"
        hint = f"{HINT}; or write its rules: symmetric, transitive, and replacement in each place"
        raise mistake(StratificationError, rule.place, what, render(rule), hint)


def refuse_windows(rule: Rule, who: str) -> None:
    """Refuse a rule that counts young facts alone; `who` does not have that."""
    for atom, _ in windows_in(rule.body):
        what = f"{who} does not have windows, such as `{render(atom)}`"
        raise mistake(StratificationError, atom.place, what, render(rule), HINT)


def refuse_lattices(functions: Mapping[str, object]) -> None:
    """Refuse lattices among what is registered."""
    for name, function in functions.items():
        if isinstance(function, Lattice):
            raise TidelogError(f"the Spark engine does not have lattices of your own, such as `{name}`; {HINT}")


def refuse_expiries(expiries: Iterable[Expiry], who: str = "the Spark engine") -> None:
    """Refuse facts that expire."""
    for expiry in expiries:
        what = f"{who} does not have facts that expire: `{render(expiry)}`"
        raise mistake(ParseError, expiry.place, what, render(expiry), HINT)


def _check_aggregate(graph: RuleGraph, rule: Rule, term: Aggregate) -> None:
    if joined_by(term.function) is not None:
        raise _unfit(rule, term, f"lattices of your own, such as `{joined_by(term.function)}`")
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
