"""Programs whose keys are independent of each other: which argument is the key, and which rules break that.

One argument of each predicate is its key. A rule keeps to one key if its head and all its atoms, also negated ones,
have the same term there: then what it derives for a key follows from the facts of that key alone. A predicate without a
key is the same for all keys; its facts are those of the program, and no rule with a keyed atom may derive it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.errors import DataError, TidelogError
from tidelog.formats import Update
from tidelog.formats.jsonl import value_to_json
from tidelog.formats.updates import Facts
from tidelog.language import display_predicate, render, resolve_predicate
from tidelog.language.checks import check_arities
from tidelog.language.syntax import Atom, Program, Rule, Term, body_atoms
from tidelog.spark.streams.update_records import Operation, operations, update_of
from tidelog.values import Row

NO_KEY = 0


class CrossKeyError(TidelogError):
    """A rule that would need the facts of more than one key."""


@dataclass(frozen=True)
class Keys:
    """Which argument of each predicate is its key, counted from 1; 0 if it has none."""

    default: int = 1
    special: Mapping[str, int] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    arities: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program, default: int, special: Mapping[str, int]) -> Keys:
        """The keys of a program, which is refused if a rule joins across them."""
        prefixes = dict(program.prefixes)
        places = {resolve_predicate(name, prefixes): place for name, place in special.items()}
        keys = cls(default, places, prefixes, check_arities((*program.facts, *program.rules), {}, prefixes))
        for rule in program.rules:
            keys.check(rule)
        return keys

    def place(self, predicate: str) -> int:
        return self.special.get(predicate, self.default)

    def key(self, name: str, row: Row) -> str | None:
        """The key of a fact, as JSON; None if its predicate has none."""
        predicate = resolve_predicate(name, dict(self.prefixes))
        arity = self.arities.get(predicate)
        if arity is None:
            raise DataError(f"`{name}` is in no rule, so that nobody knows how many arguments it has")
        if arity != len(row):
            raise DataError(f"`{name}` has {arity} arguments, but a row has {len(row)} values")
        place = self.place(predicate)
        return None if place == NO_KEY else json.dumps(value_to_json(row[place - 1]), ensure_ascii=False)

    def check(self, rule: Rule) -> None:
        """Refuse a rule that does not keep to one key."""
        keyed = [(atom, term) for atom in body_atoms(rule) if (term := self._term(atom, rule)) is not None]
        head = self._term(rule.head, rule)
        if head is None and keyed:
            raise self._refusal(rule, f"{self._text(rule.head)} has no key, but {self._text(keyed[0][0])} has one")
        if head is not None and not keyed:
            raise self._refusal(rule, f"{self._text(rule.head)} has a key, but nothing that it follows from has one")
        for atom, term in keyed:
            if term != head:
                raise self._refusal(
                    rule, f"the key of {self._text(rule.head)} is {head}, and that of {self._text(atom)} is {term}"
                )

    def _term(self, atom: Atom, rule: Rule) -> Term | None:
        place = self.place(atom.predicate)
        if place > atom.arity:
            name = display_predicate(atom.predicate, dict(self.prefixes))
            raise self._refusal(rule, f"`{name}` has no argument {place}, which would be its key")
        return None if place == NO_KEY else atom.arguments[place - 1]

    def _refusal(self, rule: Rule, reason: str) -> CrossKeyError:
        return CrossKeyError(
            f"`{render(rule, dict(self.prefixes))}` joins across keys: {reason}. Say in `keys` which argument is the "
            "key of a predicate, or use the engine memory or spark"
        )

    def _text(self, atom: Atom) -> str:
        return f"`{render(atom, dict(self.prefixes))}`"

    def split(self, update: Update) -> dict[str, Update]:
        """An update of facts as one update for each key that it touches."""
        parts: dict[str, list[Operation]] = {}
        for operation in operations(update):
            key = self.key(operation[1], operation[2])
            if key is None:
                raise DataError(f"`{operation[1]}` has no key: its facts are those of the program")
            parts.setdefault(key, []).append(operation)
        return {key: update_of(found) for key, found in parts.items()}


def facts_by_key(program: Program, keys: Keys) -> tuple[Facts, dict[str, Facts]]:
    """The facts of a program: those without a key, and the others by key."""
    common: Facts = {}
    own: dict[str, Facts] = {}
    for atom in program.facts:
        key = keys.key(atom.predicate, atom.row)
        target = common if key is None else own.setdefault(key, {})
        target.setdefault(atom.predicate, []).append(atom.row)
    return common, own
