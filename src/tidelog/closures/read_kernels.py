"""How a closure is read, by compiled joins and by Python alike.

A *view* is the address of a closure's registers (`closure_registers`), so that one compiled join can read any closure,
symmetric or directed. Two bits that no address has are added to it: `TURNED` shows each pair the other way round, and
`FORMER` the closure as it was before the change in work, or before the last one (`former_state`). A walk through the
neighbours of a node is suspended and resumed with two integers:

    node = closure_node(view, x)                              # -1: x has no pair
    cursor, y = closure_next(view, node, backward, 0)         # backward 0: pairs (x, y); 1: pairs (y, x)
    while cursor >= 0:
        ...
        cursor, y = closure_next(view, node, backward, cursor)

and one through all pairs with `closure_next_pair(view, node, cursor)`, which begins at (0, 0) and ends with a negative
node. A view stays the same for the life of its closure; what is read through it must not be kept across a change, and
what is read of former pairs not across a kernel that changes the closure.
"""

from __future__ import annotations

from tidelog.closures import access as A
from tidelog.closures import closure_registers as C
from tidelog.closures.base_graph import LOW_32, find_slot
from tidelog.closures.former_state import had_pair, held_diagonal, next_former, was_there
from tidelog.closures.node_sets import count_of, next_in_row, row_has
from tidelog.machine.jit import device, entry_point, inlined, load_i32, store_i32, store_i64, store_u8

TURNED, FORMER = 1, 2
ADDRESS = -4  # all other bits


@device
def closure_node(view: int, term: int) -> int:
    """The node of a term, or -1."""
    m = view & ADDRESS
    entry = A.get_long(m, C.SLOTS, find_slot(m, term))
    if entry < 0 or (view & FORMER != 0 and not was_there(m, entry & LOW_32)):
        return -1
    return entry & LOW_32


@inlined
def holds_diagonal(view: int, node: int) -> bool:
    m = view & ADDRESS
    return held_diagonal(m, node) if view & FORMER else A.flag(m, C.DIAGONAL, node) & C.HOLDS != 0


@device
def closure_contains(view: int, x: int, y: int) -> bool:
    """Whether the pair of terms is in the closure."""
    if view & TURNED:
        x, y = y, x
    m, x, y = view & ADDRESS, closure_node(view, x), closure_node(view, y)
    if x < 0 or y < 0:
        return False
    if x == y:
        return holds_diagonal(view, x)
    if view & FORMER:
        return had_pair(m, x, y)
    component = A.get(m, C.COMPONENT, x)
    if component == A.get(m, C.COMPONENT, y):
        return True
    return A.read(m, C.DIRECTED) == 1 and row_has(m, C.FORWARD, component, y)


@device
def next_member(m: int, component: int, cursor: int) -> tuple[int, int]:
    """The cursor counts the members of the component."""
    start, end = A.span_of(m, C.MEMBERS, component)
    if start + cursor >= end:
        return -1, -1
    return cursor + 1, A.entry(m, C.MEMBERS, start + cursor)


@device
def next_related(view: int, node: int, backward: int, cursor: int) -> tuple[int, int]:
    """The next node that the node reaches, or that reaches it; each of them reaches itself."""
    m = view & ADDRESS
    if view & FORMER:
        return next_former(m, node, backward, cursor)
    component = A.get(m, C.COMPONENT, node)
    if A.read(m, C.DIRECTED) == 0:
        return next_member(m, component, cursor)
    return next_in_row(m, C.FORWARD if backward == 0 else C.BACKWARD, component, cursor)


@device
def next_node(view: int, node: int, backward: int, cursor: int) -> tuple[int, int]:
    cursor, other = next_related(view, node, backward, cursor)
    if other == node and not holds_diagonal(view, node):
        cursor, other = next_related(view, node, backward, cursor)
    return cursor, other


@device
def closure_next(view: int, node: int, backward: int, cursor: int) -> tuple[int, int]:
    """The next term that the node is paired with, and the cursor for the one after; a negative cursor ends the walk."""
    if node < 0:
        return -1, -1
    cursor, other = next_node(view, node, backward ^ (view & TURNED), cursor)
    if cursor < 0:
        return -1, -1
    return cursor, A.get(view & ADDRESS, C.TERMS, other)


@device
def closure_next_pair(view: int, node: int, cursor: int) -> tuple[int, int, int, int]:
    """The next pair of terms, as (node, cursor, x, y), where node and cursor are for the one after."""
    m = view & ADDRESS
    # What reached a node before takes longer to find than what it reached.
    swapped = view & (FORMER | TURNED) == FORMER | TURNED
    backward = 0 if swapped else view & TURNED
    while node < A.read(m, C.NODES):
        if view & FORMER == 0 or was_there(m, node):
            cursor, other = next_node(view, node, backward, cursor)
            if cursor >= 0:
                x, y = A.get(m, C.TERMS, node), A.get(m, C.TERMS, other)
                return (node, cursor, y, x) if swapped else (node, cursor, x, y)
        node += 1
        cursor = 0
    return -1, 0, -1, -1


# --- the same for Python, many at a time ------------------------------------------------------------------------------


@entry_point
def read_contains(view: int, xs: int, ys: int, count: int, answers: int) -> None:
    for i in range(count):
        store_u8(answers + i, 1 if closure_contains(view, load_i32(xs + 4 * i), load_i32(ys + 4 * i)) else 0)


@entry_point
def read_pairs(view: int, node: int, cursor: int, source: int, target: int, room: int) -> tuple[int, int, int]:
    """As many pairs as fit, from a node and a cursor on; returns where to go on, and the number of pairs."""
    count = 0
    while count < room:
        node, cursor, x, y = closure_next_pair(view, node, cursor)
        if node < 0:
            break
        store_i32(source + 4 * count, x)
        store_i32(target + 4 * count, y)
        count += 1
    return node, cursor, count


@entry_point
def read_counts(view: int, terms: int, count: int, counts: int) -> None:
    """How many nodes each term reaches, itself included; 0 for a term that the closure does not know."""
    m = view & ADDRESS
    for i in range(count):
        node = closure_node(view, load_i32(terms + 4 * i))
        reached = 0
        if node >= 0:
            component = A.get(m, C.COMPONENT, node)
            directed = A.read(m, C.DIRECTED) == 1
            reached = count_of(m, C.FORWARD, component) if directed else A.size_of(m, C.MEMBERS, component)
        store_i64(counts + 8 * i, reached)
