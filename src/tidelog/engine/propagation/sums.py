"""Plans in sum form: `p(Y, min(D + W)) :- p(X, D), e(X, Y, W)` and the like, which are most rules of best values.

The values of a pivot are computed in batches and compared with those that their groups have. Only a better one becomes
a term and a row. The executor makes a term of each, and with floats hardly one is like another.
"""

from tidelog.engine.propagation.derived_heads import count_work, has_room
from tidelog.engine.propagation.offers import (
    accept,
    best_with_hash,
    groups_of,
    hash_of_group,
    home_of_group,
    prefetch_group,
    rises,
)
from tidelog.engine.propagation.short_plans import first_with_key
from tidelog.joins.executor import masks_of, must_pause, plan_word
from tidelog.joins.expressions import (
    O_ADD,
    binary_operation,
    compare_numbers,
    intern_number,
    is_number,
    order_of,
    term_kind,
    term_payload,
)
from tidelog.machine import index_fields as X
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import term_kinds as K
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.fact_kernels import field, index_row, record_of, relation_row
from tidelog.machine.jit import device, inlined, load_i32, load_i64, load_u8, prefetch, store_i32, store_i64
from tidelog.machine.status import DONE, FULL, FULL_LOG, FULL_TERMS, PAUSED

# What `offer_sums` returns for a plan that only the executor can run.
SLOW = -1

# Matches that are looked at together.
BATCH = 64
# In the buffer of heads: for each match its value, which is a kind and 64 bits, the hash of its group, and the record
# that the group has; then the rows.
VALUE_SIZE = 32
VALUES = VALUE_SIZE * BATCH

# Sums of integers this large and no larger are integers.
SMALL = 1 << 61


@device
def room_for_offer(m, relation, row):
    """DONE if one more fact can be offered, or what is missing."""
    if not has_room(m, row, 1):
        m[M.FULL] = relation
        m[M.STAGED] = 1
        return FULL
    if m[M.LOG_COUNT] + 2 > m[M.LOG_CAPACITY]:
        m[M.STAGED] = 2
        return FULL_LOG
    return L.room(m, L.OFFERS, 2)


@inlined
def cell_of(cell, pivot, last):
    """The term of a cell of the form."""
    which = load_i32(cell + 4)
    origin = load_i32(cell)
    if origin == P.FROM_PIVOT:
        return load_i32(pivot + 4 * which)
    return load_i32(last + 4 * which) if origin == P.FROM_LAST else which


@inlined
def operand_of(m, cell, pivot):
    """What is known of an operand before the facts of the atom are: the offset in their records that it comes from, or
    -1 and its term.
    """
    which = load_i32(cell + 4)
    origin = load_i32(cell)
    if origin == P.FROM_LAST:
        return 4 * which, 0
    return -1, load_i32(pivot + 4 * which) if origin == P.FROM_PIVOT else which


@inlined
def is_small(bits):
    return -SMALL <= bits <= SMALL


@device
def compute(operator, left_kind, left, right_kind, right, at):
    """Store the value of an operation; whether it has one."""
    if operator == O_ADD and left_kind == K.INTEGER and right_kind == K.INTEGER and is_small(left) and is_small(right):
        store_i64(at, K.INTEGER)
        store_i64(at + 8, left + right)
        return True
    store_i64(at, left_kind)
    store_i64(at + 8, left)
    store_i64(at + 16, right_kind)
    store_i64(at + 24, right)
    return is_number(left_kind) and is_number(right_kind) and binary_operation(operator, at, at + 16)


@device
def collect(m, form, groups, pivot, chain, fact, arity):
    """Compute the values of the next facts of a chain, and write their rows: how many, and the fact after them; -2 if a
    value cannot be computed.
    """
    cells, width, flags, link, care, want = chain
    values = m[M.HEADS]
    rows = values + VALUES
    kinds, payloads = m[M.TERM_KINDS], m[M.TERM_PAYLOADS]
    operator = load_i32(form + 4 * P.SUM_OPERATOR)
    left_at, left = operand_of(m, form + 4 * P.SUM_LEFT, pivot)
    right_at, right = operand_of(m, form + 4 * P.SUM_RIGHT, pivot)
    count = seen = 0
    while fact >= 0 and count < BATCH:
        record = cells + fact * width
        fact = load_i32(record + link)
        seen += 1
        if load_i32(record + flags) & care != want:
            continue
        if left_at >= 0:
            left = load_i32(record + left_at)
        if right_at >= 0:
            right = load_i32(record + right_at)
        at = values + VALUE_SIZE * count
        left_kind, right_kind = load_u8(kinds + left), load_u8(kinds + right)
        left_bits, right_bits = load_i64(payloads + 8 * left), load_i64(payloads + 8 * right)
        if not compute(operator, left_kind, left_bits, right_kind, right_bits, at):
            fact = -2
            break
        head = rows + 4 * arity * count
        for column in range(arity):
            store_i32(head + 4 * column, cell_of(form + 4 * P.SUM_HEAD + 8 * column, pivot, record))
        hashed = hash_of_group(groups, head)
        store_i64(at + 16, hashed)
        prefetch(home_of_group(groups, hashed))
        count += 1
    m[M.BUDGET] -= seen
    return count, fact


@device
def is_better_number(m, row, kind, bits, known):
    """Whether a number is better than the value of a record."""
    term = load_i32(record_of(row, known) + field(row, R.VALUE))
    known_kind = term_kind(m, term)
    if not is_number(known_kind):
        return True
    order = compare_numbers(kind, bits, known_kind, term_payload(m, term))
    if order == 0:
        return order_of(kind, known_kind) < 0
    return order == (1 if rises(row) else -1)


@device
def find_known(m, row, groups, count, arity):
    """Note what the groups of collected rows have, and ask for the values, so that their cache misses overlap, too."""
    values = m[M.HEADS]
    kinds, payloads = m[M.TERM_KINDS], m[M.TERM_PAYLOADS]
    cells, width = groups[4], groups[5]
    value_at = field(row, R.VALUE)
    for position in range(count):
        prefetch_group(groups, load_i64(values + VALUE_SIZE * position + 16))
    for position in range(count):
        value = values + VALUE_SIZE * position
        known = best_with_hash(groups, values + VALUES + 4 * arity * position, load_i64(value + 16))
        store_i64(value + 24, known)
        if known >= 0:
            term = load_i32(cells + known * width + value_at)
            prefetch(kinds + term)
            prefetch(payloads + 8 * term)


@device
def offer_batch(m, relation, row, groups, value_column, count, arity):
    """Offer what was collected: DONE, or what is missing. What was offered already does no harm a second time."""
    values = m[M.HEADS]
    find_known(m, row, groups, count, arity)
    accepted = False
    for position in range(count):
        value = values + VALUE_SIZE * position
        at = values + VALUES + 4 * arity * position
        kind, bits = load_i64(value), load_i64(value + 8)
        # What was accepted may be of the same group.
        known = best_with_hash(groups, at, load_i64(value + 16)) if accepted else load_i64(value + 24)
        if known >= 0 and not is_better_number(m, row, kind, bits, known):
            continue
        status = room_for_offer(m, relation, row)
        if status != DONE:
            return status
        term = intern_number(m, kind, bits)
        if term < 0:
            return FULL_TERMS
        store_i32(at + 4 * value_column, term)
        accept(m, relation, row, at, -1, known)
        accepted = True
    return DONE


@device
def offer_sums(m, plan, pivot):
    """Offer what a plan in sum form derives from a pivot: DONE, a reason to pause, or SLOW if the executor has to."""
    form = plan_word(m, plan, P.SUM)
    if form == 0:
        return SLOW
    form = m[M.CODE] + 4 * form
    relation = plan_word(m, plan, P.HEAD_RELATION)
    row = relation_row(m, relation)
    arity = field(row, R.ARITY)
    value_column = load_i32(form + 4 * P.SUM_VALUE)
    plain = field(row, R.BEST) == R.BEST_FALLS or field(row, R.BEST) == R.BEST_RISES
    if not plain or field(row, R.WITNESS) >= 0 or field(row, R.VALUE) != 4 * value_column:
        return SLOW
    if VALUES + 4 * arity * BATCH > 4 * m[M.HEADS_CAPACITY]:
        return SLOW
    groups = groups_of(m, row)
    atom = relation_row(m, load_i32(form + 4 * P.SUM_RELATION))
    index = index_row(m, load_i32(form + 4 * P.SUM_INDEX))
    care, want = masks_of(m, load_i32(form + 4 * P.SUM_ROLE))
    cells, width = field(atom, R.CELLS), field(atom, R.WIDTH)
    chain = (cells, width, field(atom, R.FLAGS), field(index, X.LINK), care, want)
    if m[M.BEST_FACT] != 0:
        fact = m[M.BEST_FACT] - 2
    else:
        fact = first_with_key(index, cells, width, load_i32(pivot + 4 * load_i32(form + 4 * P.SUM_KEY)))
    work = 0
    status = DONE
    while fact >= 0:
        count, after = collect(m, form, groups, pivot, chain, fact, arity)
        if after == -2:
            status = SLOW
            break
        status = offer_batch(m, relation, row, groups, value_column, count, arity)
        if status != DONE:
            break
        work += count
        fact = after
        if fact >= 0 and must_pause(m, m[M.BUDGET]):
            status = PAUSED
            break
    m[M.BEST_FACT] = fact + 2
    count_work(m, W.INSERTION, plan, work)
    return status
