"""Sets of nodes as rows of 64-bit words, one row a component: the operations that reachability is kept with.

Rows are *dense* while the graph is small (every row has all words) and *sparse* beyond (a row has the words that are not
empty, ordered by their numbers): a taxonomy of a million nodes, each below a dozen others, then takes megabytes, not
terabytes. Words that become empty stay in a sparse row until it is copied next.
"""

from __future__ import annotations

import numpy as np

from tidelog.store.closures.bits import first_bit, population
from tidelog.store.closures.partition import touch
from tidelog.store.closures.state import (
    CAPACITY,
    FULL_SAVED,
    GATHERED,
    NEEDED,
    SIZE,
    START,
    STATUS,
    USED,
    WIDTH,
    WORK,
    Blocks,
    Rows,
    State,
)
from tidelog.store.jit import device, entry_point, inlined

ONE = np.int64(1)


@inlined
def key_at(rows: Rows, start: int, position: int) -> int:
    """The number of the word that stands at a position of a row."""
    if rows.meta[WIDTH] > 0:
        return position - start
    return int(rows.keys[position])


@device
def word_position(rows: Rows, component: int, key: int) -> int:
    """Where a row has a word, or -1."""
    start, size = rows.table[component, START], rows.table[component, SIZE]
    if rows.meta[WIDTH] > 0:
        return int(start + key)
    low, high = start, start + size
    while low < high:
        middle = (low + high) >> 1
        if rows.keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    if low < start + size and rows.keys[low] == key:
        return int(low)
    return -1


@inlined
def row_has(rows: Rows, component: int, node: int) -> bool:
    """Is the node in the set?"""
    position = word_position(rows, component, node >> 6)
    return position >= 0 and (rows.words[position] >> (node & 63)) & 1 == 1


@device
def clear_bit(rows: Rows, component: int, node: int) -> None:
    """Take a node out of a set that has it."""
    position = word_position(rows, component, node >> 6)
    rows.words[position] &= ~(ONE << (node & 63))
    rows.counts[component] -= 1


@inlined
def place_row(rows: Rows, component: int, size: int) -> int:
    """A place for a row at the end of the pool, which has room for it."""
    start = rows.meta[USED]
    rows.table[component, START] = start
    rows.table[component, SIZE] = size
    rows.table[component, CAPACITY] = size
    rows.meta[USED] = start + size
    return int(start)


@device
def single_row(rows: Rows, component: int, node: int) -> None:
    """Make the set of one node; the pool has room for it."""
    word = ONE << (node & 63)
    if rows.meta[WIDTH] > 0:
        start = place_row(rows, component, rows.meta[WIDTH])
        rows.words[start : start + rows.meta[WIDTH]] = 0
        rows.words[start + (node >> 6)] = word
    else:
        start = place_row(rows, component, 1)
        rows.keys[start] = node >> 6
        rows.words[start] = word
    rows.counts[component] = 1


@device
def repeat_row(rows: Rows, component: int, other: int) -> None:
    """Make a set equal to another; the pool has room for it."""
    source, size = rows.table[other, START], rows.table[other, SIZE]
    start = place_row(rows, component, size)
    for i in range(size):
        rows.words[start + i] = rows.words[source + i]
    if rows.meta[WIDTH] == 0:
        for i in range(size):
            rows.keys[start + i] = rows.keys[source + i]
    rows.counts[component] = rows.counts[other]


@device
def unite_dense(rows: Rows, component: int, other: int) -> None:
    words = rows.words
    target, source = rows.table[component, START], rows.table[other, START]
    added = 0
    for i in range(rows.meta[WIDTH]):
        new = words[source + i] & ~words[target + i]
        words[target + i] |= new
        added += population(new)
    rows.counts[component] += added


@device
def unite_sparse(rows: Rows, component: int, other: int) -> None:
    """Merge two ordered rows at the end of the pool, then keep the result there or copy it back, if it fits."""
    table, keys, words = rows.table, rows.keys, rows.words
    a, a_end = table[component, START], table[component, START] + table[component, SIZE]
    b, b_end = table[other, START], table[other, START] + table[other, SIZE]
    begin = rows.meta[USED]
    end = begin
    count = 0
    while a < a_end or b < b_end:
        if b == b_end or (a < a_end and keys[a] < keys[b]):
            key, word = keys[a], words[a]
            a += 1
        elif a == a_end or keys[b] < keys[a]:
            key, word = keys[b], words[b]
            b += 1
        else:
            key, word = keys[a], words[a] | words[b]
            a += 1
            b += 1
        if word != 0:
            keys[end], words[end] = key, word
            count += population(word)
            end += 1
    size = end - begin
    if size <= table[component, CAPACITY]:
        start = table[component, START]
        for i in range(size):
            keys[start + i] = keys[begin + i]
            words[start + i] = words[begin + i]
    else:
        table[component, START] = begin
        table[component, CAPACITY] = min(size + (size >> 1), len(words) - begin)
        rows.meta[USED] = begin + table[component, CAPACITY]
    table[component, SIZE] = size
    rows.counts[component] = count


@device
def unite(state: State, rows: Rows, component: int, other: int) -> int:
    """Add another set to a set. Returns the room that the pool lacks for it, 0 when it is done."""
    if rows.meta[WIDTH] > 0:
        state.scalars[WORK] += rows.meta[WIDTH]
        unite_dense(rows, component, other)
        return 0
    size = rows.table[component, SIZE] + rows.table[other, SIZE]
    if rows.meta[USED] + size > len(rows.words):
        return int(size)
    state.scalars[WORK] += 2 * size
    unite_sparse(rows, component, other)
    return 0


@device
def save(state: State, component: int) -> bool:
    """Log what a component reached before the current change; false when the pool of the log is full."""
    touch(state, component)
    rows, saved = state.forward, state.saved
    if state.former_size[component] == 0 or saved.table[component, SIZE] > 0:
        return True
    start, size = rows.table[component, START], rows.table[component, SIZE]
    if saved.meta[USED] + size > len(saved.words):
        state.scalars[STATUS] = FULL_SAVED
        state.scalars[NEEDED] = size
        return False
    begin = saved.meta[USED]
    end = begin
    for position in range(start, start + size):
        word = rows.words[position]
        if word != 0:
            saved.keys[end] = key_at(rows, start, position)
            saved.words[end] = word
            end += 1
    saved.counts[component] = rows.counts[component]
    place_row(saved, component, end - begin)
    state.scalars[WORK] += size
    return True


@inlined
def gather_word(state: State, key: int, word: int) -> None:
    """Enter a word in the row under construction, and in the bits above it that say which words are set."""
    if state.gathered[key] == 0:
        state.scalars[GATHERED] += 1
        state.summary[key >> 6] |= ONE << (key & 63)
        state.outline[key >> 12] |= ONE << ((key >> 6) & 63)
    state.gathered[key] |= word


@device
def gather_row(state: State, rows: Rows, component: int) -> None:
    """Enter a whole set in the row under construction."""
    start, size = rows.table[component, START], rows.table[component, SIZE]
    if rows.meta[WIDTH] > 0:
        for i in range(size):
            state.gathered[i] |= rows.words[start + i]
        return
    for position in range(start, start + size):
        if rows.words[position] != 0:
            gather_word(state, int(rows.keys[position]), rows.words[position])


@device
def gather(state: State, rows: Rows, edges: Blocks, component: int) -> None:
    """Construct the set of a component: its members, and the sets of its neighbours.

    A neighbour that is there already came with its whole set, so dense graphs cost far fewer unions than they have edges.
    """
    table, pool = state.members.table, state.members.pool
    first, last = table[component, START], table[component, START] + table[component, SIZE]
    work = last - first
    for i in range(first, last):
        word = ONE << (pool[i] & 63)
        if rows.meta[WIDTH] > 0:
            state.gathered[pool[i] >> 6] |= word
        else:
            gather_word(state, int(pool[i] >> 6), word)
    for i in range(first, last):
        start, size = edges.table[pool[i], START], edges.table[pool[i], SIZE]
        work += size
        for edge in range(start, start + size):
            node = edges.pool[edge]
            if (state.gathered[node >> 6] >> (node & 63)) & 1 == 0:
                gather_row(state, rows, state.component[node])
                work += rows.table[state.component[node], SIZE]
    state.scalars[WORK] += work


@inlined
def release_word(state: State, key: int) -> int:
    """Take a word out of the row under construction."""
    word = state.gathered[key]
    state.gathered[key] = 0
    state.summary[key >> 6] = 0
    state.outline[key >> 12] = 0
    return int(word)


@device
def store_dense(state: State, rows: Rows, component: int) -> None:
    count = 0
    start = place_row(rows, component, rows.meta[WIDTH])
    for key in range(rows.meta[WIDTH]):
        word = state.gathered[key]
        rows.words[start + key] = word
        state.gathered[key] = 0
        count += population(word)
    rows.counts[component] = count


@device
def store_sparse(state: State, rows: Rows, component: int) -> None:
    """Read the set words off in order, from the outline over the summary."""
    count = 0
    begin = rows.meta[USED]
    end = begin
    for high in range(len(state.outline)):
        while state.outline[high] != 0:
            middle = (high << 6) + first_bit(state.outline[high])
            state.outline[high] &= ~(ONE << (middle & 63))
            while state.summary[middle] != 0:
                key = (middle << 6) + first_bit(state.summary[middle])
                state.summary[middle] &= ~(ONE << (key & 63))
                word = state.gathered[key]
                state.gathered[key] = 0
                rows.keys[end], rows.words[end] = key, word
                count += population(word)
                end += 1
    place_row(rows, component, end - begin)
    rows.counts[component] = count
    state.scalars[GATHERED] = 0


@device
def store_gathered(state: State, rows: Rows, component: int) -> int:
    """Make the row under construction the set of a component. Returns the room that the pool lacks, 0 when it is done."""
    dense = rows.meta[WIDTH] > 0
    size = rows.meta[WIDTH] if dense else state.scalars[GATHERED]
    if rows.meta[USED] + size > len(rows.words):
        return int(size)
    if dense:
        store_dense(state, rows, component)
    else:
        store_sparse(state, rows, component)
    return 0


@entry_point
def copy_rows(rows: Rows, copies: Rows, components: int) -> None:
    """Copy all sets, from either form into either form; the pool of the copies has room for them."""
    dense = copies.meta[WIDTH] > 0
    for component in range(components):
        start, size = rows.table[component, START], rows.table[component, SIZE]
        if size == 0:
            continue
        begin = copies.meta[USED]
        end = begin
        if dense:
            end = begin + copies.meta[WIDTH]
            copies.words[begin:end] = 0
        for position in range(start, start + size):
            word = rows.words[position]
            if word == 0:
                continue
            key = key_at(rows, start, position)
            if dense:
                copies.words[begin + key] = word
            else:
                copies.keys[end] = key
                copies.words[end] = word
                end += 1
        place_row(copies, component, end - begin)
        copies.counts[component] = rows.counts[component]


@entry_point
def single_rows(state: State, first: int, last: int) -> None:
    """Let new nodes reach themselves and nothing else; both pools have room."""
    for node in range(first, last):
        single_row(state.forward, state.component[node], node)
        single_row(state.backward, state.component[node], node)
