"""Records in rules, without patterns: `p([X, Y])` asks for the fields of what p holds, and is no plain atom.

A record with variables becomes calls of two functions. `make_record(X, Y)` makes a record, and `record_field(R, 0, 2)`
gives the first field of a record of two; of anything else it gives R itself, so that it always has a value. So
`p([X, Y])` is

    p(R), X = record_field(R, 0, 2), Y = record_field(R, 1, 2), R = make_record(X, Y)

where the last equation says that R is that record exactly: its size, its constants, variables that occur twice. Each
equation binds or tests, whichever comes first, so that a pattern needs no order of evaluation, and `R = [X, Y]` makes
a record as well as it takes one apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tidelog.language.syntax import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Disjunction,
    Expression,
    Negation,
    Node,
    Variable,
    WrittenItem,
    nodes,
    rebuilt,
    variables,
)

RECORD = "[]"
"""The function of a record as it is written."""

MAKE, FIELD = "make_record", "record_field"
"""The functions that records become."""

Fresh = Callable[[], Variable]
Absent = Callable[[Atom], Negation]
"""A negated atom, which may have patterns with variables of its own, without them."""


def has_records(node: Node) -> bool:
    """Whether a part of a rule has records that are no constants."""
    return any(map(_is_record, nodes(node)))


def _is_record(node: Node) -> bool:
    return isinstance(node, Call) and node.function == RECORD


def made(node: Any) -> Any:
    """A part of a rule with calls in the place of records: their variables must be bound elsewhere."""

    def change(inner: Node) -> Node | None:
        if isinstance(inner, Call) and inner.function == RECORD:
            return Call(MAKE, tuple(map(made, inner.arguments)), inner.place)
        return None

    return rebuilt(node, change)


def as_written(node: Any) -> Any:
    """A part of a rule with records in the place of the calls that make them."""

    def change(inner: Node) -> Node | None:
        if isinstance(inner, Call) and inner.function == MAKE:
            return Call(RECORD, tuple(map(as_written, inner.arguments)), inner.place)
        return None

    return rebuilt(node, change)


def matched(items: Iterable[WrittenItem], fresh: Fresh, absent: Absent) -> tuple[Any, ...]:
    """A body without records."""
    found: list[WrittenItem] = []
    for item in items:
        found += _matched(item, fresh, absent) if has_records(item) else (item,)
    return tuple(found)


def _matched(item: WrittenItem, fresh: Fresh, absent: Absent) -> Iterator[Any]:
    match item:
        case Atom():
            yield from _atom(item, fresh)
        case Negation(atom=atom):
            yield absent(atom)
        case Disjunction(alternatives=alternatives):
            ways = tuple(matched(way, fresh, absent) for way in alternatives)
            yield replace(item, alternatives=ways)
        case Comparison(operator="=", left=left, right=right):
            yield from _equal(_inside(left, fresh, absent), _inside(right, fresh, absent), item, fresh)
        case _:
            yield made(_inside(item, fresh, absent))


def _inside(node: Any, fresh: Fresh, absent: Absent) -> Any:
    """A part of a rule without records in the bodies of its aggregates, and in what these are over."""

    def change(inner: Node) -> Node | None:
        if not isinstance(inner, Aggregate) or inner.body is None:
            return None
        witness = None if inner.witness is None else made(inner.witness)
        body = matched(inner.body, fresh, absent)
        return replace(inner, argument=made(inner.argument), witness=witness, body=body)

    return rebuilt(node, change)


def head_without_records(head: Atom, fresh: Fresh, absent: Absent) -> Atom:
    """The head of a rule, which makes its records."""
    plain: Atom = made(_inside(head, fresh, absent))
    return plain


def _atom(atom: Atom, fresh: Fresh) -> Iterator[WrittenItem]:
    arguments: list[Any] = list(atom.arguments)
    tests: list[WrittenItem] = []
    for place, term in enumerate(arguments):
        if _is_record(term) and variables(term):
            arguments[place] = fresh()
            tests += _pattern(term, arguments[place], fresh)
        else:
            arguments[place] = made(term)
    yield replace(atom, arguments=tuple(arguments))
    yield from tests


def _equal(left: Expression, right: Expression, item: Comparison, fresh: Fresh) -> Iterator[WrittenItem]:
    """An equation of which a side is a record. Of two records, the fields are equal."""
    if isinstance(left, Call) and isinstance(right, Call) and _is_record(left) and _is_record(right):
        if len(left.arguments) != len(right.arguments):
            yield Comparison("=", Constant(0), Constant(1), item.place)
            return
        for one, other in zip(left.arguments, right.arguments, strict=True):
            yield from _equal(one, other, item, fresh)
        return
    for side, other in ((left, right), (right, left)):
        if isinstance(side, Call) and _is_record(side):
            name = other if isinstance(other, Variable) else fresh()
            if name is not other:
                yield Comparison("=", name, made(other), item.place)
            yield from _pattern(side, name, fresh)
            return
    yield Comparison("=", made(left), made(right), item.place)


def _pattern(record: Call, whole: Variable, fresh: Fresh) -> Iterator[WrittenItem]:
    """What says that a variable is a record, and gives its fields."""
    yield from _fields(record, whole, fresh)
    yield Comparison("=", whole, made(record), record.place)


def _fields(record: Call, whole: Variable, fresh: Fresh) -> Iterator[WrittenItem]:
    size = Constant(len(record.arguments))
    for place, term in enumerate(record.arguments):
        field = Call(FIELD, (whole, Constant(place), size), record.place)
        if isinstance(term, Variable):
            yield Comparison("=", term, field, record.place)
        elif isinstance(term, Call) and _is_record(term) and variables(term):
            part = fresh()
            yield Comparison("=", part, field, record.place)
            yield from _fields(term, part, fresh)
