"""Closures as data structures: relations that follow from base edges and are never stored pair by pair.

`SymmetricClosure` and `DirectedClosure` take changes of base edges and answer for all pairs; `kernels` reads them
inside compiled joins. The names load on first use, since they bring the compiler with them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.store.closures.change import ClosureChange
    from tidelog.store.closures.closure import Closure
    from tidelog.store.closures.directed import DirectedClosure
    from tidelog.store.closures.reading import ReadableClosure
    from tidelog.store.closures.symmetric import SymmetricClosure

__all__ = ["Closure", "ClosureChange", "DirectedClosure", "ReadableClosure", "SymmetricClosure"]

_HOMES = {
    "Closure": "closure",
    "ClosureChange": "change",
    "DirectedClosure": "directed",
    "ReadableClosure": "reading",
    "SymmetricClosure": "symmetric",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
