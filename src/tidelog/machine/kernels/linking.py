"""Linking object code into a shared library, where the machine has a C compiler to do it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def link(objects: Sequence[Path], library: Path) -> bool:
    """Write a shared library; whether that was possible.

    It names no other library: what it needs of Python and of the C library is there in every process of Python.
    """
    command = shlex.split(os.environ.get("CC", "cc"))
    if sys.platform != "linux" or not command or shutil.which(command[0]) is None:
        return False
    options = ["-shared", "-nostdlib", "-Wl,-s", "-Wl,-z,noexecstack", "-o", str(library)]
    done = subprocess.run([*command, *options, *map(str, objects)], capture_output=True, check=False)
    return done.returncode == 0
