"""The parts of a plan in short form: the cells of its head, and the chains of facts that its atoms are matched in."""

from __future__ import annotations

from tidelog.machine import index_fields as X
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import field, index_row, relation_row
from tidelog.machine.hash_tables import SEED, mix, probe_number
from tidelog.machine.jit import device, inlined, load_i32, store_i32


@inlined
def cell_value(cell, pivot, middle):
    """The value of a cell that does not come from the last atom."""
    value = load_i32(cell + 4)
    origin = load_i32(cell)
    if origin == P.FROM_PIVOT:
        return load_i32(pivot + 4 * value)
    if origin == P.FROM_MIDDLE:
        return load_i32(middle + 4 * value)
    return value


@inlined
def last_column(cell):
    """The column of the last atom that a cell comes from, or -1."""
    return load_i32(cell + 4) if load_i32(cell) == P.FROM_LAST else -1


@device
def short_head(cells, width, pivot, middle, last, target):
    """Write a head from the records of the pivot and of the other atoms."""
    for column in range(width):
        cell = cells + 8 * column
        from_last = last_column(cell)
        value = load_i32(last + 4 * from_last) if from_last >= 0 else cell_value(cell, pivot, middle)
        store_i32(target + 4 * column, value)


@device
def atom_of(m, words):
    """What walking a chain of an atom takes: address and width of the records, offsets of flags and link, the set that
    the atom is matched in, and its index.
    """
    row = relation_row(m, load_i32(words + 4 * P.A_RELATION))
    role = load_i32(words + 4 * P.A_ROLE)
    index = index_row(m, load_i32(words + 4 * P.A_INDEX))
    return (
        field(row, R.CELLS),
        field(row, R.WIDTH),
        field(row, R.FLAGS),
        field(index, X.LINK),
        m[M.MASKS + 2 * role],
        m[M.MASKS + 2 * role + 1],
        index,
    )


@inlined
def has_key(fact, sought):
    cells, width, column, key = sought
    return load_i32(cells + fact * width + column) == key


@device
def first_with_key(index, cells, width, key):
    """The newest fact with this value in the one column of an index, or -1."""
    sought = (cells, width, 4 * load_i32(field(index, X.COLUMNS)), key)
    slots = field(index, X.SLOTS)
    return load_i32(slots + 4 * probe_number(slots, field(index, X.SLOT_COUNT), mix(SEED, key), has_key, sought))
