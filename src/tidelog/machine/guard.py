"""The check before each access of kernels that are compiled with `TIDELOG_CHECKED=1`.

It is one function that is never inlined: otherwise a kernel would take minutes to compile. Kernels refer to it by a
symbol, not by its address, so that they can be cached.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tidelog.machine import ownership as O
from tidelog.machine.ownership import OWNED, MemoryFault, first_address

SYMBOL = "tidelog_guard"
LONG = ir.IntType(64)

# Where the guard finds the ranges and reports a fault. The guard is compiled for this process only.
TABLE = first_address(OWNED.table)
FAULT = first_address(OWNED.fault)


@intrinsic  # type: ignore[untyped-decorator]
def word(typing_context: Any, at: Any) -> Any:
    """An unchecked load."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], LONG.as_pointer()))

    return types.int64(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def put_word(typing_context: Any, at: Any, value: Any) -> Any:
    """An unchecked store."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], LONG.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@numba.cfunc(types.int64(types.int64, types.int64))
def guard(at, width):
    """Whether so many bytes from an address on belong to one array. The first fault is noted."""
    if width == 0:
        return 1
    table = word(TABLE)
    rows = table + 8
    low = 0
    high = word(table)
    while low < high:
        middle = (low + high) // 2
        if word(rows + 8 * (O.ROW_WORDS * middle + O.ROW_START)) <= at:
            low = middle + 1
        else:
            high = middle
    # Usually the last range that begins before it; an earlier one only if arrays over foreign memory overlap.
    for place in range(low - 1, -1, -1):
        row = rows + 8 * O.ROW_WORDS * place
        if at + width <= word(row + 8 * O.ROW_END) and word(word(row + 8 * O.ROW_ALIVE)) != 0:
            return 1
    if word(FAULT + 8 * O.FAULT_SEEN) == 0:
        put_word(FAULT + 8 * O.FAULT_ADDRESS, at)
        put_word(FAULT + 8 * O.FAULT_WIDTH, width)
        put_word(FAULT + 8 * O.FAULT_SEEN, 1)
    return 0


llvm.add_symbol(SYMBOL, guard.address)


def check_access(context: Any, builder: Any, at: Any, width: Any) -> None:
    """Emit code that raises `MemoryFault` unless `width` bytes from `at` on may be accessed."""
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(LONG, [LONG, LONG]), SYMBOL)
    allowed = builder.call(function, [at, width])
    with builder.if_then(cgutils.is_null(builder, allowed), likely=False):
        context.call_conv.return_user_exc(builder, MemoryFault, ("memory that no array owns",))
