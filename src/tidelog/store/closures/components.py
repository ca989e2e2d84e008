"""Connected components under change: the kernels of the symmetric-transitive closure.

Where Modular Materialisation §6 (Algorithms 7–9) overdeletes a whole component and closes what is left of it again,
here an edge that goes starts a search from both of its ends: they meet (in a dense component after a few steps), or the
smaller side runs dry and becomes a component of its own. When the searches of one change have cost as much as reading
the graph once, the components that are left to check are swept instead: no change costs much more than that.
"""

from __future__ import annotations

from tidelog.store.closures.access import (
    entry,
    fresh_tokens,
    get,
    lacks,
    put,
    put_flag,
    size_of,
    start_of,
    tired,
)
from tidelog.store.closures.graph import remove
from tidelog.store.closures.layout import (
    BOUNDS,
    COMPONENT,
    DONE,
    EDGES,
    INTO,
    LOOPS,
    LOW,
    MEMBERS,
    NUMBER,
    ORDER,
    OTHER,
    OUT,
    PARENT,
    STACK,
    STAMP,
    STATUS,
    TOO_MUCH,
    WORK,
)
from tidelog.store.closures.memory import Longs
from tidelog.store.closures.partition import absorb, bound_before, detach, largest_part, room_for, widen_list
from tidelog.store.closures.search import find_gap
from tidelog.store.jit import device, entry_point, load_i32


@entry_point
def cut(m: Longs, source: int, target: int, count: int, budget: int, begin: int) -> int:
    """Take edges out one by one and divide the components that fall apart; stops when the budget is spent."""
    m[STATUS] = DONE
    for i in range(begin, count):
        x, y = load_i32(source + 4 * i), load_i32(target + 4 * i)
        if x == y:
            put_flag(m, LOOPS, x, 0)
            continue
        if m[WORK] > budget:
            m[STATUS] = TOO_MUCH
            return i
        m[WORK] += size_of(m, OUT, x) + size_of(m, INTO, y)
        m[EDGES] -= remove(m, OUT, x, y)
        remove(m, INTO, y, x)
        side, size = find_gap(m, x, y, True)
        if lacks(m, MEMBERS, size):
            return i  # when this edge comes again it is gone already, which `remove` does not mind
        if size > 0:
            detach(m, side, 0, size)
        if tired(m):
            return i + 1
    return count


@device
def spread(m: Longs, node: int, tail: int, token: int) -> int:
    """List in ORDER all that is connected with a node; returns where the list ends."""
    head = tail
    put(m, ORDER, tail, node)
    tail += 1
    put(m, STAMP, node, token)
    while head < tail:
        node = get(m, ORDER, head)
        head += 1
        for pool in (OUT, INTO):
            start = start_of(m, pool, node)
            for i in range(start, start + size_of(m, pool, node)):
                neighbour = entry(m, pool, i)
                if get(m, STAMP, neighbour) != token:
                    put(m, STAMP, neighbour, token)
                    put(m, ORDER, tail, neighbour)
                    tail += 1
    return tail


@device
def sweep_component(m: Longs, component: int, token: int) -> None:
    """Divide one component into what is connected."""
    start, size = start_of(m, MEMBERS, component), size_of(m, MEMBERS, component)
    for i in range(size):
        put(m, OTHER, i, entry(m, MEMBERS, start + i))
    tail, parts = 0, 0
    for i in range(size):
        if get(m, STAMP, get(m, OTHER, i)) != token:
            tail = spread(m, get(m, OTHER, i), tail, token)
            put(m, BOUNDS, parts, tail)
            parts += 1
    keep = largest_part(m, parts)
    for part in range(parts):
        if part != keep:
            detach(m, ORDER, bound_before(m, part), get(m, BOUNDS, part))


@entry_point
def sweep(m: Longs, suspects: int, count: int) -> None:
    """Divide the components of the suspects; the pool of members has room for every node."""
    token = fresh_tokens(m, 1)
    for i in range(count):
        suspect = load_i32(suspects + 4 * i)
        if get(m, STAMP, suspect) != token:
            sweep_component(m, get(m, COMPONENT, suspect), token)


@device
def root(m: Longs, component: int) -> int:
    """The representative of a component's group, halving the way to it."""
    parent = get(m, PARENT, component)
    while parent != component:
        parent = get(m, PARENT, parent)
        put(m, PARENT, component, parent)
        component = parent
        parent = get(m, PARENT, component)
    return component


@device
def group(m: Longs, source: int, target: int, count: int) -> int:
    """Unite the components that edges connect; STACK lists those that follow another one. Returns their number."""
    joined = 0
    for i in range(count):
        a = root(m, get(m, COMPONENT, load_i32(source + 4 * i)))
        b = root(m, get(m, COMPONENT, load_i32(target + 4 * i)))
        if a != b:
            put(m, PARENT, b, a)
            put(m, STACK, joined, b)
            joined += 1
    return joined


@device
def measure(m: Longs, joined: int) -> int:
    """Put the size of each group in NUMBER, and its largest component in LOW. Returns the room that they need."""
    for i in range(joined):
        top = root(m, get(m, STACK, i))
        put(m, NUMBER, top, size_of(m, MEMBERS, top))
        put(m, LOW, top, top)
    for i in range(joined):
        component = get(m, STACK, i)
        top, size = root(m, component), size_of(m, MEMBERS, component)
        put(m, NUMBER, top, get(m, NUMBER, top) + size)
        if size > size_of(m, MEMBERS, get(m, LOW, top)):
            put(m, LOW, top, component)
    room = 0
    for i in range(joined):
        top = root(m, get(m, STACK, i))
        if get(m, NUMBER, top) > 0:  # the first of its group; the sign remembers that it has been counted
            room += room_for(m, get(m, LOW, top), get(m, NUMBER, top))
            put(m, NUMBER, top, -get(m, NUMBER, top))
    return room


@entry_point
def join(m: Longs, source: int, target: int, count: int, begin: int) -> int:
    """Merge the components that edges connect, all at once: the largest of each group takes in the others."""
    m[STATUS] = DONE
    joined = group(m, source, target, count)
    if not lacks(m, MEMBERS, measure(m, joined)):
        for i in range(joined):
            component = get(m, STACK, i)
            top = root(m, component)
            largest = get(m, LOW, top)
            widen_list(m, largest, -get(m, NUMBER, top))
            absorb(m, largest, component if component != largest else top)
    for i in range(joined):
        put(m, PARENT, get(m, STACK, i), get(m, STACK, i))
    return begin
