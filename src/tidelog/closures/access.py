"""Reading and writing the arrays of a closure in kernels: entries of arrays, lists in pools."""

from __future__ import annotations

from tidelog.closures import closure_registers as C
from tidelog.closures.memory import Longs
from tidelog.machine.jit import device, inlined, load_i32, load_i64, load_u8, store_i32, store_i64, store_u8

LAST_TOKEN = 2**31 - 1


@inlined
def get(m: Longs, array: int, i: int) -> int:
    return load_i32(m[array] + 4 * i)


@inlined
def put(m: Longs, array: int, i: int, value: int) -> None:
    store_i32(m[array] + 4 * i, value)


@inlined
def get_long(m: Longs, array: int, i: int) -> int:
    return load_i64(m[array] + 8 * i)


@inlined
def put_long(m: Longs, array: int, i: int, value: int) -> None:
    store_i64(m[array] + 8 * i, value)


@inlined
def flag(m: Longs, array: int, i: int) -> int:
    return load_u8(m[array] + i)


@inlined
def put_flag(m: Longs, array: int, i: int, value: int) -> None:
    store_u8(m[array] + i, value)


@inlined
def append(m: Longs, array: int, count: int, value: int) -> None:
    """Append to an array whose number of entries stands in the register `count`."""
    put(m, array, m[count], value)
    m[count] += 1


@inlined
def start_of(m: Longs, pool: int, owner: int) -> int:
    return load_i32(m[pool + C.TABLE] + C.TABLE_STRIDE * owner)


@inlined
def size_of(m: Longs, pool: int, owner: int) -> int:
    return load_i32(m[pool + C.TABLE] + C.TABLE_STRIDE * owner + C.SIZE_BYTE)


@inlined
def limit_of(m: Longs, pool: int, owner: int) -> int:
    """How long the list can become where it is."""
    return load_i32(m[pool + C.TABLE] + C.TABLE_STRIDE * owner + C.LIMIT_BYTE)


@inlined
def set_size(m: Longs, pool: int, owner: int, size: int) -> None:
    store_i32(m[pool + C.TABLE] + C.TABLE_STRIDE * owner + C.SIZE_BYTE, size)


@inlined
def set_place(m: Longs, pool: int, owner: int, start: int, limit: int) -> None:
    store_i32(m[pool + C.TABLE] + C.TABLE_STRIDE * owner, start)
    store_i32(m[pool + C.TABLE] + C.TABLE_STRIDE * owner + C.LIMIT_BYTE, limit)


@inlined
def entry(m: Longs, pool: int, position: int) -> int:
    return load_i32(m[pool + C.ENTRIES] + 4 * position)


@inlined
def put_entry(m: Longs, pool: int, position: int, value: int) -> None:
    store_i32(m[pool + C.ENTRIES] + 4 * position, value)


@inlined
def lacks(m: Longs, pool: int, more: int) -> bool:
    """Has the pool no room for so much more? Then the kernel has to stop, and says so."""
    if m[pool + C.USED] + more <= m[pool + C.ROOM]:
        return False
    m[C.STATUS] = pool
    m[C.NEEDED] = more
    return True


@inlined
def tired(m: Longs) -> bool:
    """Has the kernel worked for as long as it may at a time? Then it has to stop, and says so.

    To be asked only after something has been done that need not be done again.
    """
    if m[C.WORK] < m[C.PAUSE_AT]:
        return False
    m[C.STATUS] = C.PAUSED
    return True


@inlined
def take_place(m: Longs, pool: int, owner: int, limit: int) -> int:
    """Give a list, empty as yet, a place at the end of its pool, which has room."""
    start = m[pool + C.USED]
    set_place(m, pool, owner, start, limit)
    set_size(m, pool, owner, 0)
    m[pool + C.USED] = start + limit
    return int(start)


@device
def move_list(m: Longs, pool: int, owner: int, limit: int) -> None:
    """Move a list of nodes to the end of its pool, where it can become longer; the pool has room."""
    start, size = start_of(m, pool, owner), size_of(m, pool, owner)
    end = take_place(m, pool, owner, limit)
    for i in range(size):
        put_entry(m, pool, end + i, entry(m, pool, start + i))
    set_size(m, pool, owner, size)


@device
def fresh_tokens(m: Longs, count: int) -> int:
    """The first of so many consecutive values that no entry of STAMP has."""
    if m[C.TOKEN] + count > LAST_TOKEN:
        m[C.TOKEN] = 0
        for node in range(m[C.CAPACITY]):
            put(m, C.STAMP, node, 0)
    first = m[C.TOKEN] + 1
    m[C.TOKEN] += count
    return int(first)
