"""Kernels that Python calls on one relation: rebuild its table and indexes, look rows up, set its bits."""

from __future__ import annotations

from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import (
    LOOK_AHEAD,
    field,
    find,
    find_slot,
    has_pair,
    home_slot,
    index_row,
    index_slot_of_record,
    is_known,
    record_of,
    relation_row,
    row_key,
)
from tidelog.machine.hash_tables import probe_key
from tidelog.machine.jit import Registers, entry_point, load_i32, load_i64, prefetch, store_i32, store_i64


@entry_point
def rebuild_table(m: Registers, relation: int, first: int, count: int) -> None:
    """Enter the records from `first` up to `count` into a hash table that has none of them."""
    row = relation_row(m, relation)
    arity = field(row, R.ARITY)
    groups = field(row, R.GROUPS)
    for fact in range(first, count):
        # Prefetch the slot of a later record while this one is entered.
        later = row_key(record_of(row, min(fact + LOOK_AHEAD, count - 1)), arity)
        prefetch(field(row, R.KEYS) + 8 * home_slot(later, groups))
        record = record_of(row, fact)
        key = row_key(record, arity)
        slot = find_slot(row, record, key, home_slot(key, groups))
        store_i64(field(row, R.KEYS) + 8 * slot, key)
        store_i32(field(row, R.FACTS) + 4 * slot, fact)


@entry_point
def move_table(m: Registers, relation: int, old_keys: int, old_facts: int, old_slots: int) -> None:
    """Move a hash table into a larger, empty one.

    Home slots keep their order when a table grows, so a walk through the old table fills the new one from front to
    back: no cache misses, and no look at the records.
    """
    row = relation_row(m, relation)
    keys = field(row, R.KEYS)
    facts = field(row, R.FACTS)
    groups = field(row, R.GROUPS)
    for old in range(old_slots):
        key = load_i64(old_keys + 8 * old)
        if key == R.EMPTY:
            continue
        slot, _ = probe_key(keys, groups * 8, home_slot(key, groups), R.EMPTY)
        store_i64(keys + 8 * slot, key)
        store_i32(facts + 4 * slot, load_i32(old_facts + 4 * old))


@entry_point
def rebuild_index(m: Registers, index_number: int, first: int, count: int) -> int:
    """Chain the records from `first` up to `count` into an index that has those before; its distinct keys, or -1 if its
    table is too small.
    """
    index = index_row(m, index_number)
    row = relation_row(m, field(index, X.RELATION))
    cells = field(row, R.CELLS)
    width = field(row, R.WIDTH)
    slots = field(index, X.SLOTS)
    link = field(index, X.LINK)
    limit = field(index, X.SLOT_COUNT) * 3 // 4
    used = 0 if first == 0 else field(index, X.USED)
    for fact in range(first, count):
        record = cells + fact * width
        place = slots + 4 * index_slot_of_record(index, record, cells, width)
        newest = load_i32(place)
        if newest == R.EMPTY:
            if used == limit:
                return -1
            used += 1
        store_i32(record + link, newest)
        store_i32(place, fact)
    store_i64(index + 8 * X.USED, used)
    return used


@entry_point
def find_rows(m: Registers, relation: int, rows: int, count: int, result: int) -> None:
    """The fact numbers of many rows, -1 for those that are not there."""
    arity = field(relation_row(m, relation), R.ARITY)
    for position in range(count):
        store_i32(result + 4 * position, find(m, relation, rows + 4 * arity * position))


@entry_point
def find_old(m: Registers, relation: int, records: int, width: int, count: int, result: int) -> None:
    """For each of some records outside the relation, the fact with the same arguments: -1 if there is none, -2 for a
    record that was not in I before the update.
    """
    row = relation_row(m, relation)
    arity = field(row, R.ARITY)
    groups = field(row, R.GROUPS)
    empty = field(row, R.COUNT) == 0
    known = field(row, R.PAIRS), field(row, R.PAIR_ROWS), field(row, R.PAIR_COLUMNS)
    for position in range(count):
        record = records + width * position
        if not load_i32(record + 4 * arity) & F.OLD:
            store_i32(result + 4 * position, -2)
            continue
        if empty or (known[0] != 0 and not has_pair(known, load_i32(record), load_i32(record + 4))):
            store_i32(result + 4 * position, -1)
            continue
        later = row_key(records + width * min(position + LOOK_AHEAD, count - 1), arity)
        prefetch(field(row, R.KEYS) + 8 * home_slot(later, groups))
        store_i32(result + 4 * position, find(m, relation, record))


@entry_point
def note_pairs(m: Registers, relation: int, first: int, last: int) -> None:
    """Set the bits of some pairs, as far as they are in I or wait to be, in the relation's matrix."""
    row = relation_row(m, relation)
    known = field(row, R.PAIRS), field(row, R.PAIR_ROWS), field(row, R.PAIR_COLUMNS)
    flags = field(row, R.FLAGS)
    for fact in range(first, last):
        record = record_of(row, fact)
        if load_i32(record + flags) & (F.IN | F.PENDING):
            is_known(known, load_i32(record), load_i32(record + 4))
