"""The code: the memory that holds all plans as words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.machine import plan_words as P
from tidelog.machine import registers as M
from tidelog.machine.growth import grown
from tidelog.machine.jit import address

# With more words than this, a quarter of a megabyte, plans of removed rules are looked for.
CROWDED_FROM = 1 << 16


class Computing(NamedTuple):
    """A plan whose steps may fail for want of a value, and its variables in the order of their cells in a frame. What
    plans are, only those who make them know.
    """

    plan: Any
    variables: tuple[Any, ...]


class Code:
    """The memory that holds all plans."""

    def __init__(self, machine: npt.NDArray[np.int64]) -> None:
        self._machine = machine
        self._words = np.zeros(1024, np.int32)
        self.size = 1  # the words in use, including those of plans that are no longer needed
        self._limit = CROWDED_FROM
        self.generation = 0  # another number when all plans have been forgotten
        self.constants: set[int] = set()  # the terms that plans name
        self.computing: dict[int, Computing] = {}  # by their offsets
        machine[M.CODE] = address(self._words)

    @property
    def crowded(self) -> bool:
        """Whether so much has been added that counting what is still needed is worthwhile."""
        return self.size > self._limit

    def make_room(self, needed: int) -> bool:
        """Forget all plans, to be made again, if few of all words are needed; whether that was done."""
        self._limit = max(CROWDED_FROM, 4 * needed)
        if self.size <= self._limit:
            return False
        self.size = 1
        self.generation += 1
        self.constants.clear()
        self.computing.clear()
        return True

    def append(self, words: list[int]) -> None:
        """Add words, from `size` on."""
        end = self.size + len(words)
        if end > len(self._words):
            self._words = grown(self._words, max(2 * len(self._words), end))
            self._machine[M.CODE] = address(self._words)
        self._words[self.size : end] = words
        self.size = end

    def rule_and_step(self, plan: int, step: int) -> tuple[int, int]:
        """The number of a plan's rule, and which of its steps begins at an offset."""
        first = plan + P.FIRST
        steps = self._words[first : first + self._words[plan + P.STEPS]].tolist()
        return int(self._words[plan + P.RULE]), steps.index(step)

    def covered(self, plan: int) -> tuple[int, int] | None:
        """For a plan that scans a relation and yields a different head for each fact: the relation of the heads, and
        the one that is scanned.
        """
        short = int(self._words[plan + P.SHORT])
        if short == 0 or not self._words[short + P.SHORT_COVERS]:
            return None
        return int(self._words[plan + P.HEAD_RELATION]), int(self._words[short + P.SHORT_SCANNED])

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Plans that are made within serve only there: their memory is reused."""
        before, constants, computing = self.size, self.constants, self.computing
        self.constants, self.computing = set(), {}
        try:
            yield
        finally:
            self.size, self.constants, self.computing = before, constants, computing
