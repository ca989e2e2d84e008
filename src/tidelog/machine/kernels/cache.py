"""The user's cache of compiled kernels: `$XDG_CACHE_HOME/tidelog`, or `~/.cache/tidelog`.

Each library has a folder, whose name says what it was made of and for: object code and, where there is a linker, the
shared library made of it. A folder is complete as soon as it has its name (`building`).
"""

from __future__ import annotations

import os
from pathlib import Path

from tidelog.machine.kernels.loading import Library
from tidelog.machine.kernels.sources import KernelSet
from tidelog.machine.kernels.targets import Target
from tidelog.machine.ownership import CHECKED


def title(kernels: KernelSet, target: Target) -> str:
    """The name of a library: its kernels, the stamp of their sources, and the target."""
    return f"{kernels.name}-{kernels.stamp}-{target.title}{'-checked' if CHECKED else ''}"


def cache_folder() -> Path:
    """Where this user keeps what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "tidelog"


class Entry:
    """The place of a library in the cache."""

    def __init__(self, kernels: KernelSet, target: Target) -> None:
        self.folder = cache_folder() / title(kernels, target)
        self.shared = self.folder / "kernels.so"  # missing where nothing could link it

    def objects(self) -> list[Path]:
        """The files of object code; none where there is no library."""
        return sorted(self.folder.glob("*.o"))

    def load(self) -> Library | None:
        """The library, unless it is not there."""
        try:
            return Library.of_file(self.shared)
        except OSError:
            # Not linked, or in a place from which the system loads no code.
            objects = [path.read_bytes() for path in self.objects()]
            return Library.of_objects(objects, str(self.folder)) if objects else None
