"""Backward/Forward with Marking (Illich, Glimm): Algorithm 1. Numbers in comments are lines of the paper.

The paper applies at most one rule an iteration, so that the next update is seen soon. Here it is given from the
beginning, as in the paper's measurements, and the blocks of an iteration become loops in the same order of priority.
Where the paper says "if ∃ r", instances are taken in the order in which their conditions became true.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from tidelog.papers.instances import Fact, FactQueue, Instance
from tidelog.papers.trace import Trace
from tidelog.papers.update import PaperUpdate, holds_in


class Marking:
    """The procedure for one update. `waiting` is W as the update before left it, `next_deleted` is E₂⁻."""

    def __init__(
        self, update: PaperUpdate, trace: Trace, waiting: Iterable[Fact] = (), next_deleted: Iterable[Fact] = ()
    ) -> None:
        self._update = update
        self._trace = trace
        self._instances = update.before
        self._deleted = set(update.delete)
        self.I = set(update.facts)
        self.C: dict[Fact, None] = {}
        self.D = FactQueue(update.delete)  # 6, 32
        self.V: dict[Fact, None] = {}
        self.W = dict.fromkeys(waiting)
        self.Y: dict[Fact, None] = {}
        # A condition of block b or c that has become false stays so: no instance is looked at twice.
        self._deriving: dict[Fact, Iterator[Instance]] = {}
        self._affected: Iterator[Instance] = iter(())
        self._ready: deque[Instance] = deque()  # whose bodies are in V
        coming = self.I.union(update.add)
        self._next_deleted = set(next_deleted)
        self.marked = {fact: None for fact in next_deleted if fact in coming}  # 9
        self.marked_explicit = len(self.marked)

    def run(self) -> None:
        while self._forward() or self._backward() or self._spread() or self._disprove():  # blocks a to d
            pass
        self.I.difference_update(self.D)  # 26
        self.I.update(self._update.add)
        self._insert()

    def _forward(self) -> bool:
        """a) Forward chaining with proven facts."""
        while self._ready:
            instance = self._ready.popleft()
            head = instance.head
            if head in self.V or head in self.Y:  # 11
                continue
            self._trace.apply("forward", instance)
            self._mark(instance)  # 12
            if head in self.W:  # 13
                self._prove(head)  # 14
            elif head in self.C:  # 15
                self._verify(head)
            else:
                self.Y[head] = None  # 16
            return True
        return False

    def _prove(self, fact: Fact) -> None:
        self._verify(fact)
        self.C[fact] = None
        self.W.pop(fact, None)

    def _verify(self, fact: Fact) -> None:
        """V ← V ∪ {F}: every instance that has become one of proven facts is ready for block a."""
        self.V[fact] = None
        self._ready.extend(i for i in self._instances.using(fact) if all(each in self.V for each in i.body))

    def _mark(self, instance: Instance) -> None:
        """12, 29: a marked explicit fact marks the head."""
        if any(fact in self._next_deleted and fact in self.marked for fact in instance.body):
            self.marked.setdefault(instance.head)

    def _backward(self) -> bool:
        """b) Backward chaining with waiting facts."""
        if not self.W:
            return False
        fact = next(reversed(self.W))  # 17
        if (fact in self._update.explicit and fact not in self._deleted) or fact in self.Y:  # 18
            self._prove(fact)  # 19
            return True
        deriving = self._deriving.setdefault(fact, iter(self._instances.deriving(fact)))
        for instance in deriving:  # 20
            unchecked = [each for each in instance.body if each not in self.W and each not in self.C]
            if unchecked and not any(each in self.D for each in instance.body):
                self._trace.apply("backward", instance)
                self.W |= dict.fromkeys(unchecked)  # 21
                return True
        self.C[fact] = None  # 22
        del self.W[fact]
        return True

    def _spread(self) -> bool:
        """c) Determine facts affected by deletion."""
        while True:
            for instance in self._affected:  # 23
                if instance.head not in self.W and instance.head not in self.C:
                    self._trace.apply("deletion", instance)
                    self.W[instance.head] = None  # 24
                    return True
            fact = self.D.next()
            if fact is None:
                return False
            self._affected = iter(self._instances.using(fact))

    def _disprove(self) -> bool:
        """d) Delete facts that cannot be proven."""
        disproved = [fact for fact in self.C if fact not in self.V]
        return sum(map(self.D.add, disproved)) > 0  # 25

    def _insert(self) -> None:
        """f) Add new derivable facts."""
        found = deque(instance for instance in self._update.after.all if holds_in(instance, self.I))
        while found:
            instance = found.popleft()
            if instance.head in self.I:  # 28
                continue
            self._trace.apply("insertion", instance)
            self._mark(instance)  # 29
            self.I.add(instance.head)  # 30
            found.extend(each for each in self._update.after.using(instance.head) if holds_in(each, self.I))

    def next_waiting(self) -> list[Fact]:
        """g) W of the next update."""
        return [fact for fact in self.marked if fact in self.I and fact not in self._next_deleted]  # 32


def marking(
    update: PaperUpdate, trace: Trace, waiting: Iterable[Fact] = (), next_deleted: Iterable[Fact] = ()
) -> tuple[set[Fact], list[Fact]]:
    """The updated I, and what the next update finds waiting."""
    run = Marking(update, trace, waiting, next_deleted)
    run.run()
    trace.keep(C=run.C, D=run.D, V=run.V, Y=run.Y, marked=run.marked)
    trace.work["marked_explicit"] = run.marked_explicit
    trace.work["marked_implicit"] = len(run.marked) - run.marked_explicit
    return run.I, run.next_waiting()
