"""Drafts: records of values that wait to be settled, and of which the hash table does not know yet.

Most values that are offered to a group are replaced by better ones before their turn comes. A draft then gets the
better value in the same place: nothing is looked up, and no dead record is left. It is entered into the hash table when
its turn has come, before any rule may ask for it.

No other record may have the cells of a draft. So there are drafts only in relations that were empty before the update
(`R.DRAFTS`), and as long as nothing is taken back. Each value is then better than any that its group has had, explicit
ones too, which are offered first.
"""

from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import enter, field, find_slot, flags_at, home_slot, index_row, record_of, row_key
from tidelog.machine.jit import device, load_i32, load_i64, prefetch, store_i32


@device
def takes_drafts(m, row):
    """Whether values may wait as drafts: not where an index has them by their values."""
    if field(row, R.DRAFTS) == 0:
        return False
    value, witness = field(row, R.VALUE), field(row, R.WITNESS)
    indexes = field(row, R.INDEXES)
    for position in range(field(row, R.INDEX_COUNT)):
        index = index_row(m, load_i64(indexes + 8 * position))
        columns = field(index, X.COLUMNS)
        for place in range(field(index, X.COLUMN_COUNT)):
            column = 4 * load_i32(columns + 4 * place)
            if column in (value, witness):
                return False
    return True


@device
def rewrite_draft(row, fact, at):
    """Let a draft have the value and the witness of a row of its group."""
    record = record_of(row, fact)
    value, witness = field(row, R.VALUE), field(row, R.WITNESS)
    store_i32(record + value, load_i32(at + value))
    if witness >= 0:
        store_i32(record + witness, load_i32(at + witness))


@device
def prefetch_entry(row, fact):
    """Ask for the slot of the hash table that a draft will be entered at."""
    key = row_key(record_of(row, fact), field(row, R.ARITY))
    prefetch(field(row, R.KEYS) + 8 * home_slot(key, field(row, R.GROUPS)))


@device
def enter_draft(row, fact):
    """Enter a draft into the hash table, as any other record."""
    record = record_of(row, fact)
    key = row_key(record, field(row, R.ARITY))
    enter(row, find_slot(row, record, key, home_slot(key, field(row, R.GROUPS))), key, fact)
    place = flags_at(row, fact)
    store_i32(place, load_i32(place) & ~F.DRAFT)
