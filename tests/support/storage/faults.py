"""Faults at chosen places: the n-th call of any of some functions, or the n-th allocation of an array, raises."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tidelog.machine.growth
import tidelog.store.fact_table
import tidelog.store.indexes
import tidelog.store.relation
import tidelog.store.relation_parts
import tidelog.store.store
import tidelog.store.terms
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.runner import Runner
from tidelog.machine.jit import EntryPoint
from tidelog.machine.work_lists import WorkLists
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Queues
from tidelog.store.store import KernelArrays, RuleCounts, Store
from tidelog.store.terms import Terms

GROWTH = [
    (Relation, "reserve"),
    (Relation, "expect_different"),
    (Relation, "index_on"),
    (Relation, "add_counters"),
    (Queues, "reserve"),
    (Store, "new_relation"),
    (Store, "new_index"),
    (KernelArrays, "grow_log"),
    (WorkLists, "reserve"),
    (KernelArrays, "grow_frames"),
    (KernelArrays, "grow_requests"),
    (RuleCounts, "ensure"),
    (Terms, "reserve"),
]
PHASES = [(Runner, "run"), (Transaction, "collect"), (Runner, "check_limits"), (Runner, "_serve")]

# What only happens when arrays are moved, committed or put back cannot fail by itself: it allocates nothing.
_NEVER_FAIL = {
    *("commit_log", "commit_relation", "roll_back_log", "roll_back_relation", "forget_marks"),
    *("move_table", "rebuild_table", "rebuild_index", "rebuild_term_slots", "hash_terms"),
}
_ALLOCATING = ("zeros", "empty", "full", "resize")
# What else asks for memory, in the modules that Python runs between kernels.
_ALLOCATING_TOO = ("arange", "array", "concatenate", "stack", "flatnonzero", "unique", "where", "ascontiguousarray")


class Trigger:
    """Counts calls, and raises once, when its number comes up."""

    def __init__(self, number: int, error: type[BaseException]) -> None:
        self._error = error
        self._number = number
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        if self.count == self._number:
            raise self._error(f"injected fault number {self._number}")


def _triggering(function: Callable[..., Any], trigger: Trigger) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        trigger()
        return function(*arguments, **options)

    return call


@contextmanager
def faulty_calls(number: int, error: type[BaseException] = MemoryError) -> Iterator[Trigger]:
    """Let the n-th growth or phase of an update fail."""
    trigger = Trigger(number, error)
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (*GROWTH, *PHASES):
            patch.setattr(owner, name, _triggering(getattr(owner, name), trigger))
        yield trigger


@contextmanager
def faulty_kernels(number: int, error: type[BaseException] = MemoryError) -> Iterator[Trigger]:
    """Let the n-th call of a kernel fail before it has done anything."""
    trigger = Trigger(number, error)
    original = EntryPoint.__call__

    def call(self: EntryPoint, *arguments: Any) -> Any:
        if self.__name__ not in _NEVER_FAIL:
            trigger()
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EntryPoint, "__call__", call)
        yield trigger


class _Numpy:
    """NumPy whose allocations may fail."""

    def __init__(self, trigger: Trigger, names: tuple[str, ...] = _ALLOCATING) -> None:
        for name in names:
            setattr(self, name, _triggering(getattr(np, name), trigger))

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@contextmanager
def faulty_memory(
    number: int, error: type[BaseException] = MemoryError, also: tuple[ModuleType, ...] = ()
) -> Iterator[Trigger]:
    """Refuse the n-th array that the store, or some other modules, ask for."""
    trigger = Trigger(number, error)
    modules: tuple[ModuleType, ...] = (
        tidelog.machine.growth,
        tidelog.store.fact_table,
        tidelog.store.indexes,
        tidelog.store.relation,
        tidelog.store.relation_parts,
        tidelog.store.store,
        tidelog.store.terms,
    )
    with pytest.MonkeyPatch.context() as patch:
        for module in (*modules, *also):
            patch.setattr(module, "np", _Numpy(trigger))
        yield trigger


@contextmanager
def faulty_memory_anywhere(number: int, error: type[BaseException] = MemoryError) -> Iterator[Trigger]:
    """Refuse the n-th array that any module of tidelog asks for."""
    trigger = Trigger(number, error)
    faulty = _Numpy(trigger, (*_ALLOCATING, *_ALLOCATING_TOO))
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("tidelog.") and getattr(module, "np", None) is np:
                patch.setattr(module, "np", faulty)
        yield trigger
