"""Where the tests find each other: helpers, workers that run in processes of their own, the repository."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parent.parent
FOLDERS = (
    SUPPORT,
    *(SUPPORT / name for name in ("live", "oracles", "programs", "scenes", "server", "spark", "storage")),
)

# How to run a test script by hand.
BY_HAND = f"PYTHONPATH={':'.join(str(folder.relative_to(ROOT)) for folder in FOLDERS)} python"


def worker(name: str) -> str:
    """The path of a script that tests run in a process of its own."""
    (found,) = (folder / name for folder in FOLDERS if (folder / name).exists())
    return str(found)
