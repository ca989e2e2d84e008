"""Searches in the graph: for a way around a missing edge, for strongly connected components, for a shortest path."""

from __future__ import annotations

from tidelog.store.closures.access import entry, fresh_tokens, get, put, size_of, start_of
from tidelog.store.closures.layout import (
    BOUNDS,
    COMPONENT,
    FRAME_EDGE,
    FRAME_NODE,
    INTO,
    LOW,
    NUMBER,
    ORDER,
    OTHER,
    OUT,
    STACK,
    STAMP,
    WORK,
)
from tidelog.store.closures.memory import Longs
from tidelog.store.jit import device, entry_point

FINISHED = 2**31 - 1  # a number above all others: an edge to a finished component lowers nothing
NEAR_SIDE, FAR_SIDE = ORDER, OTHER  # the lists in which the search from both ends leaves what it found


@device
def expand(m: Longs, pool: int, node: int, queue: int, tail: int, own: int, others: int) -> int:
    """Queue the neighbours of a node inside its component; returns the new tail, or -1 on meeting the other side."""
    label = get(m, COMPONENT, node)
    start = start_of(m, pool, node)
    for i in range(start, start + size_of(m, pool, node)):
        neighbour = entry(m, pool, i)
        mark = get(m, STAMP, neighbour)
        if mark == others:
            return -1
        if mark != own and get(m, COMPONENT, neighbour) == label:
            put(m, STAMP, neighbour, own)
            put(m, queue, tail, neighbour)
            tail += 1
    return tail


@device
def advance(m: Longs, node: int, queue: int, tail: int, own: int, others: int, undirected: bool) -> int:
    """One step of one side: from the near side along the edges, from the far side against them, or both ways."""
    near = queue == NEAR_SIDE
    tail = expand(m, OUT if near else INTO, node, queue, tail, own, others)
    if undirected and tail >= 0:
        tail = expand(m, INTO if near else OUT, node, queue, tail, own, others)
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
    put(m, STAMP, x, own)
    put(m, STAMP, y, others)
    near_head, near_tail, near_work = 0, 1, 0
    far_head, far_tail, far_work = 0, 1, 0
    while near_head < near_tail and far_head < far_tail:
        if near_work <= far_work:
            node = get(m, NEAR_SIDE, near_head)
            near_head += 1
            near_work += 1 + size_of(m, OUT, node) + (size_of(m, INTO, node) if undirected else 0)
            near_tail = advance(m, node, NEAR_SIDE, near_tail, own, others, undirected)
        else:
            node = get(m, FAR_SIDE, far_head)
            far_head += 1
            far_work += 1 + size_of(m, INTO, node) + (size_of(m, OUT, node) if undirected else 0)
            far_tail = advance(m, node, FAR_SIDE, far_tail, others, own, undirected)
    m[WORK] += near_work + far_work
    if near_tail < 0 or far_tail < 0:
        return NEAR_SIDE, 0
    if near_head == near_tail:
        return NEAR_SIDE, near_tail
    return FAR_SIDE, far_tail


@device
def unseen_child(m: Longs, node: int, edge: int, label: int) -> tuple[int, int]:
    """Read the edges of a node from one on, lowering LOW, up to a new node; returns that one, and the next edge."""
    start, size = start_of(m, OUT, node), size_of(m, OUT, node)
    low = get(m, LOW, node)
    child = -1
    while child < 0 and edge < size:
        neighbour = entry(m, OUT, start + edge)
        edge += 1
        if get(m, COMPONENT, neighbour) != label:
            continue
        number = get(m, NUMBER, neighbour)
        if number == 0:
            child = neighbour
        else:
            low = min(low, number)
    put(m, LOW, node, low)
    return child, edge


@device
def emit_component(m: Longs, node: int, top: int, emitted: int) -> tuple[int, int]:
    """Move the component that ends at a node from the stack to ORDER; returns where both end then."""
    member = -1
    while member != node:
        top -= 1
        member = get(m, STACK, top)
        put(m, NUMBER, member, FINISHED)
        put(m, ORDER, emitted, member)
        emitted += 1
    return top, emitted


@device
def strong_components(m: Longs, pool: int, begin: int, end: int, label: int) -> int:
    """Tarjan's algorithm, without recursion, on nodes that stand in a pool and make up the component `label`.

    The nodes come out in ORDER, component by component, those first that reach no later one; BOUNDS says where each
    component ends. Returns their number.
    """
    for i in range(begin, end):
        put(m, NUMBER, entry(m, pool, i), 0)
    visited, emitted, parts, top = 0, 0, 0, 0
    for i in range(begin, end):
        if get(m, NUMBER, entry(m, pool, i)) != 0:
            continue
        child, edge, depth = entry(m, pool, i), 0, -1
        while True:
            if child >= 0:
                if depth >= 0:
                    put(m, FRAME_EDGE, depth, edge)
                depth += 1
                edge = 0
                visited += 1
                put(m, FRAME_NODE, depth, child)
                put(m, NUMBER, child, visited)
                put(m, LOW, child, visited)
                put(m, STACK, top, child)
                top += 1
            node = get(m, FRAME_NODE, depth)
            child, edge = unseen_child(m, node, edge, label)
            if child >= 0:
                continue
            low = get(m, LOW, node)
            if low == get(m, NUMBER, node):
                top, emitted = emit_component(m, node, top, emitted)
                put(m, BOUNDS, parts, emitted)
                parts += 1
            depth -= 1
            if depth < 0:
                break
            parent = get(m, FRAME_NODE, depth)
            put(m, LOW, parent, min(low, get(m, LOW, parent)))
            edge = get(m, FRAME_EDGE, depth)
    return parts


@entry_point
def trace(m: Longs, x: int, y: int, undirected: bool) -> int:
    """Breadth-first search from x for an edge to y. Returns the node before y, or -1; NUMBER then leads back to x.

    LOW says of each node on the way whether its edge was taken against its direction; for y BOUNDS begins with that.
    """
    token = fresh_tokens(m, 1)
    put(m, ORDER, 0, x)
    put(m, STAMP, x, token)
    head, tail = 0, 1
    while head < tail:
        node = get(m, ORDER, head)
        head += 1
        for against in range(2 if undirected else 1):
            pool = OUT if against == 0 else INTO
            start = start_of(m, pool, node)
            for i in range(start, start + size_of(m, pool, node)):
                neighbour = entry(m, pool, i)
                if neighbour == y:
                    put(m, BOUNDS, 0, against)
                    return node
                if get(m, STAMP, neighbour) != token:
                    put(m, STAMP, neighbour, token)
                    put(m, NUMBER, neighbour, node)
                    put(m, LOW, neighbour, against)
                    put(m, ORDER, tail, neighbour)
                    tail += 1
    return -1
