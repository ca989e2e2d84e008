"""Progress on standard error, for people: nothing is shown where standard error is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reading(what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """A bar that fills while a file or folder of so many bytes is read; yields the function to tell of bytes read."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"reading {what}", total=total_bytes)
        yield lambda count: progress.update(task, advance=count)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A sign of life while something of unknown length is done."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
