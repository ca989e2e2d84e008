"""Counting, fully dynamic (section 2.1.2, with the remedies of section 3).

Which instances were really applied is kept (section 3.1.3), by body and by head, so that each is counted once and taken
back once, however updates interleave (Examples 3 and 4). Deletions need no rules: they follow what was applied.

In a recursion, an instance counts for its head only if the facts of its body in the same component are older than the
head. These counts are well-founded: a fact whose count is zero goes, although younger facts derive it, and one with a
count stays. Instances that do not count wait for the day on which their head is deleted: it is added again, as a
younger fact, if one of them has only facts that are not in doubt.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.live.operations.algorithm import FullyDynamic, Support
from tidelog.live.operations.facts import Fact, Facts
from tidelog.live.operations.instances import Instance, Instances, RuleStart
from tidelog.live.operations.operations import Kind, Operation
from tidelog.live.operations.strata import Strata

_NONE: dict[Instance, None] = {}


class Applied:
    """The rule instances that were really applied, and whether each counts."""

    def __init__(self) -> None:
        self._counts: dict[Instance, bool] = {}
        self._by_head: dict[Fact, dict[Instance, None]] = {}
        self._by_fact: dict[Fact, dict[Instance, None]] = {}

    def __contains__(self, instance: Instance) -> bool:
        return instance in self._counts

    def put(self, instance: Instance, counts: bool) -> None:
        self._counts[instance] = counts
        self._by_head.setdefault(instance.head, {})[instance] = None
        for fact in instance.body:
            self._by_fact.setdefault(fact, {})[instance] = None

    def take_back(self, instance: Instance) -> bool:
        """Whether it counted."""
        _remove(self._by_head, instance.head, instance)
        for fact in dict.fromkeys(instance.body):
            _remove(self._by_fact, fact, instance)
        return self._counts.pop(instance)

    def let_count(self, fact: Fact, counts: bool) -> int:
        """Let all instances that derive a fact count, or none; how many there are."""
        deriving = self.deriving(fact)
        self._counts.update(dict.fromkeys(deriving, counts))
        return len(deriving)

    def deriving(self, fact: Fact) -> dict[Instance, None]:
        return self._by_head.get(fact, _NONE)

    def using(self, fact: Fact) -> dict[Instance, None]:
        return self._by_fact.get(fact, _NONE)


def _remove(index: dict[Fact, dict[Instance, None]], fact: Fact, instance: Instance) -> None:
    found = index[fact]
    del found[instance]
    if not found:
        del index[fact]


class Counting(FullyDynamic):
    """I and the counts are those of an update (E, ∅) of an empty dataset."""

    def __init__(self, instances: Instances, facts: Facts, explicit: set[Fact], strata: Strata) -> None:
        super().__init__(instances, facts, set(), strata)
        self.applied = Applied()
        self.counts: dict[Fact, int] = {}
        for instance in instances.from_nothing():
            self.gained(instance)
        self.determine_explicitly((), explicit)
        self.run()
        self.executed = 0
        self.settled()

    def may_spread(self, predicate: str, oldest: int, since: int, fact: Fact) -> bool:
        """A fact that lost some instances and kept others may rest on others than those it was added by."""
        return not self._in_one_component(predicate, fact[0]) or oldest <= self.facts.age(fact)

    def _in_one_component(self, predicate: str, other: str) -> bool:
        return self.strata.component(predicate) == self.strata.component(other)

    def gained(self, instance: Instance) -> None:
        if instance in self.applied or self._is_left_out(instance):
            return
        self.work["insertion"] += 1
        head = instance.head
        counts = head in self.facts and self._counts_for(instance)
        self.applied.put(instance, counts)
        if head not in self.facts:
            self.determine_addition(head, implied=True)
        elif counts:
            self.counts[head] += 1
            deletion = self.delete.open(head)
            if deletion is not None:
                self.cancel(deletion)

    def _is_left_out(self, instance: Instance) -> bool:
        """Whether a fact of the body is about to be deleted; if it stays after all, the instance is found again."""
        dying = [deletion for fact in instance.body if (deletion := self.delete.open(fact)) is not None]
        for deletion in dying:
            deletion.touched = True
        return bool(dying)

    def _counts_for(self, instance: Instance) -> bool:
        """Whether an instance is a reason for its head, which is in I: not one that may rest on the head itself."""
        predicate, age = instance.head[0], self.facts.age(instance.head)
        return all(
            self.facts.age(fact) < age or not self._in_one_component(fact[0], predicate) for fact in instance.body
        )

    def losses(self, operation: Operation, start: RuleStart) -> Iterator[Instance]:
        if operation.kind is Kind.ADD:
            return self.instances.using(start, operation.fact, with_negation=False)
        operation.touched = True
        return iter([each for each in self.applied.using(operation.fact) if each.rule == start.rule])

    def lost(self, instance: Instance, operation: Operation, start: RuleStart) -> None:
        if instance not in self.applied:
            return
        self.work["deletion"] += 1
        counted = self.applied.take_back(instance)
        head = instance.head
        if counted:
            self.counts[head] -= 1
            if not self.counts[head] and head not in self.explicit:
                self.determine_deletion(head, 0)

    def lost_explicit(self, fact: Fact) -> None:
        if not self.counts[fact]:
            self.determine_deletion(fact, 0)

    def support(self, addition: Operation) -> Support:
        deriving = self.applied.deriving(addition.fact)
        if any(map(self.is_certain, deriving)):
            return Support.CERTAIN
        return Support.IN_DOUBT if deriving else Support.NONE

    def added(self, fact: Fact) -> None:
        self.counts[fact] = self.applied.let_count(fact, True)

    def removed(self, fact: Fact) -> None:
        del self.counts[fact]
        if self.applied.let_count(fact, False):
            self.determine_addition(fact, implied=True)
