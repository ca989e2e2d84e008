"""What the columns of derived predicates are called, and which kinds of constants they can hold: from the rules alone.

The types of a frame must be known before anything is computed. So the kinds of constants pass from the columns that are
given through the rules, until nothing is added: a variable has the kinds that all of its atoms allow, an expression
those of its function. What is found is an upper bound; most columns turn out to have one kind.

A column of one of the native kinds has its type. One of integers and floats is a column of doubles. Any other, of IRIs
or of several kinds, holds constants as text, as programs write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import types as T

from tidelog.formats.batch import BOOL, FLOAT, INT, KIND_OF_TYPE, KINDS, LITERAL, STR
from tidelog.language.functions.moments import OPERATIONS
from tidelog.language.names import CONDITIONS
from tidelog.language.syntax import Aggregate, Atom, Call, Constant, Rule, Signature, Term, Variable
from tidelog.program.normal_form import NormalRule
from tidelog.spark.plan.sql_expressions import Functions

Kinds = frozenset[int]
Columns = Mapping[str, Sequence[Kinds]]
"""The kinds of each column, by predicate."""

ANY: Kinds = frozenset(range(len(KINDS)))
NUMBERS: Kinds = frozenset((INT, FLOAT))
NUMBERS_AND_LITERALS: Kinds = NUMBERS | {LITERAL}  # what dates, durations, decimals and large integers come to
_NATIVE: Mapping[Kinds, T.DataType] = {
    frozenset((STR,)): T.StringType(),
    frozenset((INT,)): T.LongType(),
    frozenset((FLOAT,)): T.DoubleType(),
    frozenset((BOOL,)): T.BooleanType(),
    NUMBERS: T.DoubleType(),
}


def spark_type(kinds: Kinds) -> T.DataType:
    """The type of a column of these kinds."""
    return _NATIVE.get(kinds, T.StringType())


def is_native(kinds: Kinds) -> bool:
    """Whether a column of these kinds holds plain values, not constants as text."""
    return kinds in _NATIVE


def kinds_of_facts(facts: Iterable[Atom]) -> dict[str, list[Kinds]]:
    """The kinds of constants in the facts of a text."""
    found: dict[str, list[Kinds]] = {}
    for fact in facts:
        columns = found.setdefault(fact.predicate, [frozenset()] * fact.arity)
        columns[:] = [known | _of_term(term, {}, {}) for known, term in zip(columns, fact.arguments, strict=True)]
    return found


def kinds_of_columns(rules: Sequence[NormalRule], given: Columns, functions: Functions) -> dict[str, list[Kinds]]:
    """The kinds that the columns of all predicates can hold, with given facts."""
    found = {name: list(kinds) for name, kinds in given.items()}
    grown = True
    while grown:
        grown = False
        for rule in rules:
            head = found.setdefault(rule.head.predicate, [frozenset()] * rule.head.arity)
            more = _kinds_of_head(rule, found, functions)
            if more is not None and any(not new <= known for new, known in zip(more, head, strict=True)):
                head[:] = [known | new for known, new in zip(head, more, strict=True)]
                grown = True
    return found


def _kinds_of_head(rule: NormalRule, known: Columns, functions: Functions) -> list[Kinds] | None:
    """The kinds that a rule gives its head; None if it cannot match."""
    bound: dict[Variable, Kinds] = {}
    for atom in rule.positives:
        if atom.predicate not in known:
            return None
        for term, kinds in zip(atom.arguments, known[atom.predicate], strict=True):
            if isinstance(term, Variable):
                bound[term] = bound.get(term, ANY) & kinds
    for _ in rule.definitions:  # in an order in which each finds its variables bound
        for definition in rule.definitions:
            bound[definition.variable] = _of_term(definition.expression, bound, functions)
    if not all(bound.values()):
        return None
    return [_of_term(term, bound, functions) for term in rule.head.arguments]


def _of_term(term: Term, bound: Mapping[Variable, Kinds], functions: Functions) -> Kinds:
    match term:
        case Constant(value=value):
            return frozenset((KIND_OF_TYPE[type(value)],))
        case Variable():
            return bound.get(term, ANY)
        case Aggregate(function=function, argument=argument):
            return _AGGREGATES[function.partition(" ")[0]](_of_term(argument, bound, functions))
        case Call(function=name, arguments=arguments):
            if name in functions:
                return _of_function(functions[name])
            return _of_call(name, [_of_term(argument, bound, functions) for argument in arguments])


def _of_function(function: Callable[..., Any]) -> Kinds:
    """The kind that a registered function says that it returns; any, if it does not say."""
    wanted = getattr(function, "__annotations__", {}).get("return")
    for type_, kind in KIND_OF_TYPE.items():
        if wanted in (type_, type_.__name__):
            return frozenset((kind,))
    return ANY


def _of_call(function: str, arguments: Sequence[Kinds]) -> Kinds:
    if function == "record_field":
        return ANY if LITERAL in arguments[0] else arguments[0]
    if function in OPERATIONS and any(LITERAL in kinds for kinds in arguments):
        return NUMBERS_AND_LITERALS
    if function in _FIXED:
        return frozenset((_FIXED[function],))
    numbers = [kinds & NUMBERS for kinds in arguments]
    if function == "json":
        return ANY
    if function in ("epoch", "seconds"):
        return NUMBERS
    if function in ("**", "pow"):
        return _of_sum(*numbers) | {FLOAT}
    if function in ("min2", "max2", "neg", "abs"):
        return frozenset().union(*numbers)
    if function == "round_to":
        return numbers[0]
    return _of_sum(*numbers)


def _of_sum(*numbers: Kinds) -> Kinds:
    """An integer if all numbers can be integers, a float if one of them can be."""
    if not all(numbers):
        return frozenset()
    integer = {INT} if all(INT in kinds for kinds in numbers) else set()
    return frozenset(integer | {FLOAT for kinds in numbers if FLOAT in kinds})


_FIXED = {
    "/": FLOAT,
    **dict.fromkeys(("sqrt", "log", "exp", "float"), FLOAT),
    **dict.fromkeys(("floor", "ceil", "round", "length", "int"), INT),
    **dict.fromkeys(("div", "band", "bor", "bxor", "shl", "shr"), INT),
    **dict.fromkeys(("concat", "lower", "upper", "substr", "str", "replace", "split", "trim", "extract"), STR),
    **dict.fromkeys(("format", "type"), STR),
    **dict.fromkeys(
        ("log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "degrees", "radians"), FLOAT
    ),
    **dict.fromkeys(("trunc", "sign", "year", "month", "day", "hour", "minute", "second", "weekday"), INT),
    **dict.fromkeys(("datetime", "date", "duration", "decimal", "from_epoch", "make_record"), LITERAL),
    **dict.fromkeys(CONDITIONS, BOOL),
}
_AGGREGATES: Mapping[str, Callable[[Kinds], Kinds]] = {
    "count": lambda _: frozenset((INT,)),
    "avg": lambda _: frozenset((FLOAT,)),
    "sum": lambda kinds: NUMBERS_AND_LITERALS if LITERAL in kinds else _of_sum(kinds & NUMBERS),
    "median": lambda kinds: (kinds & NUMBERS) | {FLOAT},
    "quantile": lambda kinds: (kinds & NUMBERS) | {FLOAT},
    "stddev": lambda _: frozenset((FLOAT,)),
    "list": lambda _: frozenset((STR,)),
    "concat": lambda _: frozenset((STR,)),
    "string_agg": lambda _: frozenset((STR,)),
    "any": lambda _: frozenset((BOOL,)),
    "all": lambda _: frozenset((BOOL,)),
    "min": lambda kinds: kinds,
    "max": lambda kinds: kinds,
}


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def column_names(terms: Sequence[Term]) -> list[str]:
    """Names for the columns of a head: its variables as written, `count_Y` for an aggregate, `c1` for anything else.

    Spark does not tell upper from lower case, so of names that differ only there the later ones get a number."""
    found: list[str] = []
    for place, term in enumerate(terms):
        name = _name(term) or f"c{place}"
        taken = {other.lower() for other in found}
        number = 2
        unique = name
        while unique.lower() in taken:
            unique, number = f"{name}_{number}", number + 1
        found.append(unique)
    return found


def _name(term: Term) -> str | None:
    if isinstance(term, Variable):
        return None if term.anonymous else term.name.removeprefix("?")
    if isinstance(term, Aggregate):
        inner = _name(term.argument)
        function = term.function.partition(" ")[0]
        return f"{function}_{inner}" if inner else function
    return None


def names_of_heads(rules: Iterable[Rule], declared: Iterable[Signature] = ()) -> dict[str, list[str]]:
    """The names of the columns of each derived predicate: as they are declared, or from the first rule for it."""
    given = {each.predicate: [column.name for column in each.columns] for each in declared if each.columns}
    found: dict[str, list[str]] = {}
    for rule in rules:
        if rule.head.predicate not in found:
            found[rule.head.predicate] = given.get(rule.head.predicate) or column_names(rule.head.arguments)
    return found
