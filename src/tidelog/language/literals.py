"""Constants between text and value: numbers, quoted strings with their escapes, RDF literals.

A literal whose datatype is one of `xsd:string`, `xsd:integer`, `xsd:decimal`, `xsd:double` and `xsd:boolean` is the
plain value; any other one, and one whose text does not fit its datatype, is a `Literal`. What cannot be read raises
ValueError with the reason, for the parser to put in its place.
"""

from __future__ import annotations

import math
import re

from tidelog.language.names import code_point, escape_iri, is_variable_name, is_word, unescape_iri
from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Literal, Value

XSD = "http://www.w3.org/2001/XMLSchema#"

# Words that are read as something else, somewhere, when they stand without quotes.
_NO_BARE_STRINGS = frozenset({"not", "true", "false", "distinct"})

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", '"': '"', "'": "'", "\\": "\\"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f\x7f\x85\u2028\u2029]')
_SHORT_ESCAPES = {character: f"\\{letter}" for letter, character in _ESCAPED.items() if letter not in "'0"}

_LITERAL = re.compile(r'("(?:[^"\\]|\\.)*")(?:@([A-Za-z0-9-]+)|\^\^<([^<>]*)>)', re.DOTALL)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL_DOUBLES = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def number(text: str) -> int | float:
    """`42`, `-7`, `3.5`, `1e-3`."""
    if not any(character in ".eE" for character in text):
        return integer(text)
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text} is too large for a float (64 bits)")
    return value


def integer(text: str) -> int:
    """An integer of 64 bits; Python would take any."""
    if not _fits(text):
        raise ValueError(f"the integer {_shortened(text)} does not fit into 64 bits")
    return _converted(text)


def unquote(text: str) -> str:
    """The string of `"…"` or `'…'`."""
    content = text[1:-1]
    return _ESCAPE.sub(_unescaped, content) if "\\" in content else content


def literal(text: str, datatype: str = "", language: str = "") -> Value:
    """The value of an RDF literal, its datatype given as a full IRI."""
    if language:
        return Literal(text, language=language.lower())
    if not datatype:
        return text
    value = _plain(text, datatype.removeprefix(XSD)) if datatype.startswith(XSD) else None
    return Literal(text, datatype=datatype) if value is None else value


def render_value(value: Value) -> str:
    """A value as text that parses back to the same constant."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _render_float(value)
        case IRI():
            return f"<{escape_iri(value.value)}>"
        case Literal():
            return literal_text(value)
        case _:
            return value if _is_bare_string(value) else quote(value)


def literal_text(value: Literal) -> str:
    """A literal with its language or its datatype."""
    return quote(value.text) + (f"@{value.language}" if value.language else f"^^<{escape_iri(value.datatype)}>")


def parse_literal(text: str) -> Literal:
    """The literal that `literal_text` wrote, and nothing plainer, whatever its datatype."""
    match = _LITERAL.fullmatch(text)
    if match is None:
        raise ValueError(f'{_shortened(text)} is no literal such as "text"@language or "text"^^<datatype>')
    return Literal(unquote(match[1]), unescape_iri(match[3] or ""), match[2] or "")


def quote(text: str) -> str:
    """A string in double quotes."""
    return f'"{_TO_ESCAPE.sub(_escaped, text)}"'


def _is_bare_string(text: str) -> bool:
    return is_word(text) and not is_variable_name(text) and text not in _NO_BARE_STRINGS


def _render_float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    name = "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
    return f'"{name}"^^<{XSD}double>'


def _plain(text: str, datatype: str) -> Value | None:
    if datatype == "string":
        return text
    if datatype == "integer" and _INTEGER.fullmatch(text) and _fits(text):
        return _converted(text)
    if datatype == "decimal" and _DECIMAL.fullmatch(text):
        return float(text)
    if datatype == "double" and _DOUBLE.fullmatch(text):
        return float(text)
    if datatype == "double":
        return _SPECIAL_DOUBLES.get(text)
    return _BOOLEANS.get(text) if datatype == "boolean" else None


def _fits(integer_text: str) -> bool:
    # Python refuses to convert thousands of digits, so the number of those that count is looked at first.
    return len(integer_text.lstrip("+-0")) <= 19 and INTEGER_MIN <= _converted(integer_text) <= INTEGER_MAX


def _converted(integer_text: str) -> int:
    value = int(integer_text.lstrip("+-0") or "0")
    return -value if integer_text.startswith("-") else value


def _unescaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2]
    if digits:
        return code_point(digits)
    if match[3] not in _ESCAPED:
        raise ValueError(f"the string has an unknown escape `{match[0]}`; a backslash itself is written `\\\\`")
    return _ESCAPED[match[3]]


def _escaped(match: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}"


def _shortened(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:27]}…"
