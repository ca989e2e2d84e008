"""The syntax tree: plain frozen dataclasses for everything that the language can say.

Two nodes are equal when they say the same, wherever they stand in the text: `place` does not count. Predicate names
are stored resolved: a bare word as written, an IRI as `<http://…>`, a name with an undeclared prefix as written.
`str()` of a node is text that parses back to an equal node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count
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

    @property
    def shown(self) -> str:
        """The name as messages give it, which do not tell one `_` from another."""
        return "_" if self.anonymous and self.name[1:].isdecimal() else self.name


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


@dataclass(frozen=True, slots=True, eq=False)
class Parameter(Constant):
    """`$name` in a question: a constant that is given with the question and not by its text; `value` is the name.
    `language.parameters` puts the values in, before anything is evaluated.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameter) and self.value == other.value

    def __hash__(self) -> int:
        return hash((Parameter, self.value))


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of expressions. Operators are functions too: `+ - * / %`, and `neg` for the sign."""

    function: str
    arguments: tuple[Expression, ...]
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """`count sum min max avg median any all` over an expression; found only among the arguments of a rule's head.

    `min(D, V)` and `max(D, V)` have a `witness`: they give the V of the least or greatest D.
    """

    function: str
    argument: Expression
    distinct: bool = False
    place: Place | None = field(default=None, compare=False, repr=False)
    witness: Expression | None = None


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
class Signature(Node):
    """`edge/2` in `@predicate edge/2.`: there is such a predicate, whether or not it has facts."""

    predicate: str
    arity: int
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Program(Node):
    """A whole text: its prefixes and its statements, each kind in the order of the text. `predicates` are those that it
    declares.
    """

    prefixes: tuple[tuple[str, str], ...] = ()
    facts: tuple[Atom, ...] = ()
    rules: tuple[Rule, ...] = ()
    queries: tuple[Query, ...] = ()
    predicates: tuple[Signature, ...] = ()

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
    """The nodes directly inside a term, an item of a body, a rule or a query, from left to right (a rule: its head
    first).
    """
    if isinstance(node, (Atom, Call)):
        return node.arguments
    if isinstance(node, Comparison):
        return (node.left, node.right)
    if isinstance(node, Negation):
        return (node.atom,)
    if isinstance(node, Rule):
        return (node.head, *node.body)
    if isinstance(node, Query):
        return node.body
    if isinstance(node, Aggregate):
        return (node.argument,) if node.witness is None else (node.argument, node.witness)
    return ()


def nodes(node: Node) -> list[Node]:
    """A node and all that is inside it, outer nodes first."""
    found = [node]
    for inner in children(node):
        found += (inner,) if isinstance(inner, Variable) else nodes(inner)
    return found


def variables(node: Node) -> list[Variable]:
    """Every occurrence of a variable in a node, from left to right."""
    if isinstance(node, Variable):
        return [node]
    found: list[Variable] = []
    for inner in children(node):
        # Not just `variables(inner)`: checks and plans call this dozens of times for each rule.
        if isinstance(inner, Variable):
            found.append(inner)
        elif not isinstance(inner, Constant):
            found += variables(inner)
    return found


def new_names(node: Node, stem: str) -> Iterator[str]:
    """Names for variables that a node does not have: the stem, then the stem with a number."""
    taken = {variable.name for variable in variables(node)}
    return (name for name in chain((stem,), map(f"{stem}{{}}".format, count(1))) if name not in taken)


def rule_key(rule: Rule) -> Hashable:
    """A key that is equal for two rules exactly when a one-to-one renaming of variables turns one into the other.

    Variables are numbered in the order of their first occurrence, head first; the order of the body counts.
    """
    numbers: dict[str, int] = {}
    return tuple([_node_key(node, numbers) for part in (rule.head, *rule.body) for node in nodes(part)])


def _node_key(node: Node, numbers: dict[str, int]) -> Hashable:
    """What a node says by itself, and how many nodes are inside it."""
    match node:
        case Variable(name=name):
            return numbers.setdefault(name, len(numbers))
        case Atom(predicate=name, arguments=arguments) | Call(function=name, arguments=arguments):
            return (type(node), name, len(arguments))
        case Aggregate(function=function, distinct=distinct, witness=witness):
            return (Aggregate, function, distinct, witness is not None)
        case Comparison(operator=operator):
            return operator
        case Constant():
            return node
    return Negation
