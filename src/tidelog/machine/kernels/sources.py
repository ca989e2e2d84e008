"""The sources of kernels: which there are, and a stamp of all that can end up in their code.

Compiled kernels carry the stamp in their name, and are not used with other sources. It covers the helpers, too, which
any kernel may call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2]

# Folders whose sources can end up in a kernel.
_FOLDERS = ("closures", "engine", "explain", "joins", "store")
# All of these do: what kernels share, and what generates their code.
_WHOLE_FOLDERS = ("machine", "machine/compiler")
# What marks a file of kernels, or of constants that are compiled into them.
_MARKS = (b"@device", b"@inlined", b"@entry_point", b"# kernel constants")


class Kernel(NamedTuple):
    """An entry point: its module, the file of that unless it is one of tidelog's, and its name."""

    module: str
    file: str | None
    name: str

    @property
    def symbol(self) -> str:
        return f"{self.module}.{self.name}"


class KernelSet(NamedTuple):
    """The kernels that share a library: all of tidelog's, or those of a module elsewhere."""

    name: str
    stamp: str
    files: tuple[tuple[str, str | None, Path], ...]  # modules

    def kernels(self) -> list[Kernel]:
        return [kernel for module, file, path in self.files for kernel in _kernels_in(module, file, path)]


@cache
def own_kernels() -> KernelSet:
    """The kernels of tidelog."""
    digest = hashlib.sha256()
    modules = []
    for path, source in stamped_sources():
        digest.update(source)
        if b"\n@entry_point\n" in source:
            modules.append((module_of(path), None, path))
    return KernelSet("kernels", digest.hexdigest()[:16], tuple(modules))


def kernels_of(module: str, file: str) -> KernelSet:
    """The kernels of a module that is not a part of tidelog."""
    path = Path(file).resolve()
    digest = hashlib.sha256(own_kernels().stamp.encode() + path.read_bytes())
    return KernelSet(f"kernels-of-{module}", digest.hexdigest()[:16], ((module, str(path), path),))


def module_of(path: Path) -> str:
    """The name of a module of tidelog."""
    return ".".join(("tidelog", *path.relative_to(PACKAGE).with_suffix("").parts))


def stamped_sources() -> Iterator[tuple[Path, bytes]]:
    """The files of tidelog that can end up in compiled code, with their content."""
    for folder in _WHOLE_FOLDERS:
        for path in sorted((PACKAGE / folder).glob("*.py")):
            yield path, path.read_bytes()
    for folder in _FOLDERS:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            source = path.read_bytes()
            if any(mark in source for mark in _MARKS):
                yield path, source


def _kernels_in(module: str, file: str | None, path: Path) -> Iterator[Kernel]:
    import ast

    for item in ast.parse(path.read_bytes()).body:
        if isinstance(item, ast.FunctionDef):
            marks = {mark.id for mark in item.decorator_list if isinstance(mark, ast.Name)}
            if "entry_point" in marks:
                yield Kernel(module, file, item.name)
