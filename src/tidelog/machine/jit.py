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
import inspect
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


_CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
CACHE_FOLDER = _CACHES / "tidelog" / f"kernels-{_source_stamp()}{'-checked' if CHECKED else ''}"

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
    """So many registers, all zero. Plain Python checks their numbers, which makes the second pass a tenth slower."""
    registers = np.zeros(count, np.int64)
    return registers.view(CheckedRegisters) if JIT_DISABLED else registers


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

    def _pointer(context: Any, builder: Any, at: Any, width: int) -> Any:
        check_access(context, builder, at, LONG(width // 8))
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

    @instruction(types.float64, types.int64)
    def float_of_bits(_context: Any, builder: Any, bits: Any) -> Any:
        return builder.bitcast(bits, ir.DoubleType())

    @instruction(types.int64, types.float64)
    def bits_of_float(_context: Any, builder: Any, value: Any) -> Any:
        return builder.bitcast(value, LONG)

    @instruction(types.void, types.int64)
    def prefetch(_context: Any, builder: Any, at: Any) -> None:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        signature = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0")
        builder.call(function, [builder.inttoptr(at, byte), word(0), word(1), word(1)])

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
