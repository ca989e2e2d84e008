"""The syntax tree: plain frozen dataclasses for everything that the language can say.

Two nodes are equal when they say the same, wherever they stand in the text: `place` does not count. Predicate names
are stored resolved: a bare word as written, an IRI as `<http://…>`, a name with an undeclared prefix as written.
`str()` of a node is text that parses back to an equal node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.values import Row, Value, canonical, identity


class Node:
    """A part of the syntax tree; `str()` prints it back."""

    __slots__ = ()

    def __str__(self) -> str:
        from tidelog.language.printer import render

        return render(self)


class Place(NamedTuple):
    """Where a node begins in its source text; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, eq=False)
class Variable(Node):
    """`X`, `Name` or `?x` (the name keeps its `?`); each `_` of a rule gets a name `_1`, `_2`, … of its own."""

    name: str
    place: Place | None = field(default=None, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Variable) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def anonymous(self) -> bool:
        return self.name.startswith("_")


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Node):
    """A ground term; equal only to a constant of the same type and value."""

    value: Value
    place: Place | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", canonical(self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and identity(self.value) == identity(other.value)

    def __hash__(self) -> int:
        return hash(identity(self.value))


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of expressions. Operators are functions too: `+ - * / %`, and `neg` for the sign."""

    function: str
    arguments: tuple[Expression, ...]
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """`count sum min max avg median` over an expression; found only among the arguments of a rule's head."""

    function: str
    argument: Expression
    distinct: bool = False
    place: Place | None = field(default=None, compare=False, repr=False)


Expression = Variable | Constant | Call
Term = Variable | Constant | Call | Aggregate


@dataclass(frozen=True, slots=True)
class Atom(Node):
    """A predicate and its arguments; in a body, it asks for a matching fact."""

    predicate: str
    arguments: tuple[Term, ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def arity(self) -> int:
        return len(self.arguments)

    @property
    def row(self) -> Row:
        """The values of a fact."""
        return tuple(term.value for term in self.arguments if isinstance(term, Constant))


@dataclass(frozen=True, slots=True)
class Negation(Node):
    """`not A`: there is no fact that matches, whatever the variables found only here stand for."""

    atom: Atom


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """`= != < <= > >=`; `X = expression` binds X where X is free."""

    operator: str
    left: Expression
    right: Expression
    place: Place | None = field(default=None, compare=False, repr=False)


BodyItem = Atom | Negation | Comparison

_WITH_ARGUMENTS = (Atom, Call)


@dataclass(frozen=True, slots=True)
class Rule(Node):
    """`head :- body.`; a fact is not a rule."""

    head: Atom
    body: tuple[BodyItem, ...]
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query(Node):
    """`?- body.`"""

    body: tuple[BodyItem, ...]
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Program(Node):
    """A whole text: its prefixes and its statements, each kind in the order of the text."""

    prefixes: tuple[tuple[str, str], ...] = ()
    facts: tuple[Atom, ...] = ()
    rules: tuple[Rule, ...] = ()
    queries: tuple[Query, ...] = ()

    @property
    def rows(self) -> dict[str, list[Row]]:
        """The facts, as rows by predicate."""
        rows: dict[str, list[Row]] = {}
        for fact in self.facts:
            rows.setdefault(fact.predicate, []).append(fact.row)
        return rows


def body_atoms(item: Rule | Query) -> Iterator[Atom]:
    """Every atom of a body, the negated ones too."""
    for part in item.body:
        if isinstance(part, Negation):
            yield part.atom
        elif isinstance(part, Atom):
            yield part


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly inside a term or an item of a body."""
    if isinstance(node, _WITH_ARGUMENTS):
        return node.arguments
    if isinstance(node, Comparison):
        return (node.left, node.right)
    if isinstance(node, Negation):
        return (node.atom,)
    return (node.argument,) if isinstance(node, Aggregate) else ()


def variables(node: Term | BodyItem | Rule) -> list[Variable]:
    """Every occurrence of a variable in a node, from left to right (a rule: its head first)."""
    found: list[Variable] = []
    _gather(node, found)
    return found


def _gather(node: Term | BodyItem | Rule, found: list[Variable]) -> None:
    """Written for speed: checks and plans call it dozens of times for each rule."""
    if isinstance(node, Variable):
        found.append(node)
    elif isinstance(node, _WITH_ARGUMENTS):
        for argument in node.arguments:
            if isinstance(argument, Variable):
                found.append(argument)
            elif not isinstance(argument, Constant):
                _gather(argument, found)
    elif isinstance(node, Aggregate):
        _gather(node.argument, found)
    elif isinstance(node, Negation):
        _gather(node.atom, found)
    elif isinstance(node, Comparison):
        _gather(node.left, found)
        _gather(node.right, found)
    elif isinstance(node, Rule):
        _gather(node.head, found)
        for item in node.body:
            _gather(item, found)
