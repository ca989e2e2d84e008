"""What every benchmark takes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console


@dataclass(frozen=True)
class Options:
    """`size` multiplies the documented sizes; a quick run has small ones of its own and ends within a minute."""

    quick: bool = False
    seed: int = 0
    size: float = 1.0
    repeat: int = 1
    timeout: float = 120.0
    data: Path | None = None

    def scale(self, quick: float) -> float:
        """The factor for sizes; `quick` is that of the quick form."""
        return self.size * (quick if self.quick else 1.0)

    def progress(self, text: str) -> None:
        """Say what is being measured."""
        if sys.stderr.isatty():
            Console(stderr=True).print(f"[dim]… {text}[/dim]", highlight=False)
