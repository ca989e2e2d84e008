"""The base edges: terms to nodes, and the edges out of and into each node as lists in two pools."""

from __future__ import annotations

from tidelog.closures import closure_registers as C
from tidelog.closures.access import (
    append,
    entry,
    fresh_tokens,
    get,
    get_long,
    lacks,
    limit_of,
    move_list,
    put,
    put_entry,
    put_flag,
    put_long,
    set_place,
    set_size,
    size_of,
    start_of,
    take_place,
)
from tidelog.closures.memory import Longs
from tidelog.closures.partition import found_component
from tidelog.machine.jit import device, entry_point, inlined, load_i32, store_i32

LOW_32 = 0xFFFFFFFF
MULTIPLIER = 0x2C1B3C6D  # a term times it stays inside 62 bits, so that plain Python agrees with compiled code


@inlined
def home_slot(term: int, mask: int) -> int:
    """Where the search for a term begins in the hash table."""
    product = term * MULTIPLIER
    return (product ^ (product >> 17)) & mask


@device
def free_slot(m: Longs, term: int) -> int:
    """The slot of a term, or the empty one where it belongs."""
    slot = home_slot(term, m[C.MASK])
    while get_long(m, C.SLOTS, slot) >= 0 and get_long(m, C.SLOTS, slot) >> 32 != term:
        slot = (slot + 1) & m[C.MASK]
    return slot


@entry_point
def intern(m: Longs, terms: int, nodes: int, count: int, begin: int) -> int:
    """Number the terms, founding nodes for new ones; stops where there is no room for one more node."""
    m[C.STATUS] = C.DONE
    for i in range(begin, count):
        term = load_i32(terms + 4 * i)
        slot = free_slot(m, term)
        if get_long(m, C.SLOTS, slot) < 0:
            if m[C.NODES] == m[C.CAPACITY] or lacks(m, C.MEMBERS, 1):
                m[C.STATUS] = C.MEMBERS
                return i
            node = m[C.NODES]
            put_long(m, C.SLOTS, slot, term << 32 | node)
            append(m, C.TERMS, C.NODES, term)
            found_component(m, node)
        store_i32(nodes + 4 * i, get_long(m, C.SLOTS, slot) & LOW_32)
    return count


@entry_point
def rehash(m: Longs) -> None:
    """Fill an empty hash table."""
    for node in range(m[C.NODES]):
        term = get(m, C.TERMS, node)
        put_long(m, C.SLOTS, free_slot(m, term), term << 32 | node)


@inlined
def more_for(m: Longs, pool: int, owner: int) -> int:
    """How much of the pool one more entry in a list takes."""
    limit = limit_of(m, pool, owner)
    return 0 if size_of(m, pool, owner) < limit else max(2, 2 * limit)


@device
def push(m: Longs, pool: int, owner: int, value: int) -> None:
    """Append to a list; the pool has room."""
    more = more_for(m, pool, owner)
    if more > 0:
        move_list(m, pool, owner, more)
    size = size_of(m, pool, owner)
    put_entry(m, pool, start_of(m, pool, owner) + size, value)
    set_size(m, pool, owner, size + 1)


@device
def remove(m: Longs, pool: int, owner: int, value: int) -> int:
    """Take one entry out of a list, if it is there; the order of the others is not kept. Returns how many went."""
    start, size = start_of(m, pool, owner), size_of(m, pool, owner)
    for i in range(start, start + size):
        if entry(m, pool, i) == value:
            put_entry(m, pool, i, entry(m, pool, start + size - 1))
            set_size(m, pool, owner, size - 1)
            return 1
    return 0


@entry_point
def link(m: Longs, source: int, target: int, count: int, begin: int) -> int:
    """Add edges one by one."""
    m[C.STATUS] = C.DONE
    for i in range(begin, count):
        x, y = load_i32(source + 4 * i), load_i32(target + 4 * i)
        if x == y:
            put_flag(m, C.LOOPS, x, 1)
            continue
        if lacks(m, C.OUT, more_for(m, C.OUT, x)) or lacks(m, C.INTO, more_for(m, C.INTO, y)):
            return i
        push(m, C.OUT, x, y)
        push(m, C.INTO, y, x)
        m[C.EDGES] += 1
    return count


@device
def deal(m: Longs, pool: int, owners: int, values: int, count: int) -> None:
    """Make all lists anew, without gaps, by a counting sort; loops are left out."""
    for node in range(m[C.NODES]):
        set_size(m, pool, node, 0)
    for i in range(count):
        owner = load_i32(owners + 4 * i)
        if owner != load_i32(values + 4 * i):
            set_size(m, pool, owner, size_of(m, pool, owner) + 1)
    m[pool + C.USED] = 0
    for node in range(m[C.NODES]):
        take_place(m, pool, node, size_of(m, pool, node))
    for i in range(count):
        owner, value = load_i32(owners + 4 * i), load_i32(values + 4 * i)
        if owner != value:
            push(m, pool, owner, value)


@entry_point
def load(m: Longs, source: int, target: int, count: int, out: int, into: int) -> None:
    """Make the given edges, all at once, the only ones, in new memory that has just the room for them."""
    for node in range(m[C.NODES]):
        put_flag(m, C.LOOPS, node, 0)
    for i in range(count):
        x = load_i32(source + 4 * i)
        if x == load_i32(target + 4 * i):
            put_flag(m, C.LOOPS, x, 1)
    for pool, entries in ((C.OUT, out), (C.INTO, into)):
        m[pool + C.ENTRIES], m[pool + C.ROOM] = entries, count
    deal(m, C.OUT, source, target, count)
    deal(m, C.INTO, target, source, count)
    m[C.EDGES] = m[C.OUT + C.USED]


@device
def remove_many(m: Longs, pool: int, owner: int, values: int, begin: int, end: int) -> int:
    """Take several entries out of a list, reading it once. Returns how many went."""
    token = fresh_tokens(m, 1)
    for i in range(begin, end):
        put(m, C.STAMP, load_i32(values + 4 * i), token)
    start, size = start_of(m, pool, owner), size_of(m, pool, owner)
    kept = 0
    for i in range(start, start + size):
        value = entry(m, pool, i)
        if get(m, C.STAMP, value) != token:
            put_entry(m, pool, start + kept, value)
            kept += 1
    set_size(m, pool, owner, kept)
    return size - kept


@device
def drop(m: Longs, pool: int, owners: int, values: int, count: int) -> int:
    """Take entries out of lists; equal owners stand together. Returns how many went."""
    dropped = 0
    first = 0
    while first < count:
        owner = load_i32(owners + 4 * first)
        last = first + 1
        while last < count and load_i32(owners + 4 * last) == owner:
            last += 1
        if last == first + 1:
            dropped += remove(m, pool, owner, load_i32(values + 4 * first))
        else:
            dropped += remove_many(m, pool, owner, values, first, last)
        first = last
    return dropped


@entry_point
def unlink(m: Longs, source: int, target: int, count: int, sources: int, targets: int, same_count: int) -> None:
    """Take edges out; they come twice, ordered by their source and ordered by their target."""
    for i in range(count):
        x = load_i32(source + 4 * i)
        if x == load_i32(target + 4 * i):
            put_flag(m, C.LOOPS, x, 0)
    m[C.EDGES] -= drop(m, C.OUT, source, target, count)
    drop(m, C.INTO, targets, sources, same_count)


@entry_point
def compact(m: Longs, pool: int, entries: int, room: int) -> None:
    """Move all lists, without gaps, to new memory."""
    end = 0
    for owner in range(m[C.CAPACITY]):
        start, size = start_of(m, pool, owner), size_of(m, pool, owner)
        for i in range(size):
            store_i32(entries + 4 * (end + i), entry(m, pool, start + i))
        set_place(m, pool, owner, end, size)
        end += size
    m[pool + C.ENTRIES], m[pool + C.ROOM], m[pool + C.USED] = entries, room, end


@entry_point
def read_edges(m: Longs, source: int, target: int) -> None:
    """Write the terms of all edges that are no loops where there is room for them."""
    count = 0
    for node in range(m[C.NODES]):
        start = start_of(m, C.OUT, node)
        for i in range(start, start + size_of(m, C.OUT, node)):
            store_i32(source + 4 * count, get(m, C.TERMS, node))
            store_i32(target + 4 * count, get(m, C.TERMS, entry(m, C.OUT, i)))
            count += 1
