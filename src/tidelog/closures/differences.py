"""What a change did to the closure, read off its log: exact numbers at once, the pairs only when somebody asks.

Pairs of different nodes and pairs of a node with itself are kept apart throughout. A set always holds its own nodes, so
the diagonal never shows in a difference of sets; whether the closure holds it is a flag of its own.
"""

from __future__ import annotations

from tidelog.closures import access as A
from tidelog.closures import closure_registers as C
from tidelog.closures.former_state import saved_row
from tidelog.closures.node_sets import count_of, key_at, word_at
from tidelog.machine.bits import bit_of, first_bit, population
from tidelog.machine.jit import device, entry_point, load_i32, store_i32

# When a pair (x, x) is in the closure: if it is a base edge; or also if x has an edge; or also if x lies on a cycle.
GIVEN, LINKED, CYCLIC = 0, 1, 2


@entry_point
def clear_log(m: int) -> None:
    for i in range(A.read(m, C.MOVED)):
        A.put(m, C.FORMER, A.get(m, C.MOVED_LIST, i), C.UNMOVED)
    for i in range(A.read(m, C.TOUCHED)):
        component = A.get(m, C.TOUCHED_LIST, i)
        A.put(m, C.FORMER_SIZE, component, C.UNTOUCHED)
        A.put(m, C.LAST_LEFT, component, 0)
        if A.read(m, C.DIRECTED) == 1:
            A.set_size(m, C.SAVED, component, 0)
    for i in range(A.read(m, C.FLIPPED)):
        node = A.get(m, C.FLIPPED_LIST, i)
        A.put_flag(m, C.DIAGONAL, node, A.flag(m, C.DIAGONAL, node) & C.HOLDS)
    for register in (C.MOVED, C.TOUCHED, C.REBUILT, C.FLIPPED, C.WORK, C.PAIRS, C.SAVED + C.POOL_USED):
        A.write(m, register, 0)


@entry_point
def list_changed(m: int, nodes: int) -> int:
    """List the members of all components that may have changed, each component's together; returns their number."""
    count = 0
    for i in range(A.read(m, C.COMPONENTS) if A.read(m, C.REBUILT) == 1 else A.read(m, C.TOUCHED)):
        component = i if A.read(m, C.REBUILT) == 1 else A.get(m, C.TOUCHED_LIST, i)
        for position in range(*A.span_of(m, C.MEMBERS, component)):
            store_i32(nodes + 4 * count, A.entry(m, C.MEMBERS, position))
            count += 1
    return count


# --- the diagonal -----------------------------------------------------------------------------------------------------


@entry_point
def settle_diagonal(m: int, nodes: int, count: int, rule: int) -> None:
    """Bring the diagonal up to date for nodes whose edges or components changed."""
    for i in range(count):
        node = load_i32(nodes + 4 * i)
        linked = rule == LINKED and A.size_of(m, C.OUT, node) + A.size_of(m, C.INTO, node) > 0
        cyclic = rule == CYCLIC and A.size_of(m, C.MEMBERS, A.get(m, C.COMPONENT, node)) > 1
        now = C.HOLDS if linked or cyclic or A.flag(m, C.LOOPS, node) == 1 else 0
        if now != A.flag(m, C.DIAGONAL, node) & C.HOLDS:
            A.put_flag(m, C.DIAGONAL, node, now | C.FLIPPED_NOW)
            A.append(m, C.FLIPPED_LIST, C.FLIPPED, node)
            A.add(m, C.REFLEXIVE, 2 * now - 1)


# --- components -------------------------------------------------------------------------------------------------------


@entry_point
def emit_cells(
    terms: int, origins: int, cells: int, count: int, begin: int, source: int, target: int, room: int, filled: int
) -> tuple[int, int]:
    """Pair each origin with the terms of its group outside its cell; `cells` has the bounds of group and cell of each.

    Stops where the pairs of the next origin may not fit; returns its position, and the number of pairs.
    """
    for i in range(begin, count):
        group_begin, group_end = load_i32(cells + 16 * i), load_i32(cells + 16 * i + 4)
        cell_begin, cell_end = load_i32(cells + 16 * i + 8), load_i32(cells + 16 * i + 12)
        if filled + group_end - group_begin > room:
            return i, filled
        for other in range(group_begin, group_end):
            if other < cell_begin or other >= cell_end:
                store_i32(source + 4 * filled, load_i32(origins + 4 * i))
                store_i32(target + 4 * filled, load_i32(terms + 4 * other))
                filled += 1
    return count, filled


# --- sets -------------------------------------------------------------------------------------------------------------


@device
def shared(m: int, component: int, row: int) -> int:
    """How many of the nodes that a component reaches now a row of the log has too."""
    start, i_end = A.span_of(m, C.FORWARD, component)
    i = start
    j, j_end = A.span_of(m, C.SAVED, row)
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
def compare(m: int, nodes: int, count: int, begin: int) -> tuple[int, int, int]:
    """Count the pairs of different nodes that appeared and that vanished, from one of the changed nodes on.

    Stops when it is time to pause; returns where that was, and both numbers.
    """
    A.write(m, C.STATUS, C.DONE)
    appeared, vanished, common = 0, 0, 0
    last_component, last_row = -1, C.UNMOVED
    for i in range(begin, count):
        node = load_i32(nodes + 4 * i)
        component, row = A.get(m, C.COMPONENT, node), saved_row(m, node)
        if row == C.UNMOVED:
            continue
        if row == C.CREATED:
            appeared += count_of(m, C.FORWARD, component) - 1
            continue
        if component != last_component or row != last_row:
            last_component, last_row, common = component, row, shared(m, component, row)
            A.add(m, C.WORK, A.size_of(m, C.FORWARD, component) + A.size_of(m, C.SAVED, row))
        appeared += count_of(m, C.FORWARD, component) - common
        vanished += count_of(m, C.SAVED, row) - common
        if A.is_due(m):
            return i + 1, appeared, vanished
    return count, appeared, vanished


@device
def emit_difference(m: int, node: int, rows: int, a: int, b: int, source: int, target: int, filled: int) -> int:
    """Pair a node with what set `a` has and set `b` of the other kind lacks; if that is CREATED, all but itself."""
    others = C.SAVED if rows == C.FORWARD else C.FORWARD
    term = A.get(m, C.TERMS, node)
    start, end = A.span_of(m, rows, a)
    other, j, j_end = 0, 0, 0
    if b != C.CREATED:
        other, j_end = A.span_of(m, others, b)
        j = other
    for position in range(start, end):
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
            store_i32(target + 4 * filled, A.get(m, C.TERMS, found))
            filled += 1
    return filled


@entry_point
def emit_rows(
    m: int, appeared: bool, nodes: int, count: int, begin: int, source: int, target: int, room: int, filled: int
) -> tuple[int, int]:
    """List the pairs of different nodes that appeared, or that vanished, from one of the changed nodes on.

    Stops where the pairs of the next node may not fit; returns its position, and the number of pairs.
    """
    for i in range(begin, count):
        node = load_i32(nodes + 4 * i)
        component, row = A.get(m, C.COMPONENT, node), saved_row(m, node)
        if row == C.UNMOVED or (row == C.CREATED and not appeared):
            continue
        rows, a, b = (C.FORWARD, component, row) if appeared else (C.SAVED, row, component)
        if filled + count_of(m, rows, a) > room:
            return i, filled
        filled = emit_difference(m, node, rows, a, b, source, target, filled)
    return count, filled
