"""The values that facts hold, as Python sees them: `str`, `int`, `float`, `bool`, `IRI`, RDF `Literal` and `Record`.

Constants of different types are different constants (`1`, `1.0`, `"1"`, `true` are four), while Python says
`1 == 1.0 == True`. To compare values as constants, use `identity`. Some constants have several Python values, of which
`canonical` returns the one that stands for all; every value passes through it, wherever it comes from. A literal whose
datatype is one of `xsd:string`, `xsd:integer`, `xsd:decimal`, `xsd:double` and `xsd:boolean`, and whose text fits it,
is the plain value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from tidelog import records
from tidelog.errors import DataError
from tidelog.iris import bracketed, unescape_iri
from tidelog.moments import Moment, read, written
from tidelog.records import RECORD

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

    @property
    def value(self) -> Moment | tuple[Value, ...] | None:
        """What it stands for in Python: a `datetime`, `date`, `time`, `timedelta`, `Decimal` or large `int`; None for
        any other datatype, and for a text that does not fit.

        Examples:
            >>> tidelog.Literal("PT1H30M", "http://www.w3.org/2001/XMLSchema#dayTimeDuration").value
            datetime.timedelta(seconds=5400)
        """
        return read(self.text, self.datatype)


class Record(Literal):
    """A record: a constant that is made of others, its fields, which may be records themselves. `[1, "a"]` in the
    language. Facts can be given tuples in its place.

    Two records are equal if they have the same constants as fields: `Record(1)` and `Record(1.0)` are two.

    Examples:
        >>> kb = tidelog.KnowledgeBase("right(Name, Y) :- at(Name, [_, Y]).")
        >>> _ = kb.update(add={"at": [("a", (1, 2))]})
        >>> ("a", (1, 2)) in kb.facts("at"), set(kb.facts("right"))
        (True, {('a', 2)})
        >>> [(name, point)] = kb.facts("at")
        >>> point, point[1], point == tidelog.Record(1, 2)
        (Record(1, 2), 2, True)
    """

    __slots__ = ()

    def __init__(self, *fields: object) -> None:
        self._set(_record_text(fields))

    @classmethod
    def of_text(cls, text: str) -> Record:
        """The record with a canonical text."""
        record = cls.__new__(cls)
        record._set(text)
        return record

    def _set(self, text: str) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "datatype", RECORD)
        object.__setattr__(self, "language", "")

    @property
    def fields(self) -> tuple[Value, ...]:
        """The values of the fields, in their order.

        Examples:
            >>> tidelog.Record("a", (1, 2)).fields
            ('a', Record(1, 2))
        """
        return tuple(map(_constant, records.split(self.text)))

    @property
    def value(self) -> tuple[Value, ...]:
        """The same, as other literals give what they stand for."""
        return self.fields

    def __len__(self) -> int:
        return len(records.split(self.text))

    def __iter__(self) -> Iterator[Value]:
        return iter(self.fields)

    def __getitem__(self, place: int) -> Value:
        return _constant(records.split(self.text)[place])

    def __repr__(self) -> str:
        return f"Record({self.text[1:-1]})"  # Records within it are not looked into: there may be thousands.


def _record_text(fields: Sequence[object]) -> str:
    """The text of a record of these fields. Tuples in them are records; they may be nested as deeply as they like."""
    parts: list[str] = []
    stack: list[tuple[list[str], Iterator[object]]] = [(parts, iter(fields))]
    while True:
        found, waiting = stack[-1]
        value = next(waiting, stack)
        if value is stack:  # There are no more.
            stack.pop()
            text = records.joined(found)
            if len(text) > records.MOST_CHARACTERS:
                raise DataError(f"a record of {len(text):,} characters; {records.MOST_CHARACTERS:,} at most")
            if not stack:
                return text
            stack[-1][0].append(text)
        elif isinstance(value, tuple):
            stack.append(([], iter(value)))
        else:
            found.append(_constant_text(checked_value(value)))


def _constant_text(value: Value) -> str:
    """A constant in the text of a record."""
    match value:
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            return f'"{double_name(value)}"^^<{XSD}double>'
        case int() | float():
            return repr(value)
        case IRI():
            return bracketed(value.value)
        case Record():
            return value.text
        case Literal():
            text = json.dumps(value.text, ensure_ascii=False)
            return f"{text}@{value.language}" if value.language else f"{text}^^{bracketed(value.datatype)}"
    return json.dumps(value, ensure_ascii=False)


def _constant(text: str) -> Value:
    """The constant with such a text. Raises ValueError, or DataError, for a text that is none."""
    if text[0] == "[":
        return Record.of_text(text)
    if text[0] == "<":
        return IRI(unescape_iri(text[1:-1]))
    if text[0] != '"':
        return _BOOLEANS[text] if text in ("true", "false") else _number(text)
    end = text.rindex('"') + 1 if text[-1] != ">" else text.rindex('"^^<') + 1
    content, rest = json.loads(text[:end]), text[end:]
    if rest.startswith("@"):
        return checked_value(Literal(content, language=rest[1:]))
    return canonical(Literal(content, unescape_iri(rest[3:-1]))) if rest else checked_value(content)


def _number(text: str) -> Value:
    if _INTEGER.fullmatch(text):
        found = integer_of(text)
        return Literal(text, f"{XSD}integer") if found is None else found
    if not _DOUBLE.fullmatch(text):
        raise ValueError(text)
    return canonical(float(text))


def _canonical_scalar(text: str) -> str | None:
    try:
        return _constant_text(_constant(text))
    except (ValueError, DataError):
        return None


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


Value = str | int | float | bool | IRI | Literal  # Records are literals.
Row = tuple[Value, ...]


def canonical(value: Value) -> Value:
    """The representative of a value: one zero and one NaN for floats, the plain value for a literal that has one; any
    other value is its own.
    """
    if type(value) is Literal:
        if value.datatype == RECORD:
            text = records.canonical_text(value.text, _canonical_scalar)
            if text is None:
                raise DataError(f"{value.text!r:.60} is no text of a record, such as [1, 2]")
            return Record.of_text(text)
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
        value = value.item() if type(value).__name__ not in ("datetime64", "timedelta64") else in_microseconds(value)
    match value:
        case bool() | IRI():
            return value
        case Literal():
            check_language(value)
            return canonical(value)
        case tuple():
            return Record(*value)
        case str():
            text = _text(value, "a value")
            if not is_unicode(text):
                raise DataError(f"the text {text!a:.60} holds half of a surrogate pair, which is no Unicode text")
            return text
        case int():
            if not INTEGER_MIN <= value <= INTEGER_MAX:
                raise DataError(
                    f"the integer {value!r:.30} does not fit in 64 bits; write a literal, a float or a string"
                )
            return int(value)
        case float():
            return canonical(float(value))
    literal = literal_of(value)
    if literal is not None:
        return literal
    kind = type(value).__name__
    raise DataError(f"a fact cannot hold {value!r:.60} of type {kind}: use str, int, float, bool or tidelog.IRI")


def literal_of(value: object) -> Literal | None:
    """The literal that stands for a date, a time, a duration or a decimal; None for anything else."""
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        raise DataError(f"{value!r:.60} has nanoseconds, and facts hold microseconds; round it")
    try:
        shown = written(value)
    except (ValueError, OverflowError):  # such as the missing moment of pandas
        return None
    return None if shown is None else Literal(*shown)


def in_microseconds(value: Any) -> object:
    """A moment or a duration of NumPy as one of Python; one that counts days is a date."""
    plain = value.item()
    if isinstance(plain, date | timedelta):
        return plain
    kind = type(value).__name__
    if kind == "timedelta64" and value.dtype.name.endswith(("Y]", "M]")):
        raise DataError(f"{value!r:.60} counts years or months, which have no fixed length; give days")
    rounded = value.astype(f"{kind}[us]")
    if rounded.astype(value.dtype) != value:  # also one that is missing, or too large for microseconds
        raise DataError(f"{value!r:.60} has nanoseconds, or is missing or too large; facts hold microseconds")
    found = rounded.item()
    if not isinstance(found, date | timedelta):
        raise DataError(f"{value!r:.60} is out of reach; facts hold the years from 1 to 9999")
    return found


def identity(value: Value | tuple[Any, ...]) -> tuple[type, object]:
    """A key that is equal for two values exactly if they are the same constant."""
    if isinstance(value, tuple):
        value = checked_value(value)
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
