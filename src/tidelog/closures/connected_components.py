"""Connected components under change: the kernels of the symmetric-transitive closure.

Where Modular Materialisation §6 (Algorithms 7–9) overdeletes a whole component and closes what is left of it again,
here an edge that goes starts a search from both of its ends: they meet (in a dense component after a few steps), or the
smaller side runs dry and becomes a component of its own. When the searches of one change have cost as much as reading
the graph once, the components that are left to check are swept instead: no change costs much more than that.
"""

from __future__ import annotations

from tidelog.closures import closure_registers as C
from tidelog.closures.access import (
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
from tidelog.closures.base_graph import remove
from tidelog.closures.graph_search import find_gap
from tidelog.closures.memory import Longs
from tidelog.closures.partition import absorb, bound_before, detach, largest_part, room_for, widen_list
from tidelog.machine.jit import device, entry_point, load_i32


@entry_point
def cut(m: Longs, source: int, target: int, count: int, budget: int, begin: int) -> int:
    """Take edges out one by one and divide the components that fall apart; stops when the budget is spent."""
    m[C.STATUS] = C.DONE
    for i in range(begin, count):
        x, y = load_i32(source + 4 * i), load_i32(target + 4 * i)
        if x == y:
            put_flag(m, C.LOOPS, x, 0)
            continue
        if m[C.WORK] > budget:
            m[C.STATUS] = C.TOO_MUCH
            return i
        m[C.WORK] += size_of(m, C.OUT, x) + size_of(m, C.INTO, y)
        m[C.EDGES] -= remove(m, C.OUT, x, y)
        remove(m, C.INTO, y, x)
        side, size = find_gap(m, x, y, True)
        if lacks(m, C.MEMBERS, size):
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
    put(m, C.ORDER, tail, node)
    tail += 1
    put(m, C.STAMP, node, token)
    while head < tail:
        node = get(m, C.ORDER, head)
        head += 1
        for pool in (C.OUT, C.INTO):
            start = start_of(m, pool, node)
            for i in range(start, start + size_of(m, pool, node)):
                neighbour = entry(m, pool, i)
                if get(m, C.STAMP, neighbour) != token:
                    put(m, C.STAMP, neighbour, token)
                    put(m, C.ORDER, tail, neighbour)
                    tail += 1
    return tail


@device
def sweep_component(m: Longs, component: int, token: int) -> None:
    """Divide one component into what is connected."""
    start, size = start_of(m, C.MEMBERS, component), size_of(m, C.MEMBERS, component)
    for i in range(size):
        put(m, C.OTHER, i, entry(m, C.MEMBERS, start + i))
    tail, parts = 0, 0
    for i in range(size):
        if get(m, C.STAMP, get(m, C.OTHER, i)) != token:
            tail = spread(m, get(m, C.OTHER, i), tail, token)
            put(m, C.BOUNDS, parts, tail)
            parts += 1
    keep = largest_part(m, parts)
    for part in range(parts):
        if part != keep:
            detach(m, C.ORDER, bound_before(m, part), get(m, C.BOUNDS, part))


@entry_point
def sweep(m: Longs, suspects: int, count: int) -> None:
    """Divide the components of the suspects; the pool of members has room for every node."""
    token = fresh_tokens(m, 1)
    for i in range(count):
        suspect = load_i32(suspects + 4 * i)
        if get(m, C.STAMP, suspect) != token:
            sweep_component(m, get(m, C.COMPONENT, suspect), token)


@device
def root(m: Longs, component: int) -> int:
    """The representative of a component's group, halving the way to it."""
    parent = get(m, C.PARENT, component)
    while parent != component:
        parent = get(m, C.PARENT, parent)
        put(m, C.PARENT, component, parent)
        component = parent
        parent = get(m, C.PARENT, component)
    return component


@device
def group(m: Longs, source: int, target: int, count: int) -> int:
    """Unite the components that edges connect; STACK lists those that follow another one. Returns their number."""
    joined = 0
    for i in range(count):
        a = root(m, get(m, C.COMPONENT, load_i32(source + 4 * i)))
        b = root(m, get(m, C.COMPONENT, load_i32(target + 4 * i)))
        if a != b:
            put(m, C.PARENT, b, a)
            put(m, C.STACK, joined, b)
            joined += 1
    return joined


@device
def measure(m: Longs, joined: int) -> int:
    """Put the size of each group in NUMBER, and its largest component in LOW. Returns the room that they need."""
    for i in range(joined):
        top = root(m, get(m, C.STACK, i))
        put(m, C.NUMBER, top, size_of(m, C.MEMBERS, top))
        put(m, C.LOW, top, top)
    for i in range(joined):
        component = get(m, C.STACK, i)
        top, size = root(m, component), size_of(m, C.MEMBERS, component)
        put(m, C.NUMBER, top, get(m, C.NUMBER, top) + size)
        if size > size_of(m, C.MEMBERS, get(m, C.LOW, top)):
            put(m, C.LOW, top, component)
    room = 0
    for i in range(joined):
        top = root(m, get(m, C.STACK, i))
        if get(m, C.NUMBER, top) > 0:  # the first of its group; the sign remembers that it has been counted
            room += room_for(m, get(m, C.LOW, top), get(m, C.NUMBER, top))
            put(m, C.NUMBER, top, -get(m, C.NUMBER, top))
    return room


@entry_point
def join(m: Longs, source: int, target: int, count: int, begin: int) -> int:
    """Merge the components that edges connect, all at once: the largest of each group takes in the others."""
    m[C.STATUS] = C.DONE
    joined = group(m, source, target, count)
    if not lacks(m, C.MEMBERS, measure(m, joined)):
        for i in range(joined):
            component = get(m, C.STACK, i)
            top = root(m, component)
            largest = get(m, C.LOW, top)
            widen_list(m, largest, -get(m, C.NUMBER, top))
            absorb(m, largest, component if component != largest else top)
    for i in range(joined):
        put(m, C.PARENT, get(m, C.STACK, i), get(m, C.STACK, i))
    return begin
