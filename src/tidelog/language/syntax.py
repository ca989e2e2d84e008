"""The syntax tree: plain frozen dataclasses for everything that the language can say.

Two nodes are equal when they say the same, wherever they stand in the text: `place` does not count. Predicate names
are stored resolved: a bare word as written, an IRI as `<http://…>`, a name with an undeclared prefix as written.
`str()` of a node is text that parses back to an equal node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, NamedTuple

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
    """`count sum min max avg median any all stddev list concat quantile string_agg` over an expression; found only
    among the arguments of a rule's head.

    `min(D, V)` and `max(D, V)` have a `witness`: they give the V of the least or greatest D. The function of
    `quantile(X, 0.9)` is `quantile 0.9`, that of `string_agg(X, ", ")` has its separator in quotes after its name, and
    that of a lattice which is registered as `hull` is `join hull`. One with a
    `body` of its own, `count { Y : edge(X, Y) }`, can stand wherever an expression can, in a rule as it is written.
    """

    function: str
    argument: Expression
    distinct: bool = False
    place: Place | None = field(default=None, compare=False, repr=False)
    witness: Expression | None = None
    body: tuple[WrittenItem, ...] | None = None


def with_option(function: str) -> tuple[str, str]:
    """The name of an aggregate, and the number or string that is a part of it, as text: `0.9` of `quantile(X, 0.9)`."""
    name, _, option = function.partition(" ")
    return name, option


JOIN = "join "
"""What the function of an aggregate begins with that joins values by a lattice of the user's own."""


def joined_by(function: str) -> str | None:
    """The lattice of the user's own that an aggregate joins values by; None for one of the language."""
    return function.removeprefix(JOIN) if function.startswith(JOIN) else None


def own_lattices(rules: Iterable[Rule]) -> set[str]:
    """The lattices of the user's own that are in the heads of rules, as they are written or plain."""
    heads = (head for rule in rules for each in (rule, rule.written) for head in (each.head, *each.also))
    terms = (term.function for head in heads for term in head.arguments if isinstance(term, Aggregate))
    return {name for function in terms if (name := joined_by(function)) is not None}


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
    """`= != < <= > >=`; `X = expression` binds X where X is free. A rule as it is written may have `in`, too, with a
    call of `range` on its right.
    """

    operator: str
    left: Expression
    right: Expression
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Disjunction(Node):
    """`( a(X) ; b(X) )`, in a rule as it is written."""

    alternatives: tuple[tuple[WrittenItem, ...], ...]
    place: Place | None = field(default=None, compare=False, repr=False)


CONSTRAINT, WARNING = "#constraint", "#warning"
"""The predicates in the heads of constraints, as these are written."""

EQUALITY = "#equality"
"""The predicate in the head of an equality, `@equality same on p, q.`, whose body names `same`, `p` and `q`."""

QUERY = "#query"
"""The predicate in the head of a query, where a rule derives its answers."""

BodyItem = Atom | Negation | Comparison
WrittenItem = BodyItem | Disjunction


@dataclass(frozen=True, slots=True)
class Rule(Node):
    """`head :- body.`; a fact is not a rule.

    A rule *as it is written* may have further heads, disjunctions, ranges and aggregates with bodies. `expansion` makes
    plain rules of it, which are what engines know. Each has the written one as its `origin`, of which it is a `part`.
    Where an equality applies to predicates of a plain rule, `program.equality` makes others of it, each a `variant` of
    that `plain` one.
    """

    head: Atom
    body: tuple[BodyItem, ...]
    place: Place | None = field(default=None, compare=False, repr=False)
    also: tuple[Atom, ...] = ()
    origin: Rule | None = None
    part: int = 0
    plain: Rule | None = None
    variant: int = 0

    @property
    def is_equality(self) -> bool:
        """Whether it is written as an equality, and so is no rule."""
        return self.head.predicate == EQUALITY

    @property
    def is_constraint(self) -> bool:
        """Whether it is written without a head: it must not match, or its matches are recorded."""
        return self.head.predicate in (CONSTRAINT, WARNING)

    @property
    def is_query(self) -> bool:
        """Whether it is written as a query, for whose answers others are made."""
        return self.head.predicate == QUERY

    @property
    def written(self) -> Rule:
        return self.origin or self.plain or self


@dataclass(frozen=True, slots=True)
class Query(Node):
    """`?- body.`"""

    body: tuple[BodyItem, ...]
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Column:
    """`from: string`: the name and the type of an argument of a predicate, or of a field of a record."""

    name: str
    type: str = "any"
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Signature(Node):
    """`edge/2` in `@predicate edge/2.`: there is such a predicate, whether or not it has facts. It may have columns,
    `edge(from: string, to: string)`, and a text about it.

    A type, `@type point = [x: int, y: int].`, is kept among predicates, under a name that none of them has
    (`names.type_name`).
    """

    predicate: str
    arity: int
    place: Place | None = field(default=None, compare=False, repr=False)
    columns: tuple[Column, ...] = ()
    text: str = ""

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """The names and types of its columns."""
        return tuple((column.name, column.type) for column in self.columns)


@dataclass(frozen=True, slots=True)
class Expiry(Node):
    """`@expire reading 60 s.`: explicit facts of a predicate go when they are so old, as it is `written` and in
    microseconds. With an `argument`, `@expire reading(_, T) 60 s by T.`, that place of a fact says since when it
    counts; without, it counts since it came in. `arity` is known where the arguments are written.
    """

    predicate: str
    written: str
    length: int
    argument: int | None = None
    arity: int | None = None
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Program(Node):
    """A whole text: its prefixes and its statements, each kind in the order of the text. `predicates` are those that it
    declares, `expiries` say which facts expire.
    """

    prefixes: tuple[tuple[str, str], ...] = ()
    facts: tuple[Atom, ...] = ()
    rules: tuple[Rule, ...] = ()
    queries: tuple[Query, ...] = ()
    predicates: tuple[Signature, ...] = ()
    expiries: tuple[Expiry, ...] = ()

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
        return (node.head, *node.also, *node.body)
    if isinstance(node, Disjunction):
        return tuple(chain.from_iterable(node.alternatives))
    if isinstance(node, Query):
        return node.body
    if isinstance(node, Aggregate):
        own = (node.argument,) if node.witness is None else (node.argument, node.witness)
        return own if node.body is None else (*own, *node.body)
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


def rebuilt(node: Any, change: Callable[[Node], Node | None]) -> Any:
    """A node with others in the place of those inside it, or of itself, for which `change` gives any."""
    new = change(node)
    if new is not None:
        return new

    def all_of(parts: Iterable[Node]) -> tuple[Any, ...]:
        return tuple([rebuilt(part, change) for part in parts])

    match node:
        case Atom() | Call():
            return replace(node, arguments=all_of(node.arguments))
        case Negation():
            return replace(node, atom=rebuilt(node.atom, change))
        case Comparison():
            return replace(node, left=rebuilt(node.left, change), right=rebuilt(node.right, change))
        case Disjunction():
            return replace(node, alternatives=tuple(map(all_of, node.alternatives)))
        case Aggregate():
            witness = None if node.witness is None else rebuilt(node.witness, change)
            body = None if node.body is None else all_of(node.body)
            return replace(node, argument=rebuilt(node.argument, change), witness=witness, body=body)
        case Query():
            return replace(node, body=all_of(node.body))
        case Rule():
            head, also = rebuilt(node.head, change), all_of(node.also)
            return replace(node, head=head, body=all_of(node.body), also=also)
    return node


def new_names(node: Node, stem: str) -> Iterator[str]:
    """Names for variables that a node does not have: the stem, then the stem with a number."""
    taken = {variable.name for variable in variables(node)}
    return (name for name in chain((stem,), map(f"{stem}{{}}".format, count(1))) if name not in taken)


def rule_key(rule: Rule) -> Hashable:
    """A key that is equal for two rules exactly when a one-to-one renaming of variables turns one into the other.

    Variables are numbered in the order of their first occurrence, head first; the order of the body counts. Variants
    of one plain rule have its key.
    """
    if rule.plain is not None:
        return rule_key(rule.plain)
    if rule.origin is not None:
        return rule_key(rule.origin), rule.part
    numbers: dict[str, int] = {}
    return tuple([_node_key(node, numbers) for part in children(rule) for node in nodes(part)])


def _node_key(node: Node, numbers: dict[str, int]) -> Hashable:
    """What a node says by itself, and how many nodes are inside it."""
    match node:
        case Variable(name=name):
            return numbers.setdefault(name, len(numbers))
        case Atom(predicate=name, arguments=arguments) | Call(function=name, arguments=arguments):
            return (type(node), name, len(arguments))
        case Aggregate(function=function, distinct=distinct, witness=witness, body=body):
            own = (Aggregate, function, distinct, witness is not None)
            return own if body is None else (*own, len(body))
        case Disjunction(alternatives=alternatives):
            return (Disjunction, *map(len, alternatives))
        case Comparison(operator=operator):
            return operator
        case Constant():
            return node
    return Negation
