"""What is compiled together, and how much work that is: for the bar, and to begin with the largest.

A unit has the kernels of a module, which share most of their helpers. Its work is estimated in lines of source: those
of its kernels, and of every helper that they reach.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from tidelog.machine.kernels.sources import Kernel, KernelSet, module_of, stamped_sources

Name = tuple[str, str]  # of a function: its module, and its name there


class Unit(NamedTuple):
    """Kernels that are compiled together, into one file of object code."""

    kernels: tuple[Kernel, ...]
    work: int


def units_of(kernels: KernelSet) -> list[Unit]:
    """All kernels of a library in units, the largest first."""
    functions: dict[Name, _Function] = {}
    for path, source in stamped_sources():
        functions |= _functions(module_of(path), source)
    for module, _, path in kernels.files:
        functions |= _functions(module, path.read_bytes())
    units = []
    for _, group in groupby(kernels.kernels(), key=lambda kernel: kernel.module):
        together = tuple(group)
        units.append(Unit(together, _lines_reached(together, functions)))
    return sorted(units, key=lambda unit: unit.work, reverse=True)


class _Function(NamedTuple):
    lines: int
    uses: set[Name]


def _functions(module: str, source: bytes) -> dict[Name, _Function]:
    """The functions of a module, with all names of other functions in them."""
    tree = ast.parse(source)
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    names = {function.name: (module, function.name) for function in defined}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
    return {
        names[function.name]: _Function((function.end_lineno or 0) - function.lineno + 1, _uses(function, names))
        for function in defined
    }


def _uses(function: ast.FunctionDef, names: dict[str, Name]) -> set[Name]:
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in names:
            found.add(names[node.id])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            found.add((".".join(names[node.value.id]), node.attr))
    return found


def _lines_reached(kernels: Iterable[Kernel], functions: dict[Name, _Function]) -> int:
    reached: set[Name] = set()
    waiting = [(kernel.module, kernel.name) for kernel in kernels]
    while waiting:
        name = waiting.pop()
        if name in functions and name not in reached:
            reached.add(name)
            waiting += functions[name].uses
    return sum(functions[name].lines for name in reached)
