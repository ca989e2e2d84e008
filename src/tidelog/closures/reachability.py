"""Reachability between strongly connected components under change: the kernels of the transitive closure.

Each component keeps the set of nodes that it reaches and the set of those that reach it, itself included in both. Where
Modular Materialisation §5 (Algorithms 4–6) walks the pairs one by one, here 64 of them share a word:

- *An edge x → y comes.* If x reaches y, nothing happens. Otherwise everything that reaches x and not y gains what y
  reaches, and the other way round; if y reached x, all components between them have the same sets now, and merge.
- *Edges go.* Inside a component a search from both ends looks for a way around; if there is none, the component is
  divided. Between components, if another successor of x's component reaches y, nothing happens. Otherwise the set of
  x's component is computed again from those of its successors, then those of its predecessors, if it shrank, and so on.
  A component reaches more nodes than any of its successors, so the size of its set says when its turn is.
- *Much changes.* When that has cost as much as starting afresh, the sets are filled again in topological order.
"""

from __future__ import annotations

from tidelog.closures import closure_registers as C
from tidelog.closures.access import (
    entry,
    flag,
    get,
    get_long,
    lacks,
    put,
    put_entry,
    put_flag,
    put_long,
    set_place,
    set_size,
    size_of,
    start_of,
    tired,
)
from tidelog.closures.graph_search import find_gap, strong_components
from tidelog.closures.memory import Longs
from tidelog.closures.node_sets import (
    clear_bit,
    count_of,
    gather,
    key_at,
    release_word,
    repeat_row,
    row_has,
    save,
    store_gathered,
    unite,
    word_at,
)
from tidelog.closures.partition import absorb, bound_before, detach, largest_part, widen_list
from tidelog.machine.bits import bit_of, first_bit, population
from tidelog.machine.jit import device, entry_point, inlined, load_i32

ENOUGH_TO_TELL = 16  # edges after which the cost of the others is foreseen


@inlined
def leads(m: Longs, node: int) -> bool:
    """Is the node the first of its component? One node speaks for each component when a set of nodes is read."""
    return entry(m, C.MEMBERS, start_of(m, C.MEMBERS, get(m, C.COMPONENT, node))) == node


@inlined
def too_much(m: Longs, budget: int) -> bool:
    """Has the change cost more than the budget? Then the kernel has to stop, and says so."""
    if m[C.WORK] <= budget:
        return False
    m[C.STATUS] = C.TOO_MUCH
    return True


# --- additions ------------------------------------------------------------------------------------------------


@device
def widen(m: Longs, rows: int, component: int, source: int) -> bool:
    """Add the set of `source` to that of a component; false when a pool is full."""
    if rows == C.BACKWARD:
        return unite(m, rows, component, source)
    before = count_of(m, C.FORWARD, component)
    if not save(m, component) or not unite(m, C.FORWARD, component, source):
        return False
    m[C.PAIRS] += (count_of(m, C.FORWARD, component) - before) * size_of(m, C.MEMBERS, component)
    return True


@device
def widen_all(m: Longs, rows: int, mirror: int, pivot: int, source: int, node: int) -> bool:
    """Widen the sets of all components that the mirror names for the pivot, unless they have `node`, and so all; the
    pivot itself comes last. False when a pool is full, or when it is time to pause.

    Whoever is interrupted begins again: what has been widened has `node`, and the pivot has it only when all is done.
    """
    start = start_of(m, mirror, pivot)
    m[C.WORK] += 8 * count_of(m, mirror, pivot)
    for position in range(start, start + size_of(m, mirror, pivot)):
        word = word_at(m, mirror, position)
        base = key_at(m, mirror, start, position) << 6
        while word != 0:
            other = base + first_bit(word)
            word &= ~bit_of(other)
            component = get(m, C.COMPONENT, other)
            if component == pivot or not leads(m, other) or row_has(m, rows, component, node):
                continue
            if not widen(m, rows, component, source) or tired(m):
                return False
    return row_has(m, rows, pivot, node) or widen(m, rows, pivot, source)


@device
def between(m: Longs, a: int, b: int) -> tuple[int, int]:
    """List in OTHER the components that b reaches and that reach a; returns how many, and how many nodes they have."""
    count, nodes = 0, 0
    start = start_of(m, C.FORWARD, b)
    for position in range(start, start + size_of(m, C.FORWARD, b)):
        word = word_at(m, C.FORWARD, position)
        base = key_at(m, C.FORWARD, start, position) << 6
        while word != 0:
            node = base + first_bit(word)
            word &= ~bit_of(node)
            if leads(m, node) and row_has(m, C.BACKWARD, a, node):
                put(m, C.OTHER, count, get(m, C.COMPONENT, node))
                nodes += size_of(m, C.MEMBERS, get(m, C.COMPONENT, node))
                count += 1
    return count, nodes


@device
def merge(m: Longs, count: int, nodes: int) -> None:
    """Merge the components listed in OTHER, whose sets are equal by now."""
    target = get(m, C.OTHER, 0)
    for i in range(count):
        if size_of(m, C.MEMBERS, get(m, C.OTHER, i)) > size_of(m, C.MEMBERS, target):
            target = get(m, C.OTHER, i)
    widen_list(m, target, nodes)
    for i in range(count):
        component = get(m, C.OTHER, i)
        if component != target:
            absorb(m, target, component)
            set_size(m, C.FORWARD, component, 0)
            set_size(m, C.BACKWARD, component, 0)


@device
def add_edge(m: Longs, x: int, y: int) -> bool:
    """Let everything that reaches x reach what y reaches; false when a pool is full, or when it is time to pause."""
    a, b = get(m, C.COMPONENT, x), get(m, C.COMPONENT, y)
    cyclic = row_has(m, C.FORWARD, b, x)
    count, nodes = 0, 0
    if cyclic:
        count, nodes = between(m, a, b)
        if lacks(m, C.MEMBERS, nodes + (nodes >> 2)) or not save(m, b):
            return False
    if not widen_all(m, C.BACKWARD, C.FORWARD, b, a, x) or not widen_all(m, C.FORWARD, C.BACKWARD, a, b, y):
        return False
    if cyclic:
        merge(m, count, nodes)
    return True


@inlined
def will_be_too_much(m: Longs, budget: int, before: int, done: int, count: int) -> bool:
    """Will the change cost more than the budget, if it goes on as it began? Then the kernel stops, and says so."""
    if m[C.WORK] <= budget and (done < ENOUGH_TO_TELL or (m[C.WORK] - before) * count <= budget * done):
        return False
    m[C.STATUS] = C.TOO_MUCH
    return True


@entry_point
def extend(m: Longs, source: int, target: int, count: int, budget: int, begin: int) -> int:
    """Let edges that have come take effect, one by one; stops when the budget is spent, or bound to be."""
    m[C.STATUS] = C.DONE
    before = m[C.WORK]
    for i in range(begin, count):
        x, y = load_i32(source + 4 * i), load_i32(target + 4 * i)
        component = get(m, C.COMPONENT, x)
        if component == get(m, C.COMPONENT, y) or row_has(m, C.FORWARD, component, y):
            continue
        if will_be_too_much(m, budget, before, i - begin, count - begin) or not add_edge(m, x, y):
            return i
    return count


# --- deletions ------------------------------------------------------------------------------------------------


@device
def schedule(m: Longs, component: int) -> None:
    """Put a component on the heap of those whose sets are to be computed again, smallest set first."""
    if flag(m, C.QUEUED, component) == 1:
        return
    put_flag(m, C.QUEUED, component, 1)
    key = count_of(m, C.FORWARD, component) << 32 | get(m, C.RANK, component)
    slot = m[C.SCHEDULED]
    m[C.SCHEDULED] += 1
    while slot > 0 and get_long(m, C.HEAP_KEYS, (slot - 1) >> 1) > key:
        above = (slot - 1) >> 1
        put_long(m, C.HEAP_KEYS, slot, get_long(m, C.HEAP_KEYS, above))
        put(m, C.HEAP, slot, get(m, C.HEAP, above))
        slot = above
    put_long(m, C.HEAP_KEYS, slot, key)
    put(m, C.HEAP, slot, component)


@device
def next_scheduled(m: Longs) -> int:
    """Take the first component off the heap."""
    first = get(m, C.HEAP, 0)
    put_flag(m, C.QUEUED, first, 0)
    m[C.SCHEDULED] -= 1
    size = m[C.SCHEDULED]
    key, component = get_long(m, C.HEAP_KEYS, size), get(m, C.HEAP, size)
    slot = 0
    while 2 * slot + 1 < size:
        child = 2 * slot + 1
        if child + 1 < size and get_long(m, C.HEAP_KEYS, child + 1) < get_long(m, C.HEAP_KEYS, child):
            child += 1
        if get_long(m, C.HEAP_KEYS, child) >= key:
            break
        put_long(m, C.HEAP_KEYS, slot, get_long(m, C.HEAP_KEYS, child))
        put(m, C.HEAP, slot, get(m, C.HEAP, child))
        slot = child
    put_long(m, C.HEAP_KEYS, slot, key)
    put(m, C.HEAP, slot, component)
    return first


@device
def divide(m: Longs, component: int, budget: int) -> bool:
    """Divide a component that is no longer strongly connected; false when that has to wait.

    The parts take over its sets, which are too large for them, and are scheduled to have them computed again.
    """
    start, size = start_of(m, C.MEMBERS, component), size_of(m, C.MEMBERS, component)
    parts = strong_components(m, C.MEMBERS, start, start + size, component)
    forward, backward = parts * size_of(m, C.FORWARD, component), parts * size_of(m, C.BACKWARD, component)
    m[C.WORK] += 8 * size + forward + backward
    if (
        too_much(m, budget)
        or lacks(m, C.MEMBERS, size)
        or lacks(m, C.FORWARD, forward)
        or lacks(m, C.BACKWARD, backward)
    ):
        return False
    if not save(m, component):
        return False
    keep = largest_part(m, parts)
    for part in range(parts):
        label = component
        if part != keep:
            label = detach(m, C.ORDER, bound_before(m, part), get(m, C.BOUNDS, part))
            repeat_row(m, C.FORWARD, label, component)
            repeat_row(m, C.BACKWARD, label, component)
        put(m, C.RANK, label, part)
        schedule(m, label)
    return True


@device
def covered(m: Longs, component: int, node: int) -> bool:
    """Does a successor of the component still reach the node?

    Its set may be too large yet: but then that successor is scheduled, or will be, and when it shrinks, so is this one.
    """
    start = start_of(m, C.MEMBERS, component)
    for i in range(start, start + size_of(m, C.MEMBERS, component)):
        member = entry(m, C.MEMBERS, i)
        first, size = start_of(m, C.OUT, member), size_of(m, C.OUT, member)
        m[C.WORK] += size
        for edge in range(first, first + size):
            successor = get(m, C.COMPONENT, entry(m, C.OUT, edge))
            if successor != component and row_has(m, C.FORWARD, successor, node):
                return True
    return False


@entry_point
def loosen(m: Longs, source: int, target: int, count: int, budget: int, begin: int) -> int:
    """Divide the components that edges have left divided; then, from `count` on, schedule those that may reach less."""
    m[C.STATUS] = C.DONE
    for i in range(begin, count):
        x, y = load_i32(source + 4 * i), load_i32(target + 4 * i)
        if x != y and get(m, C.COMPONENT, x) == get(m, C.COMPONENT, y):
            _, size = find_gap(m, x, y, False)
            if size > 0 and not divide(m, get(m, C.COMPONENT, x), budget):
                return i
            if tired(m):
                return i + 1
    for i in range(max(0, begin - count), count):
        x, y = load_i32(source + 4 * i), load_i32(target + 4 * i)
        a = get(m, C.COMPONENT, x)
        if a != get(m, C.COMPONENT, y) and flag(m, C.QUEUED, a) == 0:
            if not covered(m, a, y):
                schedule(m, a)
            if tired(m):
                return count + i + 1
    return 2 * count


@device
def forget(m: Longs, component: int, other: int) -> None:
    """Take a component out of what reaches another."""
    start = start_of(m, C.MEMBERS, component)
    for i in range(start, start + size_of(m, C.MEMBERS, component)):
        clear_bit(m, C.BACKWARD, other, entry(m, C.MEMBERS, i))


@device
def same_as_gathered(m: Longs, component: int) -> bool:
    """Is what has been gathered the set that a component has? Then it is cleared away."""
    start, size = start_of(m, C.FORWARD, component), size_of(m, C.FORWARD, component)
    for position in range(start, start + size):
        if word_at(m, C.FORWARD, position) != get_long(m, C.ROW, key_at(m, C.FORWARD, start, position)):
            return False
    for position in range(start, start + size):
        release_word(m, key_at(m, C.FORWARD, start, position))
    m[C.GATHERED] = 0
    return True


@device
def shrink_row(m: Longs, component: int) -> int:
    """Reduce the set of a component to what has been gathered; returns by how many nodes."""
    start = start_of(m, C.FORWARD, component)
    lost = 0
    for position in range(start, start + size_of(m, C.FORWARD, component)):
        key = key_at(m, C.FORWARD, start, position)
        kept = release_word(m, key)
        gone = word_at(m, C.FORWARD, position) & ~kept
        if gone == 0:
            continue
        put_long(m, C.FORWARD + C.WORDS, position, kept)
        lost += population(gone)
        while gone != 0:
            node = (key << 6) + first_bit(gone)
            gone &= ~bit_of(node)
            if leads(m, node):
                forget(m, component, get(m, C.COMPONENT, node))
    put_long(m, C.FORWARD + C.COUNTS, component, count_of(m, C.FORWARD, component) - lost)
    m[C.GATHERED] = 0
    return lost


@device
def schedule_predecessors(m: Longs, component: int) -> None:
    start = start_of(m, C.MEMBERS, component)
    for i in range(start, start + size_of(m, C.MEMBERS, component)):
        member = entry(m, C.MEMBERS, i)
        first = start_of(m, C.INTO, member)
        for edge in range(first, first + size_of(m, C.INTO, member)):
            predecessor = get(m, C.COMPONENT, entry(m, C.INTO, edge))
            if predecessor != component:
                schedule(m, predecessor)


@entry_point
def shrink(m: Longs, budget: int, begin: int) -> int:
    """Compute the sets of the scheduled components again, and those of their predecessors as far as sets shrink."""
    m[C.STATUS] = C.DONE
    while m[C.SCHEDULED] > 0:
        if too_much(m, budget) or lacks(m, C.SAVED, size_of(m, C.FORWARD, get(m, C.HEAP, 0))):
            return begin
        component = next_scheduled(m)
        gather(m, C.FORWARD, C.OUT, component)
        if same_as_gathered(m, component):
            if tired(m):
                return begin
            continue
        save(m, component)
        lost = shrink_row(m, component)
        m[C.WORK] += 8 * lost * size_of(m, C.MEMBERS, component)
        m[C.PAIRS] -= lost * size_of(m, C.MEMBERS, component)
        schedule_predecessors(m, component)
        if tired(m):
            return begin
    return begin


# --- starting afresh ------------------------------------------------------------------------------------------


@entry_point
def record(m: Longs, begin: int) -> int:
    """Log everything as it was before the current change; whatever comes, the net change can then be told."""
    m[C.STATUS] = C.DONE
    for component in range(begin, m[C.COMPONENTS]):
        if size_of(m, C.MEMBERS, component) > 0 and not save(m, component):
            return component
        if tired(m):
            return component + 1
    for node in range(m[C.NODES]):
        if get(m, C.FORMER, node) == C.UNMOVED:
            put(m, C.FORMER, node, get(m, C.COMPONENT, node))
    m[C.REBUILT] = 1
    for slot in range(m[C.SCHEDULED]):
        put_flag(m, C.QUEUED, get(m, C.HEAP, slot), 0)
    m[C.SCHEDULED] = 0
    return int(m[C.COMPONENTS])


@entry_point
def condense(m: Longs) -> None:
    """Find all strongly connected components; they are numbered so that none reaches a higher one."""
    for node in range(m[C.NODES]):
        put_entry(m, C.MEMBERS, node, node)
        put(m, C.COMPONENT, node, 0)
    m[C.MEMBERS + C.USED] = m[C.NODES]
    parts = strong_components(m, C.MEMBERS, 0, m[C.NODES], 0)
    for part in range(parts):
        begin, end = bound_before(m, part), get(m, C.BOUNDS, part)
        for i in range(begin, end):
            node = get(m, C.ORDER, i)
            put_entry(m, C.MEMBERS, i, node)
            put(m, C.COMPONENT, node, part)
            put(m, C.PLACE, node, i - begin)
        set_place(m, C.MEMBERS, part, begin, end - begin)
        set_size(m, C.MEMBERS, part, end - begin)
    for component in range(parts, m[C.CAPACITY]):
        set_place(m, C.MEMBERS, component, 0, 0)
        set_size(m, C.MEMBERS, component, 0)
    m[C.COMPONENTS] = parts
    m[C.FREE] = 0


@entry_point
def fill(m: Longs, forward: bool, begin: int) -> int:
    """Fill the sets of all components, each after those that it is made of."""
    m[C.STATUS] = C.DONE
    rows, edges = (C.FORWARD, C.OUT) if forward else (C.BACKWARD, C.INTO)
    for turn in range(begin, m[C.COMPONENTS]):
        component = turn if forward else m[C.COMPONENTS] - 1 - turn
        gather(m, rows, edges, component)
        if not store_gathered(m, rows, component):
            return turn
        if forward:
            m[C.PAIRS] += (count_of(m, C.FORWARD, component) - 1) * size_of(m, C.MEMBERS, component)
        if tired(m):
            return turn + 1
    return int(m[C.COMPONENTS])
