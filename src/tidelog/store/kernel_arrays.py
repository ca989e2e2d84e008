"""The arrays that kernels work in and that belong to no relation: frames, buffers, the undo log, counts by rule."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.array_memory import Spare
from tidelog.machine.growth import grown
from tidelog.machine.jit import address
from tidelog.store.relation_parts import Cells

Longs = npt.NDArray[np.int64]


class KernelArrays:
    """Each array, how it grows, and the registers that tell kernels where it lies."""

    def __init__(self, machine: Longs, capacity: int, head_cells: int, spare: Spare) -> None:
        self._machine = machine
        self._spare = spare
        self._scratch: Longs = np.zeros(256, np.int64)
        self._frames: Longs = np.zeros(1024, np.int64)
        self._heads: Cells = np.zeros(head_cells, np.int32)
        self._buckets: Longs = np.zeros(M.SORT_BUCKETS + 1, np.int64)
        self.log: Longs = np.zeros((max(capacity, 4), R.LOG_FIELDS), np.int64)
        self.requests: Cells = np.zeros(max(4 * capacity, 64), np.int32)
        # By the number of a rule: applications, facts that it derived first, and nanoseconds.
        self.rule_work: Longs = np.zeros(64, np.int64)
        self.rule_facts: Longs = np.zeros(64, np.int64)
        self.rule_time: Longs = np.zeros(64, np.int64)
        self._publish()

    def _publish(self) -> None:
        machine = self._machine
        machine[M.SCRATCH] = address(self._scratch)
        machine[M.FRAMES] = address(self._frames)
        machine[M.FRAMES_SIZE] = self._frames.nbytes
        machine[M.HEADS] = address(self._heads)
        machine[M.HEADS_CAPACITY] = len(self._heads)
        machine[M.BUCKETS] = address(self._buckets)
        machine[M.LOG] = address(self.log)
        machine[M.LOG_CAPACITY] = len(self.log)
        machine[M.REQUESTS] = address(self.requests)
        machine[M.REQUEST_CAPACITY] = len(self.requests)
        machine[M.RULE_WORK] = address(self.rule_work)
        machine[M.RULE_FACTS] = address(self.rule_facts)
        machine[M.RULE_TIME] = address(self.rule_time)

    def ensure_frame(self, size: int) -> None:
        """Make room for a frame of that many bytes at the bottom of the stack of frames."""
        self._machine[M.FRAME_BASE] = max(int(self._machine[M.FRAME_BASE]), size)
        if 2 * size > self._frames.nbytes:
            self.grow_frames(2 * size)

    def grow_frames(self, size: int = 0) -> None:
        self._frames = grown(self._frames, max(2 * len(self._frames), size // 8 + 1), spare=self._spare)
        self._publish()

    def ensure_scratch(self, operands: int) -> None:
        """Make room for expressions with so many operands."""
        if 2 * operands + 16 > len(self._scratch):
            self._scratch = np.zeros(4 * operands + 16, np.int64)
            self._publish()

    def ensure_row(self, arity: int) -> None:
        """Make room for rows, which are put together in the scratch memory and in the buffer of heads."""
        if arity > len(self._scratch):
            self._scratch = np.zeros(2 * arity, np.int64)
        if 4 * arity > len(self._heads):
            self._heads = np.zeros(8 * arity, np.int32)
        self._publish()

    def grow_log(self, needed: int) -> None:
        self.log = grown(self.log, max(needed, 2 * len(self.log)), spare=self._spare)
        self._publish()

    def grow_requests(self) -> None:
        self.requests = grown(self.requests, 2 * len(self.requests), spare=self._spare)
        self._publish()

    def ensure_rules(self, count: int) -> None:
        """Make room for the counts of so many rules."""
        if count > len(self.rule_work):
            # All or none: the memory may run out in between. What is not written to costs none.
            wider = [np.zeros(2 * count, np.int64) for _ in range(3)]
            for array, former in zip(wider, (self.rule_work, self.rule_facts, self.rule_time), strict=True):
                array[: len(former)] = former
            self.rule_work, self.rule_facts, self.rule_time = wider
            self._publish()
