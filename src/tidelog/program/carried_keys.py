"""Keys that a recursion carries along: a column of each of its predicates that all recursive rules copy unchanged.

In `dist(X, Z, min(D + W)) :- dist(X, Y, D), edge(Y, Z, W).` that is X. What is derived for a key follows from facts of
the same recursion with that key alone, so the recursion can be run for one key after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tidelog.language.syntax import Atom, Variable

Step = tuple[Atom, Sequence[Atom]]
"""A recursive rule: its head, and the atoms of its body whose predicates are in the recursion."""


def carried_columns(steps: Sequence[Step], columns: Mapping[str, Collection[int]]) -> dict[str, int] | None:
    """The column of each predicate that has the key, of those that it may be in; None if the rules carry none."""
    if not steps:
        return None
    first = steps[0][0].predicate
    return next((found for column in columns[first] if (found := _carried(steps, columns, {first: column}))), None)


def _carried(
    steps: Sequence[Step], columns: Mapping[str, Collection[int]], found: dict[str, int]
) -> dict[str, int] | None:
    """The same, where the column of one predicate is chosen, from which those of the others follow."""
    waiting = list(steps)
    while waiting:
        step = next((step for step in waiting if any(atom.predicate in found for atom in _atoms(step))), None)
        if step is None or not _follow(_atoms(step), columns, found):
            return None
        waiting.remove(step)
    return found if found.keys() >= columns.keys() else None


def _atoms(step: Step) -> tuple[Atom, ...]:
    return step[0], *step[1]


def _follow(atoms: Sequence[Atom], columns: Mapping[str, Collection[int]], found: dict[str, int]) -> bool:
    """Let all atoms of a rule have the key of one whose column is known; whether they can."""
    known = next(atom for atom in atoms if atom.predicate in found)
    key = known.arguments[found[known.predicate]]
    if not isinstance(key, Variable):
        return False
    for atom in atoms:
        if atom.predicate not in found:
            places = [column for column in columns[atom.predicate] if atom.arguments[column] == key]
            if not places:
                return False
            found[atom.predicate] = places[0]
        elif atom.arguments[found[atom.predicate]] != key:
            return False
    return True
