"""What kernels are written with: decorators, and raw access to memory by address.

A join visits many relations, which are known only at run time, while a compiled function has a fixed signature. So
kernels get addresses: every array of the store is owned by a Python object, and its address is in a register or a table
that kernels read. `load_i32` and its siblings are the only ways to access memory, apart from the loops over rows of
words in `bits`.

The same sources serve three kinds of process. In most, entry points are found in a library of compiled kernels
(`kernels.libraries`), and nothing calls their helpers. In a process that compiles, which has `TIDELOG_COMPILE_FOR`
set, they are what Numba compiles (`compiler`). With `NUMBA_DISABLE_JIT=1` they run as plain Python, and loads go
through `ctypes`.

In plain Python, and in kernels compiled with `TIDELOG_CHECKED=1`, every access is checked against the memory that
arrays own (`ownership`). That is several times slower, but a wrong address is an error that says so instead of a crash.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from tidelog.machine.kernels.libraries import code_of
from tidelog.machine.ownership import CHECKED, OWNED, CheckedRegisters, first_address, unchecked_access
from tidelog.runtime.thread_locks import ThreadLock

Function = TypeVar("Function", bound=Callable[..., Any])
Registers = npt.NDArray[np.int64]

JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
COMPILING = "TIDELOG_COMPILE_FOR" in os.environ

# One thread at a time: others wait for the library instead of compiling it too. Its thread may take it again, since it
# may be interrupted by a signal handler or a finalizer that needs another kernel.
_FINDING = ThreadLock()


class EntryPoint:
    """A kernel that Python calls: found in a library of compiled kernels at its first call."""

    compiling = 0.0  # seconds spent in finding libraries, for all kernels

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._code = function if JIT_DISABLED else None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __call__(self, *arguments: Any) -> Any:
        if self._code is None:
            with _FINDING.mutex:
                # Another thread may have found it meanwhile.
                self._code = self._code or self._found()
        return self._code(*arguments)

    def _found(self) -> Callable[..., Any]:
        began = time.perf_counter()
        try:
            code = code_of(self._function)
        finally:
            EntryPoint.compiling += time.perf_counter() - began
        return self._explaining(code) if CHECKED else code

    def _explaining(self, code: Callable[..., Any]) -> Callable[..., Any]:
        """The same kernel, with faults that say where they are."""

        def run(*arguments: Any) -> Any:
            try:
                return code(*arguments)
            except SystemError:
                raise OWNED.seen_fault(self.__name__) from None

        return run


def working_time() -> float:
    """Seconds, by a clock that stops while kernels are compiled."""
    return time.perf_counter() - EntryPoint.compiling


# The address of an array's first element. The caller keeps the array alive.
address: Callable[[np.ndarray[Any, Any]], int] = OWNED.register if CHECKED or JIT_DISABLED else first_address


def new_registers(count: int) -> Registers:
    """So many registers, all zero. Plain Python checks their numbers, which makes the second pass a tenth slower."""
    registers = np.zeros(count, np.int64)
    return registers.view(CheckedRegisters) if JIT_DISABLED else registers


if COMPILING and not TYPE_CHECKING:
    from tidelog.machine.compiler.functions import EntryPoint as entry_point
    from tidelog.machine.compiler.functions import device, inlined
    from tidelog.machine.compiler.instructions import (
        bits_of_float,
        clock,
        float_of_bits,
        load_i32,
        load_i64,
        load_u8,
        prefetch,
        store_i32,
        store_i64,
        store_u8,
    )
else:

    def entry_point(function: Function) -> Function:
        """Mark a kernel that Python calls. Its parameters are `Registers`, `int` or `bool`; it returns None, an integer
        or a tuple of them.
        """
        return EntryPoint(function)  # type: ignore[return-value]

    def device(function: Function) -> Function:
        """Mark a helper that only other kernels call."""
        return function

    def inlined(function: Function) -> Function:
        """Mark a small helper that has to be inlined: the call would cost more than the work."""
        return function

    # Beside compiled kernels, whoever debugs or tests a helper may still call it.
    _access = OWNED.access if CHECKED or JIT_DISABLED else unchecked_access
    load_i32, store_i32 = _access(ctypes.c_int32)
    load_i64, store_i64 = _access(ctypes.c_int64)
    load_u8, store_u8 = _access(ctypes.c_uint8)

    def float_of_bits(bits: int) -> float:
        return float(np.int64(bits).view(np.float64))

    def bits_of_float(value: float) -> int:
        return int(np.float64(value).view(np.int64))

    def prefetch(at: int) -> None:
        """A hint to the processor, useless in plain Python."""

    def clock() -> int:
        return time.perf_counter_ns()
