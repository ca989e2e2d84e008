"""The kinds of processor that kernels are compiled for, and which of them this machine has."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Target(NamedTuple):
    """A kind of processor, under its name in LLVM; empty for any processor of this architecture."""

    name: str
    processor: str

    @property
    def title(self) -> str:
        return f"{sys.platform}-{self.name}"


BASELINE = Target("x86-64", "x86-64")
WITH_AVX2 = Target("x86-64-v3", "x86-64-v3")

# What x86-64-v3 has beyond the baseline, as Linux names it; it lists no more than the system lets programs use.
_V3_FLAGS = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}


@cache
def targets_here() -> tuple[Target, ...]:
    """What runs on this machine, the fastest first."""
    machine = os.uname().machine.lower()
    if machine not in ("x86_64", "amd64"):
        return (Target(machine, ""),)
    return (WITH_AVX2, BASELINE) if _V3_FLAGS.issubset(_processor_flags()) else (BASELINE,)


def targets_to_ship() -> tuple[Target, ...]:
    """What a wheel that is built here has to serve: every processor of this architecture."""
    return (WITH_AVX2, BASELINE) if BASELINE in targets_here() else targets_here()


def _processor_flags() -> set[str]:
    """What the processor can do; nothing is known of it on other systems than Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
