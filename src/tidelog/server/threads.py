"""The threads that answer what may take long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Found = TypeVar("Found")

MOST = 8


class Threads:
    """Some threads, from the first question to `close`."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST, "tidelog-read")

    async def run(self, look: Callable[[], Found]) -> Found:
        """What a function finds that may take long."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

    def close(self) -> None:
        """Wait for what is being looked for, and for nothing else."""
        self._threads.shutdown(wait=True, cancel_futures=True)
