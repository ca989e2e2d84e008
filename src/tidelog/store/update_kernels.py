"""Kernels around an update: change explicit facts, and afterwards commit, roll back or list what changed."""

from __future__ import annotations

from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import (
    LOOK_AHEAD,
    clear_counters,
    field,
    find,
    find_or_append,
    flags_at,
    prefetch_row,
    record_of,
    relation_row,
    touch,
)
from tidelog.machine.jit import Registers, device, entry_point, inlined, load_i32, load_i64, store_i32, store_i64


@inlined
def settle_flags(place):
    flags = load_i32(place) & F.PERSISTENT
    store_i32(place, flags | F.OLD if flags & F.IN else flags & ~F.OLD)


@inlined
def set_in(place, inside):
    """Put a fact into I or take it out."""
    flags = load_i32(place)
    store_i32(place, flags | F.IN if inside else flags & ~F.IN)


@device
def set_explicit(m, relation, row, fact, explicit):
    """Put a fact into E or take it out; whether that changed anything."""
    place = flags_at(row, fact)
    if (load_i32(place) & F.EXPLICIT != 0) == explicit:
        return False
    touch(m, relation, row, fact)
    store_i32(place, load_i32(place) ^ F.EXPLICIT)
    return True


@entry_point
def load_rows(m: Registers, relation: int, rows: int, count: int, flags: int) -> None:
    """Add the rows that are not there yet, with these flags. There is room for all of them."""
    row = relation_row(m, relation)
    arity = field(row, R.ARITY)
    for position in range(count):
        prefetch_row(row, rows, min(position + LOOK_AHEAD, count - 1))
        find_or_append(m, relation, rows + 4 * arity * position, flags)


@entry_point
def add_explicit(m: Registers, relation: int, rows: int, count: int, result: int) -> int:
    """Make rows explicit; those that were not are written to `result`, and counted. There is room for all."""
    row = relation_row(m, relation)
    arity = field(row, R.ARITY)
    fresh = 0
    for position in range(count):
        prefetch_row(row, rows, min(position + LOOK_AHEAD, count - 1))
        fact = find_or_append(m, relation, rows + 4 * arity * position, 0)
        if set_explicit(m, relation, row, fact, True):
            store_i32(result + 4 * fresh, fact)
            fresh += 1
    return fresh


@entry_point
def remove_explicit(m: Registers, relation: int, rows: int, count: int, result: int) -> int:
    """Take rows out of E; those that were in it are written to `result`, and counted."""
    row = relation_row(m, relation)
    arity = field(row, R.ARITY)
    gone = 0
    for position in range(count):
        fact = find(m, relation, rows + 4 * arity * position)
        if fact >= 0 and set_explicit(m, relation, row, fact, False):
            store_i32(result + 4 * gone, fact)
            gone += 1
    return gone


@entry_point
def set_membership(m: Registers, relation: int, rows: int, count: int, inside: bool) -> None:
    """Put rows into I or take them out, for a relation that no rule derives. There is room for all of them."""
    row = relation_row(m, relation)
    arity = field(row, R.ARITY)
    for position in range(count):
        fact = find_or_append(m, relation, rows + 4 * arity * position, 0)
        touch(m, relation, row, fact)
        set_in(flags_at(row, fact), inside)


@entry_point
def set_facts(m: Registers, relation: int, facts: int, count: int, inside: bool) -> None:
    """The same for known facts that were touched already."""
    row = relation_row(m, relation)
    for position in range(count):
        set_in(flags_at(row, load_i32(facts + 4 * position)), inside)


@entry_point
def empty_records(m: Registers, relation: int, first: int, last: int) -> None:
    """Take facts out of I and set their counters to zero. There is room in the log for all of them.

    Dead facts too, since they may have a rank in place of a counter.
    """
    row = relation_row(m, relation)
    counters = field(row, R.COUNTERS)
    for fact in range(first, last):
        touch(m, relation, row, fact)
        place = flags_at(row, fact)
        store_i32(place, load_i32(place) & ~(F.IN | F.CURRENT | F.PENDING))
        clear_counters(record_of(row, fact), counters)


@entry_point
def commit_relation(m: Registers, relation: int) -> None:
    """Settle the facts that the update appended to a relation: those in I were there before the next update."""
    row = relation_row(m, relation)
    for fact in range(field(row, R.START), field(row, R.COUNT)):
        settle_flags(flags_at(row, fact))
    store_i64(row + 8 * R.START, field(row, R.COUNT))


@entry_point
def commit_log(m: Registers) -> None:
    """The same for the facts that were there before and that the update touched."""
    for position in range(m[M.LOG_COUNT]):
        entry = m[M.LOG] + position * R.LOG_STRIDE
        settle_flags(flags_at(relation_row(m, load_i64(entry)), load_i64(entry + 8)))
    m[M.LOG_COUNT] = 0


@entry_point
def roll_back_log(m: Registers) -> None:
    """Restore every touched fact."""
    for position in range(m[M.LOG_COUNT]):
        entry = m[M.LOG] + position * R.LOG_STRIDE
        row = relation_row(m, load_i64(entry))
        record = record_of(row, load_i64(entry + 8))
        store_i32(record + field(row, R.FLAGS), load_i64(entry + 16))
        counters = field(row, R.COUNTERS)
        if counters != 0:
            store_i32(record + counters, load_i64(entry + 24))
            store_i32(record + counters + 4, load_i64(entry + 32))
    m[M.LOG_COUNT] = 0


@entry_point
def roll_back_relation(m: Registers, relation: int) -> None:
    """Turn the facts that the update appended into dead records, which compaction will remove."""
    row = relation_row(m, relation)
    counters = field(row, R.COUNTERS)
    for fact in range(field(row, R.START), field(row, R.COUNT)):
        record = record_of(row, fact)
        store_i32(record + field(row, R.FLAGS), 0)
        clear_counters(record, counters)
    store_i64(row + 8 * R.START, field(row, R.COUNT))


@entry_point
def changed_facts(
    m: Registers, relation: int, since: int, appended_since: int, removed: int, added: int, counts: int
) -> None:
    """The facts of a relation that left or entered I, from log entry `since` and record `appended_since` on."""
    row = relation_row(m, relation)
    gone = 0
    new = 0
    for position in range(since, m[M.LOG_COUNT]):
        entry = m[M.LOG] + position * R.LOG_STRIDE
        if load_i64(entry) != relation:
            continue
        fact = load_i64(entry + 8)
        flags = load_i32(flags_at(row, fact))
        if flags & F.OLD and not flags & F.IN:
            store_i32(removed + 4 * gone, fact)
            gone += 1
        elif flags & F.IN and not flags & F.OLD:
            store_i32(added + 4 * new, fact)
            new += 1
    for fact in range(appended_since, field(row, R.COUNT)):
        if load_i32(flags_at(row, fact)) & F.IN:
            store_i32(added + 4 * new, fact)
            new += 1
    store_i64(counts, gone)
    store_i64(counts + 8, new)
