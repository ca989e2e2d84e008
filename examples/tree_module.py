"""A module of one's own: who is above whom in a tree, by intervals of its preorder. Run it: `python tree_module.py`.

In preorder, all that is below a node follows it without a gap. So a node has an interval of numbers, and is above
another one exactly if the other's number is in it: no chain of bosses has to be followed for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import numpy.typing as npt

import tidelog
from tidelog.testing import check_module

Column = npt.NDArray[np.int32]
Pairs = tuple[Column, Column]

NOBODY = -1


class Tree:
    """The pairs of `parent` as a forest: the node above each, and the interval of what is below it."""

    def __init__(self, above: Column, below: Column) -> None:
        self._names, places = np.unique(np.concatenate((above, below)), return_inverse=True)
        upper, lower = places[: len(above)], places[len(above) :]
        if len(np.unique(lower)) < len(lower):
            raise tidelog.UnfitError("a node has two parents")
        self.up = np.full(len(self._names), NOBODY)
        self.up[lower] = upper
        self._number()

    def _number(self) -> None:
        """Number the nodes in preorder: each after its parent, and after all that is below its elder siblings."""
        levels = [np.flatnonzero(self.up == NOBODY)]
        children = np.argsort(self.up, kind="stable")
        first, last = (np.searchsorted(self.up[children], range(len(self.up)), side) for side in ("left", "right"))
        while len(levels[-1]):
            levels.append(np.concatenate([children[first[node] : last[node]] for node in levels[-1]]))
        if sum(map(len, levels)) < len(self.up):
            raise tidelog.UnfitError("there is a cycle")
        size = np.ones(len(self.up), int)
        for level in levels[:0:-1]:
            np.add.at(size, self.up[level], size[level])
        self.first = np.zeros(len(self.up), int)
        for level in levels:
            before = np.cumsum(size[level]) - size[level]  # within the level; siblings stand side by side
            parents = self.up[level]
            _, eldest, family = np.unique(parents, return_index=True, return_inverse=True)
            start = np.where(parents == NOBODY, 0, self.first[parents] + 1)
            self.first[level] = start + before - np.where(parents == NOBODY, 0, before[eldest][family])
        self.last = self.first + size - 1

    def places(self, column: Column) -> npt.NDArray[np.intp]:
        """The nodes that terms stand for; `NOBODY` for those that are not in the tree."""
        if not len(self._names):
            return np.full(len(column), NOBODY)
        found = np.searchsorted(self._names, column).clip(max=len(self._names) - 1)
        return np.where(self._names[found] == column, found, NOBODY)

    def is_above(self, pairs: Pairs) -> npt.NDArray[np.bool_]:
        """Which pairs are one of a node and one below it."""
        if not len(self._names):
            return np.zeros(len(pairs[0]), bool)
        upper, lower = map(self.places, pairs)
        number = self.first[lower]
        inside = (self.first[upper] < number) & (number <= self.last[upper])
        return inside & (upper != NOBODY) & (lower != NOBODY)

    def lifted(self, pairs: Pairs) -> Pairs:
        """For each pair (y, z) all pairs (x, z) with x above y."""
        nodes, ends = self.places(pairs[0]), pairs[1]
        found: list[Pairs] = []
        while len(there := np.flatnonzero(nodes != NOBODY)):
            nodes, ends = self.up[nodes[there]], ends[there]
            found.append((self._names[nodes[nodes != NOBODY]], ends[nodes != NOBODY]))
        return joined(found)


def joined(parts: Sequence[Pairs]) -> Pairs:
    none = np.empty(0, np.int32)
    first, second = zip(*parts, strict=True) if parts else ((none,), (none,))
    return np.concatenate((none, *first)), np.concatenate((none, *second))


def steps(edges: Pairs, known: Pairs) -> Pairs:
    """What edges give in one step: themselves, and (x, z) for each edge (x, y) and known pair (y, z)."""
    order = np.argsort(known[0], kind="stable")
    starts, ends = (np.searchsorted(known[0][order], edges[1], side) for side in ("left", "right"))
    sources = np.repeat(edges[0], ends - starts)
    parts = [known[1][order[start:end]] for start, end in zip(starts, ends, strict=True)]
    return joined([edges, (sources, np.concatenate((np.empty(0, np.int32), *parts)))])


class Above:
    """The rules of `above`, where `parent` is a forest; plain rules do the work where it is none."""

    rules = """
        above(X, Y) :- parent(X, Y).
        above(X, Z) :- parent(X, Y), above(Y, Z).
    """

    def difference(self, facts: tidelog.Dataset, changed: tidelog.Dataset) -> dict[str, Pairs]:
        """One step from edges that have come or gone."""
        return {"above": steps(pairs_of(changed, "parent"), pairs_of(facts, "above"))}

    def add(self, facts: tidelog.Dataset, new: tidelog.Dataset) -> dict[str, Pairs]:
        """All that is above the upper end of what is new."""
        first, second = self._consequences(facts, new)
        fresh = ~facts.contains("above", (first, second))
        return {"above": (first[fresh], second[fresh])}

    def delete(self, facts: tidelog.Dataset, gone: tidelog.Dataset, safe: tidelog.Dataset) -> dict[str, Pairs]:
        """The same for what is gone."""
        first, second = self._consequences(facts, gone)
        there = facts.contains("above", (first, second))
        return {"above": (first[there], second[there])}

    def rederive(self, left: tidelog.Dataset, gone: tidelog.Dataset) -> dict[str, Pairs]:
        """The pairs that the tree still has; and what follows from pairs that other rules give."""
        tree = Tree(*pairs_of(left, "parent"))
        asked, others = pairs_of(gone, "above"), pairs_of(left, "above")
        given = ~tree.is_above(others)
        lifted = tree.lifted((others[0][given], others[1][given]))
        follows = tree.is_above(asked) | np.isin(packed(asked), packed(lifted))
        return {"above": (asked[0][follows], asked[1][follows])}

    def _consequences(self, facts: tidelog.Dataset, moved: tidelog.Dataset) -> Pairs:
        first = steps(pairs_of(moved, "parent"), pairs_of(facts, "above"))
        tree = Tree(*pairs_of(facts, "parent"))
        return joined([first, tree.lifted(joined([first, pairs_of(moved, "above")]))])


def pairs_of(data: tidelog.Dataset, predicate: str) -> Pairs:
    """The facts of a predicate; none where a dataset cannot have any, as of what lies below the recursion."""
    if predicate not in data:
        return joined([])
    first, second = data[predicate]
    return first, second


def packed(pairs: Pairs) -> npt.NDArray[np.int64]:
    return pairs[0].astype(np.int64) << 32 | pairs[1]


def some_forest(dice: Random) -> dict[str, list[tuple[int, int]]]:
    """Random facts that are a forest; and pairs of `above` that no tree has."""
    odd = [(dice.randrange(8), dice.randrange(8)) for _ in range(dice.randrange(3))]
    return {"parent": [(dice.randrange(node), node) for node in range(1, 6)], "above": odd}


def main() -> None:
    tried = check_module(Above(), facts=some_forest)
    print("inputs that it was tried on, by definition:", tried)
    kb = tidelog.KnowledgeBase(Above.rules + "boss_of_all(X) :- above(X, emil), above(X, gina).")
    kb.add_module(Above())
    kb.update(add={"parent": [("ada", "ben"), ("ada", "cleo"), ("ben", "dan"), ("dan", "emil"), ("cleo", "gina")]})
    print("above emil:", sorted(row["X"] for row in kb.query("above(X, emil)")))
    change = kb.update(delete={"parent": [("ben", "dan")]}, add={"parent": [("cleo", "dan")]})
    print("dan moves to cleo:", change)
    print("above emil:", sorted(row["X"] for row in kb.query("above(X, emil)")))
    print("above both:", sorted(row["X"] for row in kb.query("boss_of_all(X)")))
    kb.update(add={"parent": [("ben", "dan")]})
    print("with two bosses, plain rules do it:", sorted(row["X"] for row in kb.query("above(X, emil)")))


if __name__ == "__main__":
    main()
