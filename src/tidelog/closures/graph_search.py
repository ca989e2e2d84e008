"""Searches in the graph of base edges: for a path around a deleted edge, and for strongly connected components."""

from __future__ import annotations

from tidelog.closures import access as A
from tidelog.closures import closure_registers as C
from tidelog.machine.jit import device

FINISHED = 2**31 - 1  # above all numbers, so that an edge to a finished component lowers nothing
NEAR_SIDE, FAR_SIDE = C.ORDER, C.OTHER  # where the search from both ends lists what it found


@device
def expand(m: int, pool: int, node: int, queue: int, tail: int, own: int, others: int) -> int:
    """Queue the neighbours of a node inside its component; returns the new tail, or -1 on meeting the other side."""
    label = A.get(m, C.COMPONENT, node)
    for i in range(*A.span_of(m, pool, node)):
        neighbour = A.entry(m, pool, i)
        mark = A.get(m, C.STAMP, neighbour)
        if mark == others:
            return -1
        if mark != own and A.get(m, C.COMPONENT, neighbour) == label:
            A.put(m, C.STAMP, neighbour, own)
            A.put(m, queue, tail, neighbour)
            tail += 1
    return tail


@device
def advance(m: int, node: int, queue: int, tail: int, own: int, others: int, undirected: bool) -> int:
    """Take one step on one side: the near side follows edges forwards, the far side backwards, or both do both."""
    near = queue == NEAR_SIDE
    tail = expand(m, C.OUT if near else C.INTO, node, queue, tail, own, others)
    if undirected and tail >= 0:
        tail = expand(m, C.INTO if near else C.OUT, node, queue, tail, own, others)
    return tail


@device
def find_gap(m: int, x: int, y: int, undirected: bool) -> tuple[int, int]:
    """Look for a path from x to y inside their component, from both ends; the side that has done less takes the turn.

    Returns the list with all nodes of the side that ran dry, and their number, which is 0 if there is a path.
    """
    own = A.fresh_tokens(m, 2)
    others = own + 1
    A.put(m, NEAR_SIDE, 0, x)
    A.put(m, FAR_SIDE, 0, y)
    A.put(m, C.STAMP, x, own)
    A.put(m, C.STAMP, y, others)
    near_head, near_tail, near_work = 0, 1, 0
    far_head, far_tail, far_work = 0, 1, 0
    while near_head < near_tail and far_head < far_tail:
        if near_work <= far_work:
            node = A.get(m, NEAR_SIDE, near_head)
            near_head += 1
            near_work += 1 + A.size_of(m, C.OUT, node) + (A.size_of(m, C.INTO, node) if undirected else 0)
            near_tail = advance(m, node, NEAR_SIDE, near_tail, own, others, undirected)
        else:
            node = A.get(m, FAR_SIDE, far_head)
            far_head += 1
            far_work += 1 + A.size_of(m, C.INTO, node) + (A.size_of(m, C.OUT, node) if undirected else 0)
            far_tail = advance(m, node, FAR_SIDE, far_tail, others, own, undirected)
    A.add(m, C.WORK, near_work + far_work)
    if near_tail < 0 or far_tail < 0:
        return NEAR_SIDE, 0
    if near_head == near_tail:
        return NEAR_SIDE, near_tail
    return FAR_SIDE, far_tail


@device
def unseen_child(m: int, node: int, edge: int, label: int) -> tuple[int, int]:
    """Read edges of a node, from one on, up to an unseen node, and lower LOW. Returns that node, and the next edge."""
    start, size = A.start_of(m, C.OUT, node), A.size_of(m, C.OUT, node)
    low = A.get(m, C.LOW, node)
    child = -1
    while child < 0 and edge < size:
        neighbour = A.entry(m, C.OUT, start + edge)
        edge += 1
        if A.get(m, C.COMPONENT, neighbour) != label:
            continue
        number = A.get(m, C.NUMBER, neighbour)
        if number == 0:
            child = neighbour
        else:
            low = min(low, number)
    A.put(m, C.LOW, node, low)
    return child, edge


@device
def emit_component(m: int, node: int, top: int, emitted: int) -> tuple[int, int]:
    """Move the component that ends at a node from the stack to ORDER; returns the new ends of both."""
    member = -1
    while member != node:
        top -= 1
        member = A.get(m, C.STACK, top)
        A.put(m, C.NUMBER, member, FINISHED)
        A.put(m, C.ORDER, emitted, member)
        emitted += 1
    return top, emitted


@device
def strong_components(m: int, pool: int, begin: int, end: int, label: int) -> int:
    """Tarjan's algorithm, without recursion, on the nodes that a pool lists, which make up the component `label`.

    ORDER then holds the nodes, component by component, so that none reaches a later one; BOUNDS says where each
    component ends. Returns their number.
    """
    for i in range(begin, end):
        A.put(m, C.NUMBER, A.entry(m, pool, i), 0)
    visited, emitted, parts, top = 0, 0, 0, 0
    for i in range(begin, end):
        if A.get(m, C.NUMBER, A.entry(m, pool, i)) != 0:
            continue
        child, edge, depth = A.entry(m, pool, i), 0, -1
        while True:
            if child >= 0:
                if depth >= 0:
                    A.put(m, C.FRAME_EDGE, depth, edge)
                depth += 1
                edge = 0
                visited += 1
                A.put(m, C.FRAME_NODE, depth, child)
                A.put(m, C.NUMBER, child, visited)
                A.put(m, C.LOW, child, visited)
                A.put(m, C.STACK, top, child)
                top += 1
            node = A.get(m, C.FRAME_NODE, depth)
            child, edge = unseen_child(m, node, edge, label)
            if child >= 0:
                continue
            low = A.get(m, C.LOW, node)
            if low == A.get(m, C.NUMBER, node):
                top, emitted = emit_component(m, node, top, emitted)
                A.put(m, C.BOUNDS, parts, emitted)
                parts += 1
            depth -= 1
            if depth < 0:
                break
            parent = A.get(m, C.FRAME_NODE, depth)
            A.put(m, C.LOW, parent, min(low, A.get(m, C.LOW, parent)))
            edge = A.get(m, C.FRAME_EDGE, depth)
    return parts
