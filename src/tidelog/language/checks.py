"""What must hold of a rule or query beyond its grammar: safety, known functions, one arity for each predicate.

Safety is the condition of ZodiacEdge §2.1, with the language's additions: `=` binds as well, in any order of the
body, and a variable that occurs in a single negated atom and nowhere else means "there is none".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType

from tidelog.errors import ArityError, ParseError, UnsafeRuleError
from tidelog.language.names import display_predicate
from tidelog.language.printer import render
from tidelog.language.spelling import Spellings
from tidelog.language.syntax import (
    Atom,
    BodyItem,
    Call,
    Comparison,
    Negation,
    Node,
    Place,
    Query,
    Rule,
    Term,
    Variable,
    body_atoms,
    children,
    variables,
)

# More than anybody needs. Saved knowledge bases are checked against it when they are read.
MOST_ARGUMENTS = 1 << 16

_NO_PREFIXES: Mapping[str, str] = MappingProxyType({})

_OF_ONE = ("abs", "floor", "ceil", "round", "sqrt", "log", "exp", "lower", "upper", "length", "str", "int", "float")
BUILTIN_FUNCTIONS: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(_OF_ONE, 1) | {"min2": 2, "max2": 2, "concat": 2, "substr": 3}
)
"""The functions of the language and how many arguments each takes."""

OPERATORS: Mapping[str, int] = MappingProxyType({"+": 2, "-": 2, "*": 2, "/": 2, "%": 2, "neg": 1})
"""The functions written as operators."""


def check_rule(rule: Rule, functions: Set[str] = frozenset(), prefixes: Mapping[str, str] = _NO_PREFIXES) -> None:
    """Refuse a rule that cannot be evaluated. `functions` are registered ones, besides those of the language."""
    _check(_Statement(rule, "rule", prefixes), [rule.head, *rule.body], variables(rule.head), functions)


def check_query(query: Query, functions: Set[str] = frozenset(), prefixes: Mapping[str, str] = _NO_PREFIXES) -> None:
    """Refuse a query that cannot be evaluated."""
    _check(_Statement(query, "query", prefixes), query.body, (), functions)


def bound_variables(body: Iterable[BodyItem]) -> frozenset[str]:
    """The names of the variables that positive atoms bind, and those that `=` binds from them, in any order."""
    items = list(body)
    atoms = [item for item in items if isinstance(item, Atom)]
    bound = {argument.name for atom in atoms for argument in atom.arguments if isinstance(argument, Variable)}
    equations = [item for item in items if isinstance(item, Comparison) and item.operator == "="]
    known = -1
    while equations and len(bound) > known:
        known = len(bound)
        for equation in equations:
            bound |= _bound_by(equation, bound)
    return frozenset(bound)


def check_arities(
    items: Iterable[Atom | Rule | Query], known: Mapping[str, int], prefixes: Mapping[str, str] = _NO_PREFIXES
) -> dict[str, int]:
    """The arity of every predicate: those of `known` and of the items. Refuses a second arity for a predicate."""
    arities = dict(known)
    first_use: dict[str, Atom] = {}
    for item in items:
        for atom in atoms(item):
            arity = arities.setdefault(atom.predicate, atom.arity)
            if arity > MOST_ARGUMENTS:
                raise too_many_arguments(display_predicate(atom.predicate, prefixes), arity)
            if arity != atom.arity:
                raise _two_arities(atom, arity, first_use.get(atom.predicate), prefixes)
            first_use.setdefault(atom.predicate, atom)
    return arities


def atoms(item: Atom | Rule | Query) -> Iterator[Atom]:
    """Every atom of a fact, a rule (its head first) or a query, negated ones included."""
    if isinstance(item, Atom):
        yield item
        return
    if isinstance(item, Rule):
        yield item.head
    yield from body_atoms(item)


def suggest(
    rules: Iterable[Rule],
    given: Iterable[str],
    queries: Iterable[Query] = (),
    prefixes: Mapping[str, str] = _NO_PREFIXES,
) -> list[str]:
    """Warnings for predicates that are used but neither given nor derived, and whose names resemble one that is."""
    rules = list(rules)
    known = dict.fromkeys([*given, *(rule.head.predicate for rule in rules)])
    unknown: dict[str, Atom] = {}
    for body in [rule.body for rule in rules] + [query.body for query in queries]:
        for atom in atoms(Query(body)):
            if atom.predicate not in known:
                unknown.setdefault(atom.predicate, atom)
    spellings = Spellings(known)
    near = [(atom, spellings.closest(predicate)) for predicate, atom in unknown.items()]
    return [
        f"{_at(atom.place)}`{display_predicate(atom.predicate, prefixes)}` is used but never given or derived; "
        f"did you mean `{display_predicate(meant, prefixes)}`?"
        for atom, meant in near
        if meant is not None
    ]


@dataclass(frozen=True, slots=True)
class _Statement:
    """The rule or query being checked, as messages show it."""

    node: Rule | Query
    kind: str
    prefixes: Mapping[str, str]

    def __str__(self) -> str:
        return f"    {render(self.node, self.prefixes)}"


def _check(statement: _Statement, parts: Iterable[BodyItem], head: Iterable[Variable], functions: Set[str]) -> None:
    _check_functions(statement, parts, functions)
    bound = bound_variables(statement.node.body)
    _check_bound(statement, (*head, *_needed(statement.node.body)), bound)
    _check_existential(statement, bound)


# ---- safety


def _names(node: Term | BodyItem) -> set[str]:
    return {variable.name for variable in variables(node)}


def _bound_by(comparison: Comparison, bound: set[str]) -> set[str]:
    """The variable that an equation binds once the given ones are bound: one that is alone on its side."""
    for target, value in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
        if isinstance(target, Variable) and target.name not in bound and _names(value) <= bound:
            return {target.name}
    return set()


def _needed(body: Iterable[BodyItem]) -> Iterator[Variable]:
    """The occurrences of variables in comparisons and expressions, which must be bound elsewhere."""
    for item in body:
        if isinstance(item, Comparison):
            yield from variables(item)
        else:
            atom = item.atom if isinstance(item, Negation) else item
            for argument in atom.arguments:
                if isinstance(argument, Call):
                    yield from variables(argument)


def _check_bound(statement: _Statement, needed: Iterable[Variable], bound: frozenset[str]) -> None:
    for variable in needed:
        if variable.name not in bound:
            raise _unsafe(statement, variable, "is not bound", _unbound_hint(statement.node.body, variable.name))


def _check_existential(statement: _Statement, bound: frozenset[str]) -> None:
    """An unbound variable of a negated atom belongs to it alone; two atoms cannot share one."""
    owners: dict[str, Negation] = {}
    for item in statement.node.body:
        if isinstance(item, Negation):
            for variable in variables(item):
                if variable.name not in bound and owners.setdefault(variable.name, item) is not item:
                    hint = "bind it by an atom without `not`, or write `_` in each, if each means a value of its own"
                    raise _unsafe(statement, variable, "is shared by two negated atoms and not bound", hint)


def _unsafe(statement: _Statement, variable: Variable, problem: str, hint: str) -> UnsafeRuleError:
    name = "_" if re.fullmatch(r"_\d+", variable.name) else variable.name
    place = _at(variable.place or statement.node.place)
    return UnsafeRuleError(f"{place}variable `{name}` {problem} in the {statement.kind}\n{statement}\nhint: {hint}")


def _unbound_hint(body: Iterable[BodyItem], name: str) -> str:
    holders = {type(item) for item in body if name in _names(item)}
    if Negation in holders:
        return "a negated atom binds nothing; add an atom without `not` that holds the variable"
    if Atom in holders:
        return "an expression as an argument binds nothing; write the variable alone as an argument of an atom"
    return "a variable of a head, comparison or expression must be in an atom of the body, or be given by `=`"


# ---- functions


def foreign_functions(rules: Iterable[Rule]) -> set[str]:
    """The names of the Python functions that rules call."""
    called = {call.function for rule in rules for part in (rule.head, *rule.body) for call in _calls(part)}
    return called - BUILTIN_FUNCTIONS.keys() - OPERATORS.keys()


def _calls(node: Node) -> list[Call]:
    """The calls inside a node, outer ones first."""
    return [inner for inner in nodes(node) if isinstance(inner, Call)]


def nodes(node: Node) -> list[Node]:
    """A part of a rule and all that is inside it, outer nodes first."""
    found = [node]
    for inner in children(node):
        found += (inner,) if isinstance(inner, Variable) else nodes(inner)
    return found


def _check_functions(statement: _Statement, parts: Iterable[BodyItem], functions: Set[str]) -> None:
    for part in parts:
        for call in _calls(part):
            if call.function not in functions:
                _check_builtin(statement, call, functions)


def _check_builtin(statement: _Statement, call: Call, functions: Set[str]) -> None:
    arity = BUILTIN_FUNCTIONS.get(call.function, OPERATORS.get(call.function))
    if arity is None:
        close = Spellings([*BUILTIN_FUNCTIONS, *sorted(functions)]).closest(call.function)
        hint = f"did you mean `{close}`?" if close else "a Python function can be registered under this name"
        raise _bad_call(statement, call, f"there is no function `{call.function}`", hint)
    if len(call.arguments) != arity:
        what = f"the function `{call.function}` takes {_count(arity)}, not {len(call.arguments)}"
        raise _bad_call(statement, call, what, "give it that many")


def _bad_call(statement: _Statement, call: Call, what: str, hint: str) -> ParseError:
    place = call.place or statement.node.place or Place(1, 1)
    return ParseError(f"{_at(place)}{what}\n{statement}\nhint: {hint}", place.line, place.column)


# ---- arities


def _two_arities(atom: Atom, arity: int, first: Atom | None, prefixes: Mapping[str, str]) -> ArityError:
    name = display_predicate(atom.predicate, prefixes)
    where = f" in line {first.place.line}, column {first.place.column}" if first and first.place else " before"
    return ArityError(
        f"{_at(atom.place)}`{name}` has {_count(atom.arity)} here, but {_count(arity)}{where}\n"
        f"    {render(atom, prefixes)}\n"
        "hint: a predicate has one number of arguments in a program; use another name for the other"
    )


def too_many_arguments(name: str, arity: int) -> ArityError:
    return ArityError(
        f"`{name}` has {arity:,} arguments, and no predicate has more than {MOST_ARGUMENTS:,}; split it up"
    )


def _count(arity: int) -> str:
    return "no arguments" if arity == 0 else "1 argument" if arity == 1 else f"{arity} arguments"


def _at(place: Place | None) -> str:
    return f"line {place.line}, column {place.column}: " if place else ""
