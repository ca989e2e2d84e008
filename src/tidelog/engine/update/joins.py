"""Joins of values by lattices of the user's own, which Python functions compute (`language.functions.registered`).

A join is looked up by its two terms first, and checked when it is new: it must be above both values, by the order of
the lattice, or, where none was given, because a further join with either of them changes nothing. So what is no join,
as the sum of two numbers, is found where it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from tidelog.engine.update.function_calls import shown_problem, shown_result
from tidelog.engine.update.runner import Runner
from tidelog.errors import DataError, LatticeError, TidelogError
from tidelog.language.functions.registered import lattice_of
from tidelog.language.literals import render_value
from tidelog.runtime.signals import comes_from_signal, interruptible
from tidelog.store.store import Store
from tidelog.values import Value


class JoinFailed(Exception):
    """Two values have no join; the argument says why."""


class Joins:
    """The joins of one lattice within one update."""

    def __init__(self, store: Store, runner: Runner, name: str) -> None:
        lattice = lattice_of(runner.functions, name)
        if lattice is None:
            hint = f"register it with kb.register_lattice({name!r}, join)"
            raise TidelogError(f"the lattice `{name}` is not registered; {hint}")
        self._store = store
        self._check_limits = runner.check_limits
        self._name = name
        self._function: Callable[..., Any] = runner.functions[name]
        self._order = lattice.order
        self._known: dict[tuple[int, int], int] = {}

    def of_all(self, terms: Iterable[int]) -> int:
        """The join of some terms, of which there is at least one."""
        with self._store.hooks.using_terms():
            return reduce(self.join, terms)

    def join(self, one: int, other: int) -> int:
        """The join of two terms; `JoinFailed` if they have none."""
        if one == other:
            return one
        key = (min(one, other), max(one, other))
        if key not in self._known:
            self._known[key] = self._joined(*key)
            self._check_limits()
        return self._known[key]

    def _joined(self, one: int, other: int) -> int:
        result = self._called(one, other)
        if not all(value == result or self._is_above(value, result) for value in (one, other)):
            texts = [render_value(self._decode(term)) for term in (one, other, result)]
            raise LatticeError(
                f"the join of the lattice `{self._name}` is not above what it joins: "
                f"that of {texts[0]} and {texts[1]} is {texts[2]}"
            )
        return result

    def _is_above(self, value: int, result: int) -> bool:
        if self._order is None:
            return self._called(value, result) == result
        return bool(self._run(self._order, value, result))

    def _called(self, one: int, other: int) -> int:
        result = self._run(self._function, one, other)
        try:
            return self._store.terms.encode(result)
        except DataError:
            raise JoinFailed(
                f"{self._call(one, other)} returned {shown_result(result)}, which no fact can hold"
            ) from None

    def _run(self, function: Callable[..., Any], one: int, other: int) -> Any:
        try:
            return interruptible(function, self._decode(one), self._decode(other))
        except Exception as problem:  # A registered function may raise anything.
            if comes_from_signal(problem):
                raise  # The function has not failed.
            raise JoinFailed(f"{self._call(one, other)} raised {shown_problem(problem)}") from problem

    def _decode(self, term: int) -> Value:
        return self._store.terms.table.decode(term)

    def _call(self, one: int, other: int) -> str:
        values = ", ".join(render_value(self._decode(term)) for term in (one, other))
        return f"{self._name}({values})"
