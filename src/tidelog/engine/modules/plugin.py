"""What the author of a module writes, and what its functions are given: plug-ins of Modular Materialisation, section 4.

A plug-in stands for some rules, Π below, and computes what follows from them by an algorithm of its own. All sets
belong to the engine: a function gets datasets, and returns facts. It must depend on nothing else. So a failed update
leaves nothing behind in a module, and the engine may call any function again.

Facts are columns of *terms*, the numbers under which the engine keeps constants. Equal constants have equal terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tidelog.errors import ModuleError
from tidelog.machine import term_kinds as K
from tidelog.store.relation_parts import Cells
from tidelog.store.terms import Terms

Columns = Sequence[npt.NDArray[np.integer[Any]]]
"""One array of terms for each argument of a predicate; a fact is a place in all of them."""

Derived = Mapping[str, Columns]
"""Facts by predicate, as a module returns them."""

Source = Callable[[], Cells]
"""Gives the rows of a predicate."""


def row_keys(rows: Cells) -> npt.NDArray[Any]:
    """One key for each row, equal for equal rows."""
    rows = np.ascontiguousarray(rows, np.int32)
    if rows.shape[1] == 0:
        return np.zeros(len(rows), np.int64)
    if rows.shape[1] <= 2:
        return rows[:, 0].astype(np.int64) << 32 | rows[:, -1]
    return rows.view(np.dtype((np.void, 4 * rows.shape[1]))).ravel()


class Dataset:
    """Facts of some predicates, which are read when a module asks for them.

    Examples:
        >>> class Links:
        ...     rules = "linked(X, Y) :- link(X, Y)."
        ...     def difference(self, facts, changed):
        ...         first, second = changed["link"]
        ...         print(changed.values(first))
        ...         return {"linked": (first, second)}
        ...     def delete(self, facts, gone, safe): return {}
        ...     def rederive(self, left, gone): return {}
        ...     def add(self, facts, new): return {}
        >>> kb = tidelog.KnowledgeBase(Links.rules)
        >>> kb.add_module(Links())
        >>> kb.update(add={"link": [("a", "b")]})
        ['a']
        <Change: + link: 1, + linked: 1>
    """

    def __init__(self, sources: Mapping[str, Source], terms: Terms) -> None:
        self._sources = sources
        self._terms = terms
        self._rows: dict[str, Cells] = {}

    def __iter__(self) -> Iterator[str]:
        """The predicates that it has facts of, or could have."""
        return iter(self._sources)

    def __contains__(self, predicate: object) -> bool:
        return predicate in self._sources

    def rows(self, predicate: str) -> Cells:
        """The facts of a predicate as one array, with a row for each."""
        if predicate not in self._rows:
            if predicate not in self._sources:
                known = ", ".join(f"`{name}`" for name in self._sources) or "none"
                raise ModuleError(f"a module asks for `{predicate}`, and this dataset has: {known}")
            rows = self._sources[predicate]().view()
            rows.flags.writeable = False
            self._rows[predicate] = rows
        return self._rows[predicate]

    def __getitem__(self, predicate: str) -> tuple[npt.NDArray[np.int32], ...]:
        """The facts of a predicate as columns of terms, which must not be written to."""
        return tuple(self.rows(predicate).T)

    def count(self, predicate: str) -> int:
        """How many facts of a predicate there are."""
        return len(self.rows(predicate))

    def contains(self, predicate: str, columns: Columns) -> npt.NDArray[np.bool_]:
        """Which of some facts are there."""
        rows = self.rows(predicate)
        asked = np.stack(columns, axis=1).astype(np.int32) if len(columns) else np.empty((0, 0), np.int32)
        return np.isin(row_keys(asked), row_keys(rows))

    def values(self, column: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.object_]:
        """The constants that terms stand for."""
        found = np.empty(len(column), object)
        found[:] = self._terms.table.decode_column(np.asarray(column, np.int32))
        return found

    def terms(self, values: Iterable[Any]) -> npt.NDArray[np.int32]:
        """The terms of constants, new ones if needed."""
        return self._terms.encode_values(list(values))


class Module(Protocol):
    """A module of rules, for `kb.add_module`. Π are its `rules`; they have no negation and no aggregates.

    Each function gets datasets of the predicates that its rules mention. `new` and `gone` have those that are part of
    the recursion, `changed` the others. A function raises `UnfitError` where its algorithm cannot take the facts.

    Examples:
        >>> class Copies:
        ...     rules = "copy(X) :- original(X)."
        ...     def difference(self, facts, changed): return {"copy": changed["original"]}
        ...     def delete(self, facts, gone, safe): return {}
        ...     def rederive(self, left, gone): return {}
        ...     def add(self, facts, new): return {}
        >>> kb = tidelog.KnowledgeBase("copy(X) :- original(X).")
        >>> kb.add_module(Copies())
        >>> kb.update(add={"original": [(1,)]})
        <Change: + original: 1, + copy: 1>
    """

    rules: str

    def add(self, facts: Dataset, new: Dataset) -> Derived:
        """Add (Definition 3): the smallest J with Π[facts ∪ J : new ∪ J] ⊆ facts ∪ J; `new` is a part of `facts`."""

    def delete(self, facts: Dataset, gone: Dataset, safe: Dataset) -> Derived:
        """Del (Definition 6): what follows by Π from `facts` with something of `gone`, which is a part of them, and in
        turn with what is returned. Facts in `safe`, which hold by other rules, may be left out with all that follows.
        """

    def difference(self, facts: Dataset, changed: Dataset) -> Derived:
        """Diff (Definition 5): Π[facts : changed], what one step gives from `facts` with something of `changed`."""

    def rederive(self, left: Dataset, gone: Dataset) -> Derived:
        """Red (Definition 7): the facts in `gone` that follow by Π from `left`, in one step or more."""


FUNCTIONS = {"add": 3, "difference": 5, "delete": 6, "rederive": 7}
"""The functions of a module, and the definitions that they have to satisfy."""


def derived_rows(found: object, arities: Mapping[str, int], terms: int, function: str) -> dict[str, Cells]:
    """What a function returned as rows, each once. `arities` are those of the predicates that the module derives."""
    if not isinstance(found, Mapping):
        raise ModuleError(f"`{function}` returned {found!r:.60}; it returns a mapping from predicates to columns")
    rows = {}
    for predicate, columns in found.items():
        if predicate not in arities:
            heads = ", ".join(f"`{name}`" for name in arities)
            raise ModuleError(f"`{function}` returned facts of {predicate!r:.60}; the module's rules derive {heads}")
        rows[predicate] = _checked(f"`{function}` returned for `{predicate}`", columns, arities[predicate], terms)
    return rows


def _checked(what: str, columns: Columns, arity: int, terms: int) -> Cells:
    arrays = [np.asarray(column) for column in columns]
    if len(arrays) != arity:
        raise ModuleError(f"{what} {len(arrays)} columns; it has {arity} arguments")
    for array in arrays:
        if array.ndim != 1 or len(array) != len(arrays[0]):
            raise ModuleError(f"{what} columns of different lengths, or of more than one dimension")
        if len(array) and (
            not np.issubdtype(array.dtype, np.integer) or array.min() <= K.FAILURE or array.max() >= terms
        ):
            raise ModuleError(f"{what} what are no terms; `facts.terms(values)` gives the terms of constants")
    rows = np.stack(arrays, axis=1).astype(np.int32)
    _, firsts = np.unique(row_keys(rows), return_index=True)
    return np.ascontiguousarray(rows[np.sort(firsts)])
