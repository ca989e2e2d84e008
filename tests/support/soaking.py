"""Soaks: the same tests with fresh seeds, for as many seconds as the environment variable TIDELOG_SOAK says.

Without it a test takes the seeds that it names, always the same. `make soak` sets it, and runs every test that reads
it. The seed in work is noted in `soak.log`, since a crash leaves no other trace of it; so is how many cases were done.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

NOTES = Path("soak.log")


def soak_seconds() -> float:
    """How long to go on; 0 if there is no soak."""
    return float(os.environ.get("TIDELOG_SOAK") or 0)


def tell(what: str, cases: int) -> None:
    """Note how many cases a soak has done."""
    if soak_seconds():
        with NOTES.open("a", encoding="utf-8") as notes:
            notes.write(f"{what}: {cases} done\n")


def seeds(usual: Iterable[int], what: str) -> Iterator[int]:
    """The usual seeds, or fresh ones for as long as the soak lasts."""
    seconds = soak_seconds()
    if not seconds:
        yield from usual
        return
    end = time.monotonic() + seconds
    with NOTES.open("a", encoding="utf-8") as notes:
        seed = first = time.time_ns() // 1_000_000
        while time.monotonic() < end:
            notes.write(f"{what}: {seed}\n")
            notes.flush()
            yield seed
            seed += 1
    tell(what, seed - first)
