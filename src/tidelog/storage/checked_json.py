"""JSON that is read back: nothing of it is trusted before its type and range have been checked.

An `Item` is a value and its place in the file. Its methods take it apart and say what each part has to be; anything
else raises `StorageError` with that place. Predicates, prefixes and rules in it are checked in the same way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from tidelog.errors import StorageError, TidelogError
from tidelog.language import parse_program, parse_rules
from tidelog.language.checks import MOST_ARGUMENTS
from tidelog.language.names import RESERVED, is_prefixed, is_word
from tidelog.language.printer import declaration
from tidelog.language.records.types import Declared, merged
from tidelog.language.syntax import Rule, Signature, own_lattices
from tidelog.language.written.conditions import PRINTED, names_of_printed

_LARGEST = 2**63 - 1

# Half of a surrogate pair, which JSON can spell and none of our texts hold.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def to_text(content: Any, indent: int | None = 1) -> bytes:
    """A value as JSON that `Item.of_json` reads."""
    separators = (",", ":") if indent is None else None
    return json.dumps(content, ensure_ascii=False, indent=indent, separators=separators).encode()


class Item:
    """A value of a JSON text, and where it stands."""

    def __init__(self, value: Any, file: Path, place: str = "") -> None:
        self.value = value
        self._file = file
        self._place = place

    @classmethod
    def of_json(cls, content: bytes, file: Path) -> Item:
        """The object in a text."""
        try:
            value = json.loads(content)
            if _SURROGATE.search(content):
                to_text(value)
        except (ValueError, RecursionError) as problem:
            raise StorageError(f"{file} is damaged: it is not JSON; restore it from a copy: {problem}") from None
        item = cls(value, file)
        if not isinstance(value, dict):
            item.refuse("is not an object")
        return item

    def refuse(self, problem: str) -> NoReturn:
        """Say what is wrong here."""
        named = f"`{self._place}` " if self._place else ""
        raise StorageError(f"{self._file} cannot be understood: {named}{problem}; restore it from a copy")

    def _expect(self, fits: bool, what: str) -> None:
        if not fits:
            self.refuse(f"is {_shown(self.value)}, not {what}")

    # --- parts --------------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Item:
        """A field of an object."""
        self._expect(isinstance(self.value, dict), "an object")
        if name not in self.value:
            self.refuse(f"lacks the field `{name}`")
        return self._inner(self.value[name], f".{name}")

    def get(self, name: str) -> Any:
        """The unchecked value of a field; None where there is none."""
        return self.value.get(name)

    def fields(self, *names: str, **missing: Any) -> tuple[Item, ...]:
        """The fields of an object with exactly these fields. `missing` are the values of those that it may lack."""
        self._expect(isinstance(self.value, dict), "an object")
        unknown = sorted(self.value.keys() - set(names))
        if unknown:
            self.refuse(f"has an unknown field, {_shown(unknown[0])}")
        whole = self._inner({**missing, **self.value}, "")
        return tuple(whole[name] for name in names)

    def members(self) -> Iterator[tuple[str, Item]]:
        """The names and values of an object with any fields."""
        self._expect(isinstance(self.value, dict), "an object")
        return ((name, self._inner(value, f"[{name!r:.60}]")) for name, value in self.value.items())

    def items(self) -> Iterator[Item]:
        """The values of a list."""
        self._expect(isinstance(self.value, list), "a list")
        return (self._inner(value, f"[{place}]") for place, value in enumerate(self.value))

    def pair(self) -> tuple[Item, Item]:
        """The two values of a list of two."""
        self._expect(isinstance(self.value, list) and len(self.value) == 2, "a list of two")
        first, second = self.items()
        return first, second

    def _inner(self, value: Any, place: str) -> Item:
        return Item(value, self._file, (self._place + place).removeprefix("."))

    # --- values -------------------------------------------------------------------------------------------------------

    def integer(self, least: int, most: int = _LARGEST) -> int:
        value = self.value
        self._expect(type(value) is int and least <= value <= most, f"a whole number from {least} to {most}")
        assert type(value) is int
        return value

    def text(self) -> str:
        self._expect(isinstance(self.value, str), "a text")
        return str(self.value)

    def flag(self) -> bool:
        self._expect(isinstance(self.value, bool), "true or false")
        return bool(self.value)

    def texts(self) -> dict[str, str]:
        """An object of texts."""
        return {name: item.text() for name, item in self.members()}


def _shown(value: Any) -> str:
    return f"{value!r:.60}"


# --- names and rules ------------------------------------------------------------------------------------------------


def is_predicate(name: str) -> bool:
    """Whether a name is that of a predicate as we keep it: a word, a prefixed name, or any IRI in angle brackets."""
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


def with_lattices(described: dict[str, Any], rules: Iterable[Rule]) -> dict[str, Any]:
    """What describes rules, which are texts there, with the lattices of the user's own that the texts name, if any."""
    lattices = sorted(own_lattices(rules))
    return {**described, "lattices": lattices} if lattices else described


def parsed_rules(item: Item, described: Item) -> tuple[Rule, ...]:
    """The rules of a text, which is a part of what describes them."""
    lattices = described["lattices"].items() if described.get("lattices") is not None else ()
    names = names_of_printed(name.text() for name in lattices)
    text = item.text()
    try:
        return parse_rules(text, {}, names=names)
    except (TidelogError, RecursionError) as problem:
        item.refuse(f"is no rule: {problem}")


def read_arities(item: Item) -> dict[str, int]:
    """Predicates and their numbers of arguments."""
    arities = {}
    for name, arity in item.members():
        if not is_predicate(name):
            arity.refuse("is not named after a predicate")
        arities[name] = arity.integer(0, MOST_ARGUMENTS)
    return arities


def written_declarations(declared: Declared) -> list[str]:
    """What is declared, as text."""
    return [declaration(signature) for signature in declared.values()]


def read_declarations(item: Item) -> dict[str, Signature]:
    """What such texts declare; older files have the numbers of arguments alone."""
    if isinstance(item.value, dict):
        return {name: Signature(name, arity) for name, arity in read_arities(item).items()}
    text = "\n".join(each.text() for each in item.items())
    try:
        program = parse_program(text, names=PRINTED)
    except (TidelogError, RecursionError) as problem:
        item.refuse(f"declare nothing: {problem}")
    if program.facts or program.rules or program.queries:
        item.refuse("do more than declare")
    return merged({}, program.predicates)
