"""What must hold of a rule or query beyond its grammar: safety, known functions, one arity for each predicate.

Safety is the condition of ZodiacEdge §2.1, with the language's additions: `=` binds as well, in any order of the
body, and a variable that occurs in a single negated atom and nowhere else means "there is none".
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from types import MappingProxyType

from tidelog.errors import ArityError, ParseError, UnsafeRuleError
from tidelog.language import syntax
from tidelog.language.elsewhere import ELSEWHERE, PREDICATES_ELSEWHERE
from tidelog.language.names import CONDITIONS, HEAD_AGGREGATES, display_predicate, is_variable_name, type_named
from tidelog.language.parse_messages import at, mistake
from tidelog.language.printer import NO_PREFIXES, render
from tidelog.language.syntax import (
    Atom,
    BodyItem,
    Call,
    Comparison,
    Constant,
    Negation,
    Query,
    Rule,
    Signature,
    Variable,
    variables,
)
from tidelog.language.written.windows import window_at

# More than anybody needs. Saved knowledge bases are checked against it when they are read.
MOST_ARGUMENTS = 1 << 16

_OF_ONE = ("abs", "floor", "ceil", "round", "sqrt", "log", "exp", "lower", "upper", "length", "str", "int", "float")
RESERVED_FUNCTIONS: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(_OF_ONE, 1) | {"min2": 2, "max2": 2, "concat": 2, "substr": 3, "record_field": 3}
)
"""Functions of the language whose names no registered function can have, and how many arguments each takes."""

_FURTHER_OF_ONE = ("trim", "type", "trunc", "sign", "log2", "log10", "degrees", "radians")
_OF_MOMENTS = ("datetime", "date", "duration", "decimal", "epoch", "from_epoch", "seconds", "year", "month", "day")
_TRIGONOMETRY = ("sin", "cos", "tan", "asin", "acos", "atan")
BUILTIN_FUNCTIONS: Mapping[str, int] = MappingProxyType(
    dict(RESERVED_FUNCTIONS)
    | dict(CONDITIONS)
    | dict.fromkeys((*_FURTHER_OF_ONE, *_TRIGONOMETRY, *_OF_MOMENTS, "hour", "minute", "second", "weekday"), 1)
    | dict.fromkeys(("pow", "atan2", "round_to", "extract", "json"), 2)
    | {"replace": 3, "split": 3}
)
"""All functions of the language; a registered one of the same name takes the place of one that is not reserved."""

VARIADIC: Mapping[str, int] = MappingProxyType({"format": 1, "make_record": 0})
"""The functions that take as many arguments as are given, and how many they take at least."""

OPERATORS: Mapping[str, int] = MappingProxyType(
    {"neg": 1} | dict.fromkeys(("+", "-", "*", "/", "%", "div", "mod", "band", "bor", "bxor", "shl", "shr", "**"), 2)
)
"""The functions written as operators."""


def check_rule(rule: Rule, functions: Set[str] = frozenset(), prefixes: Mapping[str, str] = NO_PREFIXES) -> None:
    """Refuse a rule that cannot be evaluated. `functions` are registered ones, besides those of the language."""
    _check_functions(rule, (rule.head, *rule.body), functions, prefixes)
    _check_safety(rule, variables(rule.head), prefixes)


def check_statement(
    statement: Rule | Query, functions: Set[str] = frozenset(), prefixes: Mapping[str, str] = NO_PREFIXES
) -> None:
    """Refuse a rule or a query that cannot be evaluated."""
    if isinstance(statement, Rule):
        check_rule(statement, functions, prefixes)
    else:
        check_query(statement, functions, prefixes)


def check_query(query: Query, functions: Set[str] = frozenset(), prefixes: Mapping[str, str] = NO_PREFIXES) -> None:
    """Refuse a query that cannot be evaluated."""
    _check_functions(query, query.body, functions, prefixes)
    _check_safety(query, (), prefixes)


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
            bound |= bound_by(equation, bound)
    return frozenset(bound)


def check_arities(
    items: Iterable[Atom | Rule | Query | Signature],
    known: Mapping[str, int],
    prefixes: Mapping[str, str] = NO_PREFIXES,
) -> dict[str, int]:
    """The arity of every predicate: those of `known` and of the items. Refuses a second arity for a predicate."""
    arities = dict(known)
    first_use: dict[str, Atom | Signature] = {}
    for item in items:
        for atom in _atoms(item):
            arity = arities.setdefault(atom.predicate, atom.arity)
            if arity > MOST_ARGUMENTS:
                raise too_many_arguments(display_predicate(atom.predicate, prefixes), arity)
            if arity != atom.arity:
                raise _two_arities(atom, arity, first_use.get(atom.predicate), prefixes)
            first_use.setdefault(atom.predicate, atom)
    return arities


def _atoms(item: Atom | Rule | Query | Signature) -> Iterator[Atom | Signature]:
    """Every atom of a fact, a rule (its head first) or a query, negated ones included; a declared predicate itself. A
    window is of a predicate with as many arguments.
    """
    if isinstance(item, Atom | Signature):
        if type_named(item.predicate) is None:
            yield item
        return
    if isinstance(item, Rule):
        yield item.head
    for atom in syntax.body_atoms(item):
        window = window_at(atom)
        if window is not None:
            yield replace(atom, predicate=window.predicate)
        yield atom


def suggest(
    rules: Iterable[Rule],
    given: Iterable[str],
    prefixes: Mapping[str, str] = NO_PREFIXES,
) -> list[str]:
    """Warnings for predicates that are used but neither given, derived nor declared, and whose names are those of
    functions, or resemble one that is. `given` are the predicates with facts, and those that are declared.
    """
    rules = list(rules)
    known = dict.fromkeys([*given, *(rule.head.predicate for rule in rules)])
    unknown: dict[str, Atom] = {}
    for rule in rules:
        for atom in syntax.body_atoms(rule):
            if atom.predicate not in known:
                unknown.setdefault(atom.predicate, atom)
    spellings = Spellings((*known, *CONDITIONS))
    found = [f"{at(rule.place)}{problem}" for rule in rules if (problem := _without_variables(rule)) is not None]
    for predicate, atom in unknown.items():
        meant = spellings.closest(predicate)
        if predicate in BUILTIN_FUNCTIONS:
            found.append(f"{at(atom.place)}{_function_as_predicate(atom)}")
        elif predicate in PREDICATES_ELSEWHERE:
            advice = f"did you mean {PREDICATES_ELSEWHERE[predicate]}?"
            found.append(f"{at(atom.place)}`{predicate}` is used but never given or derived; {advice}")
        elif not atom.arity and is_variable_name(predicate):
            hint = "as a predicate without arguments, and never given or derived"
            found.append(f"{at(atom.place)}`{predicate}` is used {hint}; a variable alone says nothing in a body")
        elif meant is not None:
            found.append(f"{at(atom.place)}{unknown_predicate(predicate, atom.arity, meant, prefixes)}")
    return found


def _without_variables(rule: Rule) -> str | None:
    """What to say of a rule whose variables seem to be written in lower case, as other languages write them."""
    words = [term.value for term in rule.head.arguments if isinstance(term, Constant) and isinstance(term.value, str)]
    used = {term for atom in syntax.body_atoms(rule) for term in atom.arguments}
    if not words or variables(rule) or any(term not in used for term in rule.head.arguments):
        return None
    shown = ", ".join(f"`{word}`" for word in words)
    what = "is a constant" if len(words) == 1 else "are constants"
    return f"the rule has no variable: {shown} {what}; a variable begins in upper case, `X`, or with `?`"


def _function_as_predicate(atom: Atom) -> str:
    """What to say of an atom that is no call of the function whose name it has."""
    name, wanted = atom.predicate, BUILTIN_FUNCTIONS[atom.predicate]
    if name not in CONDITIONS:
        advice = f"a function stands in a comparison, such as `{render(atom)} = X`"
    elif atom.arity != wanted:
        advice = f"the function of this name takes {_count(wanted)}, not {atom.arity}"
    else:
        advice = "for the function of this name, other atoms have to bind its variables"
    return f"`{name}` is used as a predicate, but never given or derived; {advice}"


def unknown_predicate(predicate: str, arity: int | None, meant: str | None, prefixes: Mapping[str, str]) -> str:
    """What to say of a predicate that nobody has given, derived or declared, and of the one that may be meant."""
    name = display_predicate(predicate, prefixes)
    declare = f"`@predicate {name}/{'N' if arity is None else arity}.` declares one that is empty on purpose"
    advice = declare if meant is None else f"did you mean `{display_predicate(meant, prefixes)}`?"
    return f"`{name}` is used but never given or derived; {advice}"


# ---- safety


def _names(node: syntax.Term | BodyItem) -> set[str]:
    return {variable.name for variable in variables(node)}


def bound_by(comparison: Comparison, bound: set[str]) -> set[str]:
    """The variable that an equation binds once the given ones are bound: one that is alone on its side."""
    for target, value in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
        if isinstance(target, Variable) and target.name not in bound and _names(value) <= bound:
            return {target.name}
    return set()


def _check_safety(statement: Rule | Query, head: Iterable[Variable], prefixes: Mapping[str, str]) -> None:
    bound = bound_variables(statement.body)
    for variable in (*head, *_needed(statement.body)):
        if variable.name not in bound:
            hint = _unbound_hint(statement.body, variable.name)
            raise _unsafe(statement, prefixes, variable, "is not bound", hint)
    # An unbound variable of a negated atom belongs to it alone; two atoms cannot share one.
    owners: dict[str, Negation] = {}
    for item in statement.body:
        if isinstance(item, Negation):
            for variable in variables(item):
                if variable.name not in bound and owners.setdefault(variable.name, item) is not item:
                    hint = "bind it by an atom without `not`, or write `_` in each, if each means a value of its own"
                    raise _unsafe(statement, prefixes, variable, "is shared by two negated atoms and not bound", hint)


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


def _unsafe(
    statement: Rule | Query,
    prefixes: Mapping[str, str],
    variable: Variable,
    problem: str,
    hint: str,
) -> UnsafeRuleError:
    what = f"variable `{variable.shown}` {problem} in the {'rule' if isinstance(statement, Rule) else 'query'}"
    return mistake(UnsafeRuleError, variable.place or statement.place, what, render(statement, prefixes), hint)


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
    called = {node.function for rule in rules for node in syntax.nodes(rule) if isinstance(node, Call)}
    return called - BUILTIN_FUNCTIONS.keys() - OPERATORS.keys() - VARIADIC.keys()


def _check_functions(
    statement: Rule | Query,
    parts: Iterable[BodyItem],
    functions: Set[str],
    prefixes: Mapping[str, str],
) -> None:
    calls = ((node, part) for part in parts for node in syntax.nodes(part) if isinstance(node, Call))
    for call, part in calls:
        mistaken = mistaken_call(call, functions, _REGISTER if isinstance(part, Comparison) else _NO_ATOM)
        if mistaken is not None:
            raise mistake(
                ParseError, call.place or statement.place, mistaken[0], render(statement, prefixes), mistaken[1]
            )


_REGISTER = "a Python function can be registered under this name"
_NO_ATOM = f"an atom cannot stand in another one; {_REGISTER}"


def mistaken_call(
    call: Call,
    functions: Set[str] = frozenset(),
    otherwise: str = _REGISTER,
) -> tuple[str, str] | None:
    """What is wrong with a call, and what to do: there is no such function, or it takes another number of arguments.
    `functions` are registered ones; `otherwise` is what to do where no function of the language can be meant.
    """
    name, given = call.function, len(call.arguments)
    if name in functions or given >= VARIADIC.get(name, math.inf):
        return None
    arity = BUILTIN_FUNCTIONS.get(name, OPERATORS.get(name))
    if arity is None and name in HEAD_AGGREGATES:
        hint = f"the aggregate is a whole argument of a rule's head, or has a body: `X = {name} {{ Y : edge(X, Y) }}`"
        return f"`{name}` is no function", hint
    if arity is None:
        close = Spellings([*BUILTIN_FUNCTIONS, *VARIADIC, *sorted(functions)]).closest(name)
        meant = ELSEWHERE.get(name.lower()) or (f"`{close}`" if close else "")
        return f"there is no function `{name}`", f"did you mean {meant}?" if meant else otherwise
    if given != arity:
        return f"the function `{name}` takes {_count(arity)}, not {given}", "give it that many"
    return None


# ---- arities


def _two_arities(
    atom: Atom | Signature, arity: int, first: Atom | Signature | None, prefixes: Mapping[str, str]
) -> ArityError:
    name = display_predicate(atom.predicate, prefixes)
    where = f" in line {first.place.line}, column {first.place.column}" if first and first.place else " before"
    what = f"`{name}` has {_count(atom.arity)} here, but {_count(arity)}{where}"
    hint = "a predicate has one number of arguments in a program; use another name for the other"
    return mistake(ArityError, atom.place, what, render(atom, prefixes), hint)


def too_many_arguments(name: str, arity: int) -> ArityError:
    return ArityError(
        f"`{name}` has {arity:,} arguments, and no predicate has more than {MOST_ARGUMENTS:,}; split it up"
    )


def _count(arity: int) -> str:
    return "no arguments" if arity == 0 else "1 argument" if arity == 1 else f"{arity} arguments"


# ---- names that are one typing mistake apart

# Shorter names are not compared: nearly all of them are alike.
_SHORTEST_MISSPELT = 3


class Spellings:
    """Known names under all their spellings with at most one letter left out.

    Two names that share a spelling are one mistake apart: a letter added, left out or changed, two swapped, or another
    case. A lookup costs the length of the name, however many names there are.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, list[str]] = {}
        for name in names:
            for spelling in _spellings(name):
                self._names.setdefault(spelling, []).append(name)

    def closest(self, name: str) -> str | None:
        """The known name nearest to this one, if any is near; `edge1` is not taken for a misspelling of `edge2`."""
        meetings = Counter(known for spelling in _spellings(name) for known in self._names.get(spelling, ()))
        letters = re.sub(r"\d", "", name)
        return next((known for known, _ in meetings.most_common() if re.sub(r"\d", "", known) != letters), None)


def _spellings(name: str) -> set[str]:
    folded = name.casefold()
    if len(folded) < _SHORTEST_MISSPELT:
        return {folded}
    return {folded, *(folded[:gap] + folded[gap + 1 :] for gap in range(len(folded)))}
