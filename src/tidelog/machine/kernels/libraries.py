"""Where the code of a kernel comes from: the library of the wheel, the user's cache, or the compiler."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tidelog.machine.kernels.cache import Entry, title
from tidelog.machine.kernels.loading import Library
from tidelog.machine.kernels.sources import PACKAGE, KernelSet, kernels_of, own_kernels
from tidelog.machine.kernels.targets import targets_here

# Where a wheel has its libraries.
SHIPPED = PACKAGE / "kernels"

_loaded: dict[str, Library] = {}


def warm_up() -> str:
    """Have all kernels of tidelog at hand, compiled if they have to be; returns where they are."""
    return _library(own_kernels()).place


def code_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The compiled code of an entry point. All kernels of its library are compiled if they have to be."""
    module = function.__module__
    kernels = own_kernels() if module.startswith("tidelog.") else kernels_of(module, function.__code__.co_filename)
    return _library(kernels).function(f"{module}.{function.__name__}")


def _library(kernels: KernelSet) -> Library:
    if kernels.name not in _loaded:
        _loaded[kernels.name] = _shipped(kernels) or _cached(kernels)
    return _loaded[kernels.name]


def _shipped(kernels: KernelSet) -> Library | None:
    """The library of the wheel for this machine, if it matches the sources."""
    for target in targets_here():
        path = SHIPPED / f"{title(kernels, target)}.so"
        if path.exists():
            with suppress(OSError):  # The system may load no code from there.
                return Library.of_file(path)
    return None


def _cached(kernels: KernelSet) -> Library:
    """The library of the cache, which is built where it is missing."""
    target = targets_here()[0]
    entry = Entry(kernels, target)
    found = entry.load()
    while found is None:
        # Needed once for a machine; it loads much that other processes do without.
        from tidelog.machine.kernels.building import build

        objects = build(kernels, target)
        found = Library.of_objects(objects, "this process only") if objects else entry.load()
    return found
