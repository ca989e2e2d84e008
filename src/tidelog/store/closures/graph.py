"""The base edges: terms to nodes, and the edges out of and into each node as lists in two pools."""

from __future__ import annotations

from tidelog.store.closures.partition import found_component
from tidelog.store.closures.state import (
    CAPACITY,
    DONE,
    EDGES,
    FULL_INTO,
    FULL_MEMBERS,
    FULL_OUT,
    NEEDED,
    NODES,
    SIZE,
    START,
    STATUS,
    TOKEN,
    Blocks,
    Ints,
    Longs,
    State,
)
from tidelog.store.jit import device, entry_point, inlined

LOW_32 = 0xFFFFFFFF
MULTIPLIER = 0x2C1B3C6D  # a term times it stays inside 62 bits, so that plain Python agrees with compiled code
LAST_TOKEN = 2**31 - 1


@inlined
def home_slot(term: int, mask: int) -> int:
    """Where the search for a term begins in the hash table."""
    product = term * MULTIPLIER
    return (product ^ (product >> 17)) & mask


@entry_point
def intern(state: State, terms: Ints, nodes: Ints, begin: int) -> int:
    """Number the terms, founding nodes for new ones; stops where there is no room for one more node."""
    scalars, slots = state.scalars, state.slots
    mask = len(slots) - 1
    scalars[STATUS] = DONE
    for i in range(begin, len(terms)):
        term = int(terms[i])
        slot = home_slot(term, mask)
        while slots[slot] >= 0 and slots[slot] >> 32 != term:
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            node = scalars[NODES]
            if node == len(state.terms) or state.members.used[0] == len(state.members.pool):
                scalars[STATUS] = FULL_MEMBERS
                scalars[NEEDED] = 1
                return i
            slots[slot] = term << 32 | node
            state.terms[node] = term
            scalars[NODES] = node + 1
            found_component(state, node)
        nodes[i] = slots[slot] & LOW_32
    return len(terms)


@entry_point
def rehash(slots: Longs, terms: Ints, count: int) -> None:
    """Fill an empty hash table."""
    mask = len(slots) - 1
    for node in range(count):
        term = int(terms[node])
        slot = home_slot(term, mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = term << 32 | node


@inlined
def wanted(blocks: Blocks, owner: int) -> int:
    """How much of the pool one more entry in a list takes."""
    if blocks.table[owner, SIZE] < blocks.table[owner, CAPACITY]:
        return 0
    return max(2, 2 * int(blocks.table[owner, CAPACITY]))


@device
def push(blocks: Blocks, owner: int, value: int) -> None:
    """Append to a list, which moves to the end of the pool when its place is full."""
    table, pool = blocks.table, blocks.pool
    more = wanted(blocks, owner)
    if more > 0:
        start, size = table[owner, START], table[owner, SIZE]
        end = blocks.used[0]
        for i in range(size):
            pool[end + i] = pool[start + i]
        table[owner, START] = end
        table[owner, CAPACITY] = more
        blocks.used[0] = end + more
    pool[table[owner, START] + table[owner, SIZE]] = value
    table[owner, SIZE] += 1


@device
def remove(blocks: Blocks, owner: int, value: int) -> bool:
    """Take one entry out of a list, if it is there; the order of the others is not kept."""
    start, size = blocks.table[owner, START], blocks.table[owner, SIZE]
    for i in range(start, start + size):
        if blocks.pool[i] == value:
            blocks.pool[i] = blocks.pool[start + size - 1]
            blocks.table[owner, SIZE] = size - 1
            return True
    return False


@device
def fresh_tokens(state: State, count: int) -> int:
    """The first of so many consecutive values that no entry of `stamp` has."""
    if state.scalars[TOKEN] + count > LAST_TOKEN:
        state.scalars[TOKEN] = 0
        state.stamp[:] = 0
    first = state.scalars[TOKEN] + 1
    state.scalars[TOKEN] += count
    return int(first)


@entry_point
def link(state: State, source: Ints, target: Ints, begin: int) -> int:
    """Add edges one by one."""
    scalars = state.scalars
    scalars[STATUS] = DONE
    for i in range(begin, len(source)):
        x, y = source[i], target[i]
        if x == y:
            state.loops[x] = 1
            continue
        more = wanted(state.out, x)
        if state.out.used[0] + more > len(state.out.pool):
            scalars[STATUS] = FULL_OUT
            scalars[NEEDED] = more
            return i
        more = wanted(state.into, y)
        if state.into.used[0] + more > len(state.into.pool):
            scalars[STATUS] = FULL_INTO
            scalars[NEEDED] = more
            return i
        push(state.out, x, y)
        push(state.into, y, x)
        scalars[EDGES] += 1
    return len(source)


@device
def deal(blocks: Blocks, owners: Ints, values: Ints, nodes: int) -> None:
    """Make all lists anew, without gaps, by a counting sort; loops are left out."""
    table, pool = blocks.table, blocks.pool
    table[:nodes] = 0
    for i in range(len(owners)):
        if owners[i] != values[i]:
            table[owners[i], CAPACITY] += 1
    end = 0
    for node in range(nodes):
        table[node, START] = end
        end += table[node, CAPACITY]
    blocks.used[0] = end
    for i in range(len(owners)):
        owner = owners[i]
        if owner != values[i]:
            pool[table[owner, START] + table[owner, SIZE]] = values[i]
            table[owner, SIZE] += 1


@entry_point
def load(state: State, source: Ints, target: Ints) -> None:
    """Make the given edges, all at once, the only ones. Both pools have room for them."""
    nodes = state.scalars[NODES]
    state.loops[:nodes] = 0
    for i in range(len(source)):
        if source[i] == target[i]:
            state.loops[source[i]] = 1
    deal(state.out, source, target, nodes)
    deal(state.into, target, source, nodes)
    state.scalars[EDGES] = state.out.used[0]


@device
def drop(state: State, blocks: Blocks, owners: Ints, values: Ints) -> int:
    """Take entries out of lists; equal owners stand together, so that each long list is read once. Returns how many."""
    table, pool, stamp = blocks.table, blocks.pool, state.stamp
    dropped = 0
    first = 0
    while first < len(owners):
        owner = owners[first]
        last = first + 1
        while last < len(owners) and owners[last] == owner:
            last += 1
        if last == first + 1:
            dropped += remove(blocks, owner, values[first])
        else:
            token = fresh_tokens(state, 1)
            for i in range(first, last):
                stamp[values[i]] = token
            start, size = table[owner, START], table[owner, SIZE]
            kept = 0
            for i in range(start, start + size):
                value = pool[i]
                if stamp[value] != token:
                    pool[start + kept] = value
                    kept += 1
            table[owner, SIZE] = kept
            dropped += size - kept
        first = last
    return dropped


@entry_point
def unlink(state: State, source: Ints, targets: Ints, target: Ints, sources: Ints) -> None:
    """Take edges out; they come twice, ordered by their source and ordered by their target."""
    for i in range(len(source)):
        if source[i] == targets[i]:
            state.loops[source[i]] = 0
    state.scalars[EDGES] -= drop(state, state.out, source, targets)
    drop(state, state.into, target, sources)


@entry_point
def compact(blocks: Blocks, lists: int, pool: Ints) -> int:
    """Copy all lists, without gaps, to a new pool; returns how much of it they take."""
    table = blocks.table
    end = 0
    for owner in range(lists):
        start, size = table[owner, START], table[owner, SIZE]
        for i in range(size):
            pool[end + i] = blocks.pool[start + i]
        table[owner, START] = end
        table[owner, CAPACITY] = size
        end += size
    return end
