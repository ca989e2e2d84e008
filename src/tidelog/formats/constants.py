"""Constants as text: the patterns by which cells are read, and RDF literals in the syntax of N-Triples.

Every constant has one text (`"text"`, `42`, `3.5`, `true`, `<http://…>`, `"chat"@fr`), which reads back as the same
constant. The `literal` child of a column and Parquet columns of mixed kinds hold such texts.
"""

from __future__ import annotations

import math

from tidelog import language
from tidelog.errors import DataError
from tidelog.language.literals import integer
from tidelog.language.names import unescape_iri
from tidelog.values import Literal, check_language

parse_literal = language.parse_literal

# Both `re` and RE2 read these. A character of IRI_UNSAFE appears in an IRI only as `\uXXXX`.
INTEGER = r"[+-]?[0-9]+"
FLOAT = r"(?:[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?[0-9]+[eE][+-]?[0-9]+|-?inf|nan)"
IRI_UNSAFE = r'[\x00-\x20<>"{}|^`\\]'
IRI_REFERENCE = r'<(?:[^\x00-\x20<>"{}|^`\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>'


def parse_iri(text: str) -> str:
    """The IRI between angle brackets."""
    return unescape_iri(text[1:-1])


def literal_text(literal: Literal) -> str:
    """An RDF literal with its language or datatype; `^^<>` marks one that has neither, unlike a string."""
    check_language(literal)
    return language.literal_text(literal)


def parse_float(text: str) -> float:
    """A float of 64 bits, `inf`, `-inf` or `nan`."""
    value = float(text)
    if math.isinf(value) and not text.endswith("inf"):
        raise DataError(f"the number {text[:60]} is too large for a float (64 bits); quote it to keep it as a string")
    return value


def parse_integer(text: str) -> int:
    """An integer of 64 bits."""
    try:
        return integer(text)
    except DataError as error:
        raise DataError(f"{error}; quote it to keep it as a string") from None
