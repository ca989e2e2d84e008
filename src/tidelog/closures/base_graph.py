"""Kernels of the base graph: terms to nodes, and the edges out of and into each node as lists in two pools."""

from __future__ import annotations

from tidelog.closures import access as A
from tidelog.closures import closure_registers as C
from tidelog.closures.components import found_component
from tidelog.machine.jit import device, entry_point, load_i32, store_i32

LOW_32 = 0xFFFFFFFF
MULTIPLIER = 0x2C1B3C6D  # a term times this stays within 62 bits, so plain Python agrees with compiled code

# --- nodes ------------------------------------------------------------------------------------------------------------


@device
def find_slot(m: int, term: int) -> int:
    """The slot of a term, or the empty one where it belongs."""
    mask, product = A.read(m, C.MASK), term * MULTIPLIER
    slot = (product ^ (product >> 17)) & mask
    while A.get_long(m, C.SLOTS, slot) >= 0 and A.get_long(m, C.SLOTS, slot) >> 32 != term:
        slot = (slot + 1) & mask
    return slot


@entry_point
def intern(m: int, terms: int, nodes: int, count: int, begin: int) -> int:
    """Find the nodes of terms, and create those of new terms; stops where there is no room for one more node."""
    A.write(m, C.STATUS, C.DONE)
    for i in range(begin, count):
        term = load_i32(terms + 4 * i)
        slot = find_slot(m, term)
        if A.get_long(m, C.SLOTS, slot) < 0:
            if A.read(m, C.NODES) == A.read(m, C.CAPACITY) or A.lacks_room(m, C.MEMBERS, 1):
                A.write(m, C.STATUS, C.MEMBERS)
                return i
            node = A.read(m, C.NODES)
            A.put_long(m, C.SLOTS, slot, term << 32 | node)
            A.append(m, C.TERMS, C.NODES, term)
            found_component(m, node)
        store_i32(nodes + 4 * i, A.get_long(m, C.SLOTS, slot) & LOW_32)
    return count


@entry_point
def rehash(m: int) -> None:
    """Fill an empty hash table."""
    for node in range(A.read(m, C.NODES)):
        term = A.get(m, C.TERMS, node)
        A.put_long(m, C.SLOTS, find_slot(m, term), term << 32 | node)


# --- adding edges -----------------------------------------------------------------------------------------------------


@device
def set_loops(m: int, source: int, target: int, count: int, value: int) -> None:
    """Note that the base holds the loops among some edges, or that it does not."""
    for i in range(count):
        x = load_i32(source + 4 * i)
        if x == load_i32(target + 4 * i):
            A.put_flag(m, C.LOOPS, x, value)


@entry_point
def link(m: int, source: int, target: int, count: int, begin: int) -> int:
    """Add edges one by one."""
    A.write(m, C.STATUS, C.DONE)
    set_loops(m, source, target, count, 1)
    for i in range(begin, count):
        x, y = load_i32(source + 4 * i), load_i32(target + 4 * i)
        if x == y:
            continue
        if A.lacks_room(m, C.OUT, A.more_for(m, C.OUT, x)) or A.lacks_room(m, C.INTO, A.more_for(m, C.INTO, y)):
            return i
        A.push(m, C.OUT, x, y)
        A.push(m, C.INTO, y, x)
        A.add(m, C.EDGES, 1)
    return count


@device
def deal(m: int, pool: int, owners: int, values: int, count: int) -> None:
    """Make all lists anew, without gaps, by a counting sort; loops are left out."""
    for node in range(A.read(m, C.NODES)):
        A.set_size(m, pool, node, 0)
    for i in range(count):
        owner = load_i32(owners + 4 * i)
        if owner != load_i32(values + 4 * i):
            A.set_size(m, pool, owner, A.size_of(m, pool, owner) + 1)
    A.set_used(m, pool, 0)
    for node in range(A.read(m, C.NODES)):
        A.take_place(m, pool, node, A.size_of(m, pool, node))
    for i in range(count):
        owner, value = load_i32(owners + 4 * i), load_i32(values + 4 * i)
        if owner != value:
            A.push(m, pool, owner, value)


@entry_point
def load(m: int, source: int, target: int, count: int, out: int, into: int) -> None:
    """Make the given edges the only ones, all at once, in new memory that has just enough room for them."""
    for node in range(A.read(m, C.NODES)):
        A.put_flag(m, C.LOOPS, node, 0)
    set_loops(m, source, target, count, 1)
    for pool, entries in ((C.OUT, out), (C.INTO, into)):
        A.replace_entries(m, pool, entries, count)
    deal(m, C.OUT, source, target, count)
    deal(m, C.INTO, target, source, count)
    A.write(m, C.EDGES, A.used(m, C.OUT))


# --- deleting edges ---------------------------------------------------------------------------------------------------


@device
def drop(m: int, pool: int, owners: int, values: int, count: int) -> int:
    """Take entries out of lists; equal owners stand together, so that each list is read once. Returns how many went."""
    dropped, i = 0, 0
    while i < count:
        owner, token = load_i32(owners + 4 * i), A.fresh_tokens(m, 1)
        while i < count and load_i32(owners + 4 * i) == owner:
            A.put(m, C.STAMP, load_i32(values + 4 * i), token)
            i += 1
        start, end = A.span_of(m, pool, owner)
        kept = start
        for position in range(start, end):
            value = A.entry(m, pool, position)
            if A.get(m, C.STAMP, value) != token:
                A.put_entry(m, pool, kept, value)
                kept += 1
        A.set_size(m, pool, owner, kept - start)
        dropped += end - kept
    return dropped


@entry_point
def unlink(m: int, source: int, target: int, count: int, sources: int, targets: int, same_count: int) -> None:
    """Delete edges, which come twice: ordered by their sources, and ordered by their targets."""
    set_loops(m, source, target, count, 0)
    A.add(m, C.EDGES, -drop(m, C.OUT, source, target, count))
    drop(m, C.INTO, targets, sources, same_count)


# --- all edges --------------------------------------------------------------------------------------------------------


@entry_point
def compact(m: int, pool: int, entries: int, room: int) -> None:
    """Move all lists, without gaps, to new memory."""
    end = 0
    for owner in range(A.read(m, C.CAPACITY)):
        start, stop = A.span_of(m, pool, owner)
        A.set_place(m, pool, owner, end, stop - start, stop - start)
        for i in range(start, stop):
            store_i32(entries + 4 * end, A.entry(m, pool, i))
            end += 1
    A.replace_entries(m, pool, entries, room)
    A.set_used(m, pool, end)


@entry_point
def read_edges(m: int, source: int, target: int) -> None:
    """Write the terms of all edges except loops where there is room for them."""
    count = 0
    for node in range(A.read(m, C.NODES)):
        for i in range(*A.span_of(m, C.OUT, node)):
            store_i32(source + 4 * count, A.get(m, C.TERMS, node))
            store_i32(target + 4 * count, A.get(m, C.TERMS, A.entry(m, C.OUT, i)))
            count += 1
