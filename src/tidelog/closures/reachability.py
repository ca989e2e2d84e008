"""Reachability between strongly connected components under change: the kernels of the transitive closure.

Each component keeps the set of nodes that it reaches and the set of those that reach it; both include its own nodes.
Where Modular Materialisation §5 (Algorithms 4–6) walks the pairs one by one, here 64 of them share a word:

- *An edge x → y comes.* If x reaches y, nothing happens. Otherwise everything that reaches x and not y gains what y
  reaches, and the other way round. If y reached x, all components between them now have the same sets, and merge.
- *Edges go.* Inside a component, a search from both ends looks for a path around the edge; if there is none, the
  component is divided. Between components, if another successor of x's component reaches y, nothing happens. Otherwise
  the set of x's component is computed again from those of its successors; if it shrank, so are those of its
  predecessors, and so on. A component reaches more nodes than any of its successors, so sets are computed again in the
  order of their sizes.
- *Much changes.* Once that has cost as much as rebuilding, the sets are filled again in topological order.
"""

from __future__ import annotations

from tidelog.closures import access as A
from tidelog.closures import closure_registers as C
from tidelog.closures import node_sets as sets
from tidelog.closures.components import absorb, bound_before, detach, largest_part, log_move, widen_list
from tidelog.closures.graph_search import find_gap, strong_components
from tidelog.machine.bits import bit_of, first_bit, population
from tidelog.machine.jit import device, entry_point, inlined, load_i32

ENOUGH_TO_TELL = 16  # edges after which the cost of the others is foreseen


@inlined
def leader(m: int, component: int) -> int:
    """The first node of a component: the one that stands for it where a set of nodes is read."""
    return A.entry(m, C.MEMBERS, A.start_of(m, C.MEMBERS, component))


@device
def list_components(m: int, rows: int, component: int, found: int) -> int:
    """List the components that a set is made of; returns their number."""
    count = 0
    start, end = A.span_of(m, rows, component)
    for position in range(start, end):
        word = sets.word_at(m, rows, position)
        first = sets.key_at(m, rows, start, position) << 6
        while word != 0:
            node = first + first_bit(word)
            word &= ~bit_of(node)
            if leader(m, A.get(m, C.COMPONENT, node)) == node:
                A.put(m, found, count, A.get(m, C.COMPONENT, node))
                count += 1
    return count


# --- additions --------------------------------------------------------------------------------------------------------


@device
def widen(m: int, rows: int, component: int, source: int) -> bool:
    """Add the set of `source` to that of a component; false if a pool is full."""
    if rows == C.BACKWARD:
        return sets.unite(m, rows, component, source)
    before = sets.count_of(m, C.FORWARD, component)
    if not sets.save(m, component) or not sets.unite(m, C.FORWARD, component, source):
        return False
    A.add(m, C.PAIRS, (sets.count_of(m, C.FORWARD, component) - before) * A.size_of(m, C.MEMBERS, component))
    return True


@device
def widen_all(m: int, rows: int, mirror: int, pivot: int, source: int, node: int) -> bool:
    """Widen the sets of all components that the mirror names for the pivot, except those that have `node` and hence all
    of `source` already; the pivot comes last. False if a pool is full, or if it is time to pause.

    After an interruption this begins again: a set that was widened has `node`, the pivot's only when all are done.
    """
    A.add(m, C.WORK, 8 * sets.count_of(m, mirror, pivot))
    for i in range(list_components(m, mirror, pivot, C.ORDER)):
        component = A.get(m, C.ORDER, i)
        if component == pivot or sets.row_has(m, rows, component, node):
            continue
        if not widen(m, rows, component, source) or A.is_due(m):
            return False
    return sets.row_has(m, rows, pivot, node) or widen(m, rows, pivot, source)


@device
def between(m: int, a: int, b: int) -> tuple[int, int]:
    """List in OTHER the components that b reaches and that reach a; returns how many, and how many nodes they have."""
    count, nodes = 0, 0
    for i in range(list_components(m, C.FORWARD, b, C.OTHER)):
        component = A.get(m, C.OTHER, i)
        if sets.row_has(m, C.BACKWARD, a, leader(m, component)):
            A.put(m, C.OTHER, count, component)
            nodes += A.size_of(m, C.MEMBERS, component)
            count += 1
    return count, nodes


@device
def merge(m: int, count: int, nodes: int) -> None:
    """Merge the components listed in OTHER, whose sets are equal now."""
    target = A.get(m, C.OTHER, 0)
    for i in range(count):
        if A.size_of(m, C.MEMBERS, A.get(m, C.OTHER, i)) > A.size_of(m, C.MEMBERS, target):
            target = A.get(m, C.OTHER, i)
    widen_list(m, target, nodes)
    for i in range(count):
        component = A.get(m, C.OTHER, i)
        if component != target:
            absorb(m, target, component)
            A.set_size(m, C.FORWARD, component, 0)
            A.set_size(m, C.BACKWARD, component, 0)


@device
def add_edge(m: int, x: int, y: int) -> bool:
    """Let everything that reaches x reach what y reaches; false if a pool is full, or if it is time to pause."""
    a, b = A.get(m, C.COMPONENT, x), A.get(m, C.COMPONENT, y)
    cyclic = sets.row_has(m, C.FORWARD, b, x)
    count, nodes = 0, 0
    if cyclic:
        count, nodes = between(m, a, b)
        if A.lacks_room(m, C.MEMBERS, nodes + (nodes >> 2)) or not sets.save(m, b):
            return False
    if not widen_all(m, C.BACKWARD, C.FORWARD, b, a, x) or not widen_all(m, C.FORWARD, C.BACKWARD, a, b, y):
        return False
    if cyclic:
        merge(m, count, nodes)
    return True


@inlined
def will_be_too_much(m: int, budget: int, before: int, done: int, count: int) -> bool:
    """Will the change cost more than the budget, if it goes on as it began? Then the kernel stops, and says so."""
    work = A.read(m, C.WORK)
    if work <= budget and (done < ENOUGH_TO_TELL or (work - before) * count <= budget * done):
        return False
    A.write(m, C.STATUS, C.TOO_MUCH)
    return True


@entry_point
def extend(m: int, source: int, target: int, count: int, budget: int, begin: int) -> int:
    """Let added edges take effect, one by one; stops once the budget is spent, or bound to be."""
    A.write(m, C.STATUS, C.DONE)
    before = A.read(m, C.WORK)
    for i in range(begin, count):
        x, y = load_i32(source + 4 * i), load_i32(target + 4 * i)
        component = A.get(m, C.COMPONENT, x)
        if component == A.get(m, C.COMPONENT, y) or sets.row_has(m, C.FORWARD, component, y):
            continue
        if will_be_too_much(m, budget, before, i - begin, count - begin) or not add_edge(m, x, y):
            return i
    return count


# --- deletions --------------------------------------------------------------------------------------------------------


@device
def schedule(m: int, component: int) -> None:
    """Put a component on the heap of those whose sets are to be computed again, the smallest set first."""
    if A.flag(m, C.QUEUED, component) == 1:
        return
    A.put_flag(m, C.QUEUED, component, 1)
    key = sets.count_of(m, C.FORWARD, component) << 32 | A.get(m, C.RANK, component)
    slot = A.read(m, C.SCHEDULED)
    A.add(m, C.SCHEDULED, 1)
    while slot > 0 and A.get_long(m, C.HEAP_KEYS, (slot - 1) >> 1) > key:
        above = (slot - 1) >> 1
        A.put_long(m, C.HEAP_KEYS, slot, A.get_long(m, C.HEAP_KEYS, above))
        A.put(m, C.HEAP, slot, A.get(m, C.HEAP, above))
        slot = above
    A.put_long(m, C.HEAP_KEYS, slot, key)
    A.put(m, C.HEAP, slot, component)


@device
def next_scheduled(m: int) -> int:
    """Take the first component off the heap."""
    first = A.get(m, C.HEAP, 0)
    A.put_flag(m, C.QUEUED, first, 0)
    A.add(m, C.SCHEDULED, -1)
    size = A.read(m, C.SCHEDULED)
    key, component = A.get_long(m, C.HEAP_KEYS, size), A.get(m, C.HEAP, size)
    slot = 0
    while 2 * slot + 1 < size:
        child = 2 * slot + 1
        if child + 1 < size and A.get_long(m, C.HEAP_KEYS, child + 1) < A.get_long(m, C.HEAP_KEYS, child):
            child += 1
        if A.get_long(m, C.HEAP_KEYS, child) >= key:
            break
        A.put_long(m, C.HEAP_KEYS, slot, A.get_long(m, C.HEAP_KEYS, child))
        A.put(m, C.HEAP, slot, A.get(m, C.HEAP, child))
        slot = child
    A.put_long(m, C.HEAP_KEYS, slot, key)
    A.put(m, C.HEAP, slot, component)
    return first


@device
def divide(m: int, component: int, budget: int) -> bool:
    """Divide a component that is no longer strongly connected; false if the kernel has to stop first.

    The parts inherit its sets, which are too large for them, and are scheduled to have them computed again.
    """
    start, end = A.span_of(m, C.MEMBERS, component)
    size = end - start
    parts = strong_components(m, C.MEMBERS, start, end, component)
    forward, backward = parts * A.size_of(m, C.FORWARD, component), parts * A.size_of(m, C.BACKWARD, component)
    A.add(m, C.WORK, 8 * size + forward + backward)
    if (
        A.exceeds(m, budget)
        or A.lacks_room(m, C.MEMBERS, size)
        or A.lacks_room(m, C.FORWARD, forward)
        or A.lacks_room(m, C.BACKWARD, backward)
        or not sets.save(m, component)
    ):
        return False
    keep = largest_part(m, parts)
    for part in range(parts):
        label = component
        if part != keep:
            label = detach(m, C.ORDER, bound_before(m, part), A.get(m, C.BOUNDS, part))
            sets.copy_row(m, C.FORWARD, label, component)
            sets.copy_row(m, C.BACKWARD, label, component)
        A.put(m, C.RANK, label, part)
        schedule(m, label)
    return True


@device
def covered(m: int, component: int, node: int) -> bool:
    """Whether a successor of the component still reaches the node.

    Its set may still be too large. But then that successor is scheduled, or will be; once it shrinks, so is this one.
    """
    for i in range(*A.span_of(m, C.MEMBERS, component)):
        first, last = A.span_of(m, C.OUT, A.entry(m, C.MEMBERS, i))
        A.add(m, C.WORK, last - first)
        for edge in range(first, last):
            successor = A.get(m, C.COMPONENT, A.entry(m, C.OUT, edge))
            if successor != component and sets.row_has(m, C.FORWARD, successor, node):
                return True
    return False


@entry_point
def loosen(m: int, source: int, target: int, count: int, budget: int, begin: int) -> int:
    """Divide the components that deleted edges held together; then, from `count` on, schedule what may reach less."""
    A.write(m, C.STATUS, C.DONE)
    for i in range(begin, count):
        x, y = load_i32(source + 4 * i), load_i32(target + 4 * i)
        if x != y and A.get(m, C.COMPONENT, x) == A.get(m, C.COMPONENT, y):
            _, size = find_gap(m, x, y, False)
            if size > 0 and not divide(m, A.get(m, C.COMPONENT, x), budget):
                return i
            if A.is_due(m):
                return i + 1
    for i in range(max(0, begin - count), count):
        x, y = load_i32(source + 4 * i), load_i32(target + 4 * i)
        a = A.get(m, C.COMPONENT, x)
        if a != A.get(m, C.COMPONENT, y) and A.flag(m, C.QUEUED, a) == 0:
            if not covered(m, a, y):
                schedule(m, a)
            if A.is_due(m):
                return count + i + 1
    return 2 * count


@device
def forget(m: int, component: int, other: int) -> None:
    """Take a component out of the set of what reaches another."""
    for i in range(*A.span_of(m, C.MEMBERS, component)):
        sets.clear_bit(m, C.BACKWARD, other, A.entry(m, C.MEMBERS, i))


@device
def shrink_row(m: int, component: int) -> int:
    """Reduce the set of a component to what was gathered; returns how many nodes it lost."""
    lost = 0
    start, end = A.span_of(m, C.FORWARD, component)
    for position in range(start, end):
        key = sets.key_at(m, C.FORWARD, start, position)
        kept = sets.take_word(m, key)
        gone = sets.word_at(m, C.FORWARD, position) & ~kept
        if gone == 0:
            continue
        sets.set_word(m, C.FORWARD, position, kept)
        lost += population(gone)
        while gone != 0:
            node = (key << 6) + first_bit(gone)
            gone &= ~bit_of(node)
            other = A.get(m, C.COMPONENT, node)
            if leader(m, other) == node:
                forget(m, component, other)
    sets.set_count(m, C.FORWARD, component, sets.count_of(m, C.FORWARD, component) - lost)
    A.write(m, C.GATHERED, 0)
    return lost


@device
def schedule_predecessors(m: int, component: int) -> None:
    for i in range(*A.span_of(m, C.MEMBERS, component)):
        for edge in range(*A.span_of(m, C.INTO, A.entry(m, C.MEMBERS, i))):
            predecessor = A.get(m, C.COMPONENT, A.entry(m, C.INTO, edge))
            if predecessor != component:
                schedule(m, predecessor)


@entry_point
def shrink(m: int, budget: int, begin: int) -> int:
    """Compute the sets of the scheduled components again, and those of their predecessors wherever a set shrinks."""
    A.write(m, C.STATUS, C.DONE)
    while A.read(m, C.SCHEDULED) > 0:
        if A.exceeds(m, budget) or A.lacks_room(m, C.SAVED, A.size_of(m, C.FORWARD, A.get(m, C.HEAP, 0))):
            return begin
        component = next_scheduled(m)
        sets.gather(m, C.FORWARD, C.OUT, component)
        sets.save(m, component)
        lost = shrink_row(m, component)
        if lost > 0:
            A.add(m, C.WORK, 8 * lost * A.size_of(m, C.MEMBERS, component))
            A.add(m, C.PAIRS, -lost * A.size_of(m, C.MEMBERS, component))
            schedule_predecessors(m, component)
        if A.is_due(m):
            return begin
    return begin


# --- rebuilding -------------------------------------------------------------------------------------------------------


@entry_point
def record(m: int, begin: int) -> int:
    """Log everything as it was before the current change, so that the net change can be told whatever comes."""
    A.write(m, C.STATUS, C.DONE)
    for component in range(begin, A.read(m, C.COMPONENTS)):
        if A.size_of(m, C.MEMBERS, component) > 0 and not sets.save(m, component):
            return component
        if A.is_due(m):
            return component + 1
    for node in range(A.read(m, C.NODES)):
        log_move(m, node)
    A.write(m, C.REBUILT, 1)
    for slot in range(A.read(m, C.SCHEDULED)):
        A.put_flag(m, C.QUEUED, A.get(m, C.HEAP, slot), 0)
    A.write(m, C.SCHEDULED, 0)
    return A.read(m, C.COMPONENTS)


@entry_point
def condense(m: int) -> None:
    """Find all strongly connected components, and number them so that none reaches a higher one."""
    for node in range(A.read(m, C.NODES)):
        A.put_entry(m, C.MEMBERS, node, node)
        A.put(m, C.COMPONENT, node, 0)
    A.set_used(m, C.MEMBERS, A.read(m, C.NODES))
    parts = strong_components(m, C.MEMBERS, 0, A.read(m, C.NODES), 0)
    for part in range(parts):
        begin, end = bound_before(m, part), A.get(m, C.BOUNDS, part)
        for i in range(begin, end):
            node = A.get(m, C.ORDER, i)
            A.put_entry(m, C.MEMBERS, i, node)
            A.put(m, C.COMPONENT, node, part)
            A.put(m, C.PLACE, node, i - begin)
        A.set_place(m, C.MEMBERS, part, begin, end - begin, end - begin)
    for component in range(parts, A.read(m, C.CAPACITY)):
        A.set_place(m, C.MEMBERS, component, 0, 0, 0)
    A.write(m, C.COMPONENTS, parts)
    A.write(m, C.FREE, 0)


@entry_point
def fill(m: int, forward: bool, begin: int) -> int:
    """Fill the sets of all components, each after those that it is made of."""
    A.write(m, C.STATUS, C.DONE)
    rows, edges = (C.FORWARD, C.OUT) if forward else (C.BACKWARD, C.INTO)
    for turn in range(begin, A.read(m, C.COMPONENTS)):
        component = turn if forward else A.read(m, C.COMPONENTS) - 1 - turn
        sets.gather(m, rows, edges, component)
        if not sets.store_gathered(m, rows, component):
            return turn
        if forward:
            A.add(m, C.PAIRS, (sets.count_of(m, C.FORWARD, component) - 1) * A.size_of(m, C.MEMBERS, component))
        if A.is_due(m):
            return turn + 1
    return A.read(m, C.COMPONENTS)
