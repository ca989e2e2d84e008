"""How kernels are compiled: Numba with a private, stamped, per-user cache, and raw access to memory by address.

A join visits many relations, which are known only at run time, while a compiled function has a fixed signature. So
kernels get addresses: every array of the store is owned by a Python object, and its address is in a register or a table
that kernels read. `load_i32` and its siblings are the only ways to access memory, apart from the loops over rows of
words in `bits`.

With `NUMBA_DISABLE_JIT=1` the same functions run as plain Python, and loads go through `ctypes`. There, and in kernels
compiled with `TIDELOG_CHECKED=1`, every access is checked against the memory that arrays own (`ownership`). That is
several times slower, but a wrong address is an error that says so instead of a crash.

The name of the cache folder has a stamp of the kernels' sources: Numba checks only the file of the function itself, not
the helpers it calls, and would return stale code after an edit there.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import config as numba_config
from numba.extending import intrinsic

from tidelog.machine.ownership import CHECKED, OWNED, CheckedRegisters, MemoryFault, first_address

Function = TypeVar("Function", bound=Callable[..., Any])

JIT_DISABLED = bool(numba_config.DISABLE_JIT)
HAS_CLOCK = hasattr(time, "clock_gettime")


# Folders whose sources can end up in a kernel.
_SOURCES = ("machine", "closures", "joins", "store", "engine", "explain")
# What marks a file of kernels, or of constants that are compiled into them.
_MARKS = (b"@device", b"@inlined", b"@entry_point", b"# kernel constants")


def _source_stamp() -> str:
    """A hash of every source that can end up in a kernel, and of the versions of the compiler."""
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__} {sys.version}".encode())
    package = Path(__file__).parent.parent
    for folder in _SOURCES:
        for path in sorted((package / folder).rglob("*.py")):
            source = path.read_bytes()
            if folder == "machine" or any(mark in source for mark in _MARKS):
                digest.update(source)
    return digest.hexdigest()[:16]


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "tidelog" / f"kernels-{_source_stamp()}{'-checked' if CHECKED else ''}"


CACHE_FOLDER = _cache_folder()

# Kernels never need Python. Registers are elements of an array, whose bounds Numba can check itself.
OPTIONS = {"nogil": True, "boundscheck": True} if CHECKED else {"nogil": True}


def _one_version(dispatcher: Any) -> Any:
    """Compile a helper once, and not again for each constant that a caller passes, such as the number of a register.

    Numba would make a version for each; with only one, kernels compile in half the time.
    """
    if JIT_DISABLED:
        return dispatcher
    select = dispatcher.get_call_template

    def select_by_type(arguments: Any, keywords: Any) -> Any:
        by_name = {name: types.unliteral(argument) for name, argument in keywords.items()}
        return select(tuple(types.unliteral(argument) for argument in arguments), by_name)

    dispatcher.get_call_template = select_by_type
    return dispatcher


def device(function: Function) -> Function:
    """Compile a helper that only other kernels call."""
    return _one_version(numba.njit(function, **OPTIONS))


def inlined(function: Function) -> Function:
    """Compile a small helper, which LLVM has to inline: the call would cost more than the work."""
    return _one_version(numba.njit(function, forceinline=True, **OPTIONS))


def _type_of(argument: object) -> Any:
    """The type of an argument in a kernel: all integers are 64 bits wide."""
    return types.int64 if isinstance(argument, np.integer) else numba.typeof(argument)


# One thread at a time: others wait for the kernel instead of compiling it too, and Numba's settings change meanwhile.
# Reentrant, since the compiling thread may be interrupted by a signal handler or a finalizer that needs another kernel.
_COMPILING = threading.RLock()


class _EntryPoint:
    """A kernel that Python calls: compiled at its first call, cached on disk, and announced if it is not cached yet."""

    compiling = 0.0  # seconds spent in the compiler, for all kernels

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._compiled: Callable[..., Any] | None = None
        self._dispatcher: Any = None  # keeps the compiled code alive
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is None:
            with _COMPILING:
                # Another thread may have compiled it meanwhile.
                self._compiled = self._compiled or self._compiled_for(arguments)
        return self._compiled(*arguments)

    def _compiled_for(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        if JIT_DISABLED:
            return self._function
        before = numba_config.CACHE_DIR
        try:
            CACHE_FOLDER.mkdir(parents=True, exist_ok=True)
            numba_config.CACHE_DIR = str(CACHE_FOLDER)
            compiled = numba.njit(self._function, cache=True, **OPTIONS)
        except OSError:
            # A read-only home folder: compile for this process only.
            compiled = numba.njit(self._function, **OPTIONS)
        finally:
            numba_config.CACHE_DIR = before
        cold = not any(CACHE_FOLDER.rglob(f"*.{self.__name__}-*.nbi")) if CACHE_FOLDER.exists() else True
        signature = tuple(map(_type_of, arguments))
        began = time.perf_counter()
        told = cold and sys.stderr is not None and sys.stderr.isatty()  # None: it was closed before Python began
        if told:
            print(f"tidelog: compiling `{self.__name__}`, once for this machine …", file=sys.stderr, flush=True)
        self._dispatcher = self._compile(compiled, signature)
        if told:
            print(f"tidelog: compiled in {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
        _EntryPoint.compiling += time.perf_counter() - began
        # Numba would check the types of all arguments at each call, and here they never change.
        (result,) = self._dispatcher.overloads.values()
        compiled_code: Callable[..., Any] = result.entry_point
        return self._explaining(compiled_code) if CHECKED else compiled_code

    def _explaining(self, code: Callable[..., Any]) -> Callable[..., Any]:
        """The same kernel, with faults that say where they are."""

        def run(*arguments: Any) -> Any:
            try:
                return code(*arguments)
            except MemoryFault:
                raise OWNED.seen_fault(self.__name__) from None

        return run

    def _compile(self, dispatcher: Any, signature: tuple[Any, ...]) -> Any:
        """Compile a kernel; if it cannot be cached, it serves this process only."""
        try:
            dispatcher.compile(signature)
        except OSError:
            if not dispatcher.overloads:  # It failed before compiling.
                dispatcher = numba.njit(self._function, **OPTIONS)
                dispatcher.compile(signature)
        return dispatcher


def working_time() -> float:
    """Seconds, by a clock that stops while kernels are compiled."""
    return time.perf_counter() - _EntryPoint.compiling


def entry_point(function: Function) -> Function:
    """Mark a kernel that Python calls. It is compiled lazily and cached on disk; few of these keep start-up short."""
    return _EntryPoint(function)  # type: ignore[return-value]


# The address of an array's first element. The caller keeps the array alive.
address: Callable[[np.ndarray[Any, Any]], int] = OWNED.register if CHECKED or JIT_DISABLED else first_address


def new_registers(count: int) -> npt.NDArray[np.int64]:
    """So many registers, all zero. Their numbers are checked with `TIDELOG_CHECKED=1`, also in plain Python, where each
    access then takes four times as long.
    """
    registers = np.zeros(count, np.int64)
    return registers.view(CheckedRegisters) if CHECKED and JIT_DISABLED else registers


if CHECKED and not JIT_DISABLED:
    # Imported even if all kernels come from the cache: they call what it defines.
    from tidelog.machine import guard


def check_access(context: Any, builder: Any, at: Any, width: Any) -> None:
    """Emit code that checks an access to so many bytes, if accesses are checked."""
    if CHECKED:
        guard.check_access(context, builder, at, width)


if JIT_DISABLED:
    load_i32, store_i32 = OWNED.access(ctypes.c_int32)
    load_i64, store_i64 = OWNED.access(ctypes.c_int64)
    load_u8, store_u8 = OWNED.access(ctypes.c_uint8)

    def float_of_bits(bits: int) -> float:
        return float(np.int64(bits).view(np.float64))

    def bits_of_float(value: float) -> int:
        return int(np.float64(value).view(np.int64))

    def prefetch(at: int) -> None:
        """A hint to the processor, useless in plain Python."""

    def clock() -> int:
        return time.perf_counter_ns()

else:
    from llvmlite import ir
    from numba.core import cgutils

    def _loader(width: int, result: Any) -> Any:
        @intrinsic  # type: ignore[untyped-decorator]
        def load(typing_context: Any, at: Any) -> Any:
            def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                check_access(context, builder, arguments[0], ir.IntType(64)(width // 8))
                pointer = builder.inttoptr(arguments[0], ir.IntType(width).as_pointer())
                value = builder.load(pointer)
                if width == 8:
                    return builder.zext(value, ir.IntType(64))
                return builder.sext(value, ir.IntType(64)) if width < 64 else value

            return result(types.int64), codegen

        return load

    def _storer(width: int) -> Any:
        @intrinsic  # type: ignore[untyped-decorator]
        def store(typing_context: Any, at: Any, value: Any) -> Any:
            def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                check_access(context, builder, arguments[0], ir.IntType(64)(width // 8))
                pointer = builder.inttoptr(arguments[0], ir.IntType(width).as_pointer())
                stored = builder.trunc(arguments[1], ir.IntType(width)) if width < 64 else arguments[1]
                builder.store(stored, pointer)
                return context.get_dummy_value()

            return types.void(types.int64, types.int64), codegen

        return store

    # Loads widen to 64 bits, so that kernels compute in one integer type only.
    load_i32 = _loader(32, types.int64)
    load_i64 = _loader(64, types.int64)
    load_u8 = _loader(8, types.int64)
    store_i32 = _storer(32)
    store_i64 = _storer(64)
    store_u8 = _storer(8)

    @intrinsic  # type: ignore[untyped-decorator]
    def float_of_bits(typing_context: Any, bits: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], ir.DoubleType())

        return types.float64(types.int64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def bits_of_float(typing_context: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], ir.IntType(64))

        return types.int64(types.float64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def prefetch(typing_context: Any, at: Any) -> Any:
        def codegen(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            byte = ir.IntType(8).as_pointer()
            word = ir.IntType(32)
            signature = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            function = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0")
            pointer = builder.inttoptr(arguments[0], byte)
            builder.call(function, [pointer, word(0), word(1), word(1)])
            return context.get_dummy_value()

        return types.void(types.int64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def _monotonic_clock(typing_context: Any) -> Any:
        def codegen(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            word, long = ir.IntType(32), ir.IntType(64)
            moment = cgutils.alloca_once(builder, ir.ArrayType(long, 2))
            signature = ir.FunctionType(word, [word, moment.type])
            function = cgutils.get_or_insert_function(builder.module, signature, "clock_gettime")
            builder.call(function, [word(time.CLOCK_MONOTONIC), moment])
            seconds, rest = (builder.extract_value(builder.load(moment), place) for place in range(2))
            return builder.add(builder.mul(seconds, long(1_000_000_000)), rest)

        return types.int64(), codegen

    @inlined
    def clock() -> int:
        """Nanoseconds from an arbitrary start; 0 where the C library has no such clock."""
        return _monotonic_clock() if HAS_CLOCK else 0
