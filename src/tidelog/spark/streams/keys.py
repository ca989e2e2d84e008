"""The keys of a stream: which argument of each predicate is its key, and which rules would join across keys.

What keys are is said in `plan/key_columns.py`. The facts of a predicate without a key are those of the program, and no
rule with a keyed atom may derive it.

Keys are dealt to *shards*, and Spark assigns a shard to a task by the hash of its number. Of a few dozen shards with
consecutive numbers, one of four tasks can get twice as many as another, and all others wait for it. So each shard gets
a number whose hash leaves the same remainder as the shard's place: consecutive places then go to the tasks in turn, for
all usual numbers of tasks.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from tidelog.errors import DataError, TidelogError
from tidelog.formats import Update
from tidelog.formats.files.jsonl import value_to_json
from tidelog.language import display_predicate, render, resolve_predicate
from tidelog.language.checks import check_arities
from tidelog.language.names import is_checked_once
from tidelog.language.syntax import Atom, Program, Rule, body_atoms
from tidelog.spark.plan.key_columns import NO_KEY, broken_key, key_term
from tidelog.spark.plan.refusals import refuse_expiries, refuse_windows
from tidelog.spark.streams.update_records import Operation, operations, update_of
from tidelog.values import Row

# If the number of tasks divides this, all tasks get the same number of shards, give or take one.
_ROUND = 2**6 * 3 * 5 * 7
_BITS = (1 << 32) - 1


class CrossKeyError(TidelogError):
    """A rule that would need the facts of more than one key."""


@dataclass(frozen=True)
class Keys:
    """Which argument of each predicate is its key, counted from 1; 0 if it has none."""

    default: int = 1
    special: Mapping[str, int] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    arities: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program, default: int, special: Mapping[str, int]) -> Keys:
        """The keys of a program, which is refused if a rule joins across them."""
        refuse_expiries(program.expiries, "the engine `keyed`")
        for rule in program.rules:
            refuse_windows(rule, "the engine `keyed`")
        prefixes = dict(program.prefixes)
        places = {resolve_predicate(name, prefixes): place for name, place in special.items()}
        arities = check_arities((*program.predicates, *program.facts, *program.rules), {}, prefixes)
        keys = cls(default, places, prefixes, arities)
        for rule in program.rules:
            keys._check(rule)
        return keys

    def key(self, name: str, row: Row) -> str | None:
        """The key of a fact, as JSON; None if its predicate has none."""
        predicate = resolve_predicate(name, self.prefixes)
        arity = self.arities.get(predicate)
        if arity is None:
            raise DataError(f"`{name}` is in no rule, so that nobody knows how many arguments it has")
        if arity != len(row):
            raise DataError(f"`{name}` has {arity} arguments, but a row has {len(row)} values")
        place = self.special.get(predicate, self.default)
        return None if place == NO_KEY else json.dumps(value_to_json(row[place - 1]), ensure_ascii=False)

    def split(self, update: Update) -> dict[str, Update]:
        """An update of facts as one update for each key that it touches."""
        parts: dict[str, list[Operation]] = {}
        for operation in operations(update):
            key = self.key(operation[1], operation[2])
            if key is None:
                raise DataError(f"`{operation[1]}` has no key: its facts are those of the program")
            parts.setdefault(key, []).append(operation)
        return {key: update_of(found) for key, found in parts.items()}

    def _check(self, rule: Rule) -> None:
        """Refuse a rule that does not keep to one key."""
        atoms = (rule.head, *body_atoms(rule))
        places = {atom.predicate: self._place(atom, rule) for atom in atoms}
        broken = broken_key(rule, places)
        if broken is None:
            return
        head, text = key_term(rule.head, places), self._text(rule.head)
        atom, term = broken
        if atom is None:
            raise self._refusal(rule, f"{text} has a key, but nothing that it follows from has one")
        if head is None:
            raise self._refusal(rule, f"{text} has no key, but {self._text(atom)} has one")
        raise self._refusal(rule, f"the key of {text} is {head}, and that of {self._text(atom)} is {term}")

    def _place(self, atom: Atom, rule: Rule) -> int:
        if is_checked_once(atom.predicate):
            return NO_KEY
        place = self.special.get(atom.predicate, self.default)
        if place > atom.arity:
            name = display_predicate(atom.predicate, self.prefixes)
            raise self._refusal(rule, f"`{name}` has no argument {place}, which would be its key")
        return place

    def _refusal(self, rule: Rule, reason: str) -> CrossKeyError:
        return CrossKeyError(
            f"{self._text(rule)} joins across keys: {reason}. Say in `keys` which argument is the key of a predicate, "
            "or use the engine memory or spark"
        )

    def _text(self, part: Atom | Rule) -> str:
        return f"`{render(part, self.prefixes)}`"


def numbers_of_shards(shards: int) -> tuple[int, ...]:
    """A number for each shard, always the same ones."""
    open_places: dict[int, list[int]] = defaultdict(list)
    for place in reversed(range(shards)):
        open_places[place % _ROUND].append(place)
    found: dict[int, int] = {}
    for number in count():
        if len(found) == shards:
            break
        places = open_places.get(_spark_hash(number) % _ROUND)
        if places:
            found[places.pop()] = number
    return tuple(found[place] for place in range(shards))


def _spark_hash(number: int) -> int:
    """Spark's `hash(number)` of an `int` that is not negative: Murmur3 with the seed 42."""
    mixed = _rotated(number * 0xCC9E2D51, 15) * 0x1B873593 & _BITS
    value = _rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & _BITS
    value ^= 4  # the bytes of an int
    value = (value ^ value >> 16) * 0x85EBCA6B & _BITS
    value = (value ^ value >> 13) * 0xC2B2AE35 & _BITS
    value ^= value >> 16
    return value - (1 << 32) if value >> 31 else value


def _rotated(value: int, by: int) -> int:
    value &= _BITS
    return (value << by | value >> 32 - by) & _BITS
