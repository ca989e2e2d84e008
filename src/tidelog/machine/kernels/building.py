"""Building a library of kernels: all of them, on all cores, with a bar, into the user's cache.

Whoever builds holds a lock, so that other processes wait for the result instead of doing the same. The folder of a
library is made under another name and renamed in the end: whatever happens meanwhile, no half of it is ever used.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tidelog.machine.kernels.cache import Entry, cache_folder
from tidelog.machine.kernels.linking import link
from tidelog.machine.kernels.progress import Progress, tell
from tidelog.machine.kernels.sources import KernelSet
from tidelog.machine.kernels.targets import Target
from tidelog.machine.kernels.units import units_of
from tidelog.machine.kernels.workers import object_code

_LOCK = "kernels.lock"
_UNFINISHED = ".unfinished"

_within = False  # whether this process is building; one thread at a time does


def build(kernels: KernelSet, target: Target) -> Sequence[bytes]:
    """Build a library into the cache, or wait for the process that does. Where it cannot be kept, returns its object
    code, for this process only.
    """
    global _within
    entry = Entry(kernels, target)
    problem: OSError | None = None
    outermost, _within = not _within, True
    try:
        with ExitStack() as held:
            # A signal handler that interrupts a building builds for itself, instead of waiting for what it interrupts.
            if outermost:
                try:
                    held.enter_context(_building_alone())
                except OSError as reason:
                    problem = reason
                if entry.objects():  # Another process was faster.
                    return ()
            return _built(kernels, target, entry, problem)
    finally:
        _within = not outermost


def _built(kernels: KernelSet, target: Target, entry: Entry, problem: OSError | None) -> Sequence[bytes]:
    """Compile kernels and keep them in the cache, unless there is a problem with it."""
    units = units_of(kernels)
    count = sum(len(unit.kernels) for unit in units)
    with Progress(f"{count} kernels", sum(unit.work for unit in units)) as progress:
        objects = object_code(units, target, progress)
        if problem is None:
            try:
                _keep(objects, entry)
            except OSError as reason:
                problem = reason
            else:
                progress.end(f"and kept them in {cache_folder()}")
                return ()
        progress.end(
            f"for this process only: {cache_folder()} cannot be written ({problem.strerror or problem}); "
            "let XDG_CACHE_HOME name a folder that can"
        )
        return objects


@contextmanager
def _building_alone() -> Iterator[None]:
    """Within, no other process of this user builds a library. Raises an OSError where nothing can be written."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    descriptor = os.open(cache_folder() / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("another process is compiling the kernels; waiting for it …")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # A child that was forked meanwhile would hold it, too.
    finally:
        os.close(descriptor)


def _keep(objects: Sequence[bytes], entry: Entry) -> None:
    """Write a library into the cache, as a whole or not at all."""
    unfinished = entry.folder.with_name(entry.folder.name + _UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)  # that of a process that was killed
    try:
        unfinished.mkdir()
        paths = [unfinished / f"{number}.o" for number in range(len(objects))]
        for path, code in zip(paths, objects, strict=True):
            path.write_bytes(code)
        link(paths, unfinished / entry.shared.name)
        for path in unfinished.iterdir():
            _flush(path)
        unfinished.rename(entry.folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _flush(path: os.PathLike[str]) -> None:
    """Let a file reach the disk before its folder gets its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
