"""The set O of the paper: additions and deletions that have been determined and are not done yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from typing import NamedTuple

from tidelog.live.operations.facts import Fact
from tidelog.live.operations.instances import Instance, RuleStart


class Kind(Enum):
    ADD = "add"
    DEL = "del"


@dataclass(slots=True, eq=False)
class Operation:
    """add(F) or del(F).

    An addition is executed first, and then determines what follows from it, rule by rule. A deletion determines first,
    while its fact is still there for others to be joined with, and is executed then; what followed from the absence of
    the fact, or from its presence where rules negate it, is determined after the execution.
    """

    kind: Kind
    fact: Fact
    stratum: int
    todo: list[RuleStart] = field(default_factory=list)  # what is still to be determined
    executed: bool = False
    done: bool = False  # It has left O: all is determined, or it was cancelled.
    # An addition:
    implied: bool = False  # whether an instance determined it, and not only an update
    reason: Instance | None = None  # the last such instance
    waits: bool = False  # Nothing but facts in doubt derives it: to be tried again when a deletion is done.
    # A deletion:
    since: int = 0  # the recursion memory: it concerns facts that were added before this moment
    touched: bool = False  # whether something that would follow from its fact has been taken back or left out

    def __str__(self) -> str:
        return f"{self.kind.value} {self.fact[0]}{self.fact[1]}"


class Step(NamedTuple):
    """One computation step of Algorithm 1, line 5: determine something for an operation, or execute it."""

    operation: Operation
    start: RuleStart | None

    def __str__(self) -> str:
        return f"execute {self.operation}" if self.start is None else f"determine from {self.operation}: {self.start}"


class Operations:
    """Operations of one kind, at most one for each fact, in the order in which they were determined."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._by_fact: dict[Fact, Operation] = {}
        self._queues: dict[int, deque[Operation]] = {}

    def put(self, fact: Fact, stratum: int) -> Operation:
        """A new operation, in the place of an earlier one."""
        self.drop(fact)
        operation = self._by_fact[fact] = Operation(self._kind, fact, stratum)
        self._queues.setdefault(stratum, deque()).append(operation)
        return operation

    def get(self, fact: Fact) -> Operation | None:
        return self._by_fact.get(fact)

    def open(self, fact: Fact) -> Operation | None:
        """The operation on a fact, if it has not been executed."""
        found = self._by_fact.get(fact)
        return None if found is None or found.executed else found

    def drop(self, fact: Fact) -> None:
        """The operation on a fact leaves O."""
        found = self._by_fact.pop(fact, None)
        if found is not None:
            found.done = True

    def first(self, stratum: int) -> Operation | None:
        """The first operation that does not wait; those that do go to the end."""
        queue = self._queues.get(stratum, deque())
        for _ in range(len(queue)):
            if queue[0].done:
                queue.popleft()
            elif queue[0].waits:
                queue.rotate(-1)
            else:
                return queue[0]
        return None

    def lowest(self) -> int | None:
        """The lowest stratum that has operations."""
        for stratum in sorted(self._queues):
            queue = self._queues[stratum]
            while queue and queue[0].done:
                queue.popleft()
            if queue:
                return stratum
            del self._queues[stratum]
        return None

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._by_fact.values())

    def __len__(self) -> int:
        return len(self._by_fact)


class Fronts:
    """Where deletions may still spread from: of each predicate, the oldest fact that is about to be deleted."""

    def __init__(self) -> None:
        self._ages: dict[str, list[tuple[int, int, Operation]]] = {}
        self._latest: dict[str, int] = {}
        self._number = 0  # keeps entries of the same age apart

    def note(self, operation: Operation, age: int) -> None:
        """A deletion has been determined, or its `since` has grown."""
        predicate = operation.fact[0]
        self._number += 1
        heappush(self._ages.setdefault(predicate, []), (age, self._number, operation))
        self._latest[predicate] = max(operation.since, self._latest.get(predicate, 0))

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """Predicates, the age of the oldest fact to be deleted, and a bound of `since`."""
        for predicate, heap in tuple(self._ages.items()):
            while heap and (heap[0][2].done or heap[0][2].executed):
                heappop(heap)
            if heap:
                yield predicate, heap[0][0], self._latest[predicate]
            else:
                del self._ages[predicate], self._latest[predicate]
