"""When two rules are the same rule: equal up to the names of their variables."""

from __future__ import annotations

from collections.abc import Hashable

from tidelog.language.syntax import (
    Aggregate,
    Atom,
    BodyItem,
    Call,
    Comparison,
    Constant,
    Expression,
    Negation,
    Rule,
    Term,
    Variable,
)


def rule_key(rule: Rule) -> Hashable:
    """A key that is equal for two rules exactly when a one-to-one renaming of variables turns one into the other.

    Variables are named after the order of their first occurrence, head first; the order of the body counts.
    """
    renaming = _Renaming()
    return Rule(renaming.atom(rule.head), tuple([renaming.item(item) for item in rule.body]))


class _Renaming:
    def __init__(self) -> None:
        self._names: dict[str, Variable] = {}

    def item(self, item: BodyItem) -> BodyItem:
        match item:
            case Atom():
                return self.atom(item)
            case Negation(atom=atom):
                return Negation(self.atom(atom))
            case Comparison(operator=operator, left=left, right=right):
                return Comparison(operator, self._expression(left), self._expression(right))

    def atom(self, atom: Atom) -> Atom:
        return Atom(atom.predicate, tuple([self._term(argument) for argument in atom.arguments]))

    def _term(self, term: Term) -> Term:
        if isinstance(term, Aggregate):
            return Aggregate(term.function, self._expression(term.argument), term.distinct)
        return self._expression(term)

    def _expression(self, expression: Expression) -> Expression:
        match expression:
            case Variable(name=name):
                return self._names.setdefault(name, Variable(f"V{len(self._names)}"))
            case Call(function=function, arguments=arguments):
                return Call(function, tuple([self._expression(argument) for argument in arguments]))
            case Constant():
                return expression
