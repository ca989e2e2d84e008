"""Names: words, IRIs and prefixed names, as users write them and as the syntax tree stores them.

A predicate is stored resolved: a bare word as written, an IRI as `<http://…>`, a prefixed name as the IRI that it
stands for if its prefix is declared, and as written otherwise. Characters that cannot stand inside the brackets are
always escaped in the same way, so that resolving a resolved name changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from tidelog.errors import DataError, ParseError, TidelogError
from tidelog.values import is_unicode

RESERVED = frozenset({"not", "true", "false"})

_WORD = re.compile(r"[^\W\d]\w*")
_LOCAL = re.compile(r"\w+(?:-+\w+)*")
_PREFIXED = re.compile(r"(?:[^\W\d]\w*(?:-+\w+)*)?:\w+(?:-+\w+)*")
_BRACKETED = re.compile(r'<(?:[^\x00-\x20<>"{}|^`\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>')
_NUMERIC_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
# What cannot stand in an IRI, and what would end a line or look like a blank.
_NOT_IN_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\\x7f-\xa0\s]')


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
    return shorten(unescape_iri(predicate[1:-1]), prefixes) or predicate


def _name_hint(name: str) -> str:
    if name in RESERVED:
        return ": the word has a meaning of its own in the language"
    if "://" in name:
        return f"\nhint: an IRI stands in angle brackets: `<{name.strip('<>')}>`"
    return "\nhint: a name is a word of letters, digits and `_`, a prefixed name `ex:name`, or an IRI `<http://…>`"
