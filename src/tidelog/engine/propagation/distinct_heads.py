"""Rules whose heads cover their pivots, over whole relations: `p(X, Y) :- q(X, Y), r(Y, Z).`, and copies above all.

A head that has all the variables of a scanned fact, and no others, belongs to that fact alone. If its relation was
empty, nothing has to be looked up: each fact of `q` with a match is a new fact of `p`, and the number of its matches is
the number of its derivations. Facts are written one after the other. The hash table is built when a fact is first
looked up (`Relation.expect_different`), which for most relations is not before the next update.
"""

from __future__ import annotations

from tidelog.engine.propagation.derived_heads import COUNT_UP
from tidelog.engine.propagation.short_atoms import atom_of, cell_value, first_with_key, short_head
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.counters import known_count
from tidelog.machine.fact_kernels import field, link_fact
from tidelog.machine.jit import device, load_i32, load_i64, store_i32, store_i64

COVER = 3  # a shape in which heads are built, beside those of `bit_rows`


@device
def covers_pivots(action, short, pivots, count, target_row):
    """Whether all facts of an empty relation come from one scan, and there is room for as many as are scanned."""
    return (
        action == COUNT_UP
        and pivots == 0
        and load_i32(short + 4 * P.SHORT_COVERS) == 1
        and field(target_row, R.POSTPONED) == 1
        and field(target_row, R.PAIRS) == 0
        and field(target_row, R.COUNT) == 0
        and field(target_row, R.CAPACITY) >= count
    )


@device
def matches_of(atom, key):
    """How many facts with a key are in the set that an atom is matched in, and how many were looked at."""
    cells, width, flags, link, care, want, index = atom
    matches = 0
    seen = 0
    fact = first_with_key(index, cells, width, key)
    while fact >= 0:
        record = cells + fact * width
        if load_i32(record + flags) & care == want:
            matches += 1
        seen += 1
        fact = load_i32(record + link)
    return matches, seen


@device
def cover(m, short, position, count, pivots, target_row, counter):
    """Write a fact for each scanned one from `position` on that has matches, while there is budget. Gives where it
    stopped, and how many matches there were.
    """
    pivot_cells, pivot_width, pivot_flags, care, want = pivots
    atoms = load_i32(short + 4 * P.SHORT_ATOMS)
    atom = atom_of(m, short + 4 * P.SHORT_LAST)
    key = short + 4 * (P.SHORT_LAST + P.A_KEY)
    head = short + 4 * P.SHORT_HEAD
    arity = field(target_row, R.ARITY)
    width = field(target_row, R.WIDTH)
    flags = field(target_row, R.FLAGS)
    counters = field(target_row, R.COUNTERS)
    index_count = field(target_row, R.INDEX_COUNT)
    indexes = field(target_row, R.INDEXES)
    fact = field(target_row, R.COUNT)
    record = field(target_row, R.CELLS) + fact * width
    budget = m[M.BUDGET]
    work = 0
    while position < count and budget >= 0:
        pivot = pivot_cells + position * pivot_width
        position += 1
        budget -= 1
        if load_i32(pivot + pivot_flags) & care != want:
            continue
        matches, seen = 1, 0
        if atoms == 1:
            matches, seen = matches_of(atom, cell_value(key, pivot, pivot))
        budget -= seen
        if matches == 0:
            continue
        work += matches
        short_head(head, arity, pivot, pivot, pivot, record)
        store_i32(record + flags, F.IN)
        store_i32(record + counters, 0)
        store_i32(record + counters + 4, 0)
        store_i32(record + counters + 4 * counter, known_count(matches))
        for place in range(index_count):
            link_fact(m, load_i64(indexes + 8 * place), record, fact)
        fact += 1
        record += width
    store_i64(target_row + 8 * R.COUNT, fact)
    m[M.BUDGET] = budget
    return position, work
