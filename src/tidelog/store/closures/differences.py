"""What a change did to the closure, read off its log: exact numbers at once, the pairs only when somebody asks.

The pairs of different nodes and the pairs of a node with itself are told apart throughout: sets always hold their own
nodes, so the diagonal never shows in a difference of sets; whether it is in the closure is a flag of its own.
"""

from __future__ import annotations

from tidelog.store.bits import bit_of, first_bit, population
from tidelog.store.closures.access import append, entry, flag, get, put, put_flag, set_size, size_of, start_of, tired
from tidelog.store.closures.layout import (
    COMPONENT,
    COMPONENTS,
    CREATED,
    DIAGONAL,
    DIRECTED,
    DONE,
    FLIPPED,
    FLIPPED_LIST,
    FORMER,
    FORMER_SIZE,
    FORWARD,
    INTO,
    LOOPS,
    MEMBERS,
    MOVED,
    MOVED_LIST,
    NODES,
    OUT,
    PAIRS,
    REBUILT,
    REFLEXIVE,
    SAVED,
    STATUS,
    TERMS,
    TOUCHED,
    TOUCHED_LIST,
    UNMOVED,
    UNTOUCHED,
    USED,
    WORK,
)
from tidelog.store.closures.memory import Longs
from tidelog.store.closures.rows import count_of, key_at, word_at
from tidelog.store.jit import device, entry_point, inlined, load_i32, store_i32

# When a pair (x, x) is in the closure: if it is a base edge; or if x has an edge; or if x lies on a cycle.
GIVEN, LINKED, CYCLIC = 0, 1, 2


@entry_point
def forget_changes(m: Longs) -> None:
    """Empty the log."""
    for i in range(m[MOVED]):
        put(m, FORMER, get(m, MOVED_LIST, i), UNMOVED)
    for i in range(m[TOUCHED]):
        put(m, FORMER_SIZE, get(m, TOUCHED_LIST, i), UNTOUCHED)
        if m[DIRECTED] == 1:
            set_size(m, SAVED, get(m, TOUCHED_LIST, i), 0)
    if m[REBUILT] == 1:
        for node in range(m[NODES]):
            put(m, FORMER, node, UNMOVED)
    for register in (MOVED, TOUCHED, REBUILT, FLIPPED, WORK, PAIRS, SAVED + USED):
        m[register] = 0


@inlined
def changed_components(m: Longs) -> int:
    """How many components `changed_component` counts through."""
    return int(m[COMPONENTS] if m[REBUILT] == 1 else m[TOUCHED])


@inlined
def changed_component(m: Longs, i: int) -> int:
    """Every component that may have changed; one that is gone has no members."""
    return i if m[REBUILT] == 1 else get(m, TOUCHED_LIST, i)


# --- the diagonal ---------------------------------------------------------------------------------------------


@inlined
def on_diagonal(m: Longs, node: int, rule: int) -> bool:
    if rule == LINKED and size_of(m, OUT, node) + size_of(m, INTO, node) > 0:
        return True
    if rule == CYCLIC and size_of(m, MEMBERS, get(m, COMPONENT, node)) > 1:
        return True
    return flag(m, LOOPS, node) == 1


@device
def check_diagonal(m: Longs, node: int, rule: int) -> None:
    now = 1 if on_diagonal(m, node, rule) else 0
    if now != flag(m, DIAGONAL, node):
        put_flag(m, DIAGONAL, node, now)
        append(m, FLIPPED_LIST, FLIPPED, node)
        m[REFLEXIVE] += 2 * now - 1


@entry_point
def settle_diagonal(m: Longs, ends: int, count: int, rule: int) -> None:
    """Bring the flags of the diagonal up to date: those of the ends of changed edges, and of changed components."""
    for i in range(count):
        check_diagonal(m, load_i32(ends + 4 * i), rule)
    if rule != CYCLIC:
        return
    for i in range(changed_components(m)):
        component = changed_component(m, i)
        start = start_of(m, MEMBERS, component)
        for position in range(start, start + size_of(m, MEMBERS, component)):
            check_diagonal(m, entry(m, MEMBERS, position), rule)


# --- components -----------------------------------------------------------------------------------------------


@entry_point
def collect_changed(m: Longs, nodes: int) -> int:
    """List the members of all changed components; returns their number."""
    count = 0
    for i in range(changed_components(m)):
        component = changed_component(m, i)
        start = start_of(m, MEMBERS, component)
        for position in range(start, start + size_of(m, MEMBERS, component)):
            store_i32(nodes + 4 * count, entry(m, MEMBERS, position))
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
    former = get(m, FORMER, node)
    if former == CREATED:
        return CREATED
    if former == UNMOVED:
        former = get(m, COMPONENT, node)
    return former if size_of(m, SAVED, former) > 0 else UNMOVED


@device
def shared(m: Longs, component: int, row: int) -> int:
    """How many nodes a component reaches now that a row of the log has too."""
    start, i = start_of(m, FORWARD, component), start_of(m, FORWARD, component)
    i_end = start + size_of(m, FORWARD, component)
    j = start_of(m, SAVED, row)
    j_end = j + size_of(m, SAVED, row)
    count = 0
    while i < i_end and j < j_end:
        i_key, j_key = key_at(m, FORWARD, start, i), key_at(m, SAVED, 0, j)
        if i_key == j_key:
            count += population(word_at(m, FORWARD, i) & word_at(m, SAVED, j))
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
    m[STATUS] = DONE
    appeared, vanished = 0, 0
    while index < changed_components(m):
        component = changed_component(m, index)
        known, common = UNMOVED, 0
        while member < size_of(m, MEMBERS, component):
            row = saved_row(m, entry(m, MEMBERS, start_of(m, MEMBERS, component) + member))
            member += 1
            if row == UNMOVED:
                continue
            if row == CREATED:
                appeared += count_of(m, FORWARD, component) - 1
                continue
            if row != known:
                known, common = row, shared(m, component, row)
                m[WORK] += size_of(m, FORWARD, component) + size_of(m, SAVED, row)
            appeared += count_of(m, FORWARD, component) - common
            vanished += count_of(m, SAVED, row) - common
            if tired(m):
                return index, member, appeared, vanished
        member = 0
        index += 1
    return index, member, appeared, vanished


@device
def emit_difference(m: Longs, node: int, rows: int, a: int, b: int, source: int, target: int, filled: int) -> int:
    """Pair a node with what set `a` has and set `b` of the other kind has not; if that is CREATED, all but itself."""
    others = SAVED if rows == FORWARD else FORWARD
    term = get(m, TERMS, node)
    start = start_of(m, rows, a)
    other, j, j_end = 0, 0, 0
    if b != CREATED:
        other, j = start_of(m, others, b), start_of(m, others, b)
        j_end = other + size_of(m, others, b)
    for position in range(start, start + size_of(m, rows, a)):
        key, word = key_at(m, rows, start, position), word_at(m, rows, position)
        while j < j_end and key_at(m, others, other, j) < key:
            j += 1
        if j < j_end and key_at(m, others, other, j) == key:
            word &= ~word_at(m, others, j)
        if b == CREATED and node >> 6 == key:
            word &= ~bit_of(node)
        while word != 0:
            found = (key << 6) + first_bit(word)
            word &= ~bit_of(found)
            store_i32(source + 4 * filled, term)
            store_i32(target + 4 * filled, get(m, TERMS, found))
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
        while member < size_of(m, MEMBERS, component):
            node = entry(m, MEMBERS, start_of(m, MEMBERS, component) + member)
            row = saved_row(m, node)
            if row != UNMOVED and (appeared or row != CREATED):
                if filled + (count_of(m, FORWARD, component) if appeared else count_of(m, SAVED, row)) > room:
                    return index, member, filled
                if appeared:
                    filled = emit_difference(m, node, FORWARD, component, row, source, target, filled)
                else:
                    filled = emit_difference(m, node, SAVED, row, component, source, target, filled)
            member += 1
        member = 0
        index += 1
    return index, member, filled
