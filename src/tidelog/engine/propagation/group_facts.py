"""The facts of groups: of a predicate that keeps one value for each, those that have some flag."""

from __future__ import annotations

from tidelog.engine.propagation.offers import first_of_group
from tidelog.machine import index_fields as X
from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import field, index_row, record_of, relation_row
from tidelog.machine.jit import Registers, entry_point, load_i32, store_i32


@entry_point
def facts_of_groups(m: Registers, relation: int, rows: int, count: int, flag: int, facts: int, room: int) -> int:
    """Write the facts in the groups of some rows that have a flag. Returns how many there are; no more are written than
    there is room for.
    """
    row = relation_row(m, relation)
    link = field(index_row(m, field(row, R.GROUP)), X.LINK)
    found = 0
    for place in range(count):
        fact = first_of_group(m, row, rows + 4 * field(row, R.ARITY) * place)
        while fact >= 0:
            record = record_of(row, fact)
            if load_i32(record + field(row, R.FLAGS)) & flag:
                if found < room:
                    store_i32(facts + 4 * found, fact)
                found += 1
            fact = load_i32(record + link)
    return found
