"""Sets of nodes as rows of 64-bit words, one row for each component: what reachability is kept with.

Rows are *dense* while the graph is small (every row has all words) and *sparse* beyond that (a row has only the words
that are not empty, ordered by their numbers, the *keys*): a taxonomy of a million nodes, each below a dozen others,
then takes megabytes, not terabytes. Words that become empty stay in a sparse row until it is next copied.
"""

from __future__ import annotations

from tidelog.closures import access as A
from tidelog.closures import closure_registers as C
from tidelog.closures.components import touch
from tidelog.machine.bits import bit_of, first_bit, or_words, population, unite_words
from tidelog.machine.jit import device, entry_point, inlined, store_i32, store_i64

# --- words ------------------------------------------------------------------------------------------------------------


@inlined
def width_of(m: int, rows: int) -> int:
    """How many words every row has where rows are dense; 0 where they are sparse."""
    return A.read(m, rows + C.ROW_WIDTH)


@inlined
def key_at(m: int, rows: int, start: int, position: int) -> int:
    """The key of the word at a position of the row that begins at `start`."""
    return position - start if width_of(m, rows) > 0 else A.get(m, rows + C.ROW_KEYS, position)


@inlined
def word_at(m: int, rows: int, position: int) -> int:
    return A.get_long(m, rows + C.ROW_WORDS, position)


@inlined
def set_word(m: int, rows: int, position: int, word: int) -> None:
    A.put_long(m, rows + C.ROW_WORDS, position, word)


@inlined
def put_word(m: int, rows: int, position: int, key: int, word: int) -> None:
    """Write a word, and its key where rows are sparse."""
    set_word(m, rows, position, word)
    if width_of(m, rows) == 0:
        A.put(m, rows + C.ROW_KEYS, position, key)


@inlined
def words_at(m: int, rows: int, component: int) -> int:
    """Address of the words of a row."""
    return A.read(m, rows + C.ROW_WORDS) + 8 * A.start_of(m, rows, component)


@inlined
def count_of(m: int, rows: int, component: int) -> int:
    """How many nodes a set has."""
    return A.get_long(m, rows + C.ROW_COUNTS, component)


@inlined
def set_count(m: int, rows: int, component: int, count: int) -> None:
    A.put_long(m, rows + C.ROW_COUNTS, component, count)


@inlined
def place_row(m: int, rows: int, component: int, size: int, count: int) -> int:
    """Make the next words of the pool the row of a component, with so many nodes. Returns where it begins."""
    start = A.take_place(m, rows, component, size)
    A.set_size(m, rows, component, size)
    set_count(m, rows, component, count)
    return start


# --- single sets ------------------------------------------------------------------------------------------------------


@device
def word_position(m: int, rows: int, component: int, key: int) -> int:
    """Where a row has a word, or -1."""
    start, end = A.span_of(m, rows, component)
    if width_of(m, rows) > 0:
        return start + key
    low, high = start, end
    while low < high:
        middle = (low + high) >> 1
        if A.get(m, rows + C.ROW_KEYS, middle) < key:
            low = middle + 1
        else:
            high = middle
    return low if low < end and A.get(m, rows + C.ROW_KEYS, low) == key else -1


@inlined
def row_has(m: int, rows: int, component: int, node: int) -> bool:
    """Whether the node is in the set."""
    position = word_position(m, rows, component, node >> 6)
    return position >= 0 and (word_at(m, rows, position) >> (node & 63)) & 1 == 1


@device
def next_in_row(m: int, rows: int, component: int, cursor: int) -> tuple[int, int]:
    """The next node of a set, and the cursor for the one after; a negative cursor ends the walk.

    The cursor counts bits from the beginning of the row, whether dense or sparse.
    """
    start, end = A.span_of(m, rows, component)
    position = start + (cursor >> 6)
    while position < end:
        word = word_at(m, rows, position) >> (cursor & 63)
        if word != 0:
            cursor += first_bit(word)
            return cursor + 1, (key_at(m, rows, start, position) << 6) + (cursor & 63)
        position += 1
        cursor = (position - start) << 6
    return -1, -1


@device
def clear_bit(m: int, rows: int, component: int, node: int) -> None:
    """Take a node out of a set that has it."""
    position = word_position(m, rows, component, node >> 6)
    set_word(m, rows, position, word_at(m, rows, position) & ~bit_of(node))
    set_count(m, rows, component, count_of(m, rows, component) - 1)


@device
def single_row(m: int, rows: int, component: int, node: int) -> None:
    """Make the set of one node; the pool has room for it."""
    size = max(1, width_of(m, rows))
    start = place_row(m, rows, component, size, 1)
    for position in range(start, start + size):
        put_word(m, rows, position, node >> 6, 0)
    set_word(m, rows, start + (node >> 6 if width_of(m, rows) > 0 else 0), bit_of(node))


@entry_point
def single_rows(m: int, first: int) -> None:
    """Let each node from `first` on reach itself and nothing else; both pools have room."""
    for node in range(first, A.read(m, C.NODES)):
        single_row(m, C.FORWARD, A.get(m, C.COMPONENT, node), node)
        single_row(m, C.BACKWARD, A.get(m, C.COMPONENT, node), node)


@device
def copy_row(m: int, rows: int, component: int, other: int) -> None:
    """Make a set equal to another; the pool has room for it."""
    source, size = A.start_of(m, rows, other), A.size_of(m, rows, other)
    start = place_row(m, rows, component, size, count_of(m, rows, other))
    for i in range(size):
        put_word(m, rows, start + i, key_at(m, rows, source, source + i), word_at(m, rows, source + i))


@device
def unite_sparse(m: int, rows: int, component: int, other: int) -> None:
    """Merge two ordered rows at the end of the pool; copy the result back if it fits, or else leave it there."""
    a, a_end = A.span_of(m, rows, component)
    b, b_end = A.span_of(m, rows, other)
    begin = A.used(m, rows)
    end, count = begin, 0
    while a < a_end or b < b_end:
        a_key = A.get(m, rows + C.ROW_KEYS, a) if a < a_end else A.read(m, C.NODES)
        b_key = A.get(m, rows + C.ROW_KEYS, b) if b < b_end else A.read(m, C.NODES)
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
    if size <= A.limit_of(m, rows, component):
        start = A.start_of(m, rows, component)
        for i in range(size):
            put_word(m, rows, start + i, A.get(m, rows + C.ROW_KEYS, begin + i), word_at(m, rows, begin + i))
    else:
        A.take_place(m, rows, component, min(size + (size >> 1), A.read(m, rows + C.POOL_ROOM) - begin))
    A.set_size(m, rows, component, size)
    set_count(m, rows, component, count)


@device
def unite(m: int, rows: int, component: int, other: int) -> bool:
    """Add another set to a set; false if the pool is full."""
    width = width_of(m, rows)
    if width > 0:
        A.add(m, C.WORK, 2 * width)
        added = unite_words(words_at(m, rows, component), words_at(m, rows, other), width)
        set_count(m, rows, component, count_of(m, rows, component) + added)
        return True
    size = A.size_of(m, rows, component) + A.size_of(m, rows, other)
    if A.lacks_room(m, rows, size):
        return False
    A.add(m, C.WORK, 4 * size)
    unite_sparse(m, rows, component, other)
    return True


@device
def save(m: int, component: int) -> bool:
    """Log what a component reached before the current change; false if the pool of the log is full."""
    touch(m, component)
    if A.get(m, C.FORMER_SIZE, component) == 0 or A.size_of(m, C.SAVED, component) > 0:
        return True
    start, stop = A.span_of(m, C.FORWARD, component)
    if A.lacks_room(m, C.SAVED, stop - start):
        return False
    begin = A.used(m, C.SAVED)
    end = begin
    for position in range(start, stop):
        word = word_at(m, C.FORWARD, position)
        if word != 0:
            put_word(m, C.SAVED, end, key_at(m, C.FORWARD, start, position), word)
            end += 1
    place_row(m, C.SAVED, component, end - begin, count_of(m, C.FORWARD, component))
    A.add(m, C.WORK, stop - start)
    return True


# --- the row under construction ---------------------------------------------------------------------------------------


@inlined
def gather_word(m: int, key: int, word: int) -> None:
    """Enter a word, and in the levels above that the word is set."""
    old = A.get_long(m, C.ROW, key)
    if old == 0:
        A.add(m, C.GATHERED, 1)
        A.put_long(m, C.SUMMARY, key >> 6, A.get_long(m, C.SUMMARY, key >> 6) | bit_of(key))
        A.put_long(m, C.OUTLINE, key >> 12, A.get_long(m, C.OUTLINE, key >> 12) | bit_of(key >> 6))
    A.put_long(m, C.ROW, key, old | word)


@inlined
def take_word(m: int, key: int) -> int:
    """Take a word out."""
    word = A.get_long(m, C.ROW, key)
    A.put_long(m, C.ROW, key, 0)
    A.put_long(m, C.SUMMARY, key >> 6, 0)
    A.put_long(m, C.OUTLINE, key >> 12, 0)
    return word


@device
def gather_row(m: int, rows: int, component: int) -> None:
    """Enter a whole set."""
    start, end = A.span_of(m, rows, component)
    if width_of(m, rows) > 0:
        or_words(A.read(m, C.ROW), words_at(m, rows, component), end - start)
        return
    for position in range(start, end):
        if word_at(m, rows, position) != 0:
            gather_word(m, A.get(m, rows + C.ROW_KEYS, position), word_at(m, rows, position))


@device
def gather_members(m: int, rows: int, component: int) -> None:
    for i in range(*A.span_of(m, C.MEMBERS, component)):
        node = A.entry(m, C.MEMBERS, i)
        if width_of(m, rows) > 0:
            A.put_long(m, C.ROW, node >> 6, A.get_long(m, C.ROW, node >> 6) | bit_of(node))
        else:
            gather_word(m, node >> 6, bit_of(node))


@device
def gather(m: int, rows: int, edges: int, component: int) -> None:
    """Construct the set of a component from its members and the sets of its neighbours.

    A neighbour that is already in the set came with its whole own set, so there are fewer unions than edges.
    """
    gather_members(m, rows, component)
    first, last = A.span_of(m, C.MEMBERS, component)
    work = last - first
    for i in range(first, last):
        start, end = A.span_of(m, edges, A.entry(m, C.MEMBERS, i))
        work += end - start
        for edge in range(start, end):
            node = A.entry(m, edges, edge)
            if (A.get_long(m, C.ROW, node >> 6) >> (node & 63)) & 1 == 0:
                neighbour = A.get(m, C.COMPONENT, node)
                gather_row(m, rows, neighbour)
                work += A.size_of(m, rows, neighbour)
    A.add(m, C.WORK, work)


@device
def store_dense(m: int, rows: int, component: int) -> None:
    count = 0
    width, start = width_of(m, rows), A.used(m, rows)
    for key in range(width):
        word = A.get_long(m, C.ROW, key)
        A.put_long(m, C.ROW, key, 0)
        set_word(m, rows, start + key, word)
        count += population(word)
    place_row(m, rows, component, width, count)


@device
def store_sparse(m: int, rows: int, component: int) -> None:
    """Read the words that are set in order, by way of the outline and the summary."""
    count = 0
    end = A.used(m, rows)
    for high in range((A.read(m, C.NODES) >> 18) + 1):
        middles = A.get_long(m, C.OUTLINE, high)
        A.put_long(m, C.OUTLINE, high, 0)
        while middles != 0:
            middle = (high << 6) + first_bit(middles)
            middles &= ~bit_of(middle)
            keys = A.get_long(m, C.SUMMARY, middle)
            A.put_long(m, C.SUMMARY, middle, 0)
            while keys != 0:
                key = (middle << 6) + first_bit(keys)
                keys &= ~bit_of(key)
                word = A.get_long(m, C.ROW, key)
                A.put_long(m, C.ROW, key, 0)
                put_word(m, rows, end, key, word)
                count += population(word)
                end += 1
    place_row(m, rows, component, A.read(m, C.GATHERED), count)
    A.write(m, C.GATHERED, 0)


@device
def store_gathered(m: int, rows: int, component: int) -> bool:
    """Make the row under construction the set of a component; false if the pool is full."""
    dense = width_of(m, rows) > 0
    size = width_of(m, rows) if dense else A.read(m, C.GATHERED)
    if A.lacks_room(m, rows, size):
        return False
    A.add(m, C.WORK, size)
    if dense:
        store_dense(m, rows, component)
    else:
        store_sparse(m, rows, component)
    return True


# --- all rows ---------------------------------------------------------------------------------------------------------


@entry_point
def copy_rows(
    m: int, rows: int, keys: int, words: int, table: int, width: int, slice: int, first: int, end: int
) -> tuple[int, int]:
    """Copy the sets of the components from `first` on, from either form to either form, to new memory that has room,
    where they begin at `end`, and write their places into a new table. Stops after a slice of words; returns how far it
    came in both.
    """
    enough = end + slice
    for component in range(first, A.read(m, C.COMPONENTS)):
        start, stop = A.span_of(m, rows, component)
        if start == stop:
            continue
        if end >= enough:
            return component, end
        begin = end
        if width > 0:
            end = begin + width
            for position in range(begin, end):
                store_i64(words + 8 * position, 0)
        for position in range(start, stop):
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
        A.write_place(table, component, begin, end - begin, end - begin)
    return A.read(m, C.COMPONENTS), end
