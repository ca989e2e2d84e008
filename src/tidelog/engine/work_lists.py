"""The work lists of the algorithms, which kernels read and write: three registers each, from `M.LISTS` on."""

from __future__ import annotations

import numpy as np

from tidelog.engine.compiled import Node
from tidelog.engine.propagation.batches import queues_to_list
from tidelog.machine import registers as M
from tidelog.machine.jit import address
from tidelog.store.store import Store


class WorkLists:
    """Work lists by their numbers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._machine = store.machine

    def count(self, number: int) -> int:
        return int(self._machine[M.LISTS + 3 * number + 1])

    def clear(self, number: int) -> None:
        self._machine[M.LISTS + 3 * number + 1] = 0

    def reserve(self, number: int, entries: int) -> None:
        """Make room for so many entries."""
        if entries > self._machine[M.LISTS + 3 * number + 2]:
            self._store.grow_list(number, entries)

    def move(self, source: int, target: int) -> int:
        """Move all entries of one list to another one, in place of what is there; how many they are."""
        entries = self._store.list_entries(source)
        self.clear(source)
        self.clear(target)
        self.reserve(target, len(entries))
        self._machine[M.LISTS + 3 * target + 1] = len(entries)
        self._store.list_entries(target)[:] = entries
        return len(entries)

    def take_queues(self, node: Node, number: int) -> None:
        """Move what waits in the queues of a component's relations to a list."""
        self.clear(number)
        self.reserve(number, sum(relation.queue_count for relation in node.relations))
        numbers = np.array([relation.number for relation in node.relations], np.int32)
        queues_to_list(self._machine, address(numbers), len(numbers), number)
