"""Joins by whole rows of a bit matrix: for short plans whose heads are pairs of a dense relation.

While facts are only inserted, a dense relation is also kept as a bit matrix (`store.pair_bits`). Then sixty-four rule
instances are one operation on two words, in the two shapes that nearly all recursive rules over pairs have:

- *spread*, as in `path(X, Z) :- edge(X, Y), path(Y, Z)` with new paths as pivots: pivots with the same Y share all
  matches of the other atoms, so the set of their Z is added to the row of each X;
- *gather*, as in `path(X, Z) :- path(X, Y), edge(Y, Z)`: the set of all Z of a Y is built once, and added to the row of
  the X of each pivot with that Y.

Where the sets are small, their members are taken one by one. Either way each instance is counted once.
"""

from tidelog.machine import plan_words as P
from tidelog.machine.bits import bit_of, first_bit
from tidelog.machine.fact_kernels import is_known, note_pair
from tidelog.machine.jit import device, inlined, load_i32, load_i64, store_i32, store_i64

PAIR_BY_PAIR = 0
SPREAD = 1
GATHER = 2

# Fewer pivots are not worth the preparation, nor is less than one pivot for so many rows of the matrix.
LEAST_PIVOTS = 64
ROWS_A_PIVOT = 16

# Looking at a member of a set costs about as much as looking at so many words of a row.
WORDS_A_MEMBER = 2
WORDS_A_FACT = 8

# What is known of the facts of a key: n + FIRST_SEEN where n facts were walked through, -n where their set was built.
UNSEEN = 0
SCATTERED = 1  # some are not in the matrix: they are always walked through
FIRST_SEEN = 2


@device
def shape_of(short, pivots, count, known):
    """How the heads of a short plan are built: in one of the two shapes if the matrix and the plan allow it."""
    rows = known[1]
    atoms = load_i32(short + 4 * P.SHORT_ATOMS)
    if rows == 0 or atoms == 0 or count < LEAST_PIVOTS or ROWS_A_PIVOT * count < rows:
        return PAIR_BY_PAIR
    head = short + 4 * P.SHORT_HEAD
    if load_i32(head + 8) == P.FROM_LAST:
        return GATHER if load_i32(head) != P.FROM_LAST else PAIR_BY_PAIR
    key = short + 4 * ((P.SHORT_MIDDLE if atoms == 2 else P.SHORT_LAST) + P.A_KEY)
    last_key = short + 4 * (P.SHORT_LAST + P.A_KEY)
    if pivots == 0 or load_i32(head + 8) != P.FROM_PIVOT or load_i32(key) != P.FROM_PIVOT:
        return PAIR_BY_PAIR
    column = load_i32(key + 4)
    if column == load_i32(head + 12) or other_pivot_column(head, column) or other_pivot_column(last_key, column):
        return PAIR_BY_PAIR
    return SPREAD


@inlined
def other_pivot_column(cell, column):
    """Whether a cell comes from a column of the pivot that is not the one given."""
    return load_i32(cell) == P.FROM_PIVOT and load_i32(cell + 4) != column


# --- the layout behind the matrix -------------------------------------------------------------------------------------


@inlined
def row_at(known, row):
    """A row of a bit matrix, given as its address, rows and columns."""
    return known[0] + row * (known[2] >> 3)


@inlined
def gathered_at(known, key):
    """The set of a key's facts; these sets lie behind the matrix as a second one."""
    return row_at(known, known[1] + key)


@inlined
def state_at(known, key):
    """What is known of a key's facts, and then the first and the last word of their set."""
    return row_at(known, 2 * known[1]) + 24 * key


@inlined
def spread_at(known):
    """The set of the pivots in work."""
    return state_at(known, known[1])


@inlined
def members_at(known):
    """The same as a list."""
    return spread_at(known) + (known[2] >> 3)


@device
def forget_gathered(known):
    """Nothing is known of any key's facts."""
    for key in range(known[1]):
        store_i64(state_at(known, key), UNSEEN)


# --- the operations ---------------------------------------------------------------------------------------------------


@device
def group_pivots(known, pivots, position, count, records, key_column, column):
    """Collect the pivots from a position on that have the same key. Gives where they end, and the first and last word
    of their set; the last is -1 where they are better taken one by one.
    """
    cells, width = records
    members = members_at(known)
    key = load_i32(cells + load_i32(pivots + 4 * position) * width + 4 * key_column)
    least = known[2]
    largest = 0
    end = position
    while end < count and end - position < known[2]:
        pivot = cells + load_i32(pivots + 4 * end) * width
        if load_i32(pivot + 4 * key_column) != key:
            break
        value = load_i32(pivot + 4 * column)
        store_i32(members + 4 * (end - position), value)
        least = min(least, value)
        largest = max(largest, value)
        end += 1
    low = least >> 6
    high = largest >> 6
    if largest >= known[2] or high - low >= WORDS_A_MEMBER * (end - position):
        return end, 0, -1
    bits = spread_at(known)
    for word in range(low, high + 1):
        store_i64(bits + 8 * word, 0)
    for place in range(end - position):
        note_pair(bits, 0, 0, load_i32(members + 4 * place))
    return end, low, high


@device
def add_members(known, first, member, count, heads, room, buffered):
    """Buffer the heads of `first` with each pivot in work from `member` on, except for known ones. Gives how many are
    buffered then, and the next pivot, for which there was no room.
    """
    members = members_at(known)
    for place in range(member, count):
        if buffered == room:
            return buffered, place
        second = load_i32(members + 4 * place)
        if is_known(known, first, second):
            continue
        store_i32(heads + 8 * buffered, first)
        store_i32(heads + 8 * buffered + 4, second)
        buffered += 1
    return buffered, count


@device
def add_set(known, first, bits, low, high, heads, room, buffered):
    """Buffer the heads of `first`, a row of the matrix, with each member of a set, except for known ones. The set has
    bits only from word `low` to word `high`. Gives how many heads are buffered then, and whether there was room for
    all; if not, the next try finds the others.
    """
    row = row_at(known, first)
    for word in range(low, high + 1):
        old = load_i64(row + 8 * word)
        new = load_i64(bits + 8 * word) & ~old
        while new != 0:
            if buffered == room:
                store_i64(row + 8 * word, old)
                return buffered, False
            place = first_bit(new)
            new &= ~bit_of(place)
            old |= bit_of(place)
            store_i32(heads + 8 * buffered, first)
            store_i32(heads + 8 * buffered + 4, 64 * word + place)
            buffered += 1
        store_i64(row + 8 * word, old)
    return buffered, True


@device
def spread(known, chain, care, want, column, first, group, member, heads, room, buffered):
    """Add the pivots in work, `group`, to the row of each fact of a chain, for the first fact from `member` on. Gives
    the next fact and the next member, how many facts were looked at, how many instances there were, and how many heads
    are buffered then.

    The row is in a column of the fact, or the same for all where that is -1.
    """
    fact, cells, width, flags, link = chain
    members, low, high = group
    seen = 0
    instances = 0
    while fact >= 0:
        record = cells + fact * width
        if load_i32(record + flags) & care == want:
            if column >= 0:
                first = load_i32(record + 4 * column)
            if high >= 0 and first < known[1]:
                buffered, whole = add_set(known, first, spread_at(known), low, high, heads, room, buffered)
            else:
                buffered, member = add_members(known, first, member, members, heads, room, buffered)
                whole = member == members
            if not whole:
                break
            instances += members
        fact = load_i32(record + link)
        member = 0
        seen += 1
    return fact, member, seen, instances, buffered


@device
def gathered(known, key, chain, care, want, column):
    """Whether there is a set of a key's facts; it is built if that pays. `chain` begins with the first of them.

    The first time that a key comes up, its facts are walked through; where they are few, every time.
    """
    if key >= known[1]:
        return False
    state = state_at(known, key)
    found = load_i64(state)
    if found < 0:
        return True
    if found < FIRST_SEEN or WORDS_A_FACT * (found - FIRST_SEEN) < known[2] >> 6:
        return False
    fact, cells, width, flags, link = chain
    bits = gathered_at(known, key)
    for word in range(known[2] >> 6):
        store_i64(bits + 8 * word, 0)
    low = known[2] >> 6
    high = 0
    matches = 0
    while fact >= 0:
        record = cells + fact * width
        fact = load_i32(record + link)
        if load_i32(record + flags) & care == want:
            value = load_i32(record + 4 * column)
            if value >= known[2]:
                store_i64(state, SCATTERED)
                return False
            note_pair(bits, 0, 0, value)
            low = min(low, value >> 6)
            high = max(high, value >> 6)
            matches += 1
    store_i64(state, -matches)
    store_i64(state + 8, low)
    store_i64(state + 16, high)
    return matches > 0


@device
def add_gathered(known, first, key, heads, room, buffered):
    """Add the set of a key's facts to a row. Gives how many instances there were, or 0 where there was no room for all,
    and how many heads are buffered then. There is at least one fact.
    """
    state = state_at(known, key)
    bits = gathered_at(known, key)
    low = load_i64(state + 8)
    buffered, whole = add_set(known, first, bits, low, load_i64(state + 16), heads, room, buffered)
    return -load_i64(state) if whole else 0, buffered


@inlined
def note_walked(known, key, matches):
    """Note how many facts of a key were walked through."""
    if key < known[1] and load_i64(state_at(known, key)) == UNSEEN:
        store_i64(state_at(known, key), matches + FIRST_SEEN)
