"""What a change did to the closure, read off its log: exact numbers at once, the pairs only when somebody asks.

The pairs of different nodes and the pairs of a node with itself are told apart throughout: sets always hold their own
nodes, so the diagonal never shows in a difference of sets; whether it is in the closure is a flag of its own.
"""

from __future__ import annotations

from tidelog.closures import closure_registers as C
from tidelog.closures.access import append, entry, flag, get, put, put_flag, set_size, size_of, start_of, tired
from tidelog.closures.memory import Longs
from tidelog.closures.node_sets import count_of, key_at, word_at
from tidelog.machine.bits import bit_of, first_bit, population
from tidelog.machine.jit import device, entry_point, inlined, load_i32, store_i32

# When a pair (x, x) is in the closure: if it is a base edge; or if x has an edge; or if x lies on a cycle.
GIVEN, LINKED, CYCLIC = 0, 1, 2


@entry_point
def forget_changes(m: Longs) -> None:
    """Empty the log."""
    for i in range(m[C.MOVED]):
        put(m, C.FORMER, get(m, C.MOVED_LIST, i), C.UNMOVED)
    for i in range(m[C.TOUCHED]):
        put(m, C.FORMER_SIZE, get(m, C.TOUCHED_LIST, i), C.UNTOUCHED)
        if m[C.DIRECTED] == 1:
            set_size(m, C.SAVED, get(m, C.TOUCHED_LIST, i), 0)
    if m[C.REBUILT] == 1:
        for node in range(m[C.NODES]):
            put(m, C.FORMER, node, C.UNMOVED)
    for register in (C.MOVED, C.TOUCHED, C.REBUILT, C.FLIPPED, C.WORK, C.PAIRS, C.SAVED + C.USED):
        m[register] = 0


@inlined
def changed_components(m: Longs) -> int:
    """How many components `changed_component` counts through."""
    return int(m[C.COMPONENTS] if m[C.REBUILT] == 1 else m[C.TOUCHED])


@inlined
def changed_component(m: Longs, i: int) -> int:
    """Every component that may have changed; one that is gone has no members."""
    return i if m[C.REBUILT] == 1 else get(m, C.TOUCHED_LIST, i)


# --- the diagonal ---------------------------------------------------------------------------------------------


@inlined
def on_diagonal(m: Longs, node: int, rule: int) -> bool:
    if rule == LINKED and size_of(m, C.OUT, node) + size_of(m, C.INTO, node) > 0:
        return True
    if rule == CYCLIC and size_of(m, C.MEMBERS, get(m, C.COMPONENT, node)) > 1:
        return True
    return flag(m, C.LOOPS, node) == 1


@device
def check_diagonal(m: Longs, node: int, rule: int) -> None:
    now = 1 if on_diagonal(m, node, rule) else 0
    if now != flag(m, C.DIAGONAL, node):
        put_flag(m, C.DIAGONAL, node, now)
        append(m, C.FLIPPED_LIST, C.FLIPPED, node)
        m[C.REFLEXIVE] += 2 * now - 1


@entry_point
def settle_diagonal(m: Longs, ends: int, count: int, rule: int) -> None:
    """Bring the flags of the diagonal up to date: those of the ends of changed edges, and of changed components."""
    for i in range(count):
        check_diagonal(m, load_i32(ends + 4 * i), rule)
    if rule != CYCLIC:
        return
    for i in range(changed_components(m)):
        component = changed_component(m, i)
        start = start_of(m, C.MEMBERS, component)
        for position in range(start, start + size_of(m, C.MEMBERS, component)):
            check_diagonal(m, entry(m, C.MEMBERS, position), rule)


# --- components -----------------------------------------------------------------------------------------------


@entry_point
def collect_changed(m: Longs, nodes: int) -> int:
    """List the members of all changed components; returns their number."""
    count = 0
    for i in range(changed_components(m)):
        component = changed_component(m, i)
        start = start_of(m, C.MEMBERS, component)
        for position in range(start, start + size_of(m, C.MEMBERS, component)):
            store_i32(nodes + 4 * count, entry(m, C.MEMBERS, position))
            count += 1
    return count


@entry_point
def emit_cells(
    terms: int, cells: int, count: int, begin: int, source: int, target: int, room: int, filled: int
) -> tuple[int, int]:
    """Pair each term with those of its group outside its cell; `cells` has the bounds of group and cell of each.

    Stops where the pairs of the next term may not fit; returns its position and the number of pairs.
    """
    for i in range(begin, count):
        group_begin, group_end = load_i32(cells + 16 * i), load_i32(cells + 16 * i + 4)
        cell_begin, cell_end = load_i32(cells + 16 * i + 8), load_i32(cells + 16 * i + 12)
        if filled + group_end - group_begin > room:
            return i, filled
        for other in range(group_begin, group_end):
            if other < cell_begin or other >= cell_end:
                store_i32(source + 4 * filled, load_i32(terms + 4 * i))
                store_i32(target + 4 * filled, load_i32(terms + 4 * other))
                filled += 1
    return count, filled


# --- sets -----------------------------------------------------------------------------------------------------


@inlined
def saved_row(m: Longs, node: int) -> int:
    """Where the log says what a node reached: a component; CREATED: only itself; UNMOVED: the same as now."""
    former = get(m, C.FORMER, node)
    if former == C.CREATED:
        return C.CREATED
    if former == C.UNMOVED:
        former = get(m, C.COMPONENT, node)
    return former if size_of(m, C.SAVED, former) > 0 else C.UNMOVED


@device
def shared(m: Longs, component: int, row: int) -> int:
    """How many nodes a component reaches now that a row of the log has too."""
    start, i = start_of(m, C.FORWARD, component), start_of(m, C.FORWARD, component)
    i_end = start + size_of(m, C.FORWARD, component)
    j = start_of(m, C.SAVED, row)
    j_end = j + size_of(m, C.SAVED, row)
    count = 0
    while i < i_end and j < j_end:
        i_key, j_key = key_at(m, C.FORWARD, start, i), key_at(m, C.SAVED, 0, j)
        if i_key == j_key:
            count += population(word_at(m, C.FORWARD, i) & word_at(m, C.SAVED, j))
        if i_key <= j_key:
            i += 1
        if j_key <= i_key:
            j += 1
    return count


@entry_point
def compare(m: Longs, index: int, member: int) -> tuple[int, int, int, int]:
    """Count the pairs of different nodes that appeared and that vanished, from a member of a changed component on.

    Stops when it is time to pause; returns where that was, which is behind the last component when all are counted.
    """
    m[C.STATUS] = C.DONE
    appeared, vanished = 0, 0
    while index < changed_components(m):
        component = changed_component(m, index)
        known, common = C.UNMOVED, 0
        while member < size_of(m, C.MEMBERS, component):
            row = saved_row(m, entry(m, C.MEMBERS, start_of(m, C.MEMBERS, component) + member))
            member += 1
            if row == C.UNMOVED:
                continue
            if row == C.CREATED:
                appeared += count_of(m, C.FORWARD, component) - 1
                continue
            if row != known:
                known, common = row, shared(m, component, row)
                m[C.WORK] += size_of(m, C.FORWARD, component) + size_of(m, C.SAVED, row)
            appeared += count_of(m, C.FORWARD, component) - common
            vanished += count_of(m, C.SAVED, row) - common
            if tired(m):
                return index, member, appeared, vanished
        member = 0
        index += 1
    return index, member, appeared, vanished


@device
def emit_difference(m: Longs, node: int, rows: int, a: int, b: int, source: int, target: int, filled: int) -> int:
    """Pair a node with what set `a` has and set `b` of the other kind has not; if that is CREATED, all but itself."""
    others = C.SAVED if rows == C.FORWARD else C.FORWARD
    term = get(m, C.TERMS, node)
    start = start_of(m, rows, a)
    other, j, j_end = 0, 0, 0
    if b != C.CREATED:
        other, j = start_of(m, others, b), start_of(m, others, b)
        j_end = other + size_of(m, others, b)
    for position in range(start, start + size_of(m, rows, a)):
        key, word = key_at(m, rows, start, position), word_at(m, rows, position)
        while j < j_end and key_at(m, others, other, j) < key:
            j += 1
        if j < j_end and key_at(m, others, other, j) == key:
            word &= ~word_at(m, others, j)
        if b == C.CREATED and node >> 6 == key:
            word &= ~bit_of(node)
        while word != 0:
            found = (key << 6) + first_bit(word)
            word &= ~bit_of(found)
            store_i32(source + 4 * filled, term)
            store_i32(target + 4 * filled, get(m, C.TERMS, found))
            filled += 1
    return filled


@entry_point
def emit_rows(
    m: Longs, appeared: bool, index: int, member: int, source: int, target: int, room: int, filled: int
) -> tuple[int, int, int]:
    """The pairs of different nodes that appeared, or those that vanished, from a member of a changed component on.

    Stops where the pairs of the next node may not fit; returns where that was, and the number of pairs.
    """
    while index < changed_components(m):
        component = changed_component(m, index)
        while member < size_of(m, C.MEMBERS, component):
            node = entry(m, C.MEMBERS, start_of(m, C.MEMBERS, component) + member)
            row = saved_row(m, node)
            if row != C.UNMOVED and (appeared or row != C.CREATED):
                if filled + (count_of(m, C.FORWARD, component) if appeared else count_of(m, C.SAVED, row)) > room:
                    return index, member, filled
                if appeared:
                    filled = emit_difference(m, node, C.FORWARD, component, row, source, target, filled)
                else:
                    filled = emit_difference(m, node, C.SAVED, row, component, source, target, filled)
            member += 1
        member = 0
        index += 1
    return index, member, filled
