"""The nodes of a closure in components, and the log of what the current change does to them.

A component is named by a number and lists its members. The smaller side of a merger or a division moves, the larger one
keeps the number. The log keeps, for each node that moved, where it was, and for each component that changed, its size:
enough to tell the net change from the numbers of what moved, not of what stayed.

Numbers are handed out only to nodes that are founded and by divisions, both of which come before the mergers of a
change; a number that a merger frees therefore stays unused until the next change, and the log can speak of it.
"""

from __future__ import annotations

from tidelog.closures import closure_registers as C
from tidelog.closures.access import (
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
from tidelog.closures.memory import Longs
from tidelog.machine.jit import device, inlined


@inlined
def touch(m: Longs, component: int) -> None:
    """Note the size that a component had before the current change."""
    if get(m, C.FORMER_SIZE, component) == C.UNTOUCHED:
        put(m, C.FORMER_SIZE, component, size_of(m, C.MEMBERS, component))
        append(m, C.TOUCHED_LIST, C.TOUCHED, component)


@inlined
def note_move(m: Longs, node: int) -> None:
    """Note the component in which a node was before the current change."""
    if get(m, C.FORMER, node) == C.UNMOVED:
        put(m, C.FORMER, node, get(m, C.COMPONENT, node))
        append(m, C.MOVED_LIST, C.MOVED, node)


@device
def new_component(m: Longs, limit: int) -> int:
    """A number for a component that is empty as yet, with a place for its members; the pool has that room."""
    if m[C.FREE] > 0:
        m[C.FREE] -= 1
        component = get(m, C.FREE_LIST, m[C.FREE])
    else:
        component = m[C.COMPONENTS]
        m[C.COMPONENTS] += 1
    take_place(m, C.MEMBERS, component, limit)
    touch(m, component)
    return component


@inlined
def settle(m: Longs, node: int, component: int) -> None:
    """Enter a node in the list of a component, which has a place for it."""
    size = size_of(m, C.MEMBERS, component)
    put_entry(m, C.MEMBERS, start_of(m, C.MEMBERS, component) + size, node)
    set_size(m, C.MEMBERS, component, size + 1)
    put(m, C.COMPONENT, node, component)
    put(m, C.PLACE, node, size)


@device
def found_component(m: Longs, node: int) -> None:
    """Give a new node a component of its own."""
    settle(m, node, new_component(m, 1))
    put(m, C.FORMER, node, C.CREATED)
    append(m, C.MOVED_LIST, C.MOVED, node)


@device
def detach(m: Longs, nodes: int, begin: int, end: int) -> int:
    """Move the members of a component that stand in a list into a new component, for which the pool has room."""
    old = get(m, C.COMPONENT, get(m, nodes, begin))
    touch(m, old)
    new = new_component(m, end - begin)
    for i in range(begin, end):
        node = get(m, nodes, i)
        note_move(m, node)
        start, size = start_of(m, C.MEMBERS, old), size_of(m, C.MEMBERS, old)
        last = entry(m, C.MEMBERS, start + size - 1)
        put_entry(m, C.MEMBERS, start + get(m, C.PLACE, node), last)
        put(m, C.PLACE, last, get(m, C.PLACE, node))
        set_size(m, C.MEMBERS, old, size - 1)
        settle(m, node, new)
    return new


@inlined
def room_for(m: Longs, component: int, size: int) -> int:
    """How much of the pool the list of a component takes when it has to hold so many members."""
    return 0 if limit_of(m, C.MEMBERS, component) >= size else size + (size >> 2)


@device
def absorb(m: Longs, component: int, other: int) -> None:
    """Move all members of another component into this one, which has a place for them; the other's number is free."""
    touch(m, component)
    touch(m, other)
    start = start_of(m, C.MEMBERS, other)
    for i in range(start, start + size_of(m, C.MEMBERS, other)):
        node = entry(m, C.MEMBERS, i)
        note_move(m, node)
        settle(m, node, component)
    set_size(m, C.MEMBERS, other, 0)
    append(m, C.FREE_LIST, C.FREE, other)


@device
def widen_list(m: Longs, component: int, size: int) -> None:
    """Let the list of a component take so many members; the pool has room for them."""
    room = room_for(m, component, size)
    if room > 0:
        move_list(m, C.MEMBERS, component, room)


@inlined
def bound_before(m: Longs, part: int) -> int:
    """Where a part begins, of parts that end at BOUNDS."""
    return get(m, C.BOUNDS, part - 1) if part > 0 else 0


@device
def largest_part(m: Longs, parts: int) -> int:
    """Of parts that end at BOUNDS, the largest one."""
    best, best_size = 0, 0
    for part in range(parts):
        size = get(m, C.BOUNDS, part) - bound_before(m, part)
        if size > best_size:
            best, best_size = part, size
    return best
