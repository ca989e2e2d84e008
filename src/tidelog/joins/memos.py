"""Memos: relations from the arguments of functions to their results, and requests for what they do not hold yet."""

from tidelog.machine import index_fields as X
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import field, index_row, relation_row
from tidelog.machine.hash_tables import SEED, mix, probe_number
from tidelog.machine.jit import device, inlined, load_i32, load_i64, store_i32


@inlined
def value_of(source, variables):
    """A source is the number of a variable, or -1 - the number of a constant."""
    if source >= 0:
        return load_i64(variables + 8 * source)
    return -1 - source


@inlined
def has_values(fact, sought):
    """Whether the indexed columns of a fact hold the values of some sources."""
    cells, width, columns, column_count, sources, variables = sought
    record = cells + fact * width
    for position in range(column_count):
        cell = load_i32(record + 4 * load_i32(columns + 4 * position))
        if cell != value_of(load_i32(sources + 4 * position), variables):
            return False
    return True


@device
def first_with_values(m, index_number, sources, variables):
    """The newest fact whose indexed columns hold the values of these sources, or -1."""
    index = index_row(m, index_number)
    row = relation_row(m, field(index, X.RELATION))
    column_count = field(index, X.COLUMN_COUNT)
    hashed = SEED
    for position in range(column_count):
        hashed = mix(hashed, value_of(load_i32(sources + 4 * position), variables))
    sought = (field(row, R.CELLS), field(row, R.WIDTH), field(index, X.COLUMNS), column_count, sources, variables)
    _, fact = probe_number(field(index, X.SLOTS), field(index, X.SLOT_COUNT), hashed, has_values, sought)
    return fact


@device
def request(m, memo, count, sources, variables):
    """Ask Python for the result of a call; whether the join has to wait for it. A rehearsal does not, as long as there
    is room, and asks for calls of one function only.
    """
    asked = m[M.REQUEST_COUNT]
    if m[M.REHEARSING] != 0 and asked > 0 and load_i32(m[M.REQUESTS]) != memo:
        return False
    size = count + 2
    if asked + size > m[M.REQUEST_CAPACITY]:
        return True
    at = m[M.REQUESTS] + 4 * asked
    store_i32(at, memo)
    store_i32(at + 4, count)
    for position in range(count):
        store_i32(at + 8 + 4 * position, value_of(load_i32(sources + 4 * position), variables))
    m[M.REQUEST_COUNT] = asked + size
    return m[M.REHEARSING] == 0
