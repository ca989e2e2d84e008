"""Backward/Forward (Motik, Nenov, Piro, Horrocks): Algorithms 1 to 3. Numbers in comments are lines of the paper.

Line 19 is printed at the depth of line 16; the text says that the search stops "as soon as F becomes proved", so it is
asked after every instance. Additions are step DR5, as section 4 says.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.papers.delete_rederive import insert
from tidelog.papers.instances import Fact, FactQueue
from tidelog.papers.trace import Trace
from tidelog.papers.update import PaperUpdate


class BackwardForward:
    """The global variables of Algorithm 1."""

    def __init__(self, update: PaperUpdate, trace: Trace) -> None:
        self._update = update
        self._trace = trace
        self._instances = update.before
        self.E = set(update.explicit)
        self.I = set(update.facts)
        self.C, self.D, self.P, self.Y = FactQueue(), FactQueue(), FactQueue(), FactQueue()  # 1
        self.O, self.S, self.V = FactQueue(), FactQueue(), FactQueue()

    def delete(self) -> None:
        """Algorithm 1, B/F–delete."""
        for fact in self._update.delete:  # 2
            self.E.discard(fact)
            self.D.add(fact)
        for fact in self.D.fresh():  # 3
            known = len(self.C)
            self._check_provability(fact)  # 4
            for checked in self.C.after(known):  # 5: all others are in P or S, for good (Claim 3)
                if checked not in self.P:
                    self.S.add(checked)
            if fact not in self.P:  # 6
                for instance in self._instances.using(fact):  # 7
                    if not any(each in self.O for each in instance.body):  # 8
                        self._trace.apply("deletion", instance)
                        self.D.add(instance.head)  # 9
                self.O.add(fact)  # 10
        self.I.difference_update(fact for fact in self.D if fact not in self.P)  # 11

    def _check_provability(self, fact: Fact) -> None:
        """Algorithm 2, with a stack of half-done calls in place of recursion, which may be deep."""
        calls = [self._called(fact)]
        while calls:
            body_fact = next(calls[-1], None)
            if body_fact is None:
                calls.pop()
            else:
                calls.append(self._called(body_fact))

    def _called(self, fact: Fact) -> Iterator[Fact]:
        """checkProvability(F): gives the facts that it calls itself for."""
        if not self.C.add(fact):  # 12
            return
        self._saturate()  # 13
        if fact in self.P:  # 14
            return
        for instance in self._instances.deriving(fact):  # 15
            if not any(each in self.S for each in instance.body):  # 16
                self._trace.apply("backward", instance)
                yield from instance.body  # 17, 18
                if fact in self.P:  # 19
                    return

    def _saturate(self) -> None:
        """Algorithm 3."""
        for fact in self.C.fresh():  # 20
            if fact in self.E or fact in self.Y:  # 21
                self.P.add(fact)  # 22
        for fact in self.P.fresh():  # 23
            if self.V.add(fact):  # 24
                for instance in self._instances.using(fact):  # 25
                    if all(each in self.V for each in instance.body):  # 26
                        self._trace.apply("forward", instance)
                        (self.P if instance.head in self.C else self.Y).add(instance.head)  # 27-29


def backward_forward(update: PaperUpdate, trace: Trace) -> set[Fact]:
    """The updated I."""
    run = BackwardForward(update, trace)
    run.delete()
    trace.keep(C=run.C, D=run.D, P=run.P, Y=run.Y, O=run.O, S=run.S, V=run.V)
    return insert(update, run.I, trace, update.add)
