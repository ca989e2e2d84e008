"""A closure in two layers: what follows from *safe* edges, and what follows from all edges.

Inside a larger recursion, some base edges come from below it: they are explicit, or rules derive them that read nothing
of the recursion. These are safe. The others are derived from pairs of the closure itself, in the end, and a pair may
hold only by an edge that was derived from it. So a deletion has to take back every pair that may rest on itself
(Modular, Definition 6), except for pairs that safe edges still yield: they rest on nothing that the recursion derives.
The lower layer is the closure of the safe edges, and says which these are.

Of the other edges, only those matter that yield a pair which safe edges do not. Mostly there are none, and then there
is one layer only. The first such edge makes the upper layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tidelog.closures import read_kernels as kernels
from tidelog.closures.closed_graph import NO_EDGES, Watch
from tidelog.closures.closure import Closure, ReadableClosure
from tidelog.closures.edges import Edges, Ints, packed, unpacked
from tidelog.closures.history import ClosureChange
from tidelog.closures.steps import SteppedClosure
from tidelog.machine.jit import address

# To find what reaches the ends of so many deleted edges by looking at each node would take too long.
MANY_LOOKS = 1 << 22

Pieces = Iterator[Edges]


class LayeredClosure:
    """The closure of some edges, of which one update changes several after each other."""

    def __init__(self, empty: Callable[[], Closure]) -> None:
        self._empty = empty
        self._safe = SteppedClosure(empty())
        self._full: SteppedClosure | None = None
        self._extra: set[int] = set()  # the edges of the upper layer that are not safe, each as one number
        # What the update in work did: whether it made the upper layer, and which of these edges it touched, with
        # whether they were there.
        self._is_new = False
        self._touched: dict[int, bool] = {}

    @property
    def shown(self) -> Closure:
        """The closure of all edges."""
        return (self._full or self._safe).closure

    @property
    def is_safe(self) -> bool:
        """Whether all pairs follow from safe edges."""
        return self._full is None

    # --- changing -----------------------------------------------------------------------------------------------------

    def replace(self, gone: Edges, come: Edges, watch: Watch) -> ClosureChange:
        """Delete safe edges and add others, where there are no others."""
        assert self._full is None
        return self._safe.apply(gone, come, watch)

    def delete(self, gone: Edges, more: Edges) -> Pieces:
        """Where there are others, delete safe edges, and edges that are not safe if they are there; the pairs that are
        overdeleted: all that had a path along a deleted edge and that safe edges do not yield. Some of them may still
        be shown, since other edges yield them which may have to go as well. To be listed before the next change.
        """
        assert self._full is not None
        extra = self._take(more)
        if len(gone[0]):
            self._safe.apply(gone, NO_EDGES)
        edges = tuple(np.concatenate(sides) for sides in zip(gone, extra, strict=True))
        if len(edges[0]) == 0:
            return iter(())
        before, after = self._reaching(edges[0], backward=True), self._reaching(edges[1], backward=False)
        change = self._full.apply((edges[0], edges[1]), NO_EDGES)
        return self._overdeleted(change, before, after)

    def _take(self, edges: Edges) -> Edges:
        """Take edges out of the extra ones; those that were there."""
        there = [edge for edge in packed(edges).tolist() if edge in self._extra]
        for edge in there:
            self._touched.setdefault(edge, True)
        self._extra.difference_update(there)
        return unpacked(np.unique(np.array(there, np.int64)))

    def _reaching(self, ends: Ints, backward: bool) -> Ints:
        """The terms that reach some terms, or that these reach; themselves, too. Possibly more, where that is much
        easier.
        """
        terms, ends = np.unique(np.concatenate(self.shown.base_edges())), np.unique(ends)
        if len(terms) * len(ends) > MANY_LOOKS:
            return terms
        found = np.isin(terms, ends)
        for end in ends:
            others = np.full(len(terms), end, np.int32)
            found |= self.shown.contains(terms, others) if backward else self.shown.contains(others, terms)
        return terms[found]

    def _overdeleted(self, change: ClosureChange, before: Ints, after: Ints) -> Pieces:
        """The pairs that are gone, and those from some terms to others that safe edges do not yield."""
        yield from change.chunks(False)
        safe, full = self._safe.closure, self.shown
        for source in before[counts_of(safe, before) != counts_of(full, before)]:
            sources = np.full(len(after), source, np.int32)
            open_to_doubt = full.contains(sources, after) & ~safe.contains(sources, after)
            if open_to_doubt.any():
                yield sources[open_to_doubt], after[open_to_doubt]
        loops = np.intersect1d(before, after)
        loops = loops[full.contains(loops, loops) & ~safe.contains(loops, loops)]
        if len(loops):
            yield loops, loops

    def add_safe(self, come: Edges, watch: Watch) -> ClosureChange | None:
        """Add safe edges; what that brings, if anything."""
        if len(come[0]) == 0:
            return None
        known = self._take(come)
        change = self._safe.apply(NO_EDGES, come, watch)
        if self._full is None:
            return change
        new = unpacked(np.setdiff1d(packed(come), packed(known)))
        return self._full.apply(NO_EDGES, new, watch) if len(new[0]) else None

    def needed(self, edges: Edges) -> Edges:
        """Those of some edges that are not safe that yield anything new."""
        if len(edges[0]) == 0:
            return NO_EDGES
        return unpacked(np.unique(packed(edges)[~self.shown.contains(*edges)]))

    def add_more(self, needed: Edges, watch: Watch) -> ClosureChange | None:
        """Add edges that are not safe and that are needed; what they bring, if there are any."""
        if len(needed[0]) == 0:
            return None
        self._make_full()
        assert self._full is not None
        for edge in packed(needed).tolist():
            self._touched.setdefault(edge, False)
            self._extra.add(edge)
        return self._full.apply(NO_EDGES, needed, watch)

    def _make_full(self) -> None:
        if self._full is None:
            closure = self._empty()
            safe = self._safe.closure.base_edges()
            if len(safe[0]):
                closure.apply(NO_EDGES, safe)
            closure.forget()
            self._full, self._is_new = SteppedClosure(closure), True

    # --- the update in work -------------------------------------------------------------------------------------------

    def former(self) -> ReadableClosure | None:
        """What was shown before the update, to be asked for at each pause anew; None where it cannot be told."""
        return (self._safe if self._full is None or self._is_new else self._full).former()

    def undo(self) -> None:
        """Be again what it was before the update, if that has changed anything."""
        if self._is_new:
            self._full = None
        elif self._full is not None:
            self._full.undo()
        for edge, was_there in self._touched.items():
            (self._extra.add if was_there else self._extra.discard)(edge)
        self._safe.undo()
        self.forget()

    def forget(self) -> None:
        """The update is over."""
        self._safe.forget()
        if self._full is not None:
            self._full.forget()
        self._is_new = False
        self._touched.clear()


def counts_of(closure: Closure, terms: Ints) -> NDArray[np.int64]:
    """How many nodes each term reaches, itself included; 0 where it has no edge."""
    counts = np.empty(len(terms), np.int64)
    kernels.read_counts(closure.view, address(terms), len(terms), address(counts))
    return counts
