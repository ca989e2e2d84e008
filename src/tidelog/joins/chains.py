"""The inner loop of joins: follow the chain of facts that an index has for a key, and buffer the heads they yield.

These matches need no backtracking through the plan. A *chain* is its next fact, the address of the records, their
width, and the offsets of flags and link.
"""

from tidelog.joins.executor import bind, link_of, lists_of, masks_of
from tidelog.joins.memos import value_of
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.fact_kernels import field, is_known, relation_row
from tidelog.machine.jit import device, load_i32, load_i64, store_i32, store_i64


@device
def output_column(lists, source):
    """The column of an atom that binds a source, or -1 if the source is bound before."""
    at, outputs, _ = lists
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
def drain_rows(chain, care, want, lists, variables, head, heads, room, buffered):
    """The same for any head and any atom: `lists` is what is bound and checked, `head` the sources and the arity."""
    fact, cells, width, flags, link = chain
    sources, arity = head
    seen = 0
    matches = 0
    while fact >= 0 and buffered < room:
        record = cells + fact * width
        fact = load_i32(record + link)
        seen += 1
        if load_i32(record + flags) & care == want and bind(lists, record, variables):
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
    chain = (load_i64(cursor_at), field(row, R.CELLS), field(row, R.WIDTH), field(row, R.FLAGS), link_of(m, step, True))
    care, want = masks_of(m, load_i32(step + 4 * P.S_ROLE))
    lists = lists_of(step, 1)
    sources = code + 4 * load_i32(code + 4 * (plan + P.HEAD))
    arity = load_i32(code + 4 * (plan + P.WIDTH))
    if arity == 2 and lists[2] == 0:
        first, second = load_i32(sources), load_i32(sources + 4)
        first_column, second_column = output_column(lists, first), output_column(lists, second)
        first, second = value_of(first, variables), value_of(second, variables)
        fact, seen, matches, buffered = drain_pairs(
            chain, care, want, first_column, first, second_column, second, heads, room, buffered, known
        )
    else:
        head = (sources, arity)
        fact, seen, matches, buffered = drain_rows(chain, care, want, lists, variables, head, heads, room, buffered)
    store_i64(cursor_at, fact)
    m[M.BUDGET] -= seen
    return matches, buffered
