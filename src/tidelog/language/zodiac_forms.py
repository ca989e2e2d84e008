"""Statements in the forms that ZodiacEdge's syntax can say, with the same meaning.

There, an expression stands in BIND alone. So those in heads, in negated atoms, in aggregates and in comparisons get
names of their own, and an equation that gives a variable its value has this variable on its left. An expression in a
positive atom stays: a fact has to match its value as a constant, whereas an equation would compare numbers by value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from tidelog.language.checks import bound_by
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    BodyItem,
    Call,
    Comparison,
    Expression,
    Negation,
    Program,
    Query,
    Rule,
    Term,
    Variable,
    new_names,
    variables,
)

_Term = TypeVar("_Term", bound=Term)


def in_zodiac_forms(program: Program) -> Program:
    """The same program with rules and queries as ZodiacEdge's syntax can say them, if it can."""
    rules = tuple([_Namer(rule, "V").rule(rule) for rule in program.rules])
    # Answers leave out the variables whose names begin with `_`.
    queries = tuple([replace(query, body=_Namer(query, "_V").body(query.body)) for query in program.queries])
    return replace(program, rules=rules, queries=queries)


class _Namer:
    """Gives names to the expressions of one statement."""

    def __init__(self, statement: Rule | Query, stem: str) -> None:
        self._names = new_names(statement, stem)

    def rule(self, rule: Rule) -> Rule:
        named: list[BodyItem] = []
        arguments = tuple([self._head_term(term, named) for term in rule.head.arguments])
        return replace(rule, head=replace(rule.head, arguments=arguments), body=(*self.body(rule.body), *named))

    def body(self, body: Iterable[BodyItem]) -> tuple[BodyItem, ...]:
        named: list[BodyItem] = []
        definitions = _definitions(body)
        for item in body:
            if isinstance(item, Comparison):
                item = definitions.get(id(item)) or self._comparison(item, named)
            elif isinstance(item, Negation):
                arguments = tuple([self._simple(term, named) for term in item.atom.arguments])
                item = Negation(replace(item.atom, arguments=arguments))
            named.append(item)
        return tuple(named)

    def _comparison(self, item: Comparison, named: list[BodyItem]) -> Comparison:
        return replace(item, left=self._simple(item.left, named), right=self._simple(item.right, named))

    def _head_term(self, term: Term, named: list[BodyItem]) -> Term:
        if not isinstance(term, Aggregate):
            return self._simple(term, named)
        if term.witness is not None:
            return term  # which the printer refuses
        argument = term.argument if isinstance(term.argument, Variable) else self._name(term.argument, named)
        return replace(term, argument=argument)

    def _simple(self, term: _Term, named: list[BodyItem]) -> _Term | Variable:
        """A variable or constant with the same value."""
        return self._name(term, named) if isinstance(term, Call) else term

    def _name(self, expression: Expression, named: list[BodyItem]) -> Variable:
        variable = Variable(next(self._names))
        named.append(Comparison("=", variable, expression, expression.place))
        return variable


def _definitions(body: Iterable[BodyItem]) -> dict[int, Comparison]:
    """The equations that give a variable its value, by identity, each with this variable on its left."""
    items = list(body)
    bound = {variable.name for item in items if isinstance(item, Atom) for variable in variables(item)}
    pending = [item for item in items if isinstance(item, Comparison) and item.operator == "="]
    found: dict[int, Comparison] = {}
    while ready := next((item for item in pending if bound_by(item, bound)), None):
        (name,) = bound_by(ready, bound)
        bound.add(name)
        pending.remove(ready)
        on_left = isinstance(ready.left, Variable) and ready.left.name == name
        found[id(ready)] = ready if on_left else replace(ready, left=ready.right, right=ready.left)
    return found
