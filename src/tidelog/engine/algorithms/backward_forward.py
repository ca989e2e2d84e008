"""Backward/Forward: prove before you delete (Motik, Nenov, Piro and Horrocks, Algorithms 1 to 3), on one component.

Each algorithm is a state machine that can pause anywhere. `checkProvability` keeps its half-finished joins as levels in
memory, so that recursion needs no stack. Numbers in comments are lines of the paper. A fact that is explicit, or has a
non-recursive derivation by its counter, need not go to D at all (Backward/Forward with counters, named as future work
in Modular, section 8). Unlike in the paper, most facts are proved without forward chaining:

- A fact is proved as soon as the search finds an instance all of whose facts are proved. So forward chaining
  (Algorithm 3) only has to reach facts that the search has left without a proof: a fact that is not proved when an
  instance is looked at is *awaited*, and only awaited facts spread when they are proved. Where proofs have no cycles,
  nothing spreads, while the paper spreads every proved fact to all of its consequences. Nor do facts that are proved
  before they are checked (Y of the paper) have to be remembered: when they are checked, the instance is found.
- All rules are looked at once before the search goes deep: whether a rule without facts of the component has an
  instance, and whether there is one of explicit facts or of proved facts. Facts of lower components are settled already
  and never checked.

Nothing is lost. Suppose that some checked facts have proofs and are left without one; take the fact whose proof is the
smallest. The search has looked at the last instance of this proof and checked its facts, and they are proved in the
end. Had all been proved at that time, the fact would have been too; otherwise those that were not were awaited, and
the last of them to spread has found the instance. It alone: facts that still wait to spread are not in V, in which
forward chaining matches. So no instance is found twice (Theorem 1).
"""

from __future__ import annotations

from tidelog.engine.algorithms.delete_rederive import drop_deleted, find_candidates
from tidelog.engine.algorithms.insertion import insert
from tidelog.engine.propagation import match_sets as S
from tidelog.engine.propagation.derived_heads import count_work
from tidelog.engine.propagation.mark_kernels import first_marked_step, mark_fact, mark_of_match
from tidelog.engine.rules.policy import Counters
from tidelog.engine.transaction.task import Task
from tidelog.joins.executor import matched_fact, next_match, plan_word, start, write_head
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.counters import counters_of
from tidelog.machine.fact_kernels import field, find, flags_at, relation_row, set_field, touch
from tidelog.machine.jit import Registers, device, entry_point, load_i32, load_i64, store_i32
from tidelog.machine.status import DONE, FULL_FRAMES, FULL_LIST, FULL_LOG, MATCH

# What Backward/Forward does next.
MODE_NEXT, MODE_CHECK, MODE_SATURATE, MODE_VERDICT, MODE_SPREAD = 0, 1, 2, 3, 4

# A level of checkProvability: fields of 8 bytes, then the frame of its join. L_DEEP is 0 while rules are looked at
# once, 1 when instances are searched.
L_FACT, L_STAGE, L_PLAN, L_BODY, L_BELOW, L_LOOK, L_DEEP, L_FRAME = range(8)
STAGE_BEGIN, STAGE_RULE, STAGE_INSTANCES, STAGE_BODY = 0, 1, 2, 3

# How instances are looked at: the sets that they are matched in.
LOOK_LOWER = S.IN_BACKWARD  # without facts of the component: any instance is a proof
LOOK_EXPLICIT = S.IN_BACKWARD_EXPLICIT  # of explicit facts
LOOK_PROVED = S.IN_BACKWARD_PROVED  # of proved facts
LOOK_SEARCH = -1  # whose facts are checked


# --- facts, as entries of work lists ----------------------------------------------------------------------------------


@device
def flags_place(m, entry):
    return flags_at(relation_row(m, L.relation_of(entry)), L.fact_of(entry))


@device
def has_flag(m, entry, flag):
    return load_i32(flags_place(m, entry)) & flag != 0


@device
def set_flags(m, entry, flags):
    relation = L.relation_of(entry)
    row = relation_row(m, relation)
    touch(m, relation, row, L.fact_of(entry))
    place = flags_place(m, entry)
    store_i32(place, load_i32(place) | flags)


@device
def protected(m, entry, counters):
    """Whether a fact is explicit or its counter knows a non-recursive derivation."""
    if has_flag(m, entry, F.EXPLICIT):
        return True
    return counters != 0 and load_i32(counters_of(relation_row(m, L.relation_of(entry)), L.fact_of(entry))) > 0


@device
def prove(m, entry):
    """P.add(F), of a fact in C; where an instance has waited for it, it waits to spread."""
    set_flags(m, entry, F.PROVED)
    if has_flag(m, entry, F.AWAITED):
        set_flags(m, entry, F.QUEUED)
        L.push(m, L.P, entry)
        m[M.PROOF_MODE] = MODE_SATURATE


@device
def derived_head(m, frame):
    """The fact that a match derives, as an entry, or -1 where it is not in I: insertion will see to new facts."""
    relation = plan_word(m, load_i64(frame), P.HEAD_RELATION)
    write_head(m, frame, m[M.HEADS])
    fact = find(m, relation, m[M.HEADS])
    if fact < 0 or not load_i32(flags_at(relation_row(m, relation), fact)) & F.IN:
        return -1
    return L.entry_of(relation, fact)


# --- the consequences of a fact, in saturate and in deletion ----------------------------------------------------------


@device
def begin_spreading(m, entry, starts, ends):
    """Let a fact be the pivot of the plans of its relation, one after the other."""
    set_flags(m, entry, F.CURRENT)
    m[M.PROOF_FACT] = entry
    m[M.PROOF_PLAN] = load_i32(starts + 4 * L.relation_of(entry))
    m[M.PROOF_END] = load_i32(ends + 4 * L.relation_of(entry))
    m[M.PROOF_JOINING] = 0


@device
def next_consequence(m, sets, plans):
    """The next match with the spreading fact as its pivot: MATCH, DONE, or a reason to pause."""
    frame = m[M.FRAMES]
    while m[M.PROOF_PLAN] < m[M.PROOF_END]:
        if m[M.PROOF_JOINING] == 0:
            plan = load_i32(plans + 8 * m[M.PROOF_PLAN])
            start(frame, plan, L.fact_of(m[M.PROOF_FACT]))
            m[M.PROOF_JOINING] = 1
            # Only forward chaining passes marks on.
            marking = sets == S.IN_FORWARD and m[M.MARKING] != 0
            m[M.PROOF_MARKED] = first_marked_step(m, plan) if marking else -1
        S.match_in(m, sets)
        status = next_match(m, frame)
        if status != DONE:
            return status
        m[M.PROOF_JOINING] = 0
        m[M.PROOF_PLAN] += 1
    return DONE


@device
def end_spreading(m):
    place = flags_place(m, m[M.PROOF_FACT])
    store_i32(place, load_i32(place) & ~F.CURRENT)
    m[M.PROOF_FACT] = -1


# --- Algorithm 2: checkProvability ------------------------------------------------------------------------------------


@device
def enter(m, entry):
    """Call checkProvability(F): a new level on the stack."""
    below = m[M.PROOF_LEVEL]
    # Every level takes the room of the largest frame, so offsets do not depend on the level below.
    level = m[M.FRAME_BASE] if below == 0 else below + 8 * L_FRAME + m[M.FRAME_BASE]
    at = m[M.FRAMES] + level
    set_field(at, L_FACT, entry)
    set_field(at, L_STAGE, STAGE_BEGIN)
    set_field(at, L_BELOW, below)
    m[M.PROOF_LEVEL] = level
    m[M.PROOF_MODE] = MODE_CHECK


@device
def leave(m):
    """Return from checkProvability."""
    below = field(m[M.FRAMES] + m[M.PROOF_LEVEL], L_BELOW)
    m[M.PROOF_LEVEL] = below
    m[M.PROOF_MODE] = MODE_CHECK if below != 0 else MODE_VERDICT


@device
def own_fact(m, frame, step):
    """The fact of the component that a step of a match took, as an entry, or -1."""
    at = m[M.CODE] + 4 * plan_word(m, load_i64(frame), P.FIRST + step)
    kind = load_i32(at + 4 * P.S_KIND)
    if P.STEP_PROBE <= kind <= P.STEP_SCAN and load_i32(at + 4 * P.S_ROLE) >= P.ROLE_OWN_BEFORE:
        return L.entry_of(load_i32(at + 4 * P.S_RELATION), matched_fact(m, frame, step))
    return -1


@device
def first_look(own, deep, explicit):
    """How the instances of a rule with so many facts of the component are looked at first; 0: not at all."""
    if own == 0:
        return 0 if deep else LOOK_LOWER
    if deep:
        return LOOK_SEARCH
    if own == 1:
        return 0  # As good as a search.
    return LOOK_EXPLICIT if explicit else LOOK_PROVED


@device
def begin_rule(m, level, fact, plans):
    """15: for each ⟨r, Q, σ⟩ ∈ Π.matchHead(F)"""
    entry = plans + 8 * field(level, L_PLAN)
    look = first_look(load_i32(entry + 4), field(level, L_DEEP), m[M.EXPLICIT_FIRST])
    if look == 0:
        set_field(level, L_PLAN, field(level, L_PLAN) + 1)
        return
    set_field(level, L_LOOK, look)
    start(level + 8 * L_FRAME, load_i32(entry), L.fact_of(fact))
    set_field(level, L_STAGE, STAGE_INSTANCES)


@device
def next_instance(m, level, fact):
    """16: the next instance that could derive the fact, as the level looks at them."""
    frame = level + 8 * L_FRAME
    look = field(level, L_LOOK)
    S.match_in(m, look if look >= 0 else S.IN_BACKWARD)
    status = next_match(m, frame)
    if status == MATCH:
        count_work(m, W.BACKWARD, load_i64(frame), 1)
        if look == LOOK_SEARCH:
            set_field(level, L_BODY, 0)
            set_field(level, L_STAGE, STAGE_BODY)
        else:
            prove(m, fact)
        return DONE
    if status != DONE:
        return status
    if look == LOOK_EXPLICIT:
        set_field(level, L_LOOK, LOOK_PROVED)
        start(frame, load_i64(frame), L.fact_of(fact))
    else:
        set_field(level, L_PLAN, field(level, L_PLAN) + 1)
        set_field(level, L_STAGE, STAGE_RULE)
    return DONE


@device
def next_body_fact(m, level, fact):
    """17, 18: check the next fact of the instance's body that belongs to the component; after the last one the
    instance is a proof, or waits for those of its facts that are not proved.
    """
    frame = level + 8 * L_FRAME
    steps = plan_word(m, load_i64(frame), P.STEPS)
    for step in range(field(level, L_BODY), steps):
        entry = own_fact(m, frame, step)
        if entry >= 0 and not has_flag(m, entry, F.CHECKED):
            set_field(level, L_BODY, step + 1)
            enter(m, entry)
            return
    set_field(level, L_STAGE, STAGE_INSTANCES)
    waits = False
    for step in range(steps):
        entry = own_fact(m, frame, step)
        if entry >= 0 and not has_flag(m, entry, F.PROVED):
            set_flags(m, entry, F.AWAITED)
            waits = True
    if not waits:
        prove(m, fact)


@device
def check(m, head_starts, head_ends, head_plans, counters):
    """Algorithm 2, checkProvability: one step of the level on top."""
    level = m[M.FRAMES] + m[M.PROOF_LEVEL]
    fact = field(level, L_FACT)
    stage = field(level, L_STAGE)
    flags = load_i32(flags_place(m, fact))
    if stage == STAGE_BEGIN:
        # 12: if C.add(F) = false then return
        if flags & F.CHECKED:
            leave(m)
            return DONE
        set_flags(m, fact, F.CHECKED)
        L.push(m, L.C, fact)
        m[M.WORK + W.CHECKED] += 1
        # 20–22: what is explicit is proved
        if protected(m, fact, counters):
            prove(m, fact)
            leave(m)
            return DONE
        set_field(level, L_STAGE, STAGE_RULE)
        set_field(level, L_DEEP, 0)
        set_field(level, L_PLAN, load_i32(head_starts + 4 * L.relation_of(fact)))
    elif flags & F.PROVED:
        # 14, 19: if F ∈ P then return
        leave(m)
    elif stage == STAGE_INSTANCES:
        return next_instance(m, level, fact)
    elif stage == STAGE_BODY:
        next_body_fact(m, level, fact)
    elif field(level, L_PLAN) < load_i32(head_ends + 4 * L.relation_of(fact)):
        begin_rule(m, level, fact, head_plans)
    elif field(level, L_DEEP) == 0:
        set_field(level, L_DEEP, 1)
        set_field(level, L_PLAN, load_i32(head_starts + 4 * L.relation_of(fact)))
    else:
        leave(m)
    return DONE


# --- Algorithm 3: saturate --------------------------------------------------------------------------------------------


@device
def saturate(m, starts, ends, plans):
    """Algorithm 3: one step; only awaited facts are in P."""
    if m[M.PROOF_FACT] >= 0:
        status = next_consequence(m, S.IN_FORWARD, plans)
        if status == MATCH:
            # 27–29: H ∈ C is proved
            count_work(m, W.FORWARD, load_i64(m[M.FRAMES]), 1)
            head = derived_head(m, m[M.FRAMES])
            if head >= 0:
                flags = load_i32(flags_place(m, head))
                first = m[M.PROOF_MARKED]
                mark = mark_of_match(m, m[M.FRAMES], m[M.MARKING], first) if first >= 0 else 0
                if mark != 0:
                    mark_fact(m, L.relation_of(head), L.fact_of(head), mark)
                if flags & (F.CHECKED | F.PROVED) == F.CHECKED:
                    prove(m, head)
            return DONE
        if status == DONE:
            end_spreading(m)
        return status
    if m[M.PROOF_P] < L.count(m, L.P):
        # 23–26: let a proved fact spread; V holds what has spread and what nobody awaits
        fact = L.entry(m, L.P, m[M.PROOF_P])
        place = flags_place(m, fact)
        store_i32(place, load_i32(place) & ~F.QUEUED)
        begin_spreading(m, fact, starts, ends)
        m[M.PROOF_P] += 1
    else:
        m[M.PROOF_MODE] = MODE_CHECK if m[M.PROOF_LEVEL] != 0 else MODE_VERDICT
    return DONE


# --- Algorithm 1: B/F–delete ------------------------------------------------------------------------------------------


@device
def room_needed(m):
    """Whether every step has room for one more of everything it may add."""
    if L.room(m, L.D, 1) != DONE or L.room(m, L.C, 1) != DONE:
        return FULL_LIST
    if L.room(m, L.P, 1) != DONE or L.room(m, L.MARKED, 1) != DONE:
        return FULL_LIST
    if m[M.LOG_COUNT] + 2 > m[M.LOG_CAPACITY]:
        m[M.STAGED] = 2
        return FULL_LOG
    if m[M.PROOF_LEVEL] + 3 * (m[M.FRAME_BASE] + 8 * L_FRAME) > m[M.FRAMES_SIZE]:
        return FULL_FRAMES
    return DONE


@device
def verdict(m, starts, ends):
    """5: what was checked and not proved is disproved; 6: a fact of D that is not proved spreads its deletion."""
    while m[M.PROOF_S] < L.count(m, L.C):
        checked = L.entry(m, L.C, m[M.PROOF_S])
        place = flags_place(m, checked)
        if not load_i32(place) & F.PROVED:
            store_i32(place, load_i32(place) | F.DISPROVED)
        m[M.PROOF_S] += 1
    fact = L.entry(m, L.D, m[M.PROOF_D])
    if has_flag(m, fact, F.PROVED):
        m[M.PROOF_D] += 1
        m[M.PROOF_MODE] = MODE_NEXT
    else:
        begin_spreading(m, fact, starts, ends)
        m[M.PROOF_MODE] = MODE_SPREAD


@device
def spread_deletion(m, plans, counters):
    """7–10: D.add(h(r)τ) for each instance with the fact; then O.add(F). One step."""
    status = next_consequence(m, S.IN_DELETION, plans)
    if status == MATCH:
        count_work(m, W.DELETION, load_i64(m[M.FRAMES]), 1)
        head = derived_head(m, m[M.FRAMES])
        if head >= 0:
            flags = load_i32(flags_place(m, head))
            if flags & m[M.KNOWN]:
                m[M.SAVED] += 1
            if not flags & F.DELETED and not protected(m, head, counters):
                set_flags(m, head, F.DELETED)
                L.push(m, L.D, head)
        return DONE
    if status == DONE:
        set_flags(m, m[M.PROOF_FACT], F.PROCESSED)
        end_spreading(m)
        m[M.PROOF_D] += 1
        m[M.PROOF_MODE] = MODE_NEXT
    return status


@entry_point
def backward_forward_delete(
    m: Registers, starts: int, ends: int, plans: int, head_starts: int, head_ends: int, head_plans: int, counters: int
) -> int:
    """Algorithm 1, B/F–delete: after it, the facts of D that are not in P are those to delete."""
    while True:
        status = room_needed(m)
        if status != DONE:
            return status
        mode = m[M.PROOF_MODE]
        if mode == MODE_NEXT:
            # 3: while (F := D.next) ≠ ε do checkProvability(F)
            if m[M.PROOF_D] == L.count(m, L.D):
                return DONE
            m[M.PROOF_FACT] = -1
            enter(m, L.entry(m, L.D, m[M.PROOF_D]))
        elif mode == MODE_CHECK:
            status = check(m, head_starts, head_ends, head_plans, counters)
        elif mode == MODE_SATURATE:
            status = saturate(m, starts, ends, plans)
        elif mode == MODE_VERDICT:
            verdict(m, starts, ends)
        else:
            status = spread_deletion(m, plans, counters)
        if status != DONE:
            return status


def backward_forward(task: Task, patience: int | None = None) -> None:
    """B/F for what went, insertion for what came. After about as many candidates as `patience` says, the deletion gives
    up and raises `OutOfPatience`.
    """
    with task.runner.patience(patience):
        if find_candidates(task):
            _delete_by_proofs(task)
    _insert(task)


def _insert(task: Task) -> None:
    """Insertion, counted as in Backward/Forward with Marking: line 28 applies a rule only where its head is new."""
    work, derived = task.transaction.work_registers(), task.machine[M.DERIVED]
    instances = work[W.INSERTION]
    insert(task)
    found, new = work[W.INSERTION] - instances, task.machine[M.DERIVED] - derived
    task.transaction.known_heads = (task.transaction.known_heads or 0) + int(found - new)


def _delete_by_proofs(task: Task) -> None:
    task.queues_to_list(L.D)
    task.lists.clear(L.C)
    task.lists.clear(L.P)
    # What stays has a proof, but perhaps none along which ranks rise; see `engine.algorithms.ranks`.
    task.note_ranked(False)
    plans = (*task.round_table(deleting=True).arguments(), *task.node.heads(task.rules.added_numbers).arguments())
    task.machine[M.EXPLICIT_FIRST] = any(relation.explicit_count for relation in task.relations)
    task.runner.run(backward_forward_delete, *plans, int(task.counters is not Counters.NONE))
    # 11: for each F ∈ D ∖ P do I.delete(F)
    drop_deleted(task.machine)
