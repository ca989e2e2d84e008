"""Offers: values that rules derive for the groups of a predicate that keeps the best one of each (`program.lattices`).

An offer that is better than what its group has becomes a record, which is PENDING and waits in a heap to be settled;
the others leave no trace. A group has at most one record in I, the value that was settled, and at most one that is
pending, which is better; both are then AWAITED. All records of a group are in one chain of an index.

All values are in one order, so that results do not depend on how they are found. Numbers come first, by value, and an
integer before the float of the same value; then strings, IRIs, booleans and literals, each by their texts. For `max`
the order within a kind is turned round, and that of the kinds is not: arithmetic has to do with numbers alone. What
texts do not order, durations, decimals and large integers, is no value.

The heap is ordered by a key that is cheap to compare and need not be exact: whatever is settled too early is settled
again.
"""

from tidelog.engine.propagation.drafts import enter_draft, rewrite_draft, takes_drafts
from tidelog.joins.expressions import compare_numbers, compare_texts, order_of, term_kind, term_payload
from tidelog.joins.functions.moments import has_no_text_order
from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import term_kinds as K
from tidelog.machine import work_lists as L
from tidelog.machine.fact_kernels import (
    add_record,
    field,
    find_or_append,
    flags_at,
    has_columns_of,
    index_row,
    record_of,
    relation_row,
    touch,
)
from tidelog.machine.hash_tables import SEED, mix, probe_number, slot_of_hash
from tidelog.machine.jit import bits_of_float, device, float_of_bits, inlined, load_i32, load_u8, prefetch, store_i32
from tidelog.machine.status import DONE, FULL_LIST

# What the flags of a fact in I lose when it is settled: traces of its deletion, and of its waiting.
PASSING = F.PENDING | F.AWAITED | F.DELETED | F.PROCESSED | F.CHECKED

# The key of what needs no turn: facts of predicates that keep no value.
FIRST = -9223372036854775807

# How many bytes of a text are in its key.
TEXT_BYTES = 7

# A node of the heap has so many children: they share a cache line.
CHILDREN = 4

# --- the order of values ----------------------------------------------------------------------------------------------


@inlined
def kind_rank(kind):
    """The place of a kind of terms in the order of values."""
    if kind == K.INTEGER or kind == K.FLOAT:
        return 0
    if kind == K.STRING:
        return 1
    if kind == K.IRI:
        return 2
    return 3 if kind == K.BOOLEAN else 4


@device
def compare_values(m, left, right, rising):
    """-1 if the left one is better, 0 if both are the same, 1 if the right one is better."""
    if left == right:
        return 0
    left_kind, right_kind = term_kind(m, left), term_kind(m, right)
    rank = kind_rank(left_kind)
    if rank != kind_rank(right_kind):
        return order_of(rank, kind_rank(right_kind))
    if rank == 0:
        order = compare_numbers(left_kind, term_payload(m, left), right_kind, term_payload(m, right))
        if order == 0:
            return order_of(left_kind, right_kind)
    elif rank == 3:
        order = order_of(term_payload(m, left), term_payload(m, right))
    else:
        order = compare_texts(m, left, right)
    return -order if rising else order


@inlined
def rises(row):
    """Whether larger values are better."""
    how = field(row, R.BEST)
    return how == R.BEST_RISES or how == R.BEST_RISES_OF_BOOLEANS


@device
def is_value(m, row, term):
    """Whether a term can be a value of a group: NaN cannot, literals that texts do not order cannot, and for `any` and
    `all` only booleans can.
    """
    kind = term_kind(m, term)
    if field(row, R.BEST) >= R.BEST_FALLS_OF_BOOLEANS:
        return kind == K.BOOLEAN
    if kind == K.LITERAL:
        return not has_no_text_order(m, term)
    if kind != K.FLOAT:
        return True
    number = float_of_bits(term_payload(m, term))
    return number == number


@device
def is_better(m, row, at, record):
    """Whether a row is better than a record of its group: in its value, or by its witness."""
    value = field(row, R.VALUE)
    order = compare_values(m, load_i32(at + value), load_i32(record + value), rises(row))
    witness = field(row, R.WITNESS)
    if order == 0 and witness >= 0:
        order = compare_values(m, load_i32(at + witness), load_i32(record + witness), False)
    return order < 0


@device
def key_of(m, row, term):
    """A number that is smaller for a better value, but for those that are close to each other."""
    kind = term_kind(m, term)
    payload = term_payload(m, term)
    if kind == K.INTEGER or kind == K.FLOAT:
        bits = bits_of_float(float(payload) if kind == K.INTEGER else float_of_bits(payload))
        key = bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF)
    elif kind == K.BOOLEAN:
        key = payload
    else:
        key = 0
        text = m[M.TERM_TEXT] + payload
        size = load_i32(m[M.TERM_SIZES] + 4 * term)
        for place in range(TEXT_BYTES):
            key = key << 8
            if place < size:
                key |= load_u8(text + place)
    return -key if rises(row) else key


# --- the heap ---------------------------------------------------------------------------------------------------------


@inlined
def heap_key(m, place):
    return L.entry(m, L.OFFERS, 2 * place)


@inlined
def put_offer(m, place, key, entry):
    L.put(m, L.OFFERS, 2 * place, key)
    L.put(m, L.OFFERS, 2 * place + 1, entry)


@device
def push_offer(m, key, entry):
    """Let an offer wait for its turn. There is room."""
    place = L.count(m, L.OFFERS) // 2
    L.cut(m, L.OFFERS, 2 * place + 2)
    while place > 0:
        parent = (place - 1) // CHILDREN
        above = heap_key(m, parent)
        if above <= key:
            break
        put_offer(m, place, above, L.entry(m, L.OFFERS, 2 * parent + 1))
        place = parent
    put_offer(m, place, key, entry)


@device
def push_in_turn(m, key, entry):
    """The same, where offers may be settled in the order of their arrival."""
    push_offer(m, m[M.BEST_ROUND] if m[M.BEST_ROUND] != 0 else key, entry)


@inlined
def prefetch_children(m, first, count):
    """Ask for the children of a node and of its sisters."""
    grandchild = CHILDREN * first + 1
    if grandchild < count:
        for sister in range(CHILDREN):
            prefetch(m[L.OFFERS] + 16 * (grandchild + CHILDREN * sister))


@device
def pop_offer(m):
    """The offer whose turn it is, with its key."""
    first_key, first = heap_key(m, 0), L.entry(m, L.OFFERS, 1)
    count = L.count(m, L.OFFERS) // 2 - 1
    L.cut(m, L.OFFERS, 2 * count)
    key, entry = heap_key(m, count), L.entry(m, L.OFFERS, 2 * count + 1)
    place = 0
    while CHILDREN * place + 1 < count:
        child = CHILDREN * place + 1
        prefetch_children(m, child, count)
        least = heap_key(m, child)
        for other in range(child + 1, min(child + CHILDREN, count)):
            if heap_key(m, other) < least:
                least = heap_key(m, other)
                child = other
        if key <= least:
            break
        put_offer(m, place, least, L.entry(m, L.OFFERS, 2 * child + 1))
        place = child
    put_offer(m, place, key, entry)
    return first_key, first


@device
def prefetch_next(m):
    """Ask for the records of the offers that will probably be next."""
    for place in range(min(CHILDREN, L.count(m, L.OFFERS) // 2)):
        entry = L.entry(m, L.OFFERS, 2 * place + 1)
        prefetch(record_of(relation_row(m, L.relation_of(entry)), L.fact_of(entry)))


# --- offers -----------------------------------------------------------------------------------------------------------


@inlined
def groups_of(m, row):
    """What finds the records of groups: slots and their count, columns and their count, address and width of records,
    offsets of flags and link. It stays as it is for as long as a kernel runs.
    """
    index = index_row(m, field(row, R.GROUP))
    slots, slot_count = field(index, X.SLOTS), field(index, X.SLOT_COUNT)
    columns, column_count = field(index, X.COLUMNS), field(index, X.COLUMN_COUNT)
    cells, width, flags, link = field(row, R.CELLS), field(row, R.WIDTH), field(row, R.FLAGS), field(index, X.LINK)
    return slots, slot_count, columns, column_count, cells, width, flags, link


@inlined
def hash_of_group(groups, at):
    """The hash of a row's group."""
    columns = groups[2]
    hashed = SEED
    for place in range(groups[3]):
        hashed = mix(hashed, load_i32(at + 4 * load_i32(columns + 4 * place)))
    return hashed


@inlined
def home_of_group(groups, hashed):
    """The address of the slot in which the search for a group with this hash begins."""
    return groups[0] + 4 * slot_of_hash(hashed, groups[1])


@inlined
def first_with_hash(groups, at, hashed):
    """The first record in the chain of a row's group, which has this hash, or -1."""
    slots, slot_count, columns, column_count, cells, width, _, _ = groups
    _, fact = probe_number(slots, slot_count, hashed, has_columns_of, (at, cells, width, columns, column_count))
    return fact


@device
def first_of_group(m, row, at):
    """The first record in the chain of a row's group, or -1."""
    groups = groups_of(m, row)
    return first_with_hash(groups, at, hash_of_group(groups, at))


@inlined
def best_with_hash(groups, at, hashed):
    """The record that a row's group, which has this hash, has: the pending one, or the one in I, or -1."""
    _, _, _, _, cells, width, at_flags, link = groups
    found = -1
    fact = first_with_hash(groups, at, hashed)
    while fact >= 0:
        record = cells + fact * width
        flags = load_i32(record + at_flags)
        if flags & F.PENDING or flags & (F.IN | F.AWAITED) == F.IN:
            found = fact
            break
        if flags & F.IN:
            found = fact
        fact = load_i32(record + link)
    return found


@device
def let_fact_wait(m, relation, row, fact, key):
    touch(m, relation, row, fact)
    place = flags_at(row, fact)
    store_i32(place, load_i32(place) | F.PENDING)
    push_in_turn(m, key, L.entry_of(relation, fact))


@device
def offer(m, relation, row, at, fact):
    """Take a derived row, or that of an explicit fact, which is -1 otherwise: it waits if it is better than what its
    group has, or if its predicate keeps no value and it is not in I. There is room for it in the relation, the heap,
    and twice in the log.
    """
    if field(row, R.BEST) == 0:
        fact = find_or_append(m, relation, at, 0)
        if not load_i32(flags_at(row, fact)) & (F.IN | F.PENDING):
            let_fact_wait(m, relation, row, fact, FIRST)
        return
    value = load_i32(at + field(row, R.VALUE))
    if not is_value(m, row, value):
        m[M.ERRORS] += 1
        m[M.UNAGGREGATED] += 1
        return
    groups = groups_of(m, row)
    known = best_with_hash(groups, at, hash_of_group(groups, at))
    if known < 0 or is_better(m, row, at, record_of(row, known)):
        accept(m, relation, row, at, fact, known)


@device
def accept(m, relation, row, at, fact, known):
    """Let a row wait that is better than what its group has, which is `known`, if that is not -1."""
    key = key_of(m, row, load_i32(at + field(row, R.VALUE)))
    drafts = takes_drafts(m, row)
    awaited = 0
    if known >= 0:
        flags = load_i32(flags_at(row, known))
        if drafts and fact < 0 and flags & F.DRAFT and flags & F.PENDING:
            rewrite_draft(row, known, at)
            push_in_turn(m, key, L.entry_of(relation, known))
            return
        # What is in I stays there until the better value is settled.
        awaited = flags & F.AWAITED if flags & F.PENDING else F.AWAITED
        step_back(m, relation, row, known)
    if fact < 0:
        fact = add_record(m, row, at, F.DRAFT) if drafts else find_or_append(m, relation, at, 0)
    let_fact_wait(m, relation, row, fact, key)
    place = flags_at(row, fact)
    store_i32(place, load_i32(place) | awaited)


@device
def step_back(m, relation, row, known):
    """What a group has is no longer the best that it was offered."""
    touch(m, relation, row, known)
    place = flags_at(row, known)
    flags = load_i32(place)
    if flags & F.PENDING:
        if flags & F.DRAFT:
            enter_draft(row, known)
        m[M.SPOILED] += 1
        store_i32(place, flags & ~(F.PENDING | F.DRAFT | F.AWAITED))
    else:
        store_i32(place, flags | F.AWAITED)


@inlined
def prefetch_group(groups, hashed):
    """Ask for the record that the slot of a group names."""
    fact = load_i32(home_of_group(groups, hashed))
    if fact >= 0:
        prefetch(groups[4] + fact * groups[5])


@device
def prefetch_groups(m, row, rows, width, count):
    """Ask for the slots of the groups of many rows, and then for the records that these name; so their cache misses
    overlap.
    """
    groups = groups_of(m, row)
    for position in range(count):
        prefetch(home_of_group(groups, hash_of_group(groups, rows + width * position)))
    for position in range(count):
        prefetch_group(groups, hash_of_group(groups, rows + width * position))


@device
def take_offers(m, relation, row, rows, count):
    """Take derived rows; DONE, or what is missing. There is room in the relation and in the log."""
    if L.room(m, L.OFFERS, 2 * count) != DONE:
        return FULL_LIST
    width = 4 * field(row, R.ARITY)
    if field(row, R.BEST) != 0:
        prefetch_groups(m, row, rows, width, count)
    for position in range(count):
        offer(m, relation, row, rows + width * position, -1)
    return DONE
