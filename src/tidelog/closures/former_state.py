"""The closure as it was before the current change, told at every pause from what the log has of the change so far.

Nothing is copied for that. A node was in the component that FORMER names, or is where it was. The former members of a
component are those of its list that have not moved, which stand first, and those that the log says have left it. What
it reached is what the log has saved, or what it still reaches.

Nobody logs what reached a node. Of the components that are saved, those did that have the node in their saved sets, and
all of them are looked at. Of the others, those did that still reach it, and all of them are in the set of what reaches
it now: an addition widens that set before theirs, and a deletion takes out only those whose own sets shrink.
"""

from __future__ import annotations

from tidelog.closures import access as A
from tidelog.closures import closure_registers as C
from tidelog.closures.base_graph import LOW_32
from tidelog.closures.node_sets import next_in_row, row_has
from tidelog.machine.jit import device, inlined

LEFT = 1 << 31  # from here on, the cursor of a walk through members is one in the chain of those that left
SAVED_SETS = 1 << 38  # from here on, the cursor of a walk backward is a place in TOUCHED_LIST and a cursor of members


@inlined
def was_there(m: int, node: int) -> bool:
    """Whether the change has not created the node."""
    return A.get(m, C.FORMER, node) != C.CREATED


@inlined
def held_diagonal(m: int, node: int) -> bool:
    """Whether the closure held the pair of the node with itself."""
    flags = A.flag(m, C.DIAGONAL, node)
    return flags == C.HOLDS or flags == C.FLIPPED_NOW


@inlined
def former_component(m: int, node: int) -> int:
    """The component of a node that was there."""
    former = A.get(m, C.FORMER, node)
    return A.get(m, C.COMPONENT, node) if former == C.UNMOVED else former


@inlined
def saved_row(m: int, node: int) -> int:
    """Where the log says what a node reached: a component; CREATED: only itself; UNMOVED: the same as now."""
    former = A.get(m, C.FORMER, node)
    if former == C.CREATED:
        return C.CREATED
    if former == C.UNMOVED:
        former = A.get(m, C.COMPONENT, node)
    return former if A.size_of(m, C.SAVED, former) > 0 else C.UNMOVED


@device
def had_pair(m: int, x: int, y: int) -> bool:
    """Whether two different nodes, which were there, were related."""
    if former_component(m, x) == former_component(m, y):
        return True
    if A.read(m, C.DIRECTED) == 0:
        return False
    row = saved_row(m, x)
    if row == C.UNMOVED:
        return row_has(m, C.FORWARD, A.get(m, C.COMPONENT, x), y)
    return row_has(m, C.SAVED, row, y)


# --- walks: each returns the cursor for the next step and the node, and at the end a negative cursor ------------------


@device
def next_former_member(m: int, component: int, cursor: int) -> tuple[int, int]:
    """The next member that a component had."""
    left = cursor - LEFT
    if cursor < LEFT:
        start, end = A.span_of(m, C.MEMBERS, component)
        if start + cursor < end:
            node = A.entry(m, C.MEMBERS, start + cursor)
            if A.get(m, C.FORMER, node) == C.UNMOVED:
                return cursor + 1, node
        left = A.get(m, C.LAST_LEFT, component)
    if left == 0:
        return -1, -1
    return LEFT + A.get(m, C.LEFT_BEFORE, left - 1), A.get(m, C.MOVED_LIST, left - 1)


@device
def next_reached(m: int, node: int, cursor: int) -> tuple[int, int]:
    """The next node that a node reached."""
    row = saved_row(m, node)
    if row == C.UNMOVED:
        return next_in_row(m, C.FORWARD, A.get(m, C.COMPONENT, node), cursor)
    return next_in_row(m, C.SAVED, row, cursor)


@device
def next_unsaved_reaching(m: int, node: int, cursor: int) -> tuple[int, int]:
    """The next node that reached a node, of those whose sets are not saved."""
    component = A.get(m, C.COMPONENT, node)
    cursor, other = next_in_row(m, C.BACKWARD, component, cursor)
    while cursor >= 0:
        if saved_row(m, other) == C.UNMOVED and row_has(m, C.FORWARD, A.get(m, C.COMPONENT, other), node):
            break
        cursor, other = next_in_row(m, C.BACKWARD, component, cursor)
    return cursor, other


@device
def next_saved_reaching(m: int, node: int, cursor: int) -> tuple[int, int]:
    """The next node that reached a node, of those whose sets are saved."""
    place, member = cursor >> 32, cursor & LOW_32
    while place < A.read(m, C.TOUCHED):
        component = A.get(m, C.TOUCHED_LIST, place)
        if member > 0 or row_has(m, C.SAVED, component, node):
            member, other = next_former_member(m, component, member)
            if member >= 0:
                return (place << 32) + member, other
        place += 1
        member = 0
    return -1, -1


@device
def next_reaching(m: int, node: int, cursor: int) -> tuple[int, int]:
    """The next node that reached a node."""
    if cursor < SAVED_SETS:
        cursor, other = next_unsaved_reaching(m, node, cursor)
        if cursor >= 0:
            return cursor, other
        cursor = SAVED_SETS
    cursor, other = next_saved_reaching(m, node, cursor - SAVED_SETS)
    return (cursor + SAVED_SETS if cursor >= 0 else -1), other


@device
def next_former(m: int, node: int, backward: int, cursor: int) -> tuple[int, int]:
    """The next node that a node, which was there, reached or that reached it."""
    if A.read(m, C.DIRECTED) == 0:
        return next_former_member(m, former_component(m, node), cursor)
    return next_reached(m, node, cursor) if backward == 0 else next_reaching(m, node, cursor)
