"""Rules whose keys are independent of each other: one argument of each predicate that no rule joins across.

One argument of each predicate is its *key*. A rule keeps to one key if its head and all its atoms, also negated ones,
have the same term there: then what it derives for a key follows from the facts of that key alone, and the facts can be
dealt out by their keys. A predicate without a key is the same for all keys.

Streams are given the keys of a whole program. For a table of facts keys are found here, for components in
`key_blocks.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from math import prod

from tidelog.language.syntax import Atom, Rule, Term, Variable, body_atoms

NO_KEY = 0

# Programs with more ways to choose keys than this are not searched.
_MOST_CHOICES = 10_000

Places = Mapping[str, int]
"""Which argument of each predicate is its key, counted from 1, or `NO_KEY`."""


def key_term(atom: Atom, places: Places) -> Term | None:
    """The term of an atom that is its key."""
    place = places[atom.predicate]
    return None if place == NO_KEY else atom.arguments[place - 1]


def broken_key(rule: Rule, places: Places) -> tuple[Atom | None, Term | None] | None:
    """What joins a rule across keys: an atom with another key than the head, and that key; None if nothing does.

    There is no atom if the head has a key and nothing that it follows from has one."""
    head = key_term(rule.head, places)
    keyed = [(atom, term) for atom in body_atoms(rule) if (term := key_term(atom, places)) is not None]
    if head is not None and not keyed:
        return None, None
    return next(((atom, term) for atom, term in keyed if term != head), None)


# ── the keys of a program, from one predicate ────────────────────────────────────────────────────────────────────────


def key_columns(rules: Sequence[Rule], keyed: Collection[str]) -> dict[str, int] | None:
    """The columns, from 0, that can be the keys of predicates if those of `keyed` have to have one; None if none can.

    Only predicates that have a key are in the result. The keys of heads follow from those of bodies: from each choice
    for the given predicates, the key variable of a rule's atoms leads to that of its head."""
    arities = _arities(rules)
    free = [name for name in keyed if name in arities]
    if not free:
        return None
    for chosen in choices_of_columns([arities[name] for name in free]):
        found = _extended(rules, {name: column + 1 for name, column in zip(free, chosen, strict=True)})
        if found is not None:
            return {name: place - 1 for name, place in found.items() if place != NO_KEY}
    return None


def _arities(rules: Sequence[Rule]) -> dict[str, int]:
    return {atom.predicate: atom.arity for rule in rules for atom in (rule.head, *body_atoms(rule))}


def choices_of_columns(arities: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All ways to choose a column of each predicate, unless there are too many."""
    return product(*map(range, arities)) if prod(arities) <= _MOST_CHOICES else iter(())


def _extended(rules: Sequence[Rule], places: dict[str, int]) -> dict[str, int] | None:
    """The keys of all predicates, from those of some; None where a rule would join across them."""
    waiting = list(rules)
    while ready := next((rule for rule in waiting if _leads(rule, places)), None):
        waiting.remove(ready)
        place = _key_of_head(ready, places)
        if place is None or places.setdefault(ready.head.predicate, place) != place:
            return None
    places.update({name: NO_KEY for name in _arities(rules) if name not in places})
    return places if all(broken_key(rule, places) is None for rule in rules) else None


def _leads(rule: Rule, places: Places) -> bool:
    """Whether some atom of the body has a key already."""
    return any(places.get(atom.predicate, NO_KEY) != NO_KEY for atom in body_atoms(rule))


def _key_of_head(rule: Rule, places: Places) -> int | None:
    """Where the head of a rule has the key variable of its body; None if it does not."""
    atom = next(atom for atom in body_atoms(rule) if places.get(atom.predicate, NO_KEY) != NO_KEY)
    key = key_term(atom, places)
    found = [place for place, term in enumerate(rule.head.arguments, start=1) if term == key]
    return found[0] if found and isinstance(key, Variable) else None
