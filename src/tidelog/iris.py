"""IRIs as text: in angle brackets, with escapes for what cannot stand there."""

from __future__ import annotations

import re

from tidelog.errors import DataError

_NUMERIC_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
# What cannot stand in an IRI, and what would end a line or look like a blank.
_NOT_IN_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\\x7f-\xa0\s]')


def unescape_iri(text: str) -> str:
    """The IRI whose text is between `<` and `>`. Raises DataError for an escape that names no character."""
    return _NUMERIC_ESCAPE.sub(lambda match: code_point(match[1] or match[2]), text) if "\\" in text else text


def escape_iri(iri: str) -> str:
    """The text of an IRI between `<` and `>`."""
    return _NOT_IN_IRI.sub(lambda match: f"\\u{ord(match[0]):04X}", iri)


def bracketed(iri: str) -> str:
    """An IRI in angle brackets, with escapes where it needs them."""
    return f"<{escape_iri(iri)}>"


def code_point(digits: str) -> str:
    """The character that hexadecimal digits name. Raises DataError where there is none (a surrogate, or too large)."""
    number = int(digits, 16)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise DataError(f"there is no character U+{digits.upper()}")
    return chr(number)
