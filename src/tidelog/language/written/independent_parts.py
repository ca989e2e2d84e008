"""Parts of a body that have nothing to do with the rest of it, nor with the head: they are checked once.

In `q(X) :- i(X), a(_), c(Y), d(Y).` the body has three parts without common variables. All that the head needs to know
of `a(_)` and of `c(Y), d(Y)` is whether they have a match; to join them would find each `q(X)` as many times as they
have matches. So each gets an auxiliary predicate without arguments, and the rule reads these: `q(X) :- i(X), p1, p2.`

Each match of a body counts below an aggregate, so a rule with one keeps its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidelog.language.syntax import Aggregate, Atom, BodyItem, Rule, variables

Part = tuple[BodyItem, ...]


def independent_parts(rule: Rule) -> list[Part]:
    """The parts of the body of a plain rule that are checked once, in the order of their first items."""
    if len(rule.body) < 2 or any(isinstance(term, Aggregate) for term in rule.head.arguments):
        return []
    of_head = {variable.name for variable in variables(rule.head)}
    groups = _linked([{variable.name for variable in variables(item)} for item in rule.body])
    if len(groups) < 2:
        return []
    parts = [tuple(rule.body[place] for place in places) for places, _ in groups]
    joined = [any(isinstance(item, Atom) and variables(item) for item in part) for part in parts]
    if sum(joined) < 2:
        return []
    apart = [is_joined and names.isdisjoint(of_head) for is_joined, (_, names) in zip(joined, groups, strict=True)]
    return [part for part, is_apart in zip(parts, apart, strict=True) if is_apart]


def _linked(names: Sequence[set[str]]) -> list[tuple[list[int], set[str]]]:
    """The items that have variables in common, directly or through others: their places, and all their variables."""
    groups: list[tuple[list[int], set[str]]] = []
    for place, own in enumerate(names):
        touched = [group for group in groups if not group[1].isdisjoint(own)]
        places, found = [place], set(own)
        for group in touched:
            places += group[0]
            found |= group[1]
        groups = [group for group in groups if group not in touched]
        groups.append((sorted(places), found))
    return sorted(groups, key=lambda group: group[0][0])


def with_atoms_for(rule: Rule, parts: Sequence[Part], atoms: Sequence[Atom]) -> Rule:
    """A rule with an atom in the place of each of its parts, where the first item of the part is."""
    return replace(rule, body=tuple(_body_with(rule, parts, atoms)))


def _body_with(rule: Rule, parts: Sequence[Part], atoms: Sequence[Atom]) -> Iterator[BodyItem]:
    first = {id(part[0]): atom for part, atom in zip(parts, atoms, strict=True)}
    others = {id(item) for part in parts for item in part[1:]}
    for item in rule.body:
        if id(item) not in others:
            yield first.get(id(item), item)
