"""The libraries of a wheel: `python -m tidelog.machine.kernels.wheel FOLDER` builds one for each target."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from tidelog.errors import CompilationError
from tidelog.machine.kernels.building import build
from tidelog.machine.kernels.cache import Entry, title
from tidelog.machine.kernels.sources import own_kernels
from tidelog.machine.kernels.targets import Target, targets_to_ship


def write_libraries(folder: Path, targets: Iterable[Target]) -> None:
    """Write a shared library for each target into a folder, from the cache where it has one."""
    folder.mkdir(parents=True, exist_ok=True)
    for target in targets:
        entry = Entry(own_kernels(), target)
        if not entry.objects():
            build(own_kernels(), target)
        if not entry.shared.exists():
            raise CompilationError("a wheel needs a linker: install a C compiler, or let CC name one")
        shutil.copy(entry.shared, folder / f"{title(own_kernels(), target)}.so")


if __name__ == "__main__":
    write_libraries(Path(sys.argv[1]), targets_to_ship())
