"""The oracle on rules as they are written: alternatives, ranges, aggregates in bodies, records, by their definitions.

A body stands for each choice of its alternatives. Within one, atoms bind first, and then whatever is ready, in any
order: an aggregate when the variables that it shares with the body around it have values, a range when its ends have, a
pattern when what it is equal to has a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

from naive_functions import Failure, Functions, aggregate, compare, witness
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Disjunction,
    Negation,
    Node,
    Variable,
    nodes,
    rebuilt,
    variables,
)
from tidelog.values import Record

Assignment = dict[str, Constant]
Rows = Callable[[str], Iterable[tuple[Constant, ...]]]

OVER_NOTHING = {"count": 0, "sum": 0, "any": False, "all": True}


class Written:
    """Finds the matches of bodies. `rows` gives the facts of a predicate, `evaluate` the value of an expression."""

    def __init__(self, rows: Rows, evaluate: Callable[[Any, Assignment, Functions], Constant], functions: Functions):
        self._rows = rows
        self._evaluate = evaluate
        self._functions = functions

    def matches(self, head: Sequence[Any], items: Iterable[Any], given: Assignment) -> Iterator[Assignment]:
        """Every match once that extends the given values, over the variables that all choices have."""
        chosen = list(choices(items))
        names = [visible(choice) for choice in chosen]
        common = set.intersection(*names) | given.keys()
        seen = set()
        for choice in chosen:
            outer = visible([*choice, *head]) | given.keys()
            for found in self._completed(list(choice), dict(given), outer):
                match = {name: value for name, value in found.items() if name in common or len(chosen) == 1}
                key = frozenset(match.items())
                if key not in seen:
                    seen.add(key)
                    yield match

    def _completed(self, pending: list[Any], found: Assignment, outer: set[str]) -> Iterator[Assignment]:
        """What the rest of a body makes of values found so far: one item after the other, atoms first."""
        if not pending:
            yield found
            return
        for number, item in enumerate(pending):
            ways = self._ways(item, found, outer, len(pending) == sum(isinstance(each, Negation) for each in pending))
            if ways is not None:
                rest = pending[:number] + pending[number + 1 :]
                for way in ways:
                    yield from self._completed(rest, way, outer)
                return
        raise AssertionError(f"nothing binds the variables of {pending}")

    def _ways(self, item: Any, found: Assignment, outer: set[str], only_negations: bool) -> list[Assignment] | None:
        """How values can be extended so that an item holds; None where that cannot be told yet."""
        try:
            item = self._with_values(item, found, outer)
            if item is None:
                return None
            if isinstance(item, Atom):
                return self._of_atom(item, found)
            if isinstance(item, Negation):
                return None if not only_negations else [] if self._of_atom(item.atom, found) else [found]
            return self._of_comparison(item, found)
        except Failure:
            return []

    def _with_values(self, item: Any, found: Assignment, outer: set[str]) -> Any:
        """An item with values in the place of its aggregates; None where some have none yet."""
        inner = [node for node in nodes(item) if isinstance(node, Aggregate) and node.body is not None]
        if not inner:
            return item
        first = inner[0]
        shared = {variable.name for variable in variables(first)} & outer
        if not shared <= found.keys():
            return None
        given = {name: found[name] for name in shared}
        assert first.body is not None
        terms = [first.argument] if first.witness is None else [first.argument, first.witness]
        rows = []
        for match in self.matches(terms, first.body, given):
            with suppress(Failure):
                rows.append([self._evaluate(term, match, self._functions).value for term in terms])
        value = _aggregated(first, rows)
        return self._with_values(rebuilt(item, lambda node: value if node is first else None), found, outer)

    def _of_atom(self, atom: Atom, found: Assignment) -> list[Assignment] | None:
        called = [term for term in atom.arguments if isinstance(term, Call) and not is_record(term)]
        if any(variable.name not in found for term in called for variable in variables(term)):
            return None
        ways = []
        for row in self._rows(atom.predicate):
            way = dict(found)
            if all(self._unifies(term, cell, way) for term, cell in zip(atom.arguments, row, strict=True)):
                ways.append(way)
        return ways

    def _unifies(self, term: Any, cell: Constant, way: Assignment) -> bool:
        """Whether a term is a constant, once some of its variables have values, which `way` gets."""
        if isinstance(term, Variable):
            return way.setdefault(term.name, cell) == cell
        if not is_record(term):
            return self._evaluate(term, way, self._functions) == cell
        fields = cell.value.fields if isinstance(cell.value, Record) else ()
        if not isinstance(cell.value, Record) or len(fields) != len(term.arguments):
            return False
        return all(
            self._unifies(inner, Constant(field), way) for inner, field in zip(term.arguments, fields, strict=True)
        )

    def _of_comparison(self, item: Comparison, found: Assignment) -> list[Assignment] | None:
        if item.operator == "in":
            return self._of_range(item, found)
        free = [side for side in (item.left, item.right) if any(v.name not in found for v in variables(side))]
        if not free:
            left, right = (self._evaluate(side, found, self._functions).value for side in (item.left, item.right))
            return [found] if compare(item.operator, left, right) else []
        if item.operator != "=" or len(free) == 2 or not (isinstance(free[0], Variable) or is_record(free[0])):
            return None
        other = item.right if free[0] is item.left else item.left
        way = dict(found)
        return [way] if self._unifies(free[0], self._evaluate(other, found, self._functions), way) else []

    def _of_range(self, item: Comparison, found: Assignment) -> list[Assignment] | None:
        assert isinstance(item.right, Call)
        if any(variable.name not in found for variable in variables(item.right)):
            return None
        ends = [self._evaluate(term, found, self._functions).value for term in item.right.arguments]
        if not all(type(end) is int for end in ends):
            return []
        numbers = range(*ends)  # type: ignore[arg-type]
        if isinstance(item.left, Variable) and item.left.name not in found:
            return [{**found, item.left.name: Constant(number)} for number in numbers]
        value = self._evaluate(item.left, found, self._functions).value
        return [found] if type(value) in (int, float) and value in numbers else []


def _aggregated(given: Aggregate, rows: list[list[Any]]) -> Constant:
    if not rows:
        if given.function in OVER_NOTHING:
            return Constant(OVER_NOTHING[given.function])
        raise Failure
    values = [row[0] for row in rows]
    if given.witness is not None:
        return Constant(witness(given.function, values, [row[1] for row in rows]))
    return Constant(aggregate(given.function, values, given.distinct))


def choices(items: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """The bodies without alternatives that a body stands for."""
    ways = [
        [choice for alternative in item.alternatives for choice in choices(alternative)]
        if isinstance(item, Disjunction)
        else [(item,)]
        for item in items
    ]
    for chosen in product(*ways):
        yield tuple(item for part in chosen for item in part)


def visible(items: Iterable[Any]) -> set[str]:
    """The variables of items that are not only within aggregates, nor only in negated atoms."""
    bare = [rebuilt(item, lambda node: Constant(0) if _has_body(node) else None) for item in items]
    return {variable.name for item in bare if not isinstance(item, Negation) for variable in variables(item)}


def _has_body(node: Node) -> bool:
    return isinstance(node, Aggregate) and node.body is not None


def is_record(node: Any) -> bool:
    """Whether a term is a record with variables."""
    return isinstance(node, Call) and node.function == "[]"


def is_special(node: Any) -> bool:
    """Whether an item is none of those that plain rules have."""
    return any(
        isinstance(each, Disjunction)
        or _has_body(each)
        or is_record(each)
        or (isinstance(each, Comparison) and each.operator == "in")
        for each in nodes(node)
    )
