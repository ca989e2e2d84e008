"""Reading and writing the memory of a closure in kernels: registers, entries of arrays, lists and rows in pools.

`m` is the address of the registers everywhere, so that a wrong number of a register is met like any wrong address.
"""

from __future__ import annotations

from tidelog.closures import closure_registers as C
from tidelog.machine.jit import device, inlined, load_i32, load_i64, load_u8, store_i32, store_i64, store_u8

LAST_TOKEN = 2**31 - 1

# --- registers and arrays ---------------------------------------------------------------------------------------------


@inlined
def read(m: int, register: int) -> int:
    return load_i64(m + 8 * register)


@inlined
def write(m: int, register: int, value: int) -> None:
    store_i64(m + 8 * register, value)


@inlined
def add(m: int, register: int, more: int) -> None:
    store_i64(m + 8 * register, load_i64(m + 8 * register) + more)


@inlined
def get(m: int, array: int, i: int) -> int:
    return load_i32(read(m, array) + 4 * i)


@inlined
def put(m: int, array: int, i: int, value: int) -> None:
    store_i32(read(m, array) + 4 * i, value)


@inlined
def get_long(m: int, array: int, i: int) -> int:
    return load_i64(read(m, array) + 8 * i)


@inlined
def put_long(m: int, array: int, i: int, value: int) -> None:
    store_i64(read(m, array) + 8 * i, value)


@inlined
def flag(m: int, array: int, i: int) -> int:
    return load_u8(read(m, array) + i)


@inlined
def put_flag(m: int, array: int, i: int, value: int) -> None:
    store_u8(read(m, array) + i, value)


@inlined
def append(m: int, array: int, count: int, value: int) -> None:
    """Append to an array; the register `count` holds the number of its entries."""
    put(m, array, read(m, count), value)
    add(m, count, 1)


# --- when a kernel has to stop ----------------------------------------------------------------------------------------


@inlined
def lacks_room(m: int, pool: int, more: int) -> bool:
    """Whether the pool has no room for this much more. If so, the kernel has to stop, and STATUS says why."""
    if used(m, pool) + more <= read(m, pool + C.POOL_ROOM):
        return False
    write(m, C.STATUS, pool)
    write(m, C.NEEDED, more)
    return True


@inlined
def is_due(m: int) -> bool:
    """Whether it is time to pause. If so, the kernel has to stop, and STATUS says why.

    Ask only after some work that need not be done again, or the kernel would make no progress.
    """
    if read(m, C.WORK) < read(m, C.PAUSE_AT):
        return False
    write(m, C.STATUS, C.PAUSED)
    return True


@inlined
def exceeds(m: int, budget: int) -> bool:
    """Whether the change has cost more than the budget. If so, the kernel has to stop, and STATUS says why."""
    if read(m, C.WORK) <= budget:
        return False
    write(m, C.STATUS, C.TOO_MUCH)
    return True


# --- lists and rows in pools ------------------------------------------------------------------------------------------


@inlined
def used(m: int, pool: int) -> int:
    """How many entries or words of a pool are in use."""
    return read(m, pool + C.POOL_USED)


@inlined
def set_used(m: int, pool: int, count: int) -> None:
    write(m, pool + C.POOL_USED, count)


@inlined
def line_of(m: int, pool: int, owner: int) -> int:
    """Address of the line of the pool's table that says where a list or row lies."""
    return read(m, pool + C.POOL_TABLE) + C.LINE_BYTES * owner


@inlined
def start_of(m: int, pool: int, owner: int) -> int:
    return load_i32(line_of(m, pool, owner) + C.LINE_START)


@inlined
def size_of(m: int, pool: int, owner: int) -> int:
    return load_i32(line_of(m, pool, owner) + C.LINE_SIZE)


@inlined
def span_of(m: int, pool: int, owner: int) -> tuple[int, int]:
    """Where a list or row begins and ends."""
    start = start_of(m, pool, owner)
    return start, start + size_of(m, pool, owner)


@inlined
def limit_of(m: int, pool: int, owner: int) -> int:
    """How long a list can become where it is."""
    return load_i32(line_of(m, pool, owner) + C.LINE_LIMIT)


@inlined
def set_size(m: int, pool: int, owner: int, size: int) -> None:
    store_i32(line_of(m, pool, owner) + C.LINE_SIZE, size)


@inlined
def set_place(m: int, pool: int, owner: int, start: int, size: int, limit: int) -> None:
    write_place(read(m, pool + C.POOL_TABLE), owner, start, size, limit)


@inlined
def write_place(table: int, owner: int, start: int, size: int, limit: int) -> None:
    """Say in a table where a list or row lies."""
    line = table + C.LINE_BYTES * owner
    store_i32(line + C.LINE_START, start)
    store_i32(line + C.LINE_SIZE, size)
    store_i32(line + C.LINE_LIMIT, limit)


@inlined
def take_place(m: int, pool: int, owner: int, limit: int) -> int:
    """Give an empty list or row a place at the end of its pool, which has room."""
    start = used(m, pool)
    set_place(m, pool, owner, start, 0, limit)
    set_used(m, pool, start + limit)
    return start


# --- lists of nodes ---------------------------------------------------------------------------------------------------


@inlined
def entry(m: int, pool: int, position: int) -> int:
    return get(m, pool + C.LIST_ENTRIES, position)


@inlined
def put_entry(m: int, pool: int, position: int, value: int) -> None:
    put(m, pool + C.LIST_ENTRIES, position, value)


@device
def move_list(m: int, pool: int, owner: int, limit: int) -> None:
    """Move a list to the end of its pool, where it can become longer; the pool has room."""
    start, size = start_of(m, pool, owner), size_of(m, pool, owner)
    end = take_place(m, pool, owner, limit)
    for i in range(size):
        put_entry(m, pool, end + i, entry(m, pool, start + i))
    set_size(m, pool, owner, size)


@inlined
def more_for(m: int, pool: int, owner: int) -> int:
    """How much of the pool one more entry in a list takes."""
    limit = limit_of(m, pool, owner)
    return 0 if size_of(m, pool, owner) < limit else max(2, 2 * limit)


@device
def push(m: int, pool: int, owner: int, value: int) -> None:
    """Append to a list; the pool has room."""
    more = more_for(m, pool, owner)
    if more > 0:
        move_list(m, pool, owner, more)
    size = size_of(m, pool, owner)
    put_entry(m, pool, start_of(m, pool, owner) + size, value)
    set_size(m, pool, owner, size + 1)


@device
def remove(m: int, pool: int, owner: int, value: int) -> int:
    """Take a value out of a list if it is there, and put the last one in its place. Returns how many went."""
    start, end = span_of(m, pool, owner)
    for i in range(start, end):
        if entry(m, pool, i) == value:
            put_entry(m, pool, i, entry(m, pool, end - 1))
            set_size(m, pool, owner, end - 1 - start)
            return 1
    return 0


@inlined
def replace_entries(m: int, pool: int, entries: int, room: int) -> None:
    """Let the lists of a pool lie at another address from now on."""
    write(m, pool + C.LIST_ENTRIES, entries)
    write(m, pool + C.POOL_ROOM, room)


# --- searches ---------------------------------------------------------------------------------------------------------


@device
def fresh_tokens(m: int, count: int) -> int:
    """The first of so many consecutive values that no entry of STAMP has."""
    if read(m, C.TOKEN) + count > LAST_TOKEN:
        write(m, C.TOKEN, 0)
        for node in range(read(m, C.CAPACITY)):
            put(m, C.STAMP, node, 0)
    add(m, C.TOKEN, count)
    return read(m, C.TOKEN) - count + 1
