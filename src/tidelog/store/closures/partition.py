"""The nodes of a closure in components, and the log of what the current change does to them.

A component is named by a number and lists its members. The smaller side of a merger or a division moves, the larger one
keeps the number. The log keeps, for each node that moved, where it was, and for each component that changed, its size:
enough to tell the net change from the numbers of what moved, not of what stayed.

Numbers are handed out only to nodes that are founded and by divisions, both of which come before the mergers of a
change; a number that a merger frees therefore stays unused until the next change, and the log can speak of it.
"""

from __future__ import annotations

from tidelog.store.closures.access import (
    append,
    entry,
    get,
    limit_of,
    move_list,
    put,
    put_entry,
    set_size,
    size_of,
    start_of,
    take_place,
)
from tidelog.store.closures.layout import (
    BOUNDS,
    COMPONENT,
    COMPONENTS,
    CREATED,
    FORMER,
    FORMER_SIZE,
    FREE,
    FREE_LIST,
    MEMBERS,
    MOVED,
    MOVED_LIST,
    PLACE,
    TOUCHED,
    TOUCHED_LIST,
    UNMOVED,
    UNTOUCHED,
)
from tidelog.store.closures.memory import Longs
from tidelog.store.jit import device, inlined


@inlined
def touch(m: Longs, component: int) -> None:
    """Note the size that a component had before the current change."""
    if get(m, FORMER_SIZE, component) == UNTOUCHED:
        put(m, FORMER_SIZE, component, size_of(m, MEMBERS, component))
        append(m, TOUCHED_LIST, TOUCHED, component)


@inlined
def note_move(m: Longs, node: int) -> None:
    """Note the component in which a node was before the current change."""
    if get(m, FORMER, node) == UNMOVED:
        put(m, FORMER, node, get(m, COMPONENT, node))
        append(m, MOVED_LIST, MOVED, node)


@device
def new_component(m: Longs, limit: int) -> int:
    """A number for a component that is empty as yet, with a place for its members; the pool has that room."""
    if m[FREE] > 0:
        m[FREE] -= 1
        component = get(m, FREE_LIST, m[FREE])
    else:
        component = m[COMPONENTS]
        m[COMPONENTS] += 1
    take_place(m, MEMBERS, component, limit)
    touch(m, component)
    return component


@inlined
def settle(m: Longs, node: int, component: int) -> None:
    """Enter a node in the list of a component, which has a place for it."""
    size = size_of(m, MEMBERS, component)
    put_entry(m, MEMBERS, start_of(m, MEMBERS, component) + size, node)
    set_size(m, MEMBERS, component, size + 1)
    put(m, COMPONENT, node, component)
    put(m, PLACE, node, size)


@device
def found_component(m: Longs, node: int) -> None:
    """Give a new node a component of its own."""
    settle(m, node, new_component(m, 1))
    put(m, FORMER, node, CREATED)
    append(m, MOVED_LIST, MOVED, node)


@device
def detach(m: Longs, nodes: int, begin: int, end: int) -> int:
    """Move the members of a component that stand in a list into a new component, for which the pool has room."""
    old = get(m, COMPONENT, get(m, nodes, begin))
    touch(m, old)
    new = new_component(m, end - begin)
    for i in range(begin, end):
        node = get(m, nodes, i)
        note_move(m, node)
        start, size = start_of(m, MEMBERS, old), size_of(m, MEMBERS, old)
        last = entry(m, MEMBERS, start + size - 1)
        put_entry(m, MEMBERS, start + get(m, PLACE, node), last)
        put(m, PLACE, last, get(m, PLACE, node))
        set_size(m, MEMBERS, old, size - 1)
        settle(m, node, new)
    return new


@inlined
def room_for(m: Longs, component: int, size: int) -> int:
    """How much of the pool the list of a component takes when it has to hold so many members."""
    return 0 if limit_of(m, MEMBERS, component) >= size else size + (size >> 2)


@device
def absorb(m: Longs, component: int, other: int) -> None:
    """Move all members of another component into this one, which has a place for them; the other's number is free."""
    touch(m, component)
    touch(m, other)
    start = start_of(m, MEMBERS, other)
    for i in range(start, start + size_of(m, MEMBERS, other)):
        node = entry(m, MEMBERS, i)
        note_move(m, node)
        settle(m, node, component)
    set_size(m, MEMBERS, other, 0)
    append(m, FREE_LIST, FREE, other)


@device
def widen_list(m: Longs, component: int, size: int) -> None:
    """Let the list of a component take so many members; the pool has room for them."""
    room = room_for(m, component, size)
    if room > 0:
        move_list(m, MEMBERS, component, room)


@inlined
def bound_before(m: Longs, part: int) -> int:
    """Where a part begins, of parts that end at BOUNDS."""
    return get(m, BOUNDS, part - 1) if part > 0 else 0


@device
def largest_part(m: Longs, parts: int) -> int:
    """Of parts that end at BOUNDS, the largest one."""
    best, best_size = 0, 0
    for part in range(parts):
        size = get(m, BOUNDS, part) - bound_before(m, part)
        if size > best_size:
            best, best_size = part, size
    return best
