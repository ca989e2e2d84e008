"""The kernels below everything: hashing, finding and appending facts, index chains, flags, counters, the undo log.

Hashing keeps neighbours together: eight consecutive numbers of the last argument share a cache line of the table, so
that the heads of one rule over a sorted range hit the same lines.
"""

from __future__ import annotations

from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.hash_tables import MASK_32, SECOND_SEED, SEED, mix, next_slot, probe_key, probe_number
from tidelog.machine.jit import device, inlined, load_i32, load_i64, prefetch, store_i32, store_i64

# How far ahead of the row in work the slots of others are asked for.
LOOK_AHEAD = 16


@inlined
def relation_row(m, relation):
    """The address of a relation's fields."""
    return m[M.RELATIONS] + relation * R.STRIDE


@inlined
def index_row(m, index):
    return m[M.INDEXES] + index * X.STRIDE


@inlined
def field(row, number):
    return load_i64(row + 8 * number)


@inlined
def set_field(row, number, value):
    store_i64(row + 8 * number, value)


@inlined
def record_of(row, fact):
    """The address of a fact's record."""
    return load_i64(row + 8 * R.CELLS) + fact * load_i64(row + 8 * R.WIDTH)


@inlined
def flags_at(row, fact):
    """The address of a fact's flags."""
    return record_of(row, fact) + load_i64(row + 8 * R.FLAGS)


@inlined
def flags_of(m, relation, fact):
    return load_i32(flags_at(relation_row(m, relation), fact))


@device
def row_key(row_address, arity):
    """The key of a row of cells in the table: the row itself up to arity 2, a 62-bit hash beyond."""
    if arity == 2:
        return (load_i32(row_address) << 32) | load_i32(row_address + 4)
    if arity == 1:
        return load_i32(row_address)
    if arity == 0:
        return 0
    first = SEED
    second = SECOND_SEED
    for column in range(arity):
        cell = load_i32(row_address + 4 * column)
        first = mix(first, cell)
        second = mix(second, cell ^ (cell << 7) & MASK_32)
    return ((first << 32) | second) & 0x3FFFFFFFFFFFFFFF


@inlined
def home_slot(key, groups):
    """Where the search for a key begins: its group by hash, its place in the group by its last three bits."""
    hashed = mix(mix(SEED, key >> 32), (key & MASK_32) >> 3)
    return ((hashed * groups) >> 32) * 8 + (key & 7)


@device
def same_row(record, row_address, arity):
    for column in range(arity):
        if load_i32(record + 4 * column) != load_i32(row_address + 4 * column):
            return False
    return True


@device
def find_slot(row, row_address, key, slot):
    """The slot that holds a row, or the empty slot where it belongs, searching from `slot` on."""
    keys = field(row, R.KEYS)
    slots = field(row, R.GROUPS) * 8
    arity = field(row, R.ARITY)
    slot, found = probe_key(keys, slots, slot, key)
    while arity > 2 and found == key:
        # The key is a hash only.
        if same_row(record_of(row, load_i32(field(row, R.FACTS) + 4 * slot)), row_address, arity):
            break
        slot, found = probe_key(keys, slots, next_slot(slot, slots), key)
    return slot


@device
def find(m, relation, row_address):
    """The number of the fact with these cells, dead or alive, or -1."""
    row = relation_row(m, relation)
    key = row_key(row_address, field(row, R.ARITY))
    slot = find_slot(row, row_address, key, home_slot(key, field(row, R.GROUPS)))
    if load_i64(field(row, R.KEYS) + 8 * slot) == R.EMPTY:
        return -1
    return load_i32(field(row, R.FACTS) + 4 * slot)


@inlined
def clear_counters(record, counters):
    """Set the counters of a record to zero; `counters` is where they lie in it, or 0 where it has none."""
    if counters != 0:
        store_i32(record + counters, 0)
        store_i32(record + counters + 4, 0)


@inlined
def enter(row, slot, key, fact):
    """Let the hash table have a fact at the slot that `find_slot` gave."""
    store_i64(field(row, R.KEYS) + 8 * slot, key)
    store_i32(field(row, R.FACTS) + 4 * slot, fact)


@device
def add_record(m, row, row_address, flags):
    """Add a record of which the hash table knows nothing; its number. The caller has made room."""
    fact = field(row, R.COUNT)
    store_i64(row + 8 * R.COUNT, fact + 1)
    record = record_of(row, fact)
    arity = field(row, R.ARITY)
    for column in range(arity):
        store_i32(record + 4 * column, load_i32(row_address + 4 * column))
    store_i32(record + field(row, R.FLAGS), flags)
    clear_counters(record, field(row, R.COUNTERS))
    indexes = field(row, R.INDEXES)
    for position in range(field(row, R.INDEX_COUNT)):
        link_fact(m, load_i64(indexes + 8 * position), record, fact)
    return fact


@device
def append(m, row, slot, key, row_address, flags):
    """Add a fact that is not there, at the slot that `find_slot` gave. The caller has made room."""
    fact = add_record(m, row, row_address, flags)
    enter(row, slot, key, fact)
    return fact


@device
def find_or_append(m, relation, row_address, flags):
    """The fact with these cells; a new one gets `flags`. The caller has made room."""
    row = relation_row(m, relation)
    key = row_key(row_address, field(row, R.ARITY))
    slot = find_slot(row, row_address, key, home_slot(key, field(row, R.GROUPS)))
    if load_i64(field(row, R.KEYS) + 8 * slot) != R.EMPTY:
        return load_i32(field(row, R.FACTS) + 4 * slot)
    return append(m, row, slot, key, row_address, flags)


@inlined
def has_columns_of(fact, sought):
    """Whether a fact has the same cells as a record in the columns of an index."""
    record, cells, width, columns, column_count = sought
    other = cells + fact * width
    for position in range(column_count):
        column = 4 * load_i32(columns + 4 * position)
        if load_i32(record + column) != load_i32(other + column):
            return False
    return True


@device
def index_slot_of_record(index, record, cells, width):
    """The slot of an index for the key in a record: of a fact with that key, or empty."""
    columns = field(index, X.COLUMNS)
    column_count = field(index, X.COLUMN_COUNT)
    hashed = SEED
    for position in range(column_count):
        hashed = mix(hashed, load_i32(record + 4 * load_i32(columns + 4 * position)))
    sought = (record, cells, width, columns, column_count)
    slot, _ = probe_number(field(index, X.SLOTS), field(index, X.SLOT_COUNT), hashed, has_columns_of, sought)
    return slot


@device
def link_fact(m, index_number, record, fact):
    """Put a fact at the front of its chain."""
    index = index_row(m, index_number)
    row = relation_row(m, field(index, X.RELATION))
    slot = index_slot_of_record(index, record, field(row, R.CELLS), field(row, R.WIDTH))
    place = field(index, X.SLOTS) + 4 * slot
    newest = load_i32(place)
    if newest == R.EMPTY:
        store_i64(index + 8 * X.USED, field(index, X.USED) + 1)
    store_i32(record + field(index, X.LINK), newest)
    store_i32(place, fact)


@device
def touch(m, relation, row, fact):
    """Remember a fact as it was before the update; facts that the update itself appended need no memory."""
    if fact >= field(row, R.START):
        return
    record = record_of(row, fact)
    place = record + field(row, R.FLAGS)
    flags = load_i32(place)
    if flags & F.TOUCHED:
        return
    entry = m[M.LOG] + m[M.LOG_COUNT] * R.LOG_STRIDE
    store_i64(entry, relation)
    store_i64(entry + 8, fact)
    store_i64(entry + 16, flags)
    counters = field(row, R.COUNTERS)
    # Without counters zeros: the relation may get some later in the update.
    store_i64(entry + 24, load_i32(record + counters) if counters != 0 else 0)
    store_i64(entry + 32, load_i32(record + counters + 4) if counters != 0 else 0)
    m[M.LOG_COUNT] += 1
    store_i32(place, flags | F.TOUCHED)


@device
def enqueue(row, fact):
    """Let a fact wait for the next round. The caller has made room."""
    count = field(row, R.QUEUE_COUNT)
    store_i32(field(row, R.QUEUE) + 4 * count, fact)
    store_i64(row + 8 * R.QUEUE_COUNT, count + 1)


@inlined
def note_pair(pairs, columns, first, second):
    """Set the bit of a pair; whether it is new."""
    bit = first * columns + second
    place = pairs + 4 * (bit >> 5)
    word = load_i32(place)
    mask = 1 << (bit & 31)
    if word & mask:
        return False
    store_i32(place, word | mask)
    return True


@inlined
def is_known(known, first, second):
    """Whether a pair is known by a bit matrix: its address, rows and columns. A pair that is not is noted there."""
    return first < known[1] and second < known[2] and not note_pair(known[0], known[2], first, second)


@inlined
def has_pair(known, first, second):
    """Whether a bit matrix has a pair: its address, rows and columns."""
    if first >= known[1] or second >= known[2]:
        return False
    bit = first * known[2] + second
    return load_i32(known[0] + 4 * (bit >> 5)) & (1 << (bit & 31)) != 0


@device
def prefetch_row(row, rows, position):
    """Ask for the cache line of a row's home slot."""
    arity = field(row, R.ARITY)
    key = row_key(rows + 4 * arity * position, arity)
    prefetch(field(row, R.KEYS) + 8 * home_slot(key, field(row, R.GROUPS)))


@device
def prefetch_rows(m, relation, rows, count, slots):
    """Compute the home slots of many rows and ask for their cache lines; the probes then find them there."""
    row = relation_row(m, relation)
    arity = field(row, R.ARITY)
    groups = field(row, R.GROUPS)
    keys = field(row, R.KEYS)
    for position in range(count):
        slot = home_slot(row_key(rows + 4 * arity * position, arity), groups)
        store_i64(slots + 8 * position, slot)
        prefetch(keys + 8 * slot)
