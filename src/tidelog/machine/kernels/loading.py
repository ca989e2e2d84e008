"""Loading compiled kernels: a shared library by the system's loader, object code by that of LLVM.

Each kernel has a built-in function of Python around it (`machine.compiler.built_ins`), which is found by its symbol and
becomes a callable.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tidelog.machine.ownership import CHECKED, FAULT_SYMBOL, OWNED, TABLE_SYMBOL, first_address

_METH_VARARGS = 1


class _MethodDefinition(ctypes.Structure):
    """`PyMethodDef`: how Python describes a built-in function."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("description", ctypes.c_char_p),
    )


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


# What the functions of libraries point to. They may be anywhere until the process ends, and so is this.
_kept: list[object] = []


class Library:
    """A loaded library."""

    def __init__(self, address_of: Callable[[str], int], place: str) -> None:
        self._address_of = address_of
        self.place = place
        _kept.append(address_of)
        if CHECKED:
            for symbol, array in ((TABLE_SYMBOL, OWNED.table), (FAULT_SYMBOL, OWNED.fault)):
                ctypes.c_int64.from_address(address_of(symbol)).value = first_address(array)

    @classmethod
    def of_file(cls, path: Path) -> Library:
        """Load a shared library."""
        linked = ctypes.CDLL(str(path))

        def address_of(symbol: str) -> int:
            return ctypes.cast(linked[symbol], ctypes.c_void_p).value or 0

        return cls(address_of, str(path))

    @classmethod
    def of_objects(cls, objects: Iterable[bytes], place: str) -> Library:
        """Load object code, as it was compiled, where nothing has linked it."""
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        for code in objects:
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()

        def address_of(symbol: str) -> int:
            return int(engine.get_function_address(symbol) or engine.get_global_value_address(symbol))

        return cls(address_of, place)

    def function(self, symbol: str) -> Callable[..., Any]:
        """The callable of a kernel."""
        name = symbol.rpartition(".")[2].encode()
        definition = _MethodDefinition(name, self._address_of(symbol), _METH_VARARGS, None)
        _kept.append(definition)
        made: Callable[..., Any] = _new_function(ctypes.byref(definition), None, None)
        return made
