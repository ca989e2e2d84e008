"""Derivation counters: a cell of 32 bits each, which is full at `FULL_COUNT` and stays so.

A fact can have more derivations than a cell can count: a cross product of two relations with 46,500 facts each is
enough. A counter that is full means "some, nobody knows how many", and moves neither up nor down. It is never trusted
to become zero:

- The non-recursive counter of a fact says between two updates whether there is such a derivation, also where it is
  full. An instance that goes puts a full one in *doubt*; the fact then looks for a derivation that is left, and has its
  counter at zero if there is none (`engine.algorithms.delete_rederive`).
- The recursive counter is looked at only when its fact has been overdeleted: where it is full, the fact looks for an
  instance as it would without counters.

When derivations are counted again (`counting.recount`, `recomputation`), all counts are true again.
"""

from __future__ import annotations

from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import field, record_of
from tidelog.machine.jit import device, inlined, load_i32, store_i32

# The largest number that a cell can hold. Tests that run without the compiler let few derivations be too many.
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
    """What a counter can say of so many derivations."""
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
