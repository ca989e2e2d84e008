"""Instructions of kernels that Python has no words for: access to memory by address, bits of words, a clock."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tidelog.machine.compiler.functions import inlined
from tidelog.machine.ownership import CHECKED

LONG = ir.IntType(64)


def instruction(result: Any, *kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a function of kernels from one that emits its code, given Numba's context, a builder and arguments."""

    def decorate(emit: Callable[..., Any]) -> Any:
        def definition(_typing_context: Any, *_arguments: Any) -> Any:
            def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
                value = emit(context, builder, *arguments)
                return context.get_dummy_value() if result == types.void else value

            return result(*kinds), codegen

        signature = inspect.signature(emit)
        context, _builder, *parameters = signature.parameters.values()
        definition.__signature__ = signature.replace(parameters=[context, *parameters])  # type: ignore[attr-defined]
        definition.__name__ = emit.__name__
        return intrinsic(definition)

    return decorate


# --- memory -----------------------------------------------------------------------------------------------------------


def _check_access(context: Any, builder: Any, at: Any, width: Any) -> None:
    """Emit code that checks an access to so many bytes, if accesses are checked."""
    if CHECKED:
        from tidelog.machine.compiler.guard import check_access

        check_access(context, builder, at, width)


def _pointer(context: Any, builder: Any, at: Any, width: int) -> Any:
    _check_access(context, builder, at, LONG(width // 8))
    return builder.inttoptr(at, ir.IntType(width).as_pointer())


def _loader(width: int, signed: bool = True) -> Any:
    @instruction(types.int64, types.int64)
    def load(context: Any, builder: Any, at: Any) -> Any:
        value = builder.load(_pointer(context, builder, at, width))
        return builder.sext(value, LONG) if signed else builder.zext(value, LONG)

    return load


def _storer(width: int) -> Any:
    @instruction(types.void, types.int64, types.int64)
    def store(context: Any, builder: Any, at: Any, value: Any) -> None:
        builder.store(builder.trunc(value, ir.IntType(width)), _pointer(context, builder, at, width))

    return store


# Loads widen to 64 bits, so that kernels compute in one integer type only.
load_i32, store_i32 = _loader(32), _storer(32)
load_i64, store_i64 = _loader(64), _storer(64)
load_u8, store_u8 = _loader(8, signed=False), _storer(8)


@instruction(types.void, types.int64)
def prefetch(_context: Any, builder: Any, at: Any) -> None:
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    signature = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    function = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0")
    builder.call(function, [builder.inttoptr(at, byte), word(0), word(1), word(1)])


# --- bits -------------------------------------------------------------------------------------------------------------


@instruction(types.float64, types.int64)
def float_of_bits(_context: Any, builder: Any, bits: Any) -> Any:
    return builder.bitcast(bits, ir.DoubleType())


@instruction(types.int64, types.float64)
def bits_of_float(_context: Any, builder: Any, value: Any) -> Any:
    return builder.bitcast(value, LONG)


@instruction(types.int64, types.int64)
def population(_context: Any, builder: Any, word: Any) -> Any:
    return builder.ctpop(word)


@instruction(types.int64, types.int64)
def first_bit(_context: Any, builder: Any, word: Any) -> Any:
    return builder.cttz(word, ir.Constant(ir.IntType(1), 1))


# --- rows of words: loops over plain pointers, which LLVM vectorises, unlike loops over computed addresses ------------


def _words(context: Any, builder: Any, count: Any, *addresses: Any) -> Any:
    """Pointers to rows of so many words; each row is checked as a whole."""
    for at in addresses:
        _check_access(context, builder, at, builder.mul(count, LONG(8)))
    return [builder.inttoptr(at, LONG.as_pointer()) for at in addresses]


@instruction(types.int64, types.int64, types.int64, types.int64)
def unite_words(context: Any, builder: Any, target: Any, source: Any, count: Any) -> Any:
    targets, sources = _words(context, builder, count, target, source)
    added = cgutils.alloca_once_value(builder, LONG(0))
    with cgutils.for_range(builder, count) as loop:
        at = builder.gep(targets, [loop.index])
        old = builder.load(at)
        new = builder.and_(builder.load(builder.gep(sources, [loop.index])), builder.not_(old))
        builder.store(builder.or_(old, new), at)
        builder.store(builder.add(builder.load(added), builder.ctpop(new)), added)
    return builder.load(added)


@instruction(types.void, types.int64, types.int64, types.int64)
def or_words(context: Any, builder: Any, target: Any, source: Any, count: Any) -> None:
    targets, sources = _words(context, builder, count, target, source)
    with cgutils.for_range(builder, count) as loop:
        at = builder.gep(targets, [loop.index])
        builder.store(builder.or_(builder.load(at), builder.load(builder.gep(sources, [loop.index]))), at)


# --- time -------------------------------------------------------------------------------------------------------------

HAS_CLOCK = hasattr(time, "clock_gettime")


@instruction(types.int64)
def _monotonic_clock(_context: Any, builder: Any) -> Any:
    word = ir.IntType(32)
    moment = cgutils.alloca_once(builder, ir.ArrayType(LONG, 2))
    signature = ir.FunctionType(word, [word, moment.type])
    function = cgutils.get_or_insert_function(builder.module, signature, "clock_gettime")
    builder.call(function, [word(time.CLOCK_MONOTONIC), moment])
    seconds, rest = (builder.extract_value(builder.load(moment), place) for place in range(2))
    return builder.add(builder.mul(seconds, LONG(1_000_000_000)), rest)


@inlined
def clock() -> int:
    """Nanoseconds from an arbitrary start; 0 where the C library has no such clock."""
    return _monotonic_clock() if HAS_CLOCK else 0
