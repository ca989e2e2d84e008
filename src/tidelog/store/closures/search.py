"""Searches in the graph: for a replacement path from both ends, for strongly connected components, for a shortest path."""

from __future__ import annotations

from tidelog.store.closures.graph import fresh_tokens
from tidelog.store.closures.state import (
    BOUNDS,
    FRAME_EDGE,
    FRAME_NODE,
    LOW,
    NUMBER,
    ORDER,
    OTHER,
    SIZE,
    STACK,
    START,
    WORK,
    Blocks,
    Ints,
    State,
)
from tidelog.store.jit import device, entry_point

FINISHED = 2**31 - 1  # a number above all others: an edge to a finished component lowers nothing
NEAR_SIDE, FAR_SIDE = ORDER, OTHER  # the lists in which the search from both ends leaves what it found


@device
def expand(
    state: State, blocks: Blocks, node: int, queue: Ints, tail: int, own: int, others: int, label: int
) -> tuple[int, bool]:
    """Queue the neighbours of a node that lie in the component `label`; true when one of them belongs to the other side."""
    start, size = blocks.table[node, START], blocks.table[node, SIZE]
    for i in range(start, start + size):
        neighbour = blocks.pool[i]
        mark = state.stamp[neighbour]
        if mark == others:
            return tail, True
        if mark != own and state.component[neighbour] == label:
            state.stamp[neighbour] = own
            queue[tail] = neighbour
            tail += 1
    return tail, False


@device
def find_gap(state: State, x: int, y: int, undirected: bool) -> tuple[int, int]:
    """Look for a path from x to y inside their component, from both ends at once, by turns on the side that did less.

    Returns the list that holds all nodes of the side that ran dry, and their number; the number is 0 when a path exists.
    """
    near, far = state.lists[NEAR_SIDE], state.lists[FAR_SIDE]
    label = state.component[x]
    own = fresh_tokens(state, 2)
    others = own + 1
    near[0], far[0] = x, y
    state.stamp[x], state.stamp[y] = own, others
    near_head, near_tail, near_work = 0, 1, 0
    far_head, far_tail, far_work = 0, 1, 0
    met = False
    while not met and near_head < near_tail and far_head < far_tail:
        if near_work <= far_work:
            node = near[near_head]
            near_head += 1
            near_work += 1 + state.out.table[node, SIZE]
            near_tail, met = expand(state, state.out, node, near, near_tail, own, others, label)
            if undirected and not met:
                near_work += state.into.table[node, SIZE]
                near_tail, met = expand(state, state.into, node, near, near_tail, own, others, label)
        else:
            node = far[far_head]
            far_head += 1
            far_work += 1 + state.into.table[node, SIZE]
            far_tail, met = expand(state, state.into, node, far, far_tail, others, own, label)
            if undirected and not met:
                far_work += state.out.table[node, SIZE]
                far_tail, met = expand(state, state.out, node, far, far_tail, others, own, label)
    state.scalars[WORK] += near_work + far_work
    if met:
        return NEAR_SIDE, 0
    if near_head == near_tail:
        return NEAR_SIDE, near_tail
    return FAR_SIDE, far_tail


@device
def strong_components(state: State, nodes: Ints, begin: int, end: int, label: int) -> int:
    """Tarjan's algorithm on the nodes given, which make up the component `label`, without recursion.

    The nodes come out in the list `ORDER`, component by component, those first that reach no later one; `BOUNDS` says
    where each component ends. Returns their number.
    """
    table, pool = state.out.table, state.out.pool
    number, low = state.lists[NUMBER], state.lists[LOW]
    frame_node, frame_edge = state.lists[FRAME_NODE], state.lists[FRAME_EDGE]
    stack, order, bounds = state.lists[STACK], state.lists[ORDER], state.lists[BOUNDS]
    for i in range(begin, end):
        number[nodes[i]] = 0
    visited, emitted, parts, top = 0, 0, 0, 0
    for i in range(begin, end):
        if number[nodes[i]] != 0:
            continue
        depth = 0
        frame_node[0] = nodes[i]
        frame_edge[0] = -1
        while depth >= 0:
            node = frame_node[depth]
            edge = frame_edge[depth]
            if edge < 0:
                visited += 1
                number[node] = visited
                low[node] = visited
                stack[top] = node
                top += 1
                edge = 0
            start, size = table[node, START], table[node, SIZE]
            child = -1
            while edge < size:
                neighbour = pool[start + edge]
                edge += 1
                if state.component[neighbour] != label:
                    continue
                if number[neighbour] == 0:
                    child = neighbour
                    break
                low[node] = min(low[node], number[neighbour])
            if child >= 0:
                frame_edge[depth] = edge
                depth += 1
                frame_node[depth] = child
                frame_edge[depth] = -1
                continue
            if low[node] == number[node]:
                while True:
                    top -= 1
                    member = stack[top]
                    number[member] = FINISHED
                    order[emitted] = member
                    emitted += 1
                    if member == node:
                        break
                bounds[parts] = emitted
                parts += 1
            depth -= 1
            if depth >= 0:
                parent = frame_node[depth]
                low[parent] = min(low[parent], low[node])
    return parts


@entry_point
def trace(state: State, x: int, y: int, undirected: bool) -> int:
    """Breadth-first search from x for an edge to y. Returns the node before y, or -1; `NUMBER` then leads back to x.

    `LOW` says of each node on the way whether its edge was taken against its direction; for y the list `BOUNDS` says it.
    """
    queue, previous, against = state.lists[ORDER], state.lists[NUMBER], state.lists[LOW]
    token = fresh_tokens(state, 1)
    queue[0] = x
    state.stamp[x] = token
    head, tail = 0, 1
    while head < tail:
        node = queue[head]
        head += 1
        for turn in range(2 if undirected else 1):
            blocks = state.out if turn == 0 else state.into
            start, size = blocks.table[node, START], blocks.table[node, SIZE]
            for i in range(start, start + size):
                neighbour = blocks.pool[i]
                if neighbour == y:
                    state.lists[BOUNDS][0] = turn
                    return int(node)
                if state.stamp[neighbour] != token:
                    state.stamp[neighbour] = token
                    previous[neighbour] = node
                    against[neighbour] = turn
                    queue[tail] = neighbour
                    tail += 1
    return -1
