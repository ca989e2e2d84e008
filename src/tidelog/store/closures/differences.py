"""What a change did to the closure, read off its log: exact numbers at once, the pairs only when somebody asks.

The pairs of different nodes and the pairs of a node with itself are told apart throughout: sets always hold their own nodes, so
the diagonal never shows in a difference of sets; whether it is in the closure is a flag of its own.
"""

from __future__ import annotations

from tidelog.store.closures.bits import first_bit, population
from tidelog.store.closures.rows import ONE, key_at
from tidelog.store.closures.state import (
    COMPONENTS,
    CREATED,
    DIAGONAL,
    FLIPPED,
    MOVED,
    NO_COMPONENT_SIZE,
    REBUILT,
    SIZE,
    START,
    TOUCHED,
    UNMOVED,
    USED,
    WORK,
    Ints,
    Rows,
    State,
)
from tidelog.store.jit import device, entry_point, inlined

# When a pair (x, x) is in the closure: if it is a base edge; if x has an edge; if x lies on a cycle.
GIVEN, LINKED, CYCLIC = 0, 1, 2


@entry_point
def forget_changes(state: State) -> None:
    """Empty the log."""
    scalars = state.scalars
    for i in range(scalars[MOVED]):
        state.former[state.moved[i]] = UNMOVED
    for i in range(scalars[TOUCHED]):
        state.former_size[state.touched[i]] = NO_COMPONENT_SIZE
        if len(state.saved.table) > 0:
            state.saved.table[state.touched[i], SIZE] = 0
    if scalars[REBUILT] == 1:
        state.former[:] = UNMOVED
    state.saved.meta[USED] = 0
    for entry in (MOVED, TOUCHED, REBUILT, FLIPPED, WORK):
        scalars[entry] = 0


@inlined
def changed_components(state: State) -> int:
    """How many components `changed_component` counts through."""
    return int(state.scalars[COMPONENTS] if state.scalars[REBUILT] == 1 else state.scalars[TOUCHED])


@inlined
def changed_component(state: State, i: int) -> int:
    """Every component that may have changed; one that is gone has no members."""
    return i if state.scalars[REBUILT] == 1 else int(state.touched[i])


@device
def on_diagonal(state: State, node: int, rule: int) -> int:
    if state.loops[node] == 1:
        return 1
    if rule == LINKED:
        return 1 if state.out.table[node, SIZE] + state.into.table[node, SIZE] > 0 else 0
    if rule == CYCLIC:
        return 1 if state.members.table[state.component[node], SIZE] > 1 else 0
    return 0


@device
def check_diagonal(state: State, node: int, rule: int) -> None:
    flag = on_diagonal(state, node, rule)
    if flag != state.diagonal[node]:
        state.diagonal[node] = flag
        state.flipped[state.scalars[FLIPPED]] = node
        state.scalars[FLIPPED] += 1
        state.scalars[DIAGONAL] += 2 * flag - 1


@entry_point
def settle_diagonal(state: State, source: Ints, target: Ints, rule: int) -> None:
    """Bring the flags of the diagonal up to date: those of the ends of changed edges, and of changed components."""
    for i in range(len(source)):
        check_diagonal(state, source[i], rule)
        check_diagonal(state, target[i], rule)
    if rule != CYCLIC:
        return
    for i in range(changed_components(state)):
        component = changed_component(state, i)
        start = state.members.table[component, START]
        for position in range(start, start + state.members.table[component, SIZE]):
            check_diagonal(state, state.members.pool[position], rule)


@entry_point
def collect_changed(state: State, nodes: Ints) -> int:
    """List the members of all changed components; returns their number."""
    count = 0
    for i in range(changed_components(state)):
        component = changed_component(state, i)
        start, size = state.members.table[component, START], state.members.table[component, SIZE]
        nodes[count : count + size] = state.members.pool[start : start + size]
        count += size
    return count


@entry_point
def emit_cells(nodes: Ints, cells: Ints, begin: int, source: Ints, target: Ints, filled: int) -> tuple[int, int]:
    """Pair each node with those of its group outside its cell; `cells` has the bounds of group and cell of each node.

    Stops where the pairs of the next node may not fit; returns that node's position and the number of pairs.
    """
    for i in range(begin, len(nodes)):
        group_begin, group_end, cell_begin, cell_end = cells[0, i], cells[1, i], cells[2, i], cells[3, i]
        if filled + group_end - group_begin > len(source):
            return i, filled
        for other in range(group_begin, group_end):
            if other < cell_begin or other >= cell_end:
                source[filled] = nodes[i]
                target[filled] = nodes[other]
                filled += 1
    return len(nodes), filled


@inlined
def saved_row(state: State, node: int) -> int:
    """Where the log says what a node reached: a component; `CREATED`: only itself; `UNMOVED`: the same as now."""
    former = int(state.former[node])
    if former == CREATED:
        return CREATED
    if former == UNMOVED:
        former = int(state.component[node])
    return former if state.saved.table[former, SIZE] > 0 else UNMOVED


@device
def shared(rows: Rows, a: int, others: Rows, b: int) -> int:
    """How many nodes two sets have in common."""
    i, start = rows.table[a, START], rows.table[a, START]
    j, other = others.table[b, START], others.table[b, START]
    i_end, j_end = start + rows.table[a, SIZE], other + others.table[b, SIZE]
    count = 0
    while i < i_end and j < j_end:
        key, other_key = key_at(rows, start, i), key_at(others, other, j)
        if key == other_key:
            count += population(rows.words[i] & others.words[j])
        if key <= other_key:
            i += 1
        if other_key <= key:
            j += 1
    return count


@entry_point
def compare(state: State) -> tuple[int, int]:
    """The numbers of pairs of different nodes that appeared and that vanished."""
    appeared, vanished = 0, 0
    for i in range(changed_components(state)):
        component = changed_component(state, i)
        start = state.members.table[component, START]
        known, common = UNMOVED, 0
        for position in range(start, start + state.members.table[component, SIZE]):
            row = saved_row(state, state.members.pool[position])
            if row == UNMOVED:
                continue
            if row == CREATED:
                appeared += state.forward.counts[component] - 1
                continue
            if row != known:
                known, common = row, shared(state.forward, component, state.saved, row)
            appeared += state.forward.counts[component] - common
            vanished += state.saved.counts[row] - common
    return appeared, vanished


@device
def emit_difference(
    node: int, rows: Rows, a: int, others: Rows, b: int, source: Ints, target: Ints, filled: int
) -> int:
    """Pair a node with what the set `a` has and the set `b` has not; with `b` CREATED, with all but itself."""
    start = rows.table[a, START]
    other = j = j_end = 0
    if b != CREATED:
        other = j = int(others.table[b, START])
        j_end = j + int(others.table[b, SIZE])
    for position in range(start, start + rows.table[a, SIZE]):
        key, word = key_at(rows, start, position), rows.words[position]
        while j < j_end and key_at(others, other, j) < key:
            j += 1
        if j < j_end and key_at(others, other, j) == key:
            word &= ~others.words[j]
        if b == CREATED and node >> 6 == key:
            word &= ~(ONE << (node & 63))
        while word != 0:
            bit = first_bit(word)
            word &= ~(ONE << bit)
            source[filled] = node
            target[filled] = (key << 6) + bit
            filled += 1
    return filled


@entry_point
def emit_rows(
    state: State, appeared: bool, index: int, member: int, source: Ints, target: Ints, filled: int
) -> tuple[int, int, int]:
    """The pairs of different nodes that appeared, or those that vanished, from a member of a changed component on.

    Stops where the pairs of the next node may not fit; returns where that was, and the number of pairs.
    """
    while index < changed_components(state):
        component = changed_component(state, index)
        start = state.members.table[component, START]
        while member < state.members.table[component, SIZE]:
            node = state.members.pool[start + member]
            row = saved_row(state, node)
            if row != UNMOVED and (appeared or row != CREATED):
                bound = state.forward.counts[component] if appeared else state.saved.counts[row]
                if filled + bound > len(source):
                    return index, member, filled
                if appeared:
                    filled = emit_difference(
                        node, state.forward, component, state.saved, row, source, target, filled
                    )
                else:
                    filled = emit_difference(
                        node, state.saved, row, state.forward, component, source, target, filled
                    )
            member += 1
        member = 0
        index += 1
    return index, member, filled
