"""Derivation counters: cells of 32 bits, which saturate at `FULL_COUNT`.

A fact can have more derivations than a cell can count: a cross product of two relations with 46,500 facts each is
enough. A full counter means "some, but unknown how many", and no longer moves. It never becomes zero by counting:

- Between two updates, the non-recursive counter of a fact says whether there is such a derivation, even when full. An
  instance that goes puts a full counter in *doubt*: the fact looks for another derivation, and its counter becomes
  zero if there is none (`engine.algorithms.delete_rederive`).
- The recursive counter matters only when its fact has been overdeleted. If it is full, the fact looks for an instance
  as it would without counters.

When derivations are counted afresh (`counting.recount`, `insertion.recompute`), all counts are exact again.
"""

from __future__ import annotations

from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import field, record_of
from tidelog.machine.jit import device, inlined, load_i32, store_i32

# The largest number that a cell can hold. Tests without the compiler lower it.
FULL_COUNT = (1 << 31) - 1


@inlined
def counters_of(row, fact):
    """The address of a fact's counters: the non-recursive one, and 4 bytes further the recursive one or a rank."""
    return record_of(row, fact) + field(row, R.COUNTERS)


@inlined
def is_full(count):
    return count == FULL_COUNT


@inlined
def known_count(count):
    """The count of so many derivations, as far as a counter can hold it."""
    return min(count, FULL_COUNT)


@device
def move_counter(row, fact, counter, step):
    """One derivation more or less, unless the counter is full; whether it was."""
    place = counters_of(row, fact) + 4 * counter
    count = load_i32(place)
    if is_full(count):
        return True
    store_i32(place, count + step)
    return False
