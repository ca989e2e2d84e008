"""The inner loop of joins: follow the chain of facts that an index has for a key, and buffer the heads they yield.

These matches need no backtracking through the plan. A *chain* is its next fact, the address of the records, their
width, and the offsets of flags and link.
"""

from __future__ import annotations

from tidelog.joins.executor import bind, value_of
from tidelog.machine import index_fields as X
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import field, index_row, is_known, relation_row
from tidelog.machine.jit import device, load_i32, load_i64, store_i32, store_i64


@device
def output_column(outputs_at, outputs, source):
    """The column of an atom that binds a source, or -1 if the source is bound before."""
    at = outputs_at
    for _ in range(outputs):
        if load_i32(at + 4) == source:
            return load_i32(at)
        at += 8
    return -1


@device
def drain_pairs(chain, care, want, first_column, first, second_column, second, heads, room, buffered, known):
    """Buffer heads that are pairs, without the known ones. A column is -1 if its cell is the same for the whole chain.
    Returns the next fact, how many were looked at, how many matched, and how many heads are buffered now.
    """
    fact, cells, width, flags, link = chain
    seen = 0
    matches = 0
    while fact >= 0 and buffered < room:
        record = cells + fact * width
        fact = load_i32(record + link)
        seen += 1
        if load_i32(record + flags) & care == want:
            matches += 1
            if first_column >= 0:
                first = load_i32(record + 4 * first_column)
            if second_column >= 0:
                second = load_i32(record + 4 * second_column)
            if is_known(known, first, second):
                continue
            store_i32(heads + 8 * buffered, first)
            store_i32(heads + 8 * buffered + 4, second)
            buffered += 1
    return fact, seen, matches, buffered


@device
def drain_rows(chain, care, want, atom, variables, head, heads, room, buffered):
    """The same for any head and any atom: `atom` is what is bound and checked, `head` the sources and the arity."""
    fact, cells, width, flags, link = chain
    lists, outputs, checks = atom
    sources, arity = head
    seen = 0
    matches = 0
    while fact >= 0 and buffered < room:
        record = cells + fact * width
        fact = load_i32(record + link)
        seen += 1
        if load_i32(record + flags) & care == want and bind(lists, outputs, checks, record, variables):
            target = heads + 4 * arity * buffered
            for column in range(arity):
                store_i32(target + 4 * column, value_of(load_i32(sources + 4 * column), variables))
            buffered += 1
            matches += 1
    return fact, seen, matches, buffered


@device
def drain_last(m, frame, heads, room, buffered, known):
    """After a match whose last step follows an index: buffer the heads of the matches that differ in that atom only.

    Returns how many matches there were, and how many heads are buffered now; `known` ones are left out.
    """
    plan = load_i64(frame + 8 * P.FRAME_PLAN)
    code = m[M.CODE]
    last = load_i32(code + 4 * (plan + P.STEPS)) - 1
    step = code + 4 * load_i32(code + 4 * (plan + P.FIRST + last))
    if load_i32(step + 4 * P.S_KIND) != P.STEP_INDEX:
        return 0, buffered
    variables = frame + 8 * P.FRAME_VARIABLES
    cursor_at = variables + 8 * (load_i32(code + 4 * (plan + P.VARIABLES)) + last)
    row = relation_row(m, load_i32(step + 4 * P.S_RELATION))
    link = field(index_row(m, load_i32(step + 4 * P.S_INDEX)), X.LINK)
    chain = (load_i64(cursor_at), field(row, R.CELLS), field(row, R.WIDTH), field(row, R.FLAGS), link)
    role = load_i32(step + 4 * P.S_ROLE)
    care = m[M.MASKS + 2 * role]
    want = m[M.MASKS + 2 * role + 1]
    outputs = load_i32(step + 4 * P.S_OUTPUTS)
    checks = load_i32(step + 4 * P.S_CHECKS)
    lists = step + 4 * (P.S_LISTS + load_i32(step + 4 * P.S_KEYS))
    sources = code + 4 * load_i32(code + 4 * (plan + P.HEAD))
    arity = load_i32(code + 4 * (plan + P.WIDTH))
    if arity == 2 and checks == 0:
        first = load_i32(sources)
        second = load_i32(sources + 4)
        fact, seen, matches, buffered = drain_pairs(
            chain,
            care,
            want,
            output_column(lists, outputs, first),
            value_of(first, variables),
            output_column(lists, outputs, second),
            value_of(second, variables),
            heads,
            room,
            buffered,
            known,
        )
    else:
        atom = (lists, outputs, checks)
        fact, seen, matches, buffered = drain_rows(
            chain, care, want, atom, variables, (sources, arity), heads, room, buffered
        )
    store_i64(cursor_at, fact)
    m[M.BUDGET] -= seen
    return matches, buffered
