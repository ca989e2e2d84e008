"""Reachability between strongly connected components under change: the kernels of the transitive closure.

Each component keeps the set of nodes that it reaches and the set of those that reach it, itself included in both. Where
Modular Materialisation §5 (Algorithms 4–6) walks the pairs one by one, here 64 of them share a word:

- *An edge x → y comes.* If x reaches y, nothing happens. Otherwise everything that reaches x and not y gains what y reaches, and the
  other way round; if y reached x, all components between them have the same sets now, and merge.
- *Edges go.* Inside a component a search from both ends looks for a replacement path; if there is none, the component is
  divided. Between components, if another successor of x's component reaches y, nothing happens. Otherwise the set of x's
  component is computed again from those of its successors, then those of its predecessors, if it shrank, and so on.
  A component reaches more nodes than any of its successors, so the size of its set says when its turn is.
- *Much changes.* When that has cost as much as starting afresh, the sets are filled again in topological order.
"""

from __future__ import annotations

from tidelog.store.closures.bits import first_bit, population
from tidelog.store.closures.partition import absorb, detach, largest_part, make_room
from tidelog.store.closures.rows import (
    ONE,
    clear_bit,
    gather,
    key_at,
    release_word,
    repeat_row,
    row_has,
    save,
    store_gathered,
    unite,
)
from tidelog.store.closures.search import find_gap, strong_components
from tidelog.store.closures.state import (
    BOUNDS,
    CAPACITY,
    COMPONENTS,
    DONE,
    FREE,
    FULL_BACKWARD,
    FULL_FORWARD,
    FULL_MEMBERS,
    GATHERED,
    HEAP,
    NEEDED,
    NODES,
    ORDER,
    OTHER,
    REBUILT,
    SIZE,
    START,
    STATUS,
    TOO_MUCH,
    UNMOVED,
    USED,
    WORK,
    Ints,
    Rows,
    State,
)
from tidelog.store.jit import device, entry_point, inlined

# --- additions ---------------------------------------------------------------------------------------------


@inlined
def leads(state: State, node: int) -> bool:
    """Is the node the first of its component? One node speaks for each component when a set of nodes is read."""
    return bool(state.members.pool[state.members.table[state.component[node], START]] == node)


@inlined
def stop(state: State, status: int, needed: int) -> bool:
    """Say why a kernel cannot go on; always false, so that it can be returned."""
    state.scalars[STATUS] = status
    state.scalars[NEEDED] = needed
    return False


@device
def widen(state: State, rows: Rows, status: int, component: int, source: int, node: int) -> bool:
    """Add the set of `source` to that of a component, unless the component has `node`, and thereby all of it."""
    if row_has(rows, component, node):
        return True
    if status == FULL_FORWARD and not save(state, component):
        return False
    lacking = unite(state, rows, component, source)
    return lacking == 0 or stop(state, status, lacking)


@device
def widen_all(state: State, rows: Rows, mirror: Rows, status: int, pivot: int, source: int, node: int) -> bool:
    """Widen the sets of all components that the mirror names for the pivot; the pivot itself comes last.

    Whoever is interrupted begins again: what has been widened has `node`, and the pivot has it only when all is done.
    """
    start = mirror.table[pivot, START]
    state.scalars[WORK] += mirror.counts[pivot]
    for position in range(start, start + mirror.table[pivot, SIZE]):
        word = mirror.words[position]
        base = key_at(mirror, start, position) << 6
        while word != 0:
            bit = first_bit(word)
            word &= ~(ONE << bit)
            component = state.component[base + bit]
            if component == pivot or not leads(state, base + bit):
                continue
            if not widen(state, rows, status, component, source, node):
                return False
    return widen(state, rows, status, pivot, source, node)


@device
def between(state: State, a: int, b: int) -> tuple[int, int]:
    """List in `OTHER` the components that b reaches and that reach a; returns how many, and how many nodes they have."""
    found = state.lists[OTHER]
    count, size = 0, 0
    start = state.forward.table[b, START]
    for position in range(start, start + state.forward.table[b, SIZE]):
        word = state.forward.words[position]
        base = key_at(state.forward, start, position) << 6
        while word != 0:
            bit = first_bit(word)
            word &= ~(ONE << bit)
            component = state.component[base + bit]
            if leads(state, base + bit) and row_has(state.backward, a, base + bit):
                found[count] = component
                count += 1
                size += state.members.table[component, SIZE]
    return count, size


@device
def merge(state: State, count: int, size: int) -> None:
    """Merge the components listed in `OTHER`, whose sets are equal by now."""
    found = state.lists[OTHER]
    target = found[0]
    for i in range(count):
        if state.members.table[found[i], SIZE] > state.members.table[target, SIZE]:
            target = found[i]
    make_room(state, target, size)
    for i in range(count):
        if found[i] != target:
            absorb(state, target, found[i])
            state.forward.table[found[i]] = 0
            state.backward.table[found[i]] = 0


@device
def add_edge(state: State, x: int, y: int) -> bool:
    """Let everything that reaches x reach what y reaches; false when a pool is full."""
    a, b = state.component[x], state.component[y]
    cyclic = row_has(state.forward, b, x)
    count, size = 0, 0
    if cyclic:
        count, size = between(state, a, b)
        room = size + (size >> 2)
        if state.members.used[0] + room > len(state.members.pool):
            return stop(state, FULL_MEMBERS, room)
        if not save(state, b):
            return False
    if not widen_all(state, state.backward, state.forward, FULL_BACKWARD, b, a, x):
        return False
    if not widen_all(state, state.forward, state.backward, FULL_FORWARD, a, b, y):
        return False
    if cyclic:
        merge(state, count, size)
    return True


@entry_point
def extend(state: State, source: Ints, target: Ints, budget: int, begin: int) -> int:
    """Let edges that have come take effect, one by one; stops when the budget is spent."""
    state.scalars[STATUS] = DONE
    for i in range(begin, len(source)):
        x, y = source[i], target[i]
        if state.component[x] == state.component[y] or row_has(state.forward, state.component[x], y):
            continue
        if state.scalars[WORK] > budget:
            stop(state, TOO_MUCH, 0)
            return i
        if not add_edge(state, x, y):
            return i
    return len(source)


# --- deletions --------------------------------------------------------------------------------------------


@device
def schedule(state: State, component: int) -> None:
    """Put a component on the heap of those whose sets are to be computed again, smallest set first."""
    if state.queued[component] == 1:
        return
    state.queued[component] = 1
    keys, heap = state.heap_keys, state.heap
    key = state.forward.counts[component] << 32 | state.rank[component]
    slot = state.scalars[HEAP]
    state.scalars[HEAP] += 1
    while slot > 0 and keys[(slot - 1) >> 1] > key:
        keys[slot], heap[slot] = keys[(slot - 1) >> 1], heap[(slot - 1) >> 1]
        slot = (slot - 1) >> 1
    keys[slot], heap[slot] = key, component


@device
def next_scheduled(state: State) -> int:
    """Take the first component off the heap."""
    keys, heap = state.heap_keys, state.heap
    first = heap[0]
    state.queued[first] = 0
    state.scalars[HEAP] -= 1
    size = state.scalars[HEAP]
    key, component = keys[size], heap[size]
    slot = 0
    while 2 * slot + 1 < size:
        child = 2 * slot + 1
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[slot], heap[slot] = keys[child], heap[child]
        slot = child
    keys[slot], heap[slot] = key, component
    return int(first)


@device
def lacks_room(rows: Rows, component: int, copies: int) -> int:
    """The room that the pool lacks for so many copies of a row."""
    size = rows.table[component, SIZE] * copies
    return size if rows.meta[USED] + size > len(rows.words) else 0


@device
def divide(state: State, component: int, budget: int) -> bool:
    """Divide a component that is no longer strongly connected; false when that has to wait.

    The parts take over its sets, which are too large for them, and are scheduled to have them computed again.
    """
    start, size = state.members.table[component, START], state.members.table[component, SIZE]
    parts = strong_components(state, state.members.pool, start, start + size, component)
    state.scalars[WORK] += 8 * size + parts * (
        state.forward.table[component, SIZE] + state.backward.table[component, SIZE]
    )
    if state.scalars[WORK] > budget:
        return stop(state, TOO_MUCH, 0)
    if state.members.used[0] + size > len(state.members.pool):
        return stop(state, FULL_MEMBERS, size)
    lacking = lacks_room(state.forward, component, parts)
    if lacking > 0:
        return stop(state, FULL_FORWARD, lacking)
    lacking = lacks_room(state.backward, component, parts)
    if lacking > 0:
        return stop(state, FULL_BACKWARD, lacking)
    if not save(state, component):
        return False
    order, bounds = state.lists[ORDER], state.lists[BOUNDS]
    keep = largest_part(bounds, parts)
    for part in range(parts):
        label = component
        if part != keep:
            label = detach(state, order, bounds[part - 1] if part > 0 else 0, bounds[part])
            repeat_row(state.forward, label, component)
            repeat_row(state.backward, label, component)
        state.rank[label] = part
        schedule(state, label)
    return True


@device
def covered(state: State, component: int, node: int) -> bool:
    """Does a successor of the component still reach the node?

    The sets may be too large yet: but then that successor is scheduled, or will be, and when its set shrinks, so is this one.
    """
    start = state.members.table[component, START]
    for i in range(start, start + state.members.table[component, SIZE]):
        first, size = state.out.table[state.members.pool[i], START], state.out.table[state.members.pool[i], SIZE]
        state.scalars[WORK] += size
        for edge in range(first, first + size):
            successor = state.component[state.out.pool[edge]]
            if successor != component and row_has(state.forward, successor, node):
                return True
    return False


@entry_point
def loosen(state: State, source: Ints, target: Ints, budget: int, begin: int) -> int:
    """Divide the components that edges have left divided, and schedule those that may reach less now."""
    state.scalars[STATUS] = DONE
    for i in range(begin, len(source)):
        x, y = source[i], target[i]
        if x != y and state.component[x] == state.component[y]:
            _, size = find_gap(state, x, y, False)
            if size > 0 and not divide(state, state.component[x], budget):
                return i
    for i in range(len(source)):
        a = state.component[source[i]]
        if a != state.component[target[i]] and state.queued[a] == 0 and not covered(state, a, target[i]):
            schedule(state, a)
    return len(source)


@device
def forget(state: State, component: int, node: int) -> None:
    """Take a component out of what reaches the component that `node` leads."""
    start = state.members.table[component, START]
    for i in range(start, start + state.members.table[component, SIZE]):
        clear_bit(state.backward, state.component[node], state.members.pool[i])


@device
def shrink_row(state: State, component: int) -> int:
    """Reduce the set of a component to what has been gathered; returns by how many nodes."""
    rows = state.forward
    start = rows.table[component, START]
    lost = 0
    for position in range(start, start + rows.table[component, SIZE]):
        key = key_at(rows, start, position)
        kept = release_word(state, key)
        gone = rows.words[position] & ~kept
        if gone == 0:
            continue
        rows.words[position] = kept
        lost += population(gone)
        while gone != 0:
            bit = first_bit(gone)
            gone &= ~(ONE << bit)
            if leads(state, (key << 6) + bit):
                forget(state, component, (key << 6) + bit)
    rows.counts[component] -= lost
    state.scalars[GATHERED] = 0
    return lost


@device
def schedule_predecessors(state: State, component: int) -> None:
    start = state.members.table[component, START]
    for i in range(start, start + state.members.table[component, SIZE]):
        first, size = state.into.table[state.members.pool[i], START], state.into.table[state.members.pool[i], SIZE]
        for edge in range(first, first + size):
            predecessor = state.component[state.into.pool[edge]]
            if predecessor != component:
                schedule(state, predecessor)


@entry_point
def shrink(state: State, budget: int, begin: int) -> int:
    """Compute the sets of the scheduled components again, and those of their predecessors as far as sets shrink."""
    state.scalars[STATUS] = DONE
    while state.scalars[HEAP] > 0:
        if state.scalars[WORK] > budget:
            stop(state, TOO_MUCH, 0)
            return begin
        if not save(state, state.heap[0]):
            return begin
        component = next_scheduled(state)
        gather(state, state.forward, state.out, component)
        lost = shrink_row(state, component)
        state.scalars[WORK] += lost * state.members.table[component, SIZE]
        if lost > 0:
            schedule_predecessors(state, component)
    return begin


# --- starting afresh --------------------------------------------------------------------------------------


@entry_point
def record(state: State, begin: int) -> int:
    """Log everything as it was before the current change; whatever comes, the net change can then be told."""
    state.scalars[STATUS] = DONE
    for component in range(begin, state.scalars[COMPONENTS]):
        if state.members.table[component, SIZE] > 0 and not save(state, component):
            return component
    for node in range(state.scalars[NODES]):
        if state.former[node] == UNMOVED:
            state.former[node] = state.component[node]
    state.scalars[REBUILT] = 1
    return int(state.scalars[COMPONENTS])


@entry_point
def condense(state: State) -> None:
    """Find all strongly connected components; they are numbered so that none reaches a higher one."""
    scalars, members = state.scalars, state.members
    nodes = scalars[NODES]
    everything, bounds = state.lists[OTHER], state.lists[BOUNDS]
    for node in range(nodes):
        everything[node] = node
        state.component[node] = 0
    parts = strong_components(state, everything, 0, nodes, 0)
    members.pool[:nodes] = state.lists[ORDER][:nodes]
    members.used[0] = nodes
    members.table[:] = 0
    begin = 0
    for part in range(parts):
        for i in range(begin, bounds[part]):
            state.component[members.pool[i]] = part
            state.place[members.pool[i]] = i - begin
        members.table[part, START] = begin
        members.table[part, SIZE] = bounds[part] - begin
        members.table[part, CAPACITY] = bounds[part] - begin
        begin = bounds[part]
    scalars[COMPONENTS] = parts
    scalars[FREE] = 0
    for slot in range(scalars[HEAP]):
        state.queued[state.heap[slot]] = 0
    scalars[HEAP] = 0


@device
def fill(state: State, forward: bool, component: int) -> bool:
    rows = state.forward if forward else state.backward
    gather(state, rows, state.out if forward else state.into, component)
    lacking = store_gathered(state, rows, component)
    return lacking == 0 or stop(state, FULL_FORWARD if forward else FULL_BACKWARD, lacking)


@entry_point
def fill_all(state: State, forward: bool, begin: int) -> int:
    """Fill the sets of all components, each after those that it is made of."""
    state.scalars[STATUS] = DONE
    components = state.scalars[COMPONENTS]
    for turn in range(begin, components):
        if not fill(state, forward, turn if forward else components - 1 - turn):
            return turn
    return int(components)
