"""Searches in the graph: for a way around a missing edge, for strongly connected components, for a shortest path."""

from __future__ import annotations

from tidelog.closures import closure_registers as C
from tidelog.closures.access import entry, fresh_tokens, get, put, size_of, start_of
from tidelog.closures.memory import Longs
from tidelog.machine.jit import device, entry_point

FINISHED = 2**31 - 1  # a number above all others: an edge to a finished component lowers nothing
NEAR_SIDE, FAR_SIDE = C.ORDER, C.OTHER  # the lists in which the search from both ends leaves what it found


@device
def expand(m: Longs, pool: int, node: int, queue: int, tail: int, own: int, others: int) -> int:
    """Queue the neighbours of a node inside its component; returns the new tail, or -1 on meeting the other side."""
    label = get(m, C.COMPONENT, node)
    start = start_of(m, pool, node)
    for i in range(start, start + size_of(m, pool, node)):
        neighbour = entry(m, pool, i)
        mark = get(m, C.STAMP, neighbour)
        if mark == others:
            return -1
        if mark != own and get(m, C.COMPONENT, neighbour) == label:
            put(m, C.STAMP, neighbour, own)
            put(m, queue, tail, neighbour)
            tail += 1
    return tail


@device
def advance(m: Longs, node: int, queue: int, tail: int, own: int, others: int, undirected: bool) -> int:
    """One step of one side: from the near side along the edges, from the far side against them, or both ways."""
    near = queue == NEAR_SIDE
    tail = expand(m, C.OUT if near else C.INTO, node, queue, tail, own, others)
    if undirected and tail >= 0:
        tail = expand(m, C.INTO if near else C.OUT, node, queue, tail, own, others)
    return tail


@device
def find_gap(m: Longs, x: int, y: int, undirected: bool) -> tuple[int, int]:
    """Look for a path from x to y inside their component, from both ends at once, by turns on the side that did less.

    Returns the list with all nodes of the side that ran dry, and their number; the number is 0 when a path exists.
    """
    own = fresh_tokens(m, 2)
    others = own + 1
    put(m, NEAR_SIDE, 0, x)
    put(m, FAR_SIDE, 0, y)
    put(m, C.STAMP, x, own)
    put(m, C.STAMP, y, others)
    near_head, near_tail, near_work = 0, 1, 0
    far_head, far_tail, far_work = 0, 1, 0
    while near_head < near_tail and far_head < far_tail:
        if near_work <= far_work:
            node = get(m, NEAR_SIDE, near_head)
            near_head += 1
            near_work += 1 + size_of(m, C.OUT, node) + (size_of(m, C.INTO, node) if undirected else 0)
            near_tail = advance(m, node, NEAR_SIDE, near_tail, own, others, undirected)
        else:
            node = get(m, FAR_SIDE, far_head)
            far_head += 1
            far_work += 1 + size_of(m, C.INTO, node) + (size_of(m, C.OUT, node) if undirected else 0)
            far_tail = advance(m, node, FAR_SIDE, far_tail, others, own, undirected)
    m[C.WORK] += near_work + far_work
    if near_tail < 0 or far_tail < 0:
        return NEAR_SIDE, 0
    if near_head == near_tail:
        return NEAR_SIDE, near_tail
    return FAR_SIDE, far_tail


@device
def unseen_child(m: Longs, node: int, edge: int, label: int) -> tuple[int, int]:
    """Read the edges of a node from one on, lowering LOW, up to a new node; returns that one, and the next edge."""
    start, size = start_of(m, C.OUT, node), size_of(m, C.OUT, node)
    low = get(m, C.LOW, node)
    child = -1
    while child < 0 and edge < size:
        neighbour = entry(m, C.OUT, start + edge)
        edge += 1
        if get(m, C.COMPONENT, neighbour) != label:
            continue
        number = get(m, C.NUMBER, neighbour)
        if number == 0:
            child = neighbour
        else:
            low = min(low, number)
    put(m, C.LOW, node, low)
    return child, edge


@device
def emit_component(m: Longs, node: int, top: int, emitted: int) -> tuple[int, int]:
    """Move the component that ends at a node from the stack to ORDER; returns where both end then."""
    member = -1
    while member != node:
        top -= 1
        member = get(m, C.STACK, top)
        put(m, C.NUMBER, member, FINISHED)
        put(m, C.ORDER, emitted, member)
        emitted += 1
    return top, emitted


@device
def strong_components(m: Longs, pool: int, begin: int, end: int, label: int) -> int:
    """Tarjan's algorithm, without recursion, on nodes that stand in a pool and make up the component `label`.

    The nodes come out in ORDER, component by component, those first that reach no later one; BOUNDS says where each
    component ends. Returns their number.
    """
    for i in range(begin, end):
        put(m, C.NUMBER, entry(m, pool, i), 0)
    visited, emitted, parts, top = 0, 0, 0, 0
    for i in range(begin, end):
        if get(m, C.NUMBER, entry(m, pool, i)) != 0:
            continue
        child, edge, depth = entry(m, pool, i), 0, -1
        while True:
            if child >= 0:
                if depth >= 0:
                    put(m, C.FRAME_EDGE, depth, edge)
                depth += 1
                edge = 0
                visited += 1
                put(m, C.FRAME_NODE, depth, child)
                put(m, C.NUMBER, child, visited)
                put(m, C.LOW, child, visited)
                put(m, C.STACK, top, child)
                top += 1
            node = get(m, C.FRAME_NODE, depth)
            child, edge = unseen_child(m, node, edge, label)
            if child >= 0:
                continue
            low = get(m, C.LOW, node)
            if low == get(m, C.NUMBER, node):
                top, emitted = emit_component(m, node, top, emitted)
                put(m, C.BOUNDS, parts, emitted)
                parts += 1
            depth -= 1
            if depth < 0:
                break
            parent = get(m, C.FRAME_NODE, depth)
            put(m, C.LOW, parent, min(low, get(m, C.LOW, parent)))
            edge = get(m, C.FRAME_EDGE, depth)
    return parts


@entry_point
def trace(m: Longs, x: int, y: int, undirected: bool) -> int:
    """Breadth-first search from x for an edge to y. Returns the node before y, or -1; NUMBER then leads back to x.

    LOW says of each node on the way whether its edge was taken against its direction; for y BOUNDS begins with that.
    """
    token = fresh_tokens(m, 1)
    put(m, C.ORDER, 0, x)
    put(m, C.STAMP, x, token)
    head, tail = 0, 1
    while head < tail:
        node = get(m, C.ORDER, head)
        head += 1
        for against in range(2 if undirected else 1):
            pool = C.OUT if against == 0 else C.INTO
            start = start_of(m, pool, node)
            for i in range(start, start + size_of(m, pool, node)):
                neighbour = entry(m, pool, i)
                if neighbour == y:
                    put(m, C.BOUNDS, 0, against)
                    return node
                if get(m, C.STAMP, neighbour) != token:
                    put(m, C.STAMP, neighbour, token)
                    put(m, C.NUMBER, neighbour, node)
                    put(m, C.LOW, neighbour, against)
                    put(m, C.ORDER, tail, neighbour)
                    tail += 1
    return -1
