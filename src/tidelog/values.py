"""The values that facts hold, as Python sees them: `str`, `int`, `float`, `bool`, `IRI` and RDF `Literal`.

Constants of different types are different constants (`1`, `1.0`, `"1"`, `true` are four), while Python says
`1 == 1.0 == True`. To compare values as constants, use `identity`. Some constants have several Python values, of which
`canonical` returns the one that stands for all; every value passes through it, wherever it comes from. A literal whose
datatype is one of `xsd:string`, `xsd:integer`, `xsd:decimal`, `xsd:double` and `xsd:boolean`, and whose text fits it,
is the plain value.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tidelog.errors import DataError

INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**63 - 1

XSD = "http://www.w3.org/2001/XMLSchema#"

# Separates the parts of a literal that is stored as one text; no datatype and no language can hold it.
SEPARATOR = "\x1f"

LANGUAGE_TAG = r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL_DOUBLES = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True, order=True, init=False)
class IRI:
    """An IRI constant; `str()` gives the IRI itself, without angle brackets. The text is not validated.

    Examples:
        >>> kb = tidelog.KnowledgeBase("@prefix ex: <http://example.org/> .  p(ex:it).")
        >>> (tidelog.IRI("http://example.org/it"),) in kb.facts("p")
        True
    """

    value: str

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "value", value if type(value) is str else _text(value, "an IRI"))

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, order=True)
class Literal:
    """An RDF literal that is not a plain string, integer, float or boolean: it has a language or another datatype.

    Languages are case-insensitive and stored in lower case. A literal with a language has no other datatype.

    Examples:
        >>> kb = tidelog.KnowledgeBase()
        >>> _ = kb.update(add={"label": [("cat", tidelog.Literal("chat", language="fr"))]})
        >>> 'label(cat, "chat"@fr)' in kb
        True
    """

    text: str
    datatype: str = ""
    language: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _text(self.text, "the text of a literal"))
        language = _text(self.language, "the language of a literal").lower()
        object.__setattr__(self, "language", language)
        datatype = _text(self.datatype, "the datatype of a literal")
        object.__setattr__(self, "datatype", "" if language else datatype)
        if SEPARATOR in datatype or SEPARATOR in language:
            kind = "datatype" if SEPARATOR in datatype else "language"
            raise DataError(f"the {kind} of a literal cannot hold the control character U+001F; leave it out")

    def __str__(self) -> str:
        return self.text


def _text(value: object, what: str) -> str:
    """A value of a subclass of `str` as a plain `str`; anything else is refused."""
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise DataError(f"{what} is a str, not {value!r:.60} of type {type(value).__name__}")


def check_language(literal: Literal) -> None:
    """Refuse a literal whose language no file and no program can express."""
    if literal.language and not re.fullmatch(LANGUAGE_TAG, literal.language):
        raise DataError(f"{literal.language!r} is no language tag; use letters, digits and hyphens, like pt-BR")


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: half of a surrogate pair, as in some JSON and file names, cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


Value = str | int | float | bool | IRI | Literal
Row = tuple[Value, ...]


def canonical(value: Value) -> Value:
    """The representative of a value: one zero and one NaN for floats, the plain value for a literal that has one; any
    other value is its own.
    """
    if type(value) is Literal:
        plain = _plain(value.text, value.datatype.removeprefix(XSD)) if value.datatype.startswith(XSD) else None
        return value if plain is None or value.language else canonical(plain)
    if type(value) is float:
        if value == 0.0:
            return 0.0
        if math.isnan(value):
            return math.nan
    return value


def checked_value(value: object) -> Value:
    """A Python value as a fact can hold it, of exactly one of the types above; a DataError for anything else."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    match value:
        case bool() | IRI():
            return value
        case Literal():
            check_language(value)
            return canonical(value)
        case str():
            text = _text(value, "a value")
            if not is_unicode(text):
                raise DataError(f"the text {text!a:.60} holds half of a surrogate pair, which is no Unicode text")
            return text
        case int():
            if not INTEGER_MIN <= value <= INTEGER_MAX:
                raise DataError(f"the integer {value!r:.30} does not fit in 64 bits; write it as a float or a string")
            return int(value)
        case float():
            return canonical(float(value))
    kind = type(value).__name__
    raise DataError(f"a fact cannot hold {value!r:.60} of type {kind}: use str, int, float, bool or tidelog.IRI")


def identity(value: Value) -> tuple[type, object]:
    """A key that is equal for two values exactly if they are the same constant."""
    if type(value) is Literal:
        value = canonical(value)
    if type(value) is float:
        return (float, "nan" if math.isnan(value) else value)
    return (type(value), value)


def double_name(value: float) -> str:
    """The name of an infinity or NaN as an `xsd:double`."""
    return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"


def integer_of(digits: str) -> int | None:
    """The integer with these digits, with or without a sign; None where it does not fit into 64 bits."""
    # Python refuses to convert thousands of digits, so the number of significant ones is checked first.
    counting = digits.lstrip("+-0")
    if len(counting) > 19:
        return None
    value = int(counting or "0") * (-1 if digits.startswith("-") else 1)
    return value if INTEGER_MIN <= value <= INTEGER_MAX else None


def _plain(text: str, datatype: str) -> str | int | float | bool | None:
    """The plain value of a text of an XML Schema datatype; None where there is none."""
    match datatype:
        case "string":
            return text
        case "integer":
            return integer_of(text) if _INTEGER.fullmatch(text) else None
        case "decimal":
            return float(text) if _DECIMAL.fullmatch(text) else None
        case "double":
            return float(text) if _DOUBLE.fullmatch(text) else _SPECIAL_DOUBLES.get(text)
        case "boolean":
            return _BOOLEANS.get(text)
    return None
