"""The nodes of a closure in components, and the log of what the current change does to them.

A component is named by a number and lists its members. The smaller side of a merger or a division moves, the larger one
keeps the number. The log keeps, for each node that moved, where it was, and for each component that changed, its size:
enough to tell the net change from the numbers of what moved, not of what stayed.

Numbers are handed out only by nodes that are founded and by divisions, both of which come before the mergers of a change; a
number that a merger frees therefore stays unused until the next change, and the log can speak of it.
"""

from __future__ import annotations

from tidelog.store.closures.state import (
    CAPACITY,
    COMPONENTS,
    CREATED,
    FREE,
    MOVED,
    NO_COMPONENT_SIZE,
    SIZE,
    START,
    TOUCHED,
    UNMOVED,
    Ints,
    State,
)
from tidelog.store.jit import device, inlined


@inlined
def touch(state: State, component: int) -> None:
    """Note the size that a component had before the current change."""
    if state.former_size[component] == NO_COMPONENT_SIZE:
        state.former_size[component] = state.members.table[component, SIZE]
        state.touched[state.scalars[TOUCHED]] = component
        state.scalars[TOUCHED] += 1


@inlined
def note_move(state: State, node: int) -> None:
    """Note the component in which a node was before the current change."""
    if state.former[node] == UNMOVED:
        state.former[node] = state.component[node]
        state.moved[state.scalars[MOVED]] = node
        state.scalars[MOVED] += 1


@device
def new_component(state: State, size: int) -> int:
    """A number for a component that is empty as yet, with room for its members; the pool has that room."""
    scalars, table = state.scalars, state.members.table
    if scalars[FREE] > 0:
        scalars[FREE] -= 1
        component = state.free[scalars[FREE]]
    else:
        component = scalars[COMPONENTS]
        scalars[COMPONENTS] += 1
    table[component, START] = state.members.used[0]
    table[component, SIZE] = 0
    table[component, CAPACITY] = size
    state.members.used[0] += size
    touch(state, component)
    return int(component)


@inlined
def settle(state: State, node: int, component: int) -> None:
    """Enter a node in the list of a component, which has room for it."""
    table = state.members.table
    size = table[component, SIZE]
    state.members.pool[table[component, START] + size] = node
    state.component[node] = component
    state.place[node] = size
    table[component, SIZE] = size + 1


@device
def found_component(state: State, node: int) -> None:
    """Give a new node a component of its own."""
    settle(state, node, new_component(state, 1))
    state.former[node] = CREATED
    state.moved[state.scalars[MOVED]] = node
    state.scalars[MOVED] += 1


@device
def detach(state: State, nodes: Ints, begin: int, end: int) -> int:
    """Move some members of a component into a new one, for which the pool has room."""
    table, pool, place = state.members.table, state.members.pool, state.place
    old = state.component[nodes[begin]]
    touch(state, old)
    new = new_component(state, end - begin)
    for i in range(begin, end):
        node = nodes[i]
        note_move(state, node)
        size = table[old, SIZE] - 1
        last = pool[table[old, START] + size]
        pool[table[old, START] + place[node]] = last
        place[last] = place[node]
        table[old, SIZE] = size
        settle(state, node, new)
    return new


@inlined
def room_for(state: State, component: int, size: int) -> int:
    """How much of the pool the list of a component takes when it has to hold `size` members."""
    if state.members.table[component, CAPACITY] >= size:
        return 0
    return size + (size >> 2)


@device
def make_room(state: State, component: int, size: int) -> None:
    """Let the list of a component take `size` members; the pool has room for them."""
    table, pool = state.members.table, state.members.pool
    room = room_for(state, component, size)
    if room == 0:
        return
    start, end = table[component, START], state.members.used[0]
    for i in range(table[component, SIZE]):
        pool[end + i] = pool[start + i]
    table[component, START] = end
    table[component, CAPACITY] = room
    state.members.used[0] = end + room


@device
def absorb(state: State, component: int, other: int) -> None:
    """Move all members of another component into this one, which has room, and give up the other's number."""
    table, pool = state.members.table, state.members.pool
    touch(state, component)
    touch(state, other)
    start = table[other, START]
    for i in range(start, start + table[other, SIZE]):
        note_move(state, pool[i])
        settle(state, pool[i], component)
    table[other] = 0
    state.free[state.scalars[FREE]] = other
    state.scalars[FREE] += 1


@inlined
def largest_part(bounds: Ints, parts: int) -> int:
    """Of parts that end at the given bounds, the largest one."""
    best, size, begin = 0, 0, 0
    for part in range(parts):
        if bounds[part] - begin > size:
            best, size = part, bounds[part] - begin
        begin = bounds[part]
    return best
