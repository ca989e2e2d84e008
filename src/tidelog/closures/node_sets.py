"""Sets of nodes as rows of 64-bit words, one row a component: the operations that reachability is kept with.

Rows are *dense* while the graph is small (every row has all words) and *sparse* beyond (a row has the words that are
not empty, ordered by their numbers): a taxonomy of a million nodes, each below a dozen others, then takes megabytes,
not terabytes. Words that become empty stay in a sparse row until it is copied next.
"""

from __future__ import annotations

from tidelog.closures import closure_registers as C
from tidelog.closures.access import (
    entry,
    get,
    get_long,
    lacks,
    limit_of,
    put_long,
    set_place,
    set_size,
    size_of,
    start_of,
    take_place,
)
from tidelog.closures.memory import Longs
from tidelog.closures.partition import touch
from tidelog.machine.bits import bit_of, first_bit, or_words, population, unite_words
from tidelog.machine.jit import device, entry_point, inlined, store_i32, store_i64


@inlined
def key_at(m: Longs, rows: int, start: int, position: int) -> int:
    """The number of the word that stands at a position of the row that begins at `start`."""
    return position - start if m[rows + C.WIDTH] > 0 else get(m, rows + C.KEYS, position)


@inlined
def word_at(m: Longs, rows: int, position: int) -> int:
    return get_long(m, rows + C.WORDS, position)


@inlined
def put_word(m: Longs, rows: int, position: int, key: int, word: int) -> None:
    """Write a word, and its number where rows are sparse."""
    put_long(m, rows + C.WORDS, position, word)
    if m[rows + C.WIDTH] == 0:
        store_i32(m[rows + C.KEYS] + 4 * position, key)


@inlined
def count_of(m: Longs, rows: int, component: int) -> int:
    """How many nodes a set has."""
    return get_long(m, rows + C.COUNTS, component)


@device
def word_position(m: Longs, rows: int, component: int, key: int) -> int:
    """Where a row has a word, or -1."""
    start = start_of(m, rows, component)
    if m[rows + C.WIDTH] > 0:
        return start + key
    end = start + size_of(m, rows, component)
    low, high = start, end
    while low < high:
        middle = (low + high) >> 1
        if get(m, rows + C.KEYS, middle) < key:
            low = middle + 1
        else:
            high = middle
    return low if low < end and get(m, rows + C.KEYS, low) == key else -1


@inlined
def row_has(m: Longs, rows: int, component: int, node: int) -> bool:
    """Is the node in the set?"""
    position = word_position(m, rows, component, node >> 6)
    return position >= 0 and (word_at(m, rows, position) >> (node & 63)) & 1 == 1


@device
def clear_bit(m: Longs, rows: int, component: int, node: int) -> None:
    """Take a node out of a set that has it."""
    position = word_position(m, rows, component, node >> 6)
    put_long(m, rows + C.WORDS, position, word_at(m, rows, position) & ~bit_of(node))
    put_long(m, rows + C.COUNTS, component, count_of(m, rows, component) - 1)


@device
def single_row(m: Longs, rows: int, component: int, node: int) -> None:
    """Make the set of one node; the pool has room for it."""
    size = max(1, m[rows + C.WIDTH])
    start = take_place(m, rows, component, size)
    for position in range(start, start + size):
        put_word(m, rows, position, node >> 6, 0)
    put_long(m, rows + C.WORDS, start + (node >> 6 if m[rows + C.WIDTH] > 0 else 0), bit_of(node))
    set_size(m, rows, component, size)
    put_long(m, rows + C.COUNTS, component, 1)


@entry_point
def single_rows(m: Longs, first: int) -> None:
    """Let the nodes from one on reach themselves and nothing else; both pools have room."""
    for node in range(first, m[C.NODES]):
        single_row(m, C.FORWARD, get(m, C.COMPONENT, node), node)
        single_row(m, C.BACKWARD, get(m, C.COMPONENT, node), node)


@device
def repeat_row(m: Longs, rows: int, component: int, other: int) -> None:
    """Make a set equal to another; the pool has room for it."""
    source, size = start_of(m, rows, other), size_of(m, rows, other)
    start = take_place(m, rows, component, size)
    for i in range(size):
        put_word(m, rows, start + i, key_at(m, rows, source, source + i), word_at(m, rows, source + i))
    set_size(m, rows, component, size)
    put_long(m, rows + C.COUNTS, component, count_of(m, rows, other))


@device
def unite_dense(m: Longs, rows: int, component: int, other: int) -> None:
    target = m[rows + C.WORDS] + 8 * start_of(m, rows, component)
    source = m[rows + C.WORDS] + 8 * start_of(m, rows, other)
    added = unite_words(target, source, m[rows + C.WIDTH])
    put_long(m, rows + C.COUNTS, component, count_of(m, rows, component) + added)


@device
def unite_sparse(m: Longs, rows: int, component: int, other: int) -> None:
    """Merge two ordered rows at the end of the pool, then keep the result there or copy it back, if it fits."""
    a, b = start_of(m, rows, component), start_of(m, rows, other)
    a_end, b_end = a + size_of(m, rows, component), b + size_of(m, rows, other)
    begin = m[rows + C.USED]
    end, count = begin, 0
    while a < a_end or b < b_end:
        a_key = get(m, rows + C.KEYS, a) if a < a_end else m[C.NODES]
        b_key = get(m, rows + C.KEYS, b) if b < b_end else m[C.NODES]
        word = 0
        if a_key <= b_key:
            word |= word_at(m, rows, a)
            a += 1
        if b_key <= a_key:
            word |= word_at(m, rows, b)
            b += 1
        if word != 0:
            put_word(m, rows, end, min(a_key, b_key), word)
            count += population(word)
            end += 1
    size = end - begin
    if size <= limit_of(m, rows, component):
        start = start_of(m, rows, component)
        for i in range(size):
            put_word(m, rows, start + i, get(m, rows + C.KEYS, begin + i), word_at(m, rows, begin + i))
    else:
        limit = min(size + (size >> 1), m[rows + C.ROOM] - begin)
        set_place(m, rows, component, begin, limit)
        m[rows + C.USED] = begin + limit
    set_size(m, rows, component, size)
    put_long(m, rows + C.COUNTS, component, count)


@device
def unite(m: Longs, rows: int, component: int, other: int) -> bool:
    """Add another set to a set; false when the pool is full."""
    if m[rows + C.WIDTH] > 0:
        m[C.WORK] += 2 * m[rows + C.WIDTH]
        unite_dense(m, rows, component, other)
        return True
    size = size_of(m, rows, component) + size_of(m, rows, other)
    if lacks(m, rows, size):
        return False
    m[C.WORK] += 4 * size
    unite_sparse(m, rows, component, other)
    return True


@device
def save(m: Longs, component: int) -> bool:
    """Log what a component reached before the current change; false when the pool of the log is full."""
    touch(m, component)
    if get(m, C.FORMER_SIZE, component) == 0 or size_of(m, C.SAVED, component) > 0:
        return True
    start, size = start_of(m, C.FORWARD, component), size_of(m, C.FORWARD, component)
    if lacks(m, C.SAVED, size):
        return False
    begin = m[C.SAVED + C.USED]
    end = begin
    for position in range(start, start + size):
        word = word_at(m, C.FORWARD, position)
        if word != 0:
            put_word(m, C.SAVED, end, key_at(m, C.FORWARD, start, position), word)
            end += 1
    take_place(m, C.SAVED, component, end - begin)
    set_size(m, C.SAVED, component, end - begin)
    put_long(m, C.SAVED + C.COUNTS, component, count_of(m, C.FORWARD, component))
    m[C.WORK] += size
    return True


# --- a row under construction ---------------------------------------------------------------------------------


@inlined
def gather_word(m: Longs, key: int, word: int) -> None:
    """Enter a word, and in the bits above it that the word is set."""
    old = get_long(m, C.ROW, key)
    if old == 0:
        m[C.GATHERED] += 1
        put_long(m, C.SUMMARY, key >> 6, get_long(m, C.SUMMARY, key >> 6) | bit_of(key))
        put_long(m, C.OUTLINE, key >> 12, get_long(m, C.OUTLINE, key >> 12) | bit_of(key >> 6))
    put_long(m, C.ROW, key, old | word)


@inlined
def release_word(m: Longs, key: int) -> int:
    """Take a word out."""
    word = get_long(m, C.ROW, key)
    put_long(m, C.ROW, key, 0)
    put_long(m, C.SUMMARY, key >> 6, 0)
    put_long(m, C.OUTLINE, key >> 12, 0)
    return word


@device
def gather_row(m: Longs, rows: int, component: int) -> None:
    """Enter a whole set."""
    start, size = start_of(m, rows, component), size_of(m, rows, component)
    if m[rows + C.WIDTH] > 0:
        or_words(m[C.ROW], m[rows + C.WORDS] + 8 * start, size)
        return
    for position in range(start, start + size):
        if word_at(m, rows, position) != 0:
            gather_word(m, get(m, rows + C.KEYS, position), word_at(m, rows, position))


@device
def gather_members(m: Longs, rows: int, component: int) -> None:
    start = start_of(m, C.MEMBERS, component)
    for i in range(start, start + size_of(m, C.MEMBERS, component)):
        node = entry(m, C.MEMBERS, i)
        if m[rows + C.WIDTH] > 0:
            put_long(m, C.ROW, node >> 6, get_long(m, C.ROW, node >> 6) | bit_of(node))
        else:
            gather_word(m, node >> 6, bit_of(node))


@device
def gather(m: Longs, rows: int, edges: int, component: int) -> None:
    """Construct the set of a component: its members, and the sets of its neighbours.

    A neighbour that is there already came with its whole set: graphs cost fewer unions than they have edges.
    """
    gather_members(m, rows, component)
    first = start_of(m, C.MEMBERS, component)
    work = size_of(m, C.MEMBERS, component)
    for i in range(first, first + size_of(m, C.MEMBERS, component)):
        member = entry(m, C.MEMBERS, i)
        start, size = start_of(m, edges, member), size_of(m, edges, member)
        work += size
        for edge in range(start, start + size):
            node = entry(m, edges, edge)
            if (get_long(m, C.ROW, node >> 6) >> (node & 63)) & 1 == 0:
                neighbour = get(m, C.COMPONENT, node)
                gather_row(m, rows, neighbour)
                work += size_of(m, rows, neighbour)
    m[C.WORK] += work


@device
def store_dense(m: Longs, rows: int, component: int) -> None:
    count = 0
    width = m[rows + C.WIDTH]
    start = take_place(m, rows, component, width)
    for key in range(width):
        word = get_long(m, C.ROW, key)
        put_long(m, C.ROW, key, 0)
        put_long(m, rows + C.WORDS, start + key, word)
        count += population(word)
    set_size(m, rows, component, width)
    put_long(m, rows + C.COUNTS, component, count)


@device
def store_sparse(m: Longs, rows: int, component: int) -> None:
    """Read the set words off in order, from the outline over the summary."""
    count = 0
    start = take_place(m, rows, component, m[C.GATHERED])
    end = start
    for high in range((m[C.NODES] >> 18) + 1):
        middles = get_long(m, C.OUTLINE, high)
        put_long(m, C.OUTLINE, high, 0)
        while middles != 0:
            middle = (high << 6) + first_bit(middles)
            middles &= ~bit_of(middle)
            keys = get_long(m, C.SUMMARY, middle)
            put_long(m, C.SUMMARY, middle, 0)
            while keys != 0:
                key = (middle << 6) + first_bit(keys)
                keys &= ~bit_of(key)
                word = get_long(m, C.ROW, key)
                put_long(m, C.ROW, key, 0)
                put_word(m, rows, end, key, word)
                count += population(word)
                end += 1
    set_size(m, rows, component, end - start)
    put_long(m, rows + C.COUNTS, component, count)
    m[C.GATHERED] = 0


@device
def store_gathered(m: Longs, rows: int, component: int) -> bool:
    """Make the row under construction the set of a component; false when the pool is full."""
    dense = m[rows + C.WIDTH] > 0
    if lacks(m, rows, m[rows + C.WIDTH] if dense else m[C.GATHERED]):
        return False
    if dense:
        store_dense(m, rows, component)
    else:
        store_sparse(m, rows, component)
    return True


# --- copying all rows -----------------------------------------------------------------------------------------


@entry_point
def copy_rows(m: Longs, rows: int, keys: int, words: int, width: int) -> int:
    """Copy all sets, from either form into either form, to new memory that has room; returns how much they take."""
    end = 0
    for component in range(m[C.COMPONENTS]):
        start, size = start_of(m, rows, component), size_of(m, rows, component)
        if size == 0:
            continue
        begin = end
        if width > 0:
            end = begin + width
            for position in range(begin, end):
                store_i64(words + 8 * position, 0)
        for position in range(start, start + size):
            word = word_at(m, rows, position)
            if word == 0:
                continue
            key = key_at(m, rows, start, position)
            if width > 0:
                store_i64(words + 8 * (begin + key), word)
            else:
                store_i32(keys + 4 * end, key)
                store_i64(words + 8 * end, word)
                end += 1
        set_place(m, rows, component, begin, end - begin)
        set_size(m, rows, component, end - begin)
    return end
