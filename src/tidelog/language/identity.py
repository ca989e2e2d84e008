"""When two rules are the same: equal up to the names of their variables."""

from __future__ import annotations

from collections.abc import Hashable

from tidelog.language.syntax import Aggregate, Atom, BodyItem, Call, Constant, Negation, Rule, Term, Variable


def rule_key(rule: Rule) -> Hashable:
    """A key that is equal for two rules exactly when a one-to-one renaming of variables turns one into the other.

    Variables are numbered in the order of their first occurrence, head first; the order of the body counts.
    """
    numbers: dict[str, int] = {}
    return (_atom_key(rule.head, numbers), *[_item_key(item, numbers) for item in rule.body])


def _item_key(item: BodyItem, numbers: dict[str, int]) -> Hashable:
    if isinstance(item, Atom):
        return _atom_key(item, numbers)
    if isinstance(item, Negation):
        return (Negation, _atom_key(item.atom, numbers))
    return (item.operator, _term_key(item.left, numbers), _term_key(item.right, numbers))


def _atom_key(atom: Atom, numbers: dict[str, int]) -> Hashable:
    return (atom.predicate, tuple([_term_key(argument, numbers) for argument in atom.arguments]))


def _term_key(term: Term, numbers: dict[str, int]) -> Hashable:
    match term:
        case Variable(name=name):
            return numbers.setdefault(name, len(numbers))
        case Constant():
            return term
        case Call(function=function, arguments=arguments):
            return (function, *[_term_key(argument, numbers) for argument in arguments])
        case Aggregate(function=function, argument=argument, distinct=distinct):
            return (Aggregate, function, distinct, _term_key(argument, numbers))
