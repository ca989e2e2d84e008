"""Delete/Rederive, fully dynamic (section 2.1.1, with the remedies of section 3).

Overdeletion: a deletion takes everything with it that may have been derived from its fact, except what is explicit.
Rederivation: a deleted fact is at once determined to be added again, and is, if it can be derived from facts that are
not in doubt. The phases of different updates overlap. What keeps them apart where they must be is the recursion memory
of a deletion, `since`: it spreads to facts that were there when it began, and are not older than the fact that it
comes from. What was added later rests on facts that were not in doubt, which that deletion can not reach. So each
deletion spreads to each fact once, and nothing goes round in circles.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.live.operations.algorithm import FullyDynamic, Support
from tidelog.live.operations.facts import Fact
from tidelog.live.operations.instances import Instance, RuleStart
from tidelog.live.operations.operations import Operation


class DeleteRederive(FullyDynamic):
    """It needs no record of what was applied (section 3.1.3): what is deleted wrongly is derived again."""

    def may_spread(self, predicate: str, oldest: int, since: int, fact: Fact) -> bool:
        return oldest <= self.facts.age(fact) < since

    def gained(self, instance: Instance) -> None:
        self.work["insertion"] += 1
        if instance.head not in self.facts:
            self.determine_addition(instance.head, instance, implied=True)

    def losses(self, operation: Operation, start: RuleStart) -> Iterator[Instance]:
        """Whether negated atoms hold is of no interest: what one of them forbids by now was derived before."""
        return self.instances.using(start, operation.fact, with_negation=False)

    def lost(self, instance: Instance, operation: Operation, start: RuleStart) -> None:
        self.work["deletion"] += 1
        head = instance.head
        if head not in self.facts or head in self.explicit:
            return
        since, oldest = (self.clock + 1, 0) if start.negated else (operation.since, self.facts.age(operation.fact))
        if oldest <= self.facts.age(head) < since:
            self.determine_deletion(head, since)

    def lost_explicit(self, fact: Fact) -> None:
        self.determine_deletion(fact, self.clock + 1)

    def support(self, addition: Operation) -> Support:
        reason, found = addition.reason, Support.NONE
        if reason is not None and self.instances.holds(reason):
            if self.is_certain(reason):
                return Support.CERTAIN
            found = Support.IN_DOUBT
        for instance in self.instances.deriving(addition.fact):
            self.work["rederivation"] += 1
            if self.is_certain(instance):
                return Support.CERTAIN
            found = Support.IN_DOUBT
        return found

    def added(self, fact: Fact) -> None:
        pass

    def removed(self, fact: Fact) -> None:
        if self.instances.is_derived(fact[0]):
            self.determine_addition(fact, implied=True)
