"""Declared types: which constants fit a column, and the checks of a program's own constants against them.

`@predicate edge(from: string, weight: float).` gives the arguments of a predicate names and types, and
`@type point = [x: int, y: int].` does so for the fields of a record. A type that is declared may be its own field:
`nil` fits every type of records, so that lists have an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidelog.errors import ParseError
from tidelog.language.checks import Spellings
from tidelog.language.literals import render_value
from tidelog.language.names import TYPES, display_predicate, type_name, type_named
from tidelog.language.parse_messages import mistake
from tidelog.language.printer import NO_PREFIXES, declaration, render
from tidelog.language.syntax import Atom, Constant, Query, Rule, Signature, body_atoms
from tidelog.moments import XSD
from tidelog.values import IRI, Literal, Record, Value

Declared = Mapping[str, Signature]
"""The predicates and types that are declared, by their names among predicates."""

NIL = "nil"
"""The constant that fits every type of records."""

_DATATYPES = {"date": "date", "datetime": "dateTime", "time": "time", "duration": "dayTimeDuration"}


def _is_literal(*datatypes: str) -> Callable[[Value], bool]:
    full = {XSD + datatype for datatype in datatypes}
    return lambda value: isinstance(value, Literal) and value.datatype in full and value.value is not None


_is_large, _is_decimal = _is_literal("integer"), _is_literal("precisionDecimal")

_FITS: Mapping[str, Callable[[Value], bool]] = {
    "any": lambda value: True,
    "string": lambda value: type(value) is str,
    "int": lambda value: type(value) is int or _is_large(value),
    "float": lambda value: type(value) is float,
    "number": lambda value: type(value) in (int, float) or _is_large(value) or _is_decimal(value),
    "bool": lambda value: type(value) is bool,
    "iri": lambda value: isinstance(value, IRI),
    "decimal": _is_decimal,
    **{name: _is_literal(datatype) for name, datatype in _DATATYPES.items()},
}
assert tuple(sorted(_FITS)) == tuple(sorted(TYPES)), "every type says what fits it"


def fits(value: Value, type_: str, declared: Declared) -> bool:
    """Whether a constant is of a type. Records may be nested as deeply as they like."""
    waiting = [(value, type_)]
    while waiting:
        value, type_ = waiting.pop()
        simple = _FITS.get(type_)
        if simple is not None:
            if not simple(value):
                return False
        elif type(value) is not str or value != NIL:
            columns = declared[type_name(type_)].columns
            if not isinstance(value, Record) or len(value) != len(columns):
                return False
            waiting += [(field, column.type) for field, column in zip(value, columns, strict=True)]
    return True


def misfit(value: Value, type_: str) -> str:
    """What to say of a constant that is not of its type."""
    return f"{render_value(value):.60} is no {type_}"


def is_typed(signature: Signature) -> bool:
    """Whether a declaration says more of a predicate than its columns' names."""
    return any(column.type != "any" for column in signature.columns)


# Types that say how a cell of a table of texts is read.
_OF_CELLS = frozenset(("string", "int", "float", "bool", "iri"))


def cell_types(declared: Declared) -> dict[str, tuple[str, ...]]:
    """How the cells of tables of texts are read, by predicate: as the types of their columns, or each by its looks."""
    return {
        name: tuple(column.type if column.type in _OF_CELLS else "auto" for column in signature.columns)
        for name, signature in declared.items()
        if is_typed(signature)
    }


def merged(known: Declared, added: Iterable[Signature]) -> dict[str, Signature]:
    """What is declared after some more declarations. One that gives only a number of arguments takes nothing back."""
    found = dict(known)
    for signature in added:
        before = found.get(signature.predicate)
        if before is None or signature.columns or signature.text:
            found[signature.predicate] = signature
    return found


_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("text", "str", "symbol", "varchar", "char"), "string"),
    **dict.fromkeys(("integer", "long", "bigint", "unsigned", "i32", "i64", "u32", "u64", "signed", "usize"), "int"),
    **dict.fromkeys(("double", "real", "f32", "f64"), "float"),
    **dict.fromkeys(("timestamp", "moment"), "datetime"),
    **dict.fromkeys(("interval", "timedelta"), "duration"),
    **dict.fromkeys(("boolean", "bit"), "bool"),
}
"""What types of other languages are called here."""


def check_declarations(added: Iterable[Signature], declared: Declared, prefixes: Mapping[str, str]) -> None:
    """Refuse declarations with types that nobody has declared, and a second type of a name, beside those that are
    `declared` already.
    """
    known, signatures = dict(declared), list(added)
    for signature in signatures:
        name, before = type_named(signature.predicate), known.get(signature.predicate)
        if name is not None and before is not None and before.columns != signature.columns:
            what = f"`{name}` is declared with other fields before: `{declaration(before)}`"
            raise mistake(ParseError, signature.place, what, declaration(signature), "give this one another name")
        known[signature.predicate] = signature
    for signature in signatures:
        for column in signature.columns:
            if column.type not in _FITS and type_name(column.type) not in known:
                close = Spellings([*TYPES, *filter(None, map(type_named, known))]).closest(column.type)
                close = _ELSEWHERE.get(column.type.lower(), close)
                hint = f"did you mean `{close}`?" if close else "declare it: `@type point = [x: int, y: int].`"
                what = f"there is no type `{column.type}`"
                raise mistake(ParseError, column.place, what, declaration(signature, prefixes), hint)


def check_types(
    items: Iterable[Atom | Rule | Query], declared: Declared, prefixes: Mapping[str, str] = NO_PREFIXES
) -> None:
    """Refuse facts, rules and queries with constants that do not fit their columns."""
    if not any(map(is_typed, declared.values())):
        return
    for item in items:
        atoms = [item] if isinstance(item, Atom) else [*_heads(item), *body_atoms(item)]
        for atom in atoms:
            _check_atom(atom, item, declared, prefixes)


def _heads(item: Rule | Query) -> list[Atom]:
    return [item.head] if isinstance(item, Rule) else []


def _check_atom(atom: Atom, item: Atom | Rule | Query, declared: Declared, prefixes: Mapping[str, str]) -> None:
    signature = declared.get(atom.predicate)
    if signature is None or len(signature.columns) != atom.arity:
        return
    for term, column in zip(atom.arguments, signature.columns, strict=True):
        if type(term) is Constant and not fits(term.value, column.type, declared):
            name = display_predicate(atom.predicate, prefixes)
            what = f"{misfit(term.value, column.type)}, as the column `{column.name}` of `{name}` is declared"
            hint = "change the constant, or the declaration"
            raise mistake(ParseError, term.place or atom.place, what, render(item, prefixes), hint)
