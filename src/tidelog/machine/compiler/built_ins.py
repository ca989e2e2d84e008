"""A built-in function of Python around each kernel: it unpacks the arguments, lets other threads run, calls the kernel.

It uses nothing but the stable ABI of Python 3.11, so compiled kernels serve all later versions. A call through `ctypes`
would take six times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

from tidelog.machine.ownership import Longs

BYTE, INT, LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)
POINTER = BYTE.as_pointer()
BUFFER = ir.ArrayType(LONG, 10)  # the structure `Py_buffer`
BUFFER_START, BUFFER_LENGTH = 0, 2
REGISTERS = types.Array(types.int64, 1, "C")


def _registers(context: Any, builder: Any, at: Any) -> Any:
    """The array of a buffer of registers."""
    start, length = (builder.load(builder.gep(at, [INT(0), INT(place)])) for place in (BUFFER_START, BUFFER_LENGTH))
    array = make_array(REGISTERS)(context, builder)
    data = builder.inttoptr(start, LONG.as_pointer())
    populate_array(array, data, [builder.udiv(length, LONG(8))], [LONG(8)], LONG(8), None)
    return array._getvalue()


class Parameter(NamedTuple):
    """How an argument is unpacked: its format for `PyArg_ParseTuple`, where that puts it, and the kernel's value."""

    type: Any
    format: str
    room: Any
    value: Callable[[Any, Any, Any], Any]


class Result(NamedTuple):
    """How a result is packed, as a format for `Py_BuildValue`."""

    type: Any
    format: str
    values: Callable[[Any, Any], Sequence[Any]]


def _tuple(length: int) -> Result:
    def values(builder: Any, result: Any) -> list[Any]:
        return [builder.extract_value(result, place) for place in range(length)]

    return Result(types.UniTuple(types.int64, length), f"({'L' * length})", values)


# By the annotations of entry points.
PARAMETERS = {
    Longs: Parameter(REGISTERS, "w*", BUFFER, _registers),
    int: Parameter(types.int64, "L", LONG, lambda _context, builder, at: builder.load(at)),
    bool: Parameter(
        types.boolean, "p", INT, lambda _context, builder, at: builder.icmp_signed("!=", builder.load(at), INT(0))
    ),
}
RESULTS = {
    type(None): Result(types.none, "", lambda _builder, _result: []),
    int: Result(types.int64, "L", lambda _builder, result: [result]),
    tuple[int, int]: _tuple(2),
    tuple[int, int, int]: _tuple(3),
}


class _Python:
    """The functions of Python's C API, as far as they are needed here."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self._builder = builder

    def call(self, name: str, result: Any, *arguments: Any, named: int | None = None) -> Any:
        """Call one; `named` says how many parameters are named if there are more arguments."""
        kinds = [argument.type for argument in arguments][:named]
        signature = ir.FunctionType(result, kinds, var_arg=named is not None)
        function = cgutils.get_or_insert_function(self._builder.module, signature, name)
        return self._builder.call(function, arguments)

    def text(self, text: str) -> Any:
        data = cgutils.make_bytearray(text.encode() + b"\0")
        constant = cgutils.global_constant(self._builder, "words", data)
        return self._builder.bitcast(constant, POINTER)

    def system_error(self) -> Any:
        name = "PyExc_SystemError"
        known = self._builder.module.globals.get(name)
        return self._builder.load(known or ir.GlobalVariable(self._builder.module, POINTER, name))


def add_built_in(
    context: Any, unit: Any, symbol: str, descriptor: Any, parameters: Sequence[Parameter], result: Result
) -> None:
    """Add the built-in function of a kernel to a library, under its symbol."""
    module = unit.create_ir_module(symbol)
    kernel = ir.Function(
        module, context.call_conv.get_function_type(result.type, descriptor.argtypes), descriptor.llvm_func_name
    )
    function = ir.Function(module, ir.FunctionType(POINTER, [POINTER, POINTER]), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    python = _Python(builder)
    nothing = ir.Constant(POINTER, None)
    name = symbol.rpartition(".")[2]

    rooms = [builder.alloca(parameter.room) for parameter in parameters]
    formats = "".join(parameter.format for parameter in parameters)
    parsed = python.call("PyArg_ParseTuple", INT, function.args[1], python.text(f"{formats}:{name}"), *rooms, named=2)
    with builder.if_then(builder.icmp_signed("==", parsed, INT(0)), likely=False):
        builder.ret(nothing)
    values = [parameter.value(context, builder, room) for parameter, room in zip(parameters, rooms, strict=True)]

    thread = python.call("PyEval_SaveThread", POINTER)
    status, returned = context.call_conv.call_function(builder, kernel, result.type, descriptor.argtypes, values)
    python.call("PyEval_RestoreThread", ir.VoidType(), thread)

    for room in rooms:
        if room.type.pointee == BUFFER:
            python.call("PyBuffer_Release", ir.VoidType(), builder.bitcast(room, POINTER))
    with builder.if_then(status.is_error, likely=False):
        python.call("PyErr_SetString", ir.VoidType(), python.system_error(), python.text(f"kernel `{name}` failed"))
        builder.ret(nothing)
    packed = result.values(builder, returned)
    builder.ret(python.call("Py_BuildValue", POINTER, python.text(result.format), *packed, named=1))
    unit.add_ir_module(module)
