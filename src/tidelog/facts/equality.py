"""Rows that stand for their copies under an equality: who reads facts, and changes of them, sees all copies.

The relation of a predicate to which an equality applies (`program.equality`) holds rows as they were given or derived.
The constants that are equal form *classes*, each with its least member as the representative. A row of representatives
stands for the product of its classes, from which any part can be read without making the rest (`Copies`).

What an update did to the copies is found from what it did to the rows and to the classes. Only those rows are looked at
that have come or gone, that stand for the same copies as one of these, or that have a constant whose class has changed.
How many copies came and went is known at once: a class that has changed is divided into *pieces*, each of which was in
one class before and is in one now, and rows of pieces are counted. The copies themselves are listed when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.closures.closure import Closure
from tidelog.engine.engine import Engine
from tidelog.engine.update.deltas import Outcome
from tidelog.engine.update.match_rows import distinct
from tidelog.engine.update.rows import NO_ROWS, Rows
from tidelog.errors import LimitError
from tidelog.facts.encoding import row_keys
from tidelog.program.equality import Equality
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

# Numbers of rows are 64-bit integers, and `len` takes no more.
MOST_COPIES = float(1 << 62)

# Copies that are listed together.
LISTED_TOGETHER = 1 << 16

NO_TERMS: Cells = np.empty(0, np.int32)


class Groups:
    """Disjoint sets of numbers, each under one key. A key without a set stands for itself."""

    def __init__(self, keys: Cells, members: Cells) -> None:
        """Each member has its key beside it."""
        order = np.lexsort((members, keys))
        self._members = members[order]
        self._keys, self._starts, self._sizes = np.unique(keys[order], return_index=True, return_counts=True)

    def _place(self, keys: Cells) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        if not len(self._keys):
            return np.zeros(keys.shape, np.intp), np.zeros(keys.shape, np.bool_)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return place, self._keys[place] == keys

    def sizes(self, keys: Cells) -> npt.NDArray[np.int64]:
        place, known = self._place(keys)
        return np.where(known, self._sizes[place] if len(self._sizes) else 1, 1).astype(np.int64)

    def member(self, keys: Cells, number: npt.NDArray[np.int64]) -> Cells:
        """Of each set, the member with this number."""
        place, known = self._place(keys)
        if not known.any():
            return keys
        found = self._members[np.where(known, self._starts[place] + number, 0)]
        return np.where(known, found, keys).astype(np.int32)


class Classes:
    """The classes of constants that an equality makes equal, without those of one member."""

    def __init__(self, terms: Cells, representatives: Cells) -> None:
        """Terms in ascending order, and the representative of each."""
        _, places, sizes = np.unique(representatives, return_inverse=True, return_counts=True)
        several = sizes[places] > 1
        self.terms, self._representatives = terms[several], representatives[several]

    @classmethod
    def of(cls, relation: Relation | None) -> Classes:
        """The classes of an equality, from its relation: from the edges that a closure starts from, or all pairs."""
        if relation is None:
            return NO_CLASSES
        if isinstance(relation.closure, Closure):
            return cls(*_connected(*relation.closure.base_edges()))
        return cls(*_connected(*relation.rows().T))

    @cached_property
    def groups(self) -> Groups:
        """The members of each class, by its representative."""
        return Groups(self._representatives, self.terms)

    def representatives(self, cells: Cells) -> Cells:
        """Cells with the representative of each term in its place."""
        if not len(self.terms):
            return cells
        place = np.minimum(np.searchsorted(self.terms, cells), len(self.terms) - 1)
        return np.where(self.terms[place] == cells, self._representatives[place], cells).astype(np.int32)

    def copies(self, rows: Cells) -> Copies:
        """What rows of a predicate stand for."""
        return Copies(distinct(self.representatives(rows)), self.groups)


NO_CLASSES = Classes(NO_TERMS, NO_TERMS)


def _connected(left: Cells, right: Cells) -> tuple[Cells, Cells]:
    """The terms of some edges, and the least term of the connected component of each."""
    terms, ends = np.unique(np.concatenate((left, right)), return_inverse=True)
    one, other = ends[: len(left)], ends[len(left) :]
    root = np.arange(len(terms))
    while True:
        apart = root[one] != root[other]
        if not apart.any():
            return terms.astype(np.int32), terms[root].astype(np.int32)
        one, other = one[apart], other[apart]
        low, high = np.minimum(root[one], root[other]), np.maximum(root[one], root[other])
        np.minimum.at(root, high, low)
        while not np.array_equal(root, root[root]):
            root = root[root]


class Copies:
    """What rows of keys stand for: every row that has, in each column, a member of the group of the key there."""

    def __init__(self, keys: Cells, groups: Groups) -> None:
        self._keys = keys
        self._groups = groups
        sizes = groups.sizes(keys)
        if len(keys) and np.prod(sizes, axis=1, dtype=np.float64).sum() > MOST_COPIES:
            raise LimitError("equal constants make more copies of facts than can be counted; are so many equal?")
        self._sizes = sizes
        self._counts: npt.NDArray[np.int64] = np.prod(sizes, axis=1, dtype=np.int64)
        self._ends: npt.NDArray[np.int64] = np.cumsum(self._counts)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def counts(self, tables: int) -> npt.NDArray[np.int64]:
        """How many are of each of some tables; see `_numbered`."""
        found = np.zeros(tables, np.int64)
        np.add.at(found, -1 - self._keys[:, 0], self._counts)
        return found

    def of_table(self, number: int) -> Copies:
        """Those of one table."""
        return Copies(self._keys[self._keys[:, 0] == -1 - number], self._groups)

    def rows(self, first: int = 0, last: int | None = None) -> Cells:
        """The rows from one number up to another, or to the last."""
        numbers = np.arange(first, len(self) if last is None else min(last, len(self)), dtype=np.int64)
        place = np.searchsorted(self._ends, numbers, side="right")
        keys, sizes = self._keys[place], self._sizes[place]
        left = numbers - np.where(place > 0, self._ends[place - 1], 0)
        found = np.empty(keys.shape, np.int32)
        for column in reversed(range(keys.shape[1])):
            left, number = np.divmod(left, sizes[:, column])
            found[:, column] = self._groups.member(keys[:, column], number)
        return found


class ShownClasses:
    """The classes of an engine's equality: those of its last committed state are kept for the next questions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._committed: Classes | None = None

    def now(self) -> Classes:
        """The classes in the state that is read."""
        past = self._engine.past
        if past.works and not past.shown:
            return self._found()
        if self._committed is None:
            self._committed = self._found()
        return self._committed

    def commit(self, classes: Classes | None) -> None:
        """The state that is about to be read has these classes."""
        self._committed = classes

    def _found(self) -> Classes:
        equality = self._engine.graph.equality
        return NO_CLASSES if equality is None else Classes.of(self._engine.store.find(equality.predicate))

    def of(self, predicate: str) -> Classes | None:
        """The classes by which the rows of a predicate stand for others; None where they do not."""
        equality = self._engine.graph.equality
        return self.now() if equality is not None and equality.applies_to(predicate) else None


ClassesOf = tuple[Equality | None, Classes]
"""The equality of a program, and the classes that it makes."""


def show_copies(engine: Engine, outcome: Outcome, before: ClassesOf, after: ClassesOf) -> None:
    """Let the outcome of an update tell of copies instead of rows, for all predicates to which its equality applies, or
    applied before. It has not been committed.
    """
    differences: dict[tuple[bool, bool], _Difference] = {}
    concerned: dict[tuple[_Difference, int], list[_Changed]] = {}
    for predicate, relation in engine.store.named().items():
        applied, applies = (state[0] is not None and state[0].applies_to(predicate) for state in (before, after))
        if not relation.arity or not (applied or applies):
            continue
        if (applied, applies) not in differences:
            old, new = before[1] if applied else NO_CLASSES, after[1] if applies else NO_CLASSES
            differences[applied, applies] = _Difference(old, new)
        changed = _Changed(relation, outcome.removed.get(predicate, NO_ROWS), outcome.added.get(predicate, NO_ROWS))
        if differences[applied, applies].concerns(changed):
            concerned.setdefault((differences[applied, applies], relation.arity), []).append(changed)
    for (difference, _), of_one_arity in concerned.items():
        for changed, removed, added in difference.of(of_one_arity):
            for facts, rows in ((outcome.removed, removed), (outcome.added, added)):
                facts.pop(changed.relation.name, None)
                if rows.count:
                    facts[changed.relation.name] = rows


class _Changed(NamedTuple):
    """A relation, and the rows that an update removed and added."""

    relation: Relation
    gone: Rows
    come: Rows


class _Difference:
    """What leads from some classes to others. A *piece* is named by its least member, as a class is."""

    def __init__(self, old: Classes, new: Classes) -> None:
        self._old, self._new = old, new
        terms = np.union1d(old.terms, new.terms).astype(np.int32)
        former, present = old.representatives(terms), new.representatives(terms)
        # A class has changed if a member has another representative than before, or one that left or joined it has.
        changed = np.concatenate((former[former != present], present[former != present]))
        moved = np.isin(former, changed) | np.isin(present, changed)
        self._moved = terms[moved]
        former, present = former[moved], present[moved]
        order = np.lexsort((self._moved, present, former))
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (np.diff(former[order]) != 0) | (np.diff(present[order]) != 0)
        firsts = order[begins]
        names = self._moved[firsts]
        self._former_pieces = Groups(former[firsts], names)
        self._present_pieces = Groups(present[firsts], names)
        stayed = terms[~moved]
        keys = np.concatenate((names[np.cumsum(begins) - 1], new.representatives(stayed)))
        self._pieces = Groups(keys, np.concatenate((self._moved[order], stayed)))

    def concerns(self, changed: _Changed) -> bool:
        """Whether rows may stand for others, or may have done so, in what an update did to a relation."""
        if len(self._moved):
            return True
        terms = self._new.terms
        return any(rows.count and np.isin(rows.read(), terms).any() for rows in (changed.gone, changed.come))

    def of(self, relations: Sequence[_Changed]) -> Iterator[tuple[_Changed, Rows, Rows]]:
        """The copies that went from relations of one arity and those that came, by rows that did and by classes. They
        are looked at together, with the number of its relation in front of each row.
        """
        now = _numbered([changed.relation.rows() for changed in relations])
        left, arrived = (
            _numbered([rows.read() if rows.count else now[:0, 1:] for rows in side])
            for side in ([changed.gone for changed in relations], [changed.come for changed in relations])
        )
        touched = np.isin(now, self._moved).any(axis=1)
        touched |= _among(self._new.representatives(now), self._new.representatives(np.concatenate((left, arrived))))
        now = now[touched]
        before = np.concatenate((now[~_among(now, arrived)], left))
        former, present = distinct(self._old.representatives(before)), distinct(self._new.representatives(now))
        common = self._common(former, present)
        went, came = Copies(former, self._old.groups), Copies(present, self._new.groups)
        removed = went.counts(len(relations)) - common.counts(len(relations))
        added = came.counts(len(relations)) - common.counts(len(relations))
        for number, changed in enumerate(relations):
            yield (
                changed,
                Rows(int(removed[number]), partial(_read_without, went, self._new, present, number)),
                Rows(int(added[number]), partial(_read_without, came, self._old, former, number)),
            )

    def _common(self, former: Cells, present: Cells) -> Copies:
        """The copies that were there and still are. Of rows of pieces, the side with fewer is looked at."""
        before, after = Copies(former, self._former_pieces), Copies(present, self._present_pieces)
        if len(before) <= len(after):
            pieces = before.rows()
            pieces = pieces[_among(self._new.representatives(pieces), present)]
        else:
            pieces = after.rows()
            pieces = pieces[_among(self._old.representatives(pieces), former)]
        return Copies(pieces, self._pieces)


def _numbered(tables: Sequence[Cells]) -> Cells:
    """Rows of several tables, each with the number of its table in front, as a number that no term has."""
    numbers = np.repeat(-1 - np.arange(len(tables), dtype=np.int32), [len(rows) for rows in tables])
    return np.column_stack((numbers, np.concatenate(tables)))


def _read_without(copies: Copies, classes: Classes, others: Cells, number: int, most: int) -> Cells:
    """The copies of one relation that are none of others, or the first of them."""
    own, others = copies.of_table(number), others[others[:, 0] == -1 - number]
    found = [own.rows(0, 0)]
    for first in range(0, len(own), LISTED_TOGETHER):
        rows = own.rows(first, first + LISTED_TOGETHER)
        found.append(rows[~_among(classes.representatives(rows), others)])
        if sum(map(len, found)) >= most:
            break
    return np.concatenate(found)[:most, 1:]


def _among(rows: Cells, others: Cells) -> npt.NDArray[np.bool_]:
    """Which rows are among others."""
    if not len(others):
        return np.zeros(len(rows), np.bool_)
    return np.isin(row_keys(rows), row_keys(others))
