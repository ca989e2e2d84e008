"""Connected components under change: the kernels of the symmetric-transitive closure.

Where Modular Materialisation §6 (Algorithms 7–9) overdeletes a whole component and closes what is left of it again, here an edge
that goes starts a search from both of its ends: they meet (in a dense component after a few steps), or the smaller
side runs dry and becomes a component of its own. When the searches of one change have cost as much as reading the
graph once, the components that are left to check are swept instead, so a change never costs much more than that.
"""

from __future__ import annotations

from tidelog.store.closures.graph import fresh_tokens, remove
from tidelog.store.closures.partition import absorb, detach, largest_part, make_room, room_for
from tidelog.store.closures.search import find_gap
from tidelog.store.closures.state import (
    BOUNDS,
    DONE,
    EDGES,
    FULL_MEMBERS,
    LOW,
    NEEDED,
    NUMBER,
    ORDER,
    OTHER,
    SIZE,
    STACK,
    START,
    STATUS,
    TOO_MUCH,
    WORK,
    Ints,
    State,
)
from tidelog.store.jit import device, entry_point


@entry_point
def cut(state: State, source: Ints, target: Ints, budget: int, begin: int) -> int:
    """Take edges out one by one and divide the components that fall apart; stops when the budget is spent."""
    scalars = state.scalars
    scalars[STATUS] = DONE
    for i in range(begin, len(source)):
        x, y = source[i], target[i]
        if x == y:
            state.loops[x] = 0
            continue
        if scalars[WORK] > budget:
            scalars[STATUS] = TOO_MUCH
            return i
        scalars[WORK] += state.out.table[x, SIZE] + state.into.table[y, SIZE]
        scalars[EDGES] -= remove(state.out, x, y)
        remove(state.into, y, x)
        side, size = find_gap(state, x, y, True)
        if state.members.used[0] + size > len(state.members.pool):
            # When this edge comes again it is gone already, which `remove` does not mind.
            scalars[STATUS] = FULL_MEMBERS
            scalars[NEEDED] = size
            return i
        if size > 0:
            detach(state, state.lists[side], 0, size)
    return len(source)


@device
def spread(state: State, node: int, queue: Ints, tail: int, token: int) -> int:
    """Breadth-first search over edges in both directions; returns where the nodes found end in the queue."""
    head = tail
    queue[tail] = node
    tail += 1
    state.stamp[node] = token
    while head < tail:
        for turn in range(2):
            blocks = state.out if turn == 0 else state.into
            start = blocks.table[queue[head], START]
            for i in range(start, start + blocks.table[queue[head], SIZE]):
                neighbour = blocks.pool[i]
                if state.stamp[neighbour] != token:
                    state.stamp[neighbour] = token
                    queue[tail] = neighbour
                    tail += 1
        head += 1
    return tail


@entry_point
def sweep(state: State, suspects: Ints) -> None:
    """Divide the components of the suspects into what is connected; the pool of members has room for every node."""
    found, bounds, members = state.lists[ORDER], state.lists[BOUNDS], state.lists[OTHER]
    token = fresh_tokens(state, 1)
    for suspect in suspects:
        if state.stamp[suspect] == token:
            continue
        component = state.component[suspect]
        start, size = state.members.table[component, START], state.members.table[component, SIZE]
        members[:size] = state.members.pool[start : start + size]
        tail, parts = 0, 0
        for i in range(size):
            if state.stamp[members[i]] != token:
                tail = spread(state, members[i], found, tail, token)
                bounds[parts] = tail
                parts += 1
        keep = largest_part(bounds, parts)
        for part in range(parts):
            if part != keep:
                detach(state, found, bounds[part - 1] if part > 0 else 0, bounds[part])


@device
def root(parent: Ints, component: int) -> int:
    """The representative of a component's group, halving the way to it."""
    while parent[component] != component:
        parent[component] = parent[parent[component]]
        component = parent[component]
    return component


@entry_point
def join(state: State, source: Ints, target: Ints, begin: int) -> int:
    """Merge the components that edges connect, all at once: the largest of each group takes in the others."""
    parent, table = state.parent, state.members.table
    joined, total, largest = state.lists[STACK], state.lists[NUMBER], state.lists[LOW]
    state.scalars[STATUS] = DONE
    count = 0
    for i in range(begin, len(source)):
        a = root(parent, state.component[source[i]])
        b = root(parent, state.component[target[i]])
        if a != b:
            parent[b] = a
            joined[count] = b
            count += 1
    for i in range(count):
        top = root(parent, joined[i])
        total[top], largest[top] = table[top, SIZE], top
    for i in range(count):
        top = root(parent, joined[i])
        total[top] += table[joined[i], SIZE]
        if table[joined[i], SIZE] > table[largest[top], SIZE]:
            largest[top] = joined[i]
    room = 0
    for i in range(count):
        top = root(parent, joined[i])
        if total[top] > 0:  # the first of its group; the sign remembers that it has been counted
            room += room_for(state, largest[top], total[top])
            total[top] = -total[top]
    if state.members.used[0] + room > len(state.members.pool):
        state.scalars[STATUS] = FULL_MEMBERS
        state.scalars[NEEDED] = room
    else:
        for i in range(count):
            top = root(parent, joined[i])
            make_room(state, largest[top], -total[top])
            other = joined[i] if joined[i] != largest[top] else top
            absorb(state, largest[top], other)
    for i in range(count):
        parent[joined[i]] = joined[i]
    return begin
