"""Names: words, IRIs and prefixed names, as users write them and as the syntax tree stores them.

A predicate is stored resolved: a bare word as written, an IRI as `<http://…>`, a prefixed name as the IRI that it
stands for if its prefix is declared, and as written otherwise. Characters that cannot stand inside the brackets are
always escaped in the same way, so that resolving a resolved name changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from tidelog.errors import DataError, ParseError, TidelogError
from tidelog.iris import bracketed as bracketed
from tidelog.iris import code_point as code_point
from tidelog.iris import escape_iri as escape_iri
from tidelog.iris import unescape_iri as unescape_iri
from tidelog.values import is_unicode

CONDITIONS: Mapping[str, int] = MappingProxyType(
    {"is_int": 1, "is_float": 1} | dict.fromkeys(("contains", "starts_with", "ends_with", "matches", "has_json"), 2)
)
"""The functions whose values are booleans, so that they can stand as conditions, and how many arguments each takes."""

RESERVED = frozenset({"not", "true", "false"})

AGGREGATES = frozenset({"count", "sum", "min", "max", "avg", "median"})
# Aggregates in heads alone: elsewhere, a function may have the name.
HEAD_AGGREGATES = frozenset({"any", "all", "count_distinct", "stddev", "quantile", "list", "concat", "string_agg"})

TYPES = ("any", "string", "int", "float", "number", "bool", "iri", "date", "datetime", "time", "duration", "decimal")
"""The types that columns can be declared with, besides those of records."""

_WORD = re.compile(r"[^\W\d]\w*")
_LOCAL = re.compile(r"\w+(?:-+\w+)*")
_PREFIXED = re.compile(r"(?:[^\W\d]\w*(?:-+\w+)*)?:\w+(?:-+\w+)*")
_BRACKETED = re.compile(r'<(?:[^\x00-\x20<>"{}|^`\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>')


def is_word(text: str) -> bool:
    """Whether a text is letters, digits and `_`, not beginning with a digit."""
    return _WORD.fullmatch(text) is not None


def is_variable_name(word: str) -> bool:
    """Whether a bare word is a variable where a term is expected: it begins with `_` or an upper-case letter."""
    initial = word[0]
    return initial == "_" or initial.isupper() or initial.istitle()


def expand(prefixed: str, prefixes: Mapping[str, str]) -> str | None:
    """The IRI that a prefixed name stands for; None where its prefix is not declared."""
    prefix, _, local = prefixed.partition(":")
    namespace = prefixes.get(prefix)
    return None if namespace is None else namespace + local


def shorten(iri: str, prefixes: Mapping[str, str]) -> str | None:
    """The prefixed name of an IRI under the longest namespace that fits; None where none does."""
    fitting = [
        (len(namespace), f"{prefix}:{iri[len(namespace) :]}")
        for prefix, namespace in prefixes.items()
        if iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace))
    ]
    return max(fitting)[1] if fitting else None


def is_prefixed(text: str) -> bool:
    """Whether a text has the form of a prefixed name, `ex:name`."""
    return _PREFIXED.fullmatch(text) is not None


def resolve_predicate(name: str, prefixes: Mapping[str, str]) -> str:
    """The resolved form of a predicate's name as users write it: `edge`, `ex:Person` or `<http://…>`."""
    if not isinstance(name, str):
        raise TidelogError(f'a predicate is named by a text, such as "edge", not by {name!r:.60}')
    if is_word(name) and name not in RESERVED:
        return name
    if is_prefixed(name):
        iri = expand(name, prefixes)
        return name if iri is None else bracketed(iri)
    if _BRACKETED.fullmatch(name) and is_unicode(name):
        with suppress(DataError):
            return bracketed(unescape_iri(name[1:-1]))
    shown = name if is_unicode(name) else name.encode(errors="backslashreplace").decode()
    raise ParseError(f"`{shown}` is not the name of a predicate{_name_hint(shown)}", 1, 1)


def display_predicate(predicate: str, prefixes: Mapping[str, str]) -> str:
    """A resolved predicate as users read it: in the prefixed form where a declared prefix fits."""
    if not predicate.startswith("<"):
        return predicate
    if is_auxiliary(predicate):
        return _BLANK.sub("_", _text_of(predicate))
    return shorten(unescape_iri(predicate[1:-1]), prefixes) or predicate


def _name_hint(name: str) -> str:
    if name in RESERVED:
        return ": the word has a meaning of its own in the language"
    if "://" in name:
        return f"\nhint: an IRI stands in angle brackets: `<{name.strip('<>')}>`"
    return "\nhint: a name is a word of letters, digits and `_`, a prefixed name `ex:name`, or an IRI `<http://…>`"


# ---- auxiliary predicates, which stand for parts of rules that have no name

AUXILIARY = "tidelog:part/"
_EVIDENT = "evident-"
_ONCE = "once-"
_REFUSING, _WARNING = "constraint-", "warning-"
_LONGEST_TEXT = 400
_BLANK = re.compile(r"\x1f([0-9]+);")


def auxiliary(key: str, text: str, evident: bool = False) -> str:
    """The predicate of a part of a rule. Its text tells people what a fact says, with a blank for each argument; an
    evident one needs no proof.
    """
    shown = text if len(text) <= _LONGEST_TEXT else "…"
    return bracketed(f"{AUXILIARY}{_EVIDENT if evident else ''}{key}/{shown}")


def is_auxiliary(predicate: str) -> bool:
    """Whether a predicate stands for a part of a rule, and is not shown."""
    return predicate.startswith(f"<{AUXILIARY}")


def constraint(key: str, text: str, warns: bool) -> str:
    """The predicate of the matches of a constraint: each of them violates it."""
    return bracketed(f"{AUXILIARY}{_WARNING if warns else _REFUSING}{key}/{text}")


def is_constraint(predicate: str) -> bool:
    """Whether facts of a predicate violate a constraint."""
    return predicate.startswith((f"<{AUXILIARY}{_REFUSING}", f"<{AUXILIARY}{_WARNING}"))


def is_refusing(predicate: str) -> bool:
    """Whether facts of a predicate violate a constraint, and are refused."""
    return predicate.startswith(f"<{AUXILIARY}{_REFUSING}")


def is_evident(predicate: str) -> bool:
    """Whether an auxiliary predicate needs no proof."""
    return predicate.startswith(f"<{AUXILIARY}{_EVIDENT}")


def is_single_value(predicate: str) -> bool:
    """Whether an auxiliary predicate is the value of an aggregate over all there is: it has one fact at most."""
    return is_auxiliary(predicate) and _text_of(predicate).startswith(f"{blank(0)} = ")


def is_hidden(predicate: str) -> bool:
    """Whether users do not see a predicate: parts of rules, and what engines keep beside those of a program (`#…`)."""
    return predicate[0] == "#" or is_auxiliary(predicate)


def checked_once(key: str, text: str) -> str:
    """The predicate of a part of a body that has nothing to do with the rest of it. Proofs leave it out."""
    return auxiliary(f"{_ONCE}{key}", text)


def is_checked_once(predicate: str) -> bool:
    """Whether a predicate stands for a part of a body that has nothing to do with the rest of it."""
    return predicate.startswith(f"<{AUXILIARY}{_ONCE}")


_TYPE = "#type "


def type_name(name: str) -> str:
    """The name under which a declared type is kept among predicates."""
    return _TYPE + name


def type_named(predicate: str) -> str | None:
    """The name of the type that is kept under a predicate's name; None for a predicate."""
    return predicate.removeprefix(_TYPE) if predicate.startswith(_TYPE) else None


def blank(position: int) -> str:
    return f"\x1f{position};"


def fill_in(predicate: str, arguments: Sequence[str]) -> str:
    """What a fact of an auxiliary predicate says."""
    return _BLANK.sub(lambda match: arguments[int(match[1])], _text_of(predicate))


def _text_of(predicate: str) -> str:
    return unescape_iri(predicate[1:-1]).removeprefix(AUXILIARY).partition("/")[2]
