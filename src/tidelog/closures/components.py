"""The nodes of a closure in components, the log of what the current change does to them, and connected components.

A component has a number and a list of its members. When components merge or one divides, the smaller side moves and the
larger one keeps the number. The log keeps the former component of each node that moved and the former size of each
component that changed. That is enough to tell the net change in time proportional to what moved, not to what stayed.

Numbers are handed out only to new nodes and by divisions, and both come before the mergers of a change. So a number
that a merger frees stays unused until the next change, and the log can speak of it. For the same reason the members of
a component that have not moved stand first in its list.

The second half is the kernels of the symmetric-transitive closure. Where Modular Materialisation §6 (Algorithms 7–9)
overdeletes a whole component and closes what is left of it again, here the deletion of an edge starts a search from
both of its ends: either they meet (in a dense component after a few steps), or the smaller side runs dry and becomes a
component of its own. Once the searches of one change have cost as much as reading the graph once, the components that
are left to check are swept instead, so that no change costs much more than that.
"""

from __future__ import annotations

from tidelog.closures import access as A
from tidelog.closures import closure_registers as C
from tidelog.closures.graph_search import find_gap
from tidelog.machine.jit import device, entry_point, inlined, load_i32


@inlined
def touch(m: int, component: int) -> None:
    """Log the size that a component had before the current change."""
    if A.get(m, C.FORMER_SIZE, component) == C.UNTOUCHED:
        A.put(m, C.FORMER_SIZE, component, A.size_of(m, C.MEMBERS, component))
        A.append(m, C.TOUCHED_LIST, C.TOUCHED, component)


@inlined
def log_move(m: int, node: int) -> None:
    """Log the component that a node was in before the current change, which is logged itself."""
    if A.get(m, C.FORMER, node) == C.UNMOVED:
        former = A.get(m, C.COMPONENT, node)
        A.put(m, C.FORMER, node, former)
        A.put(m, C.LEFT_BEFORE, A.read(m, C.MOVED), A.get(m, C.LAST_LEFT, former))
        A.append(m, C.MOVED_LIST, C.MOVED, node)
        A.put(m, C.LAST_LEFT, former, A.read(m, C.MOVED))


@device
def new_component(m: int, limit: int) -> int:
    """The number of a new, empty component with a place for its members; the pool has room."""
    if A.read(m, C.FREE) > 0:
        A.add(m, C.FREE, -1)
        component = A.get(m, C.FREE_LIST, A.read(m, C.FREE))
    else:
        component = A.read(m, C.COMPONENTS)
        A.add(m, C.COMPONENTS, 1)
    A.take_place(m, C.MEMBERS, component, limit)
    touch(m, component)
    return component


@inlined
def add_member(m: int, component: int, node: int) -> None:
    """Enter a node in the list of a component, which has a place for it."""
    size = A.size_of(m, C.MEMBERS, component)
    A.put_entry(m, C.MEMBERS, A.start_of(m, C.MEMBERS, component) + size, node)
    A.set_size(m, C.MEMBERS, component, size + 1)
    A.put(m, C.COMPONENT, node, component)
    A.put(m, C.PLACE, node, size)


@device
def found_component(m: int, node: int) -> None:
    """Give a new node a component of its own."""
    add_member(m, new_component(m, 1), node)
    A.put(m, C.FORMER, node, C.CREATED)
    A.append(m, C.MOVED_LIST, C.MOVED, node)


@device
def detach(m: int, nodes: int, begin: int, end: int) -> int:
    """Move those members of a component that an array lists into a new component; the pool has room for it."""
    old = A.get(m, C.COMPONENT, A.get(m, nodes, begin))
    touch(m, old)
    new = new_component(m, end - begin)
    for i in range(begin, end):
        node = A.get(m, nodes, i)
        log_move(m, node)
        start, size = A.start_of(m, C.MEMBERS, old), A.size_of(m, C.MEMBERS, old)
        last = A.entry(m, C.MEMBERS, start + size - 1)
        A.put_entry(m, C.MEMBERS, start + A.get(m, C.PLACE, node), last)
        A.put(m, C.PLACE, last, A.get(m, C.PLACE, node))
        A.set_size(m, C.MEMBERS, old, size - 1)
        add_member(m, new, node)
    return new


@inlined
def room_for(m: int, component: int, size: int) -> int:
    """How much of the pool the list of a component takes if it has to hold so many members."""
    return 0 if A.limit_of(m, C.MEMBERS, component) >= size else size + (size >> 2)


@device
def widen_list(m: int, component: int, size: int) -> None:
    """Let the list of a component take so many members; the pool has room for them."""
    room = room_for(m, component, size)
    if room > 0:
        A.move_list(m, C.MEMBERS, component, room)


@device
def absorb(m: int, component: int, other: int) -> None:
    """Move all members of another component into this one, which has places for them, and free the other's number."""
    touch(m, component)
    touch(m, other)
    for i in range(*A.span_of(m, C.MEMBERS, other)):
        node = A.entry(m, C.MEMBERS, i)
        log_move(m, node)
        add_member(m, component, node)
    A.set_size(m, C.MEMBERS, other, 0)
    A.append(m, C.FREE_LIST, C.FREE, other)


@inlined
def bound_before(m: int, part: int) -> int:
    """Where a part begins, of parts that end at BOUNDS."""
    return A.get(m, C.BOUNDS, part - 1) if part > 0 else 0


@device
def largest_part(m: int, parts: int) -> int:
    """The largest of parts that end at BOUNDS."""
    best, best_size = 0, 0
    for part in range(parts):
        size = A.get(m, C.BOUNDS, part) - bound_before(m, part)
        if size > best_size:
            best, best_size = part, size
    return best


# --- connected components: edges go -----------------------------------------------------------------------------------


@entry_point
def cut(m: int, source: int, target: int, count: int, budget: int, begin: int) -> int:
    """Delete edges one by one, and divide the components that fall apart; stops when the budget is spent.

    One by one: a part between two others may go first, and then no other edge would show that those are apart.
    """
    A.write(m, C.STATUS, C.DONE)
    for i in range(begin, count):
        x, y = load_i32(source + 4 * i), load_i32(target + 4 * i)
        if x == y:
            A.put_flag(m, C.LOOPS, x, 0)
            continue
        if A.exceeds(m, budget):
            return i
        A.add(m, C.WORK, A.size_of(m, C.OUT, x) + A.size_of(m, C.INTO, y))
        A.add(m, C.EDGES, -A.remove(m, C.OUT, x, y))
        A.remove(m, C.INTO, y, x)
        side, size = find_gap(m, x, y, True)
        if A.lacks_room(m, C.MEMBERS, size):
            return i  # the edge is gone when it comes again, which `remove` allows
        if size > 0:
            detach(m, side, 0, size)
        if A.is_due(m):
            return i + 1
    return count


@device
def spread(m: int, node: int, tail: int, token: int) -> int:
    """List in ORDER all that is connected with a node; returns where the list ends."""
    head = tail
    A.put(m, C.ORDER, tail, node)
    tail += 1
    A.put(m, C.STAMP, node, token)
    while head < tail:
        node = A.get(m, C.ORDER, head)
        head += 1
        for pool in (C.OUT, C.INTO):
            for i in range(*A.span_of(m, pool, node)):
                neighbour = A.entry(m, pool, i)
                if A.get(m, C.STAMP, neighbour) != token:
                    A.put(m, C.STAMP, neighbour, token)
                    A.put(m, C.ORDER, tail, neighbour)
                    tail += 1
    return tail


@device
def sweep_component(m: int, component: int, token: int) -> None:
    """Divide one component into its connected parts."""
    start, size = A.start_of(m, C.MEMBERS, component), A.size_of(m, C.MEMBERS, component)
    for i in range(size):
        A.put(m, C.OTHER, i, A.entry(m, C.MEMBERS, start + i))
    tail, parts = 0, 0
    for i in range(size):
        if A.get(m, C.STAMP, A.get(m, C.OTHER, i)) != token:
            tail = spread(m, A.get(m, C.OTHER, i), tail, token)
            A.put(m, C.BOUNDS, parts, tail)
            parts += 1
    keep = largest_part(m, parts)
    for part in range(parts):
        if part != keep:
            detach(m, C.ORDER, bound_before(m, part), A.get(m, C.BOUNDS, part))


@entry_point
def sweep(m: int, suspects: int, count: int) -> None:
    """Divide the components of the suspects; the pool of members has room for every node."""
    token = A.fresh_tokens(m, 1)
    for i in range(count):
        suspect = load_i32(suspects + 4 * i)
        if A.get(m, C.STAMP, suspect) != token:
            sweep_component(m, A.get(m, C.COMPONENT, suspect), token)


# --- connected components: edges come ---------------------------------------------------------------------------------


@device
def root(m: int, component: int) -> int:
    """The representative of a component's group; halves the path to it."""
    parent = A.get(m, C.PARENT, component)
    while parent != component:
        parent = A.get(m, C.PARENT, parent)
        A.put(m, C.PARENT, component, parent)
        component = parent
        parent = A.get(m, C.PARENT, component)
    return component


@device
def group(m: int, source: int, target: int, count: int) -> int:
    """Unite the components that edges connect. STACK lists those that are not representatives; returns their number."""
    joined = 0
    for i in range(count):
        a = root(m, A.get(m, C.COMPONENT, load_i32(source + 4 * i)))
        b = root(m, A.get(m, C.COMPONENT, load_i32(target + 4 * i)))
        if a != b:
            A.put(m, C.PARENT, b, a)
            A.put(m, C.STACK, joined, b)
            joined += 1
    return joined


@device
def measure(m: int, joined: int) -> int:
    """Put the size of each group in NUMBER and its largest component in LOW. Returns the room that all of them need."""
    for i in range(joined):
        top = root(m, A.get(m, C.STACK, i))
        A.put(m, C.NUMBER, top, A.size_of(m, C.MEMBERS, top))
        A.put(m, C.LOW, top, top)
    for i in range(joined):
        component = A.get(m, C.STACK, i)
        top, size = root(m, component), A.size_of(m, C.MEMBERS, component)
        A.put(m, C.NUMBER, top, A.get(m, C.NUMBER, top) + size)
        if size > A.size_of(m, C.MEMBERS, A.get(m, C.LOW, top)):
            A.put(m, C.LOW, top, component)
    room = 0
    for i in range(joined):
        top = root(m, A.get(m, C.STACK, i))
        if A.get(m, C.NUMBER, top) > 0:  # the group's first turn; the sign says that it has been counted
            room += room_for(m, A.get(m, C.LOW, top), A.get(m, C.NUMBER, top))
            A.put(m, C.NUMBER, top, -A.get(m, C.NUMBER, top))
    return room


@entry_point
def join(m: int, source: int, target: int, count: int, begin: int) -> int:
    """Merge the components that edges connect, all at once: the largest of each group takes in the others."""
    A.write(m, C.STATUS, C.DONE)
    joined = group(m, source, target, count)
    if not A.lacks_room(m, C.MEMBERS, measure(m, joined)):
        for i in range(joined):
            component = A.get(m, C.STACK, i)
            top = root(m, component)
            largest = A.get(m, C.LOW, top)
            widen_list(m, largest, -A.get(m, C.NUMBER, top))
            absorb(m, largest, component if component != largest else top)
    for i in range(joined):
        A.put(m, C.PARENT, A.get(m, C.STACK, i), A.get(m, C.STACK, i))
    return begin
