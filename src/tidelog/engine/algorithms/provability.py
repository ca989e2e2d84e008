"""Whether a fact still has a proof: Algorithms 2 and 3 of Backward/Forward, as steps of a machine that can pause
anywhere.

`checkProvability` keeps its half-finished joins as levels in memory, so that recursion costs no stack. Numbers in
comments are lines of the paper. What is ours is that most facts are proved without forward chaining:

- A fact is proved by an instance all of whose facts are proved, when the search comes by. So forward chaining
  (Algorithm 3) has only to reach facts that the search has left without a proof: a fact that is not proved when an
  instance is looked at is *awaited*, and only awaited facts spread when they are proved. Where proofs have no cycles,
  nothing spreads, while the paper spreads every proved fact to all of its consequences. Facts that are proved before
  anybody asks (Y of the paper) need no memory either: whoever asks finds the instance.
- All rules are looked at once before the search goes deep: whether one without facts of the component holds, whether
  an instance of explicit facts or of proved facts does. Facts of lower components are settled already and never
  checked.

Nothing is lost. Suppose that a checked fact has a proof and is left without one, and let its proof be the least of all
such. The search has looked at its last instance, whose facts it has checked, and they are proved in the end. Had all
been proved when it looked, so were the fact; otherwise the last of them that was proved was awaited, and has spread.
"""

from __future__ import annotations

from tidelog.engine.algorithms.proof_state import (
    IN_BACKWARD,
    IN_BACKWARD_EXPLICIT,
    IN_BACKWARD_PROVED,
    IN_FORWARD,
    MODE_CHECK,
    MODE_VERDICT,
    begin_spreading,
    count_work,
    derived_head,
    end_spreading,
    entry_flags,
    match_in,
    next_consequence,
    protected,
    prove,
    set_flags,
)
from tidelog.engine.marking.mark_kernels import mark_fact, uses_marked
from tidelog.joins.executor import matched_fact, next_match, plan_word, start
from tidelog.machine import flags as F
from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine import work_kinds as W
from tidelog.machine import work_lists as L
from tidelog.machine.jit import device, load_i32, load_i64, store_i64
from tidelog.machine.status import DONE, MATCH

# A level of checkProvability: fields of 8 bytes, then the frame of its join.
L_FACT = 0
L_STAGE = 1
L_PLAN = 2
L_BODY = 3
L_BELOW = 4
L_LOOK = 5
L_DEEP = 6  # 0 while rules are looked at once, 1 when instances are searched
L_FRAME = 7

STAGE_BEGIN, STAGE_RULE, STAGE_INSTANCES, STAGE_BODY = 0, 1, 2, 3

# How instances are looked at: the sets that they are matched in.
LOOK_LOWER = IN_BACKWARD  # without facts of the component: any instance is a proof
LOOK_EXPLICIT = IN_BACKWARD_EXPLICIT  # of explicit facts
LOOK_PROVED = IN_BACKWARD_PROVED  # of proved facts
LOOK_SEARCH = -1  # whose facts are checked


@device
def enter(m, entry):
    """Call checkProvability(F): a new level on the stack."""
    below = m[M.PROOF_LEVEL]
    # Every level takes the room of the largest frame: offsets then need no look at the level below.
    level = m[M.FRAME_BASE] if below == 0 else below + 8 * L_FRAME + m[M.FRAME_BASE]
    at = m[M.FRAMES] + level
    store_i64(at + 8 * L_FACT, entry)
    store_i64(at + 8 * L_STAGE, STAGE_BEGIN)
    store_i64(at + 8 * L_BELOW, below)
    m[M.PROOF_LEVEL] = level
    m[M.PROOF_MODE] = MODE_CHECK


@device
def leave(m):
    """Return from checkProvability."""
    below = load_i64(m[M.FRAMES] + m[M.PROOF_LEVEL] + 8 * L_BELOW)
    m[M.PROOF_LEVEL] = below
    m[M.PROOF_MODE] = MODE_CHECK if below != 0 else MODE_VERDICT


@device
def own_fact(m, frame, step):
    """The fact of the component that a step of a match took, as an entry, or -1."""
    at = m[M.CODE] + 4 * plan_word(m, load_i64(frame), P.FIRST + step)
    kind = load_i32(at + 4 * P.S_KIND)
    if P.STEP_PROBE <= kind <= P.STEP_SCAN and load_i32(at + 4 * P.S_ROLE) >= P.ROLE_OWN_BEFORE:
        return (load_i32(at + 4 * P.S_RELATION) << 32) | matched_fact(m, frame, step)
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
    entry = plans + 8 * load_i64(level + 8 * L_PLAN)
    look = first_look(load_i32(entry + 4), load_i64(level + 8 * L_DEEP), m[M.EXPLICIT_FIRST])
    if look == 0:
        store_i64(level + 8 * L_PLAN, load_i64(level + 8 * L_PLAN) + 1)
        return
    store_i64(level + 8 * L_LOOK, look)
    start(level + 8 * L_FRAME, load_i32(entry), fact & 0xFFFFFFFF)
    store_i64(level + 8 * L_STAGE, STAGE_INSTANCES)


@device
def next_instance(m, level, fact):
    """16: the next instance that could derive the fact, as the level looks at them."""
    frame = level + 8 * L_FRAME
    look = load_i64(level + 8 * L_LOOK)
    match_in(m, look if look >= 0 else IN_BACKWARD)
    status = next_match(m, frame)
    if status == MATCH:
        count_work(m, W.BACKWARD, frame)
        if look == LOOK_SEARCH:
            store_i64(level + 8 * L_BODY, 0)
            store_i64(level + 8 * L_STAGE, STAGE_BODY)
        else:
            prove(m, fact)
        return DONE
    if status != DONE:
        return status
    if look == LOOK_EXPLICIT:
        store_i64(level + 8 * L_LOOK, LOOK_PROVED)
        start(frame, load_i64(frame), fact & 0xFFFFFFFF)
    else:
        store_i64(level + 8 * L_PLAN, load_i64(level + 8 * L_PLAN) + 1)
        store_i64(level + 8 * L_STAGE, STAGE_RULE)
    return DONE


@device
def next_body_fact(m, level, fact):
    """17, 18: check the next fact of the instance's body that belongs to the component; after the last one the
    instance is a proof, or waits for those of its facts that are not proved.
    """
    frame = level + 8 * L_FRAME
    steps = plan_word(m, load_i64(frame), P.STEPS)
    for step in range(load_i64(level + 8 * L_BODY), steps):
        entry = own_fact(m, frame, step)
        if entry >= 0 and not load_i32(entry_flags(m, entry)) & F.CHECKED:
            store_i64(level + 8 * L_BODY, step + 1)
            enter(m, entry)
            return
    store_i64(level + 8 * L_STAGE, STAGE_INSTANCES)
    waits = False
    for step in range(steps):
        entry = own_fact(m, frame, step)
        if entry >= 0 and not load_i32(entry_flags(m, entry)) & F.PROVED:
            set_flags(m, entry, F.AWAITED)
            waits = True
    if not waits:
        prove(m, fact)


@device
def check(m, head_starts, head_ends, head_plans, counters):
    """Algorithm 2, checkProvability: one step of the level on top."""
    level = m[M.FRAMES] + m[M.PROOF_LEVEL]
    fact = load_i64(level + 8 * L_FACT)
    stage = load_i64(level + 8 * L_STAGE)
    flags = load_i32(entry_flags(m, fact))
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
        store_i64(level + 8 * L_STAGE, STAGE_RULE)
        store_i64(level + 8 * L_DEEP, 0)
        store_i64(level + 8 * L_PLAN, load_i32(head_starts + 4 * (fact >> 32)))
    elif flags & F.PROVED:
        # 14, 19: if F ∈ P then return
        leave(m)
    elif stage == STAGE_INSTANCES:
        return next_instance(m, level, fact)
    elif stage == STAGE_BODY:
        next_body_fact(m, level, fact)
    elif load_i64(level + 8 * L_PLAN) < load_i32(head_ends + 4 * (fact >> 32)):
        begin_rule(m, level, fact, head_plans)
    elif load_i64(level + 8 * L_DEEP) == 0:
        store_i64(level + 8 * L_DEEP, 1)
        store_i64(level + 8 * L_PLAN, load_i32(head_starts + 4 * (fact >> 32)))
    else:
        leave(m)
    return DONE


@device
def saturate(m, places, starts, plans):
    """Algorithm 3: one step; only awaited facts are in P."""
    if m[M.PROOF_FACT] >= 0:
        status = next_consequence(m, IN_FORWARD, plans)
        if status == MATCH:
            # 27–29: H ∈ C is proved
            count_work(m, W.FORWARD, m[M.FRAMES])
            head = derived_head(m, m[M.FRAMES])
            if head >= 0:
                flags = load_i32(entry_flags(m, head))
                first = m[M.PROOF_MARKED]
                if first >= 0 and not flags & F.MARKED and uses_marked(m, m[M.FRAMES], m[M.MARKING], first):
                    mark_fact(m, head >> 32, head & 0xFFFFFFFF)
                if flags & (F.CHECKED | F.PROVED) == F.CHECKED:
                    prove(m, head)
            return DONE
        if status == DONE:
            end_spreading(m)
        return status
    if m[M.PROOF_P] < L.count(m, L.P):
        # 23–26: let a proved fact spread
        begin_spreading(m, L.entry(m, L.P, m[M.PROOF_P]), places, starts)
        m[M.PROOF_P] += 1
    else:
        m[M.PROOF_MODE] = MODE_CHECK if m[M.PROOF_LEVEL] != 0 else MODE_VERDICT
    return DONE
