"""The decorators of kernels where they are compiled, and the object code of a unit of kernels."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_type_hints

import numba
from numba import types
from numba.core.compiler_lock import global_compiler_lock

from tidelog.machine.compiler.built_ins import PARAMETERS, RESULTS, add_built_in
from tidelog.machine.compiler.code_libraries import compile_for
from tidelog.machine.ownership import CHECKED

# The process that compiles is started for one kind of processor.
CONTEXT = compile_for(os.environ["TIDELOG_COMPILE_FOR"])

# Kernels never need Python. Registers are elements of an array, whose bounds Numba can check itself.
OPTIONS = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "boundscheck": CHECKED}


def device(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a helper that only other kernels call.

    It is compiled once, and not again for each constant that a caller passes, such as the number of a register: with
    only one version, kernels compile in half the time.
    """
    dispatcher = numba.njit(function, **OPTIONS, **options)
    select = dispatcher.get_call_template

    def select_by_type(arguments: Any, keywords: Any) -> Any:
        by_name = {name: types.unliteral(argument) for name, argument in keywords.items()}
        return select(tuple(types.unliteral(argument) for argument in arguments), by_name)

    dispatcher.get_call_template = select_by_type
    return dispatcher


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a small helper, which LLVM has to inline: the call would cost more than the work."""
    return device(function, forceinline=True)


class EntryPoint:
    """A kernel that Python will call. Its annotations say what it takes and returns."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._dispatcher = numba.njit(function, **OPTIONS)
        self.symbol = f"{function.__module__}.{function.__name__}"
        hints = get_type_hints(function)
        self._parameters = [self._kind(PARAMETERS, hints.get(name)) for name in inspect.signature(function).parameters]
        self._result = self._kind(RESULTS, hints.get("return"))

    def _kind(self, kinds: Mapping[Any, Any], hint: Any) -> Any:
        if hint not in kinds:
            raise TypeError(
                f"{self.symbol}: annotate what an entry point takes, as Registers, int or bool, and what it returns, "
                "as None, int or a tuple of two or three integers"
            )
        return kinds[hint]

    def compile_into(self, unit: Any) -> None:
        """Compile it, with a built-in function of Python around it, into a library."""
        arguments = [kind.type for kind in self._parameters]
        self._dispatcher.compile(self._result.type(*arguments))
        (compiled,) = self._dispatcher.overloads.values()
        add_built_in(CONTEXT, unit, self.symbol, compiled.fndesc, self._parameters, self._result)
        unit.add_linking_library(compiled.library)


def object_code(kernels: Iterable[EntryPoint]) -> bytes:
    """The object code of some kernels, which share their helpers."""
    kernels = list(kernels)
    with global_compiler_lock:
        unit = CONTEXT.codegen().create_library("unit")
        for kernel in kernels:
            kernel.compile_into(unit)
        exported = {kernel.symbol for kernel in kernels}
        if CHECKED:
            from tidelog.machine.compiler.guard import add_guard

            exported |= add_guard(CONTEXT, unit)
        return unit.emit(exported)
