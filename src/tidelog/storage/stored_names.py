"""Predicates, prefixes and rules as files name them: what is none is refused."""

from __future__ import annotations

from tidelog.errors import TidelogError
from tidelog.language import parse_rules
from tidelog.language.names import RESERVED, is_prefixed, is_word
from tidelog.language.syntax import Rule
from tidelog.storage.checked_json import Item


def is_predicate(name: str) -> bool:
    """Whether a name is one of a predicate as it is kept: a word, a prefixed name, or any IRI in angle brackets."""
    if is_word(name):
        return name not in RESERVED
    return is_prefixed(name) or (len(name) > 1 and name[0] == "<" and name[-1] == ">")


def declared_prefixes(item: Item) -> dict[str, str]:
    """Namespaces by prefix."""
    prefixes = item.texts()
    for prefix in prefixes:
        if not is_prefixed(f"{prefix}:name"):
            item.refuse(f"declares {prefix!r:.60}, which is no prefix")
    return prefixes


def parsed_rules(item: Item) -> tuple[Rule, ...]:
    """The rules of a text."""
    text = item.text()
    try:
        return parse_rules(text, {})
    except (TidelogError, RecursionError) as problem:
        item.refuse(f"is no rule: {problem}")
