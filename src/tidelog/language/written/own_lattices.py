"""Lattices of the user's own in the heads of rules: `hull(B)`, which reads like a function, joins values where `hull`
is one of them. With two arguments it is a function, the join of both, and can stand wherever an expression can.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from tidelog.errors import ParseError
from tidelog.language.parse_messages import mistake
from tidelog.language.printer import render
from tidelog.language.syntax import JOIN, Aggregate, Atom, Call, Rule, Term, nodes


def with_own_lattices(rule: Rule, lattices: Set[str]) -> Rule:
    """A rule with its joins taken for aggregates, before it is expanded."""
    named = [node for node in nodes(rule) if isinstance(node, Call) and node.function in lattices]
    if not named:
        return rule
    head, *also = [_with_joins(head, lattices) for head in (rule.head, *rule.also)]
    found = replace(rule, head=head, also=tuple(also))
    for call in nodes(found):
        if isinstance(call, Call) and call.function in lattices and len(call.arguments) != 2:
            name = call.function
            hint = f"it is a whole argument of a rule's head, `{name}(X)`, or the join of two values, `{name}(X, Y)`"
            raise mistake(
                ParseError, call.place or rule.place, f"`{render(call)}` cannot stand here", render(rule), hint
            )
    return found


def _with_joins(head: Atom, lattices: Set[str]) -> Atom:
    return replace(head, arguments=tuple([_join(term, lattices) for term in head.arguments]))


def _join(term: Term, lattices: Set[str]) -> Term:
    if isinstance(term, Call) and term.function in lattices and len(term.arguments) == 1:
        return Aggregate(JOIN + term.function, term.arguments[0], place=term.place)
    return term
