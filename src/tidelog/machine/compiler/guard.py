"""The check before each access of kernels that are compiled with `TIDELOG_CHECKED=1`.

It is one function that is never inlined: otherwise a kernel would take minutes to compile.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tidelog.machine import ownership as O
from tidelog.machine.compiler.functions import device

GUARD = "tidelog_guard"
LONG = ir.IntType(64)


def _variable(module: Any, name: str) -> Any:
    """A word of the library, one for all of its objects, which is written when the library is loaded."""
    found = module.globals.get(name)
    if found is None:
        found = ir.GlobalVariable(module, LONG, name)
        found.linkage = "common"
        found.initializer = LONG(0)
    return found


def _reader(name: str) -> Any:
    def definition(_typing_context: Any) -> Any:
        def codegen(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
            return builder.load(_variable(builder.module, name))

        return types.int64(), codegen

    return intrinsic(definition)


# Where the guard finds the ranges, and where it reports a fault.
table_at, fault_at = _reader(O.TABLE_SYMBOL), _reader(O.FAULT_SYMBOL)


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


@device
def guard(at, width):
    """Whether so many bytes from an address on belong to one array. The first fault is noted."""
    if width == 0:
        return 1
    table = word(table_at())
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
    fault = fault_at()
    if word(fault + 8 * O.FAULT_SEEN) == 0:
        put_word(fault + 8 * O.FAULT_ADDRESS, at)
        put_word(fault + 8 * O.FAULT_WIDTH, width)
        put_word(fault + 8 * O.FAULT_SEEN, 1)
    return 0


def add_guard(context: Any, unit: Any) -> set[str]:
    """Define the guard in a library of checked kernels; returns the symbols that a loader has to see."""
    guard.compile(types.int64(types.int64, types.int64))
    (compiled,) = guard.overloads.values()
    unit.add_linking_library(compiled.library)
    module = unit.create_ir_module(GUARD)
    arguments = compiled.fndesc.argtypes
    callee = ir.Function(
        module, context.call_conv.get_function_type(types.int64, arguments), compiled.fndesc.llvm_func_name
    )
    function = ir.Function(module, ir.FunctionType(LONG, [LONG, LONG]), GUARD)
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    _, allowed = context.call_conv.call_function(builder, callee, types.int64, arguments, function.args)
    builder.ret(allowed)
    unit.add_ir_module(module)
    return {O.TABLE_SYMBOL, O.FAULT_SYMBOL}


def check_access(context: Any, builder: Any, at: Any, width: Any) -> None:
    """Emit code that fails unless `width` bytes from `at` on may be accessed."""
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(LONG, [LONG, LONG]), GUARD)
    allowed = builder.call(function, [at, width])
    with builder.if_then(cgutils.is_null(builder, allowed), likely=False):
        context.call_conv.return_user_exc(builder, O.MemoryFault, ("memory that no array owns",))
