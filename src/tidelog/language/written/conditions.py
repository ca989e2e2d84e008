"""Functions that stand as conditions: `matches(W, "a.*")` alone in a body means that it is true.

It reads like an atom. It is the function if a function has the name, if everything else in the body binds its
variables, and if nothing says that there is such a predicate: neither the text, which may declare it, give facts or
have rules for it, nor what is known beside the text, nor square brackets, with which it is always an atom. As a
condition it becomes `matches(W, "a.*") = true`, and after `not`, `= false`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, TypeVar

from tidelog.language.checks import bound_variables
from tidelog.language.names import CONDITIONS
from tidelog.language.records.patterns import has_records
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    BodyItem,
    Call,
    Comparison,
    Constant,
    Disjunction,
    Negation,
    Node,
    Query,
    Rule,
    Signature,
    Variable,
    WrittenItem,
    rebuilt,
    variables,
)

_IN_BRACKETS = re.compile(rf"({'|'.join(CONDITIONS)})\s*\[")

_Statement = TypeVar("_Statement", Rule, Query)


@dataclass(frozen=True, slots=True)
class Names:
    """What names mean beside a text: registered functions, predicates that are there, those whose columns have been
    given names, and lattices of the user's own. A text that was printed has no conditions that look like atoms.
    """

    functions: frozenset[str] = frozenset()
    predicates: frozenset[str] = frozenset()
    declared: tuple[Signature, ...] = ()
    lattices: frozenset[str] = frozenset()
    printed: bool = False

    @classmethod
    def of(
        cls,
        functions: Iterable[str],
        predicates: Set[str],
        declared: Iterable[Signature] = (),
        lattices: frozenset[str] = frozenset(),
    ) -> Names:
        """The same, with no more predicates than matter."""
        registered = frozenset(functions) - lattices
        known = frozenset(name for name in (*CONDITIONS, *registered) if name in predicates)
        return cls(registered, known, tuple(each for each in declared if each.columns), lattices)


NO_NAMES = Names()


def names_of_printed(lattices: Iterable[str] = ()) -> Names:
    """What names mean in rules that have been printed, among which are these lattices."""
    return Names(lattices=frozenset(lattices), printed=True)


PRINTED = names_of_printed()


def with_conditions(statement: _Statement, names: Names, predicates: Set[str], special: bool) -> _Statement:
    """A rule or query with its conditions, before it is expanded. `predicates` are those of its text; if it is
    `special`, it may have bodies inside its body.
    """
    if not (any(_may_be(item, names) for item in statement.body) or special):
        return statement
    finder = _Finder(names, predicates)
    body = finder.body(statement.body)
    if isinstance(statement, Query):
        return replace(statement, body=body)
    bound = finder.bound(statement.body)
    head, *also = [finder.inside(head, bound) for head in (statement.head, *statement.also)]
    return replace(statement, head=head, body=body, also=tuple(also))


class _Finder:
    """Finds the conditions of a body, and of those inside it: of alternatives and of aggregates."""

    def __init__(self, names: Names, predicates: Set[str]) -> None:
        self._names = names
        self._predicates = predicates

    def body(self, items: Sequence[WrittenItem], outer: frozenset[str] = frozenset()) -> tuple[Any, ...]:
        """A body with its conditions, inside another one that binds the variables `outer`."""
        bound = outer | self.bound(items)
        return tuple([self._item(item, bound) for item in items])

    def bound(self, items: Sequence[WrittenItem]) -> frozenset[str]:
        """The names of the variables that a body binds by anything but what may be a condition."""
        return bound_variables([self._binding(item) for item in items if not self._may_be(item)])

    def _binding(self, item: WrittenItem) -> BodyItem:
        """A plain item that binds what an item does."""
        if isinstance(item, Disjunction):
            common = frozenset.intersection(*map(self.bound, item.alternatives))
            return Atom("", tuple(map(Variable, common)))
        if isinstance(item, Comparison) and item.operator == "in":
            return Comparison("=", item.left, Constant(0))
        if has_records(item) and not isinstance(item, Negation):
            return Atom("", tuple(variables(item)))  # a pattern gives all its variables values
        plain: BodyItem = rebuilt(item, lambda node: Constant(0) if _has_body(node) else None)
        return plain

    def _item(self, item: WrittenItem, bound: frozenset[str]) -> WrittenItem:
        if self._may_be(item):
            return _condition(item) if all(variable.name in bound for variable in variables(item)) else item
        if isinstance(item, Disjunction):
            return replace(item, alternatives=tuple([self.body(body, bound) for body in item.alternatives]))
        return self.inside(item, bound)

    def inside(self, node: Any, bound: frozenset[str]) -> Any:
        """A part of a rule with the conditions of the aggregates in it."""

        def found(inner: Node) -> Node | None:
            if not isinstance(inner, Aggregate) or inner.body is None:
                return None
            known = bound | self.bound(inner.body)
            return replace(inner, argument=self.inside(inner.argument, known), body=self.body(inner.body, bound))

        return rebuilt(node, found)

    def _may_be(self, item: WrittenItem) -> TypeGuard[Atom | Negation]:
        return _may_be(item, self._names) and _atom(item).predicate not in self._predicates


def _has_body(node: Node) -> bool:
    return isinstance(node, Aggregate) and node.body is not None


def written_as_predicates(text: str) -> set[str]:
    """The names of functions that a text writes with square brackets, as predicates."""
    return set(_IN_BRACKETS.findall(text)) if "[" in text else set()


def _atom(item: WrittenItem) -> Atom:
    assert isinstance(item, Atom | Negation)
    return item.atom if isinstance(item, Negation) else item


def _may_be(item: WrittenItem, names: Names) -> TypeGuard[Atom | Negation]:
    if not isinstance(item, Atom | Negation):
        return False
    atom = _atom(item)
    name = atom.predicate
    if name in names.predicates or any(isinstance(term, Aggregate) for term in atom.arguments):
        return False
    return name in names.functions or CONDITIONS.get(name) == atom.arity


def _condition(item: Atom | Negation) -> Comparison:
    atom = _atom(item)
    call = Call(atom.predicate, atom.arguments, atom.place)  # type: ignore[arg-type]
    return Comparison("=", call, Constant(not isinstance(item, Negation)), atom.place)


def is_condition_of(rule: Rule, function: str) -> bool:
    """Whether a rule has a condition that is a call of a function."""
    comparisons = [item for item in rule.body if isinstance(item, Comparison) and isinstance(item.right, Constant)]
    return any(isinstance(item.left, Call) and item.left.function == function for item in comparisons)
