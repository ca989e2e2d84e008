"""The one executor of all plans: an index nested-loop join that reads plans as data.

`next_match` finds the next match of a plan's body, and keeps all of its state in a frame in memory. So a kernel can
stop in the middle of a join, return to Python to grow an array, call a function or check a limit, and resume; and a
backward search can keep a stack of unfinished joins. Each body atom is matched in the set of its role: a fact takes
part if its flags, masked by the role's care, equal its want (the annotated queries of Backward/Forward, section 4).
"""

from tidelog.closures.read_kernels import closure_contains, closure_next, closure_next_pair, closure_node
from tidelog.joins.expressions import (
    BAD,
    NEEDS_CALL,
    NEEDS_TERMS,
    compare,
    compare_literals,
    evaluate,
    intern_number,
    is_number,
)
from tidelog.joins.functions.calls import result_of
from tidelog.joins.functions.numbering import ASK, FULL, NONE
from tidelog.joins.memos import first_with_values, request, value_of
from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import term_kinds as K
from tidelog.machine.fact_kernels import field, find, index_row, record_of, relation_row
from tidelog.machine.jit import device, inlined, load_i32, load_i64, store_i32, store_i64
from tidelog.machine.status import DONE, FULL_TERMS, MATCH, NEED_CALLS, PAUSED

PASSED = -10
FAILED = -11

# Where in the scratch memory a pair of a closure is put together; the keys of a probe are at its beginning.
PAIR = 64


@inlined
def plan_word(m, plan, word):
    return load_i32(m[M.CODE] + 4 * (plan + word))


@inlined
def masks_of(m, role):
    """The set that a role is matched in: which flags matter, and what they must be."""
    return m[M.MASKS + 2 * role], m[M.MASKS + 2 * role + 1]


@inlined
def lists_of(step, cells_per_key):
    """What an atom binds and checks, after its keys: where that is listed, and how many of each."""
    at = step + 4 * (P.S_LISTS + load_i32(step + 4 * P.S_KEYS) * cells_per_key)
    return at, load_i32(step + 4 * P.S_OUTPUTS), load_i32(step + 4 * P.S_CHECKS)


@inlined
def must_pause(m, budget):
    """Whether the budget is spent, or another thread waits for a pause and some of it is spent."""
    return budget < 0 or (m[M.ASKED] != 0 and budget < m[M.HEED])


@inlined
def stop_at(frame, depth, entering):
    """Remember where to resume."""
    store_i64(frame + 8 * P.FRAME_DEPTH, depth)
    store_i64(frame + 8 * P.FRAME_ENTERING, 1 if entering else 0)


@inlined
def start(frame, plan, fact):
    """Prepare a frame to match a plan; `fact` is what its pivot is matched to."""
    store_i64(frame + 8 * P.FRAME_PLAN, plan)
    stop_at(frame, 0, True)
    store_i64(frame + 8 * P.FRAME_FACT, fact)


@device
def write_head(m, frame, target):
    """Write the head of the frame's match."""
    plan = load_i64(frame + 8 * P.FRAME_PLAN)
    sources = m[M.CODE] + 4 * plan_word(m, plan, P.HEAD)
    variables = frame + 8 * P.FRAME_VARIABLES
    for column in range(plan_word(m, plan, P.WIDTH)):
        store_i32(target + 4 * column, value_of(load_i32(sources + 4 * column), variables))


@inlined
def matched_fact(m, frame, step):
    """The fact that a step of a match took."""
    plan = load_i64(frame + 8 * P.FRAME_PLAN)
    place = P.FRAME_VARIABLES + plan_word(m, plan, P.VARIABLES) + plan_word(m, plan, P.STEPS) + step
    return load_i64(frame + 8 * place)


@inlined
def first_fact(m, step, indexed, row, variables):
    """The newest fact whose indexed columns hold the step's key, or the first of all facts, or -1."""
    if indexed:
        return first_with_values(m, load_i32(step + 4 * P.S_INDEX), step + 4 * P.S_LISTS, variables)
    return 0 if field(row, R.COUNT) > 0 else -1


@inlined
def link_of(m, step, indexed):
    """Where the records of a step's index have their link, or 0 for all facts, one after the other."""
    return field(index_row(m, load_i32(step + 4 * P.S_INDEX)), X.LINK) if indexed else 0


@inlined
def following(fact, record, link, count):
    """The fact that follows in its chain, or, where that is no link, among `count` facts; -1 after the last one."""
    if link != 0:
        return load_i32(record + link)
    return fact + 1 if fact + 1 < count else -1


@device
def probe(m, step, variables):
    """The fact whose cells are the step's key, or -1. The row is put together on the expression stack."""
    row_address = m[M.SCRATCH]
    sources = step + 4 * P.S_LISTS
    for position in range(load_i32(step + 4 * P.S_KEYS)):
        store_i32(row_address + 4 * position, value_of(load_i32(sources + 4 * position), variables))
    return find(m, load_i32(step + 4 * P.S_RELATION), row_address)


@device
def pivot_fits(step, record, variables):
    """Whether a pivot's record has the constants of its atom."""
    at = step + 4 * P.S_LISTS
    for _ in range(load_i32(step + 4 * P.S_KEYS)):
        if load_i32(record + 4 * load_i32(at)) != value_of(load_i32(at + 4), variables):
            return False
        at += 8
    return True


@device
def bind(lists, record, variables):
    """Bind the variables that first occur in an atom; False if a repeated variable disagrees."""
    at, outputs, checks = lists
    for _ in range(outputs):
        store_i64(variables + 8 * load_i32(at + 4), load_i32(record + 4 * load_i32(at)))
        at += 8
    for _ in range(checks):
        if load_i64(variables + 8 * load_i32(at + 4)) != load_i32(record + 4 * load_i32(at)):
            return False
        at += 8
    return True


@device
def repeated_agree(lists, record):
    """Whether columns of a record agree that share a variable of the negated atom only."""
    at, _, checks = lists
    for _ in range(checks):
        if load_i32(record + 4 * load_i32(at)) != load_i32(record + 4 * load_i32(at + 4)):
            return False
        at += 8
    return True


@device
def absent(m, step, kind, variables):
    """Whether no fact matches a negated atom."""
    row = relation_row(m, load_i32(step + 4 * P.S_RELATION))
    forbidden = m[M.ABSENT + load_i32(step + 4 * P.S_ROLE)]
    cells = field(row, R.CELLS)
    width = field(row, R.WIDTH)
    flags = field(row, R.FLAGS)
    lists = lists_of(step, 1)
    if kind == P.STEP_ABSENT_PROBE:
        fact = probe(m, step, variables)
        return fact < 0 or load_i32(cells + fact * width + flags) & forbidden == 0
    if kind == P.STEP_ABSENT_INDEX:
        link = link_of(m, step, True)
        fact = first_fact(m, step, True, row, variables)
        while fact >= 0:
            record = cells + fact * width
            m[M.BUDGET] -= 1
            if load_i32(record + flags) & forbidden and repeated_agree(lists, record):
                return False
            fact = load_i32(record + link)
        return True
    for fact in range(field(row, R.COUNT)):
        record = cells + fact * width
        if load_i32(record + flags) & forbidden and repeated_agree(lists, record):
            return False
    return True


@device
def pair_flags(m, relation, row, pair, unchanged):
    """The flags of a pair of a closure: those of its record, or `unchanged` if no record says that it changed."""
    if field(row, R.COUNT) == 0:
        return unchanged
    fact = find(m, relation, pair)
    return unchanged if fact < 0 else load_i32(record_of(row, fact) + field(row, R.FLAGS))


@inlined
def keyed_flags(m, relation, row, keys, variables, pair):
    """The flags of the pair that is the key of a step: 0 if it neither holds nor held before."""
    store_i32(pair, value_of(load_i32(keys), variables))
    store_i32(pair + 4, value_of(load_i32(keys + 4), variables))
    holds = closure_contains(field(row, R.CLOSURE), load_i32(pair), load_i32(pair + 4))
    return pair_flags(m, relation, row, pair, F.IN | F.OLD if holds else 0)


@inlined
def key_of_walk(m, step, indexed, variables):
    """The column and the value that all pairs of a walk through a closure have; the column is -1 for all pairs."""
    if not indexed:
        return -1, -1
    index = index_row(m, load_i32(step + 4 * P.S_INDEX))
    return load_i32(field(index, X.COLUMNS)), value_of(load_i32(step + 4 * P.S_LISTS), variables)


@device
def next_held_pair(view, column, key, node, cursor, pair):
    """Write the next pair that a closure holds; the node and the cursor for the one after. A negative node ends it."""
    if column < 0:
        node, cursor, first, second = closure_next_pair(view, node, cursor)
        store_i32(pair, first)
        store_i32(pair + 4, second)
        return node, cursor
    cursor, other = closure_next(view, node, column, cursor)
    store_i32(pair + 4 * column, key)
    store_i32(pair + 4 - 4 * column, other)
    return (node if cursor >= 0 else -1), cursor


@device
def next_of_closure(m, step, kind, variables, cursor_at, node_at, entering):
    """Advance to the next pair of a closure that matches an atom: first the pairs that it holds now, then the records
    of those that are gone.

    The cursor is -2 - the closure's own cursor while it walks the closure, then the number of a record, and finally -1.
    """
    relation = load_i32(step + 4 * P.S_RELATION)
    row = relation_row(m, relation)
    view = field(row, R.CLOSURE)
    care, want = masks_of(m, load_i32(step + 4 * P.S_ROLE))
    pair = m[M.SCRATCH] + PAIR
    if kind == P.STEP_CLOSURE_PROBE:
        return entering and keyed_flags(m, relation, row, step + 4 * P.S_LISTS, variables, pair) & care == want
    indexed = kind == P.STEP_CLOSURE_INDEX
    column, key = key_of_walk(m, step, indexed, variables)
    lists = lists_of(step, 1)
    if entering:
        node = closure_node(view, key) if indexed else 0
        code = -2
    else:
        node = load_i64(node_at)
        code = load_i64(cursor_at)
    while code <= -2:
        node, cursor = next_held_pair(view, column, key, node, -2 - code, pair)
        if node < 0:
            code = first_fact(m, step, indexed, row, variables)
            break
        code = -2 - cursor
        m[M.BUDGET] -= 1
        if pair_flags(m, relation, row, pair, F.IN | F.OLD) & care == want and bind(lists, pair, variables):
            store_i64(node_at, node)
            store_i64(cursor_at, code)
            return True
    link = link_of(m, step, indexed)
    count = field(row, R.COUNT)
    while code >= 0:
        record = record_of(row, code)
        code = following(code, record, link, count)
        flags = load_i32(record + field(row, R.FLAGS))
        if not flags & F.IN and flags & care == want and bind(lists, record, variables):
            store_i64(cursor_at, code)
            return True
    store_i64(cursor_at, -1)
    return False


@device
def absent_from_closure(m, step, kind, variables):
    """Whether no pair of a closure matches a negated atom: none that it holds now, and none of its records."""
    relation = load_i32(step + 4 * P.S_RELATION)
    row = relation_row(m, relation)
    view = field(row, R.CLOSURE)
    forbidden = m[M.ABSENT + load_i32(step + 4 * P.S_ROLE)]
    pair = m[M.SCRATCH] + PAIR
    if kind == P.STEP_ABSENT_CLOSURE_PROBE:
        return keyed_flags(m, relation, row, step + 4 * P.S_LISTS, variables, pair) & forbidden == 0
    indexed = kind == P.STEP_ABSENT_CLOSURE_INDEX
    column, key = key_of_walk(m, step, indexed, variables)
    lists = lists_of(step, 1)
    node, cursor = next_held_pair(view, column, key, closure_node(view, key) if indexed else 0, 0, pair)
    while node >= 0:
        if pair_flags(m, relation, row, pair, F.IN | F.OLD) & forbidden and repeated_agree(lists, pair):
            return False
        node, cursor = next_held_pair(view, column, key, node, cursor, pair)
    return absent(m, step, P.STEP_ABSENT_INDEX if indexed else P.STEP_ABSENT_SCAN, variables)


@inlined
def assign(variables, target, term):
    """Bind a variable, or compare with it where it is bound already (-1 - variable)."""
    if target >= 0:
        store_i64(variables + 8 * target, term)
        return PASSED
    return PASSED if load_i64(variables + 8 * (-1 - target)) == term else FAILED


@device
def note_failure(m, step, variables):
    """Count an instance that failed, and note the first ones: plan, step, and the values of the plan's variables, of
    which only some are bound yet.
    """
    m[M.ERRORS] += 1
    plan = load_i64(variables - 8 * (P.FRAME_VARIABLES - P.FRAME_PLAN))
    count = load_i32(m[M.CODE] + 4 * (plan + P.VARIABLES))
    noted = m[M.NOTED]
    if noted + 3 + count <= m[M.NOTES_SIZE]:
        note = m[M.NOTES] + 8 * noted
        store_i64(note, plan)
        store_i64(note + 8, (step - m[M.CODE]) >> 2)
        store_i64(note + 16, count)
        for variable in range(count):
            store_i64(note + 24 + 8 * variable, load_i64(variables + 8 * variable))
        m[M.NOTED] = noted + 3 + count


@device
def call_function(m, step, variables):
    """Compute a function's result, or look it up in its memo; request it from Python if it is missing."""
    memo = load_i32(step + 4 * P.CALL_MEMO)
    count = load_i32(step + 4 * P.CALL_ARGUMENTS)
    sources = step + 4 * P.CALL_SOURCES
    function = load_i32(step + 4 * P.CALL_KERNEL)
    if function != NONE and m[M.REPLACED] >> function & 1 == 0:
        result = result_of(m, function, count, sources, variables)
        if result == FULL:
            return FULL_TERMS
        if result != ASK:
            return assign(variables, load_i32(step + 4 * P.CALL_TARGET), result)
    fact = first_with_values(m, load_i32(step + 4 * P.CALL_INDEX), sources, variables)
    if fact >= 0:
        result = load_i32(record_of(relation_row(m, memo), fact) + 4 * count)
        if result == K.FAILURE:
            m[M.UNCALLED] += 1
            note_failure(m, step, variables)
            return FAILED
        return assign(variables, load_i32(step + 4 * P.CALL_TARGET), result)
    return NEED_CALLS if request(m, memo, count, sources, variables) else FAILED


@inlined
def no_value(m, why, step, variables):
    """What a step does that has no value, for whatever reason."""
    if why == NEEDS_TERMS:
        return FULL_TERMS
    if why == NEEDS_CALL:
        return FAILED if m[M.REHEARSING] != 0 else NEED_CALLS
    note_failure(m, step, variables)
    return FAILED


@device
def run_comparison(m, step, variables):
    """Run a step that compares the values of two expressions."""
    operator = load_i32(step + 4)
    left_kind = evaluate(m, load_i32(step + 8), variables)
    left = load_i64(m[M.SCRATCH] + 8)
    right_kind = evaluate(m, load_i32(step + 12), variables) if left_kind >= BAD else BAD
    if left_kind < 0 or right_kind < 0:
        return no_value(m, min(left_kind, right_kind), step, variables)
    right = load_i64(m[M.SCRATCH] + 8)
    outcome = compare(m, operator, left_kind, left, right_kind, right)
    if outcome < 0:
        outcome = compare_literals(m, operator, left_kind, left, right_kind, right)
    if outcome < BAD:
        return no_value(m, outcome, step, variables)
    if outcome < 0:
        m[M.UNCOMPARED] += 1
        note_failure(m, step, variables)
    return PASSED if outcome == 1 else FAILED


@device
def run_condition(m, step, kind, variables):
    """Run a step that passes or fails once: a comparison, an assignment, a function call or a negated atom."""
    if kind == P.STEP_COMPARE:
        return run_comparison(m, step, variables)
    if kind == P.STEP_ASSIGN:
        result_kind = evaluate(m, load_i32(step + 8), variables)
        if result_kind < 0:
            return no_value(m, result_kind, step, variables)
        bits = load_i64(m[M.SCRATCH] + 8)
        term = intern_number(m, result_kind, bits) if is_number(result_kind) else bits
        if term < 0:
            return FULL_TERMS
        return assign(variables, load_i32(step + 4), term)
    if kind == P.STEP_CALL:
        return call_function(m, step, variables)
    if kind >= P.STEP_ABSENT_CLOSURE_PROBE:
        return PASSED if absent_from_closure(m, step, kind, variables) else FAILED
    return PASSED if absent(m, step, kind, variables) else FAILED


@device
def next_match(m, frame):
    """Advance a frame to its next match: MATCH, DONE if there is none left, or a reason to pause."""
    plan = load_i64(frame + 8 * P.FRAME_PLAN)
    code = m[M.CODE]
    steps = load_i32(code + 4 * (plan + P.STEPS))
    variables = frame + 8 * P.FRAME_VARIABLES
    cursors = variables + 8 * load_i32(code + 4 * (plan + P.VARIABLES))
    facts = cursors + 8 * steps
    depth = load_i64(frame + 8 * P.FRAME_DEPTH)
    entering = load_i64(frame + 8 * P.FRAME_ENTERING) != 0
    if depth == steps:
        # The last call ended in a match: look for another one below it.
        depth -= 1
        entering = False
    while 0 <= depth < steps:
        step = code + 4 * load_i32(code + 4 * (plan + P.FIRST + depth))
        kind = load_i32(step + 4 * P.S_KIND)
        if P.STEP_CLOSURE_PROBE <= kind <= P.STEP_CLOSURE_SCAN:
            entering = next_of_closure(m, step, kind, variables, cursors + 8 * depth, facts + 8 * depth, entering)
            depth += 1 if entering else -1
            if must_pause(m, m[M.BUDGET]) and depth < steps:
                stop_at(frame, depth, entering)
                return PAUSED
            continue
        if kind > P.STEP_SCAN:
            outcome = FAILED
            if entering:
                outcome = run_condition(m, step, kind, variables)
            if outcome == PASSED:
                depth += 1
            elif outcome == FAILED:
                depth -= 1
                entering = False
            else:
                stop_at(frame, depth, True)
                return outcome
            continue
        row = relation_row(m, load_i32(step + 4 * P.S_RELATION))
        if not entering:
            fact = load_i64(cursors + 8 * depth)
        elif kind == P.STEP_PROBE:
            fact = probe(m, step, variables)
        elif kind == P.STEP_PIVOT:
            fact = load_i64(frame + 8 * P.FRAME_FACT)
        else:
            fact = first_fact(m, step, kind == P.STEP_INDEX, row, variables)
        entering = False
        link = link_of(m, step, kind == P.STEP_INDEX)
        count = field(row, R.COUNT) if kind == P.STEP_SCAN else 0
        cells = field(row, R.CELLS)
        width = field(row, R.WIDTH)
        flags = field(row, R.FLAGS)
        care, want, below, ranks = 0, 0, 0, 0
        if kind != P.STEP_PIVOT:
            role = load_i32(step + 4 * P.S_ROLE)
            care, want = masks_of(m, role)
            if role >= P.ROLE_OWN_BEFORE:
                below = m[M.BELOW]
                ranks = field(row, R.COUNTERS) + 4
        lists = lists_of(step, 2 if kind == P.STEP_PIVOT else 1)
        budget = m[M.BUDGET]
        while fact >= 0:
            record = cells + fact * width
            budget -= 1
            after = following(fact, record, link, count)
            fits = load_i32(record + flags) & care == want
            if fits and below != 0 and load_i32(record + ranks) + 1 >= below:
                m[M.LATE] = 1
                fits = False
            if fits and kind == P.STEP_PIVOT:
                fits = pivot_fits(step, record, variables)
            if fits and bind(lists, record, variables):
                store_i64(cursors + 8 * depth, after)
                store_i64(facts + 8 * depth, fact)
                entering = True
                break
            fact = after
        m[M.BUDGET] = budget
        depth += 1 if entering else -1
        if must_pause(m, budget) and depth < steps:
            stop_at(frame, depth, entering)
            return PAUSED
    stop_at(frame, depth, False)
    return MATCH if depth >= 0 else DONE
