"""Numba's code generator, set up for object code: nothing is made executable, and everything is optimised once.

Numba optimises each function with all that it calls, then its callers with all of that again, and makes each of them
executable. Here a function waits as it was lowered. Only when the kernels of a unit are linked does LLVM see them, with
their helpers, in one piece. That takes less than half of the time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from llvmlite import binding as llvm
from numba import _dynfunc
from numba.core.codegen import AOTCodeLibrary, AOTCPUCodegen
from numba.core.cpu import CPUContext
from numba.core.registry import cpu_target


class CodeLibrary(AOTCodeLibrary):  # type: ignore[misc]
    """The code of one function as it was lowered, or of a unit of kernels."""

    def finalize(self) -> None:
        """Nothing is linked or optimised yet."""
        self._finalized = True

    def _optimize_functions(self, ll_module: Any) -> None:
        """Later, with everything else."""
        ll_module.data_layout = self._codegen._data_layout

    def emit(self, exported: Collection[str]) -> bytes:
        """The object code of this library and of all that it calls, in which only some symbols can be seen."""
        module = self._final_module
        for library in self._callees():
            module.link_in(library._final_module, preserve=True)
        for symbol in (*module.functions, *module.global_variables):
            if not symbol.is_declaration and symbol.name not in exported:
                symbol.linkage = llvm.Linkage.internal
        passes, builder = self._codegen._module_pass_manager()
        passes.run(module, builder)
        return bytes(self._codegen._tm.emit_object(module))

    def _callees(self) -> list[CodeLibrary]:
        """All that it calls, and all that those call."""
        found: dict[CodeLibrary, None] = dict.fromkeys(self._linking_libraries)
        waiting = list(found)
        while waiting:
            new = [library for library in waiting.pop()._linking_libraries if library not in found]
            found.update(dict.fromkeys(new))
            waiting += new
        return list(found)


class _Codegen(AOTCPUCodegen):  # type: ignore[misc]
    _library_class = CodeLibrary


class _Context(CPUContext):  # type: ignore[misc]
    """How Numba lowers functions: without a runtime, since kernels never allocate."""

    processor = ""

    def init(self) -> None:
        super().init()
        self._internal_codegen = _Codegen("tidelog", self.processor)

    def post_lowering(self, mod: Any, library: Any) -> None:
        """Nothing of Numba's runtime is linked in."""

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Any:
        """What Numba knows a compiled function by. Nobody calls it: it has no code."""
        return _dynfunc.make_function(fndesc.lookup_module(), fndesc.qualname, "", 1, env, (library,))


def compile_for(processor: str) -> Any:
    """Let Numba compile everything for a processor, under its name in LLVM, from now on; returns its context."""
    _Context.processor = processor
    cpu_target.__dict__["_toplevel_target_context"] = context = _Context(cpu_target.typing_context, "cpu")
    return context
