"""Constants as text and as values: numbers, quoted strings with their escapes, RDF literals.

Text that is no constant raises `DataError` with the reason; the parser adds the place.
"""

from __future__ import annotations

import math
import re

from tidelog.errors import DataError
from tidelog.language.names import bracketed, code_point, is_variable_name, is_word, unescape_iri
from tidelog.records import RECORD
from tidelog.values import IRI, LANGUAGE_TAG, XSD, Literal, Record, Value, canonical, double_name, integer_of

# Words that mean something else in some places when they are not quoted.
_NO_BARE_STRINGS = frozenset({"not", "true", "false", "distinct"})

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", '"': '"', "'": "'", "\\": "\\"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f\x7f\x85\u2028\u2029]')
_SHORT_ESCAPES = {character: f"\\{letter}" for letter, character in _ESCAPED.items() if letter not in "'0"}

_LITERAL = re.compile(rf'("(?:[^"\\]|\\.)*")(?:@({LANGUAGE_TAG})|\^\^<([^<>]*)>)', re.DOTALL)


def number(text: str) -> int | float:
    """`42`, `-7`, `3.5`, `1e-3`."""
    if "." not in text and "e" not in text and "E" not in text:
        return integer(text)
    value = float(text)
    if math.isinf(value):
        raise DataError(f"the number {text} is too large for a float (64 bits)")
    return value


def integer(text: str) -> int:
    """An integer of 64 bits."""
    value = integer_of(text)
    if value is None:
        raise DataError(f"the integer {_shortened(text)} does not fit into 64 bits")
    return value


def unquote(text: str) -> str:
    """The string of `"…"` or `'…'`."""
    content = text[1:-1]
    return _ESCAPE.sub(_unescaped, content) if "\\" in content else content


def render_value(value: Value) -> str:
    """A value as text that parses back to the same constant."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else f'"{double_name(value)}"^^<{XSD}double>'
        case IRI():
            return bracketed(value.value)
        case Record():
            return value.text
        case Literal():
            return literal_text(value)
        case _:
            bare = is_word(value) and not is_variable_name(value) and value not in _NO_BARE_STRINGS
            return value if bare else quote(value)


def literal_text(value: Literal) -> str:
    """A literal with its language or its datatype."""
    return quote(value.text) + (f"@{value.language}" if value.language else f"^^{bracketed(value.datatype)}")


def parse_literal(text: str) -> Literal:
    """The literal that `literal_text` wrote; never a plain value, whatever the datatype."""
    match = _LITERAL.fullmatch(text)
    if match is None:
        raise DataError(f'{_shortened(text)} is no literal such as "text"@language or "text"^^<datatype>')
    found = Literal(unquote(match[1]), unescape_iri(match[3] or ""), match[2] or "")
    if found.datatype != RECORD:
        return found
    record = canonical(found)
    assert isinstance(record, Record)
    return record


def quote(text: str) -> str:
    """A string in double quotes."""
    return f'"{_TO_ESCAPE.sub(_escaped, text)}"'


def _unescaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2]
    if digits:
        return code_point(digits)
    if match[3] not in _ESCAPED:
        raise DataError(f"the string has an unknown escape `{match[0]}`; a backslash itself is written `\\\\`")
    return _ESCAPED[match[3]]


def _escaped(match: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}"


def _shortened(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:27]}…"
