"""Algorithm 1 of Fully Dynamic Materialization Maintenance: additions and deletions of different updates at once.

    1  initialize empty set O for operations                            `add`, `delete`
    2  while updates available do
    3    if new update U given in Û then
    4      determine explicit operations                                `determine_explicitly`
    5    apply one of the following computation steps:                  `take`
    6      (1) determine implicitly (2) cancel (3) execute one operation

Which step is next is anybody's choice (`choose`): whatever is chosen, and whenever updates come in, O runs empty, and I
is mat(P, E) then. That takes the remedies of section 3:

- *Ages* (3.1.2, "older facts"). Each fact in I remembers when it was added. It has a derivation from older facts, is
  explicit, or is about to be deleted; so no fact is its own reason.
- *Recursion memory* (3.1.1, 3.1.2). A fact to which a deletion may still spread is *in doubt*. Additions need a
  derivation without such facts, and wait as long as there is none. So an addition can not run ahead of a deletion
  around a cycle, and a deletion never meets what was added after it began: both would go on without end (Example 1).
- *What was really applied* (3.1.3). A deletion determines what follows from its fact while the fact is still in I, and
  a cancelled one has the fact determine again what was left out; counting also keeps the instances themselves.

What the paper leaves open, negation, is done by strata: steps of the lowest stratum that has operations come first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from tidelog.live.operations.facts import Fact, Facts
from tidelog.live.operations.instances import Instance, Instances, RuleStart
from tidelog.live.operations.operations import Fronts, Kind, Operation, Operations, Step
from tidelog.live.operations.strata import Strata


class Support(Enum):
    """What an addition rests on."""

    NONE = "nothing derives it"
    IN_DOUBT = "only facts derive it that may be about to go"
    CERTAIN = "it is explicit, or derived from facts that stay"


class FullyDynamic(ABC):
    """P, E, I and O. The variants say what it means for a rule instance to come and to go."""

    def __init__(self, instances: Instances, facts: Facts, explicit: set[Fact], strata: Strata) -> None:
        self.choose: Callable[[FullyDynamic], Step] = deletions_first
        self.instances = instances
        self.facts = facts  # I
        self.explicit = explicit  # E
        self.strata = strata
        self.add = Operations(Kind.ADD)  # line 1
        self.delete = Operations(Kind.DEL)
        self.fronts = Fronts()
        self.clock = 0
        self.changed: dict[Fact, bool] = {}  # the net change of I: whether each fact came
        self.work: Counter[str] = Counter()  # rule applications, by kind
        self.executed = self.cancelled = 0  # operations
        self._waiting: list[Operation] = []

    # --- (1) determine explicitly: lines 3 and 4 ----------------------------------------------------------------------

    def determine_explicitly(self, delete: Iterable[Fact], add: Iterable[Fact]) -> None:
        """Enter the operations of an update. Those of an earlier one that are undone by it are cancelled."""
        for fact in delete:
            if fact in self.explicit:
                self.explicit.remove(fact)
                self._no_longer_explicit(fact)
        for fact in add:
            if fact not in self.explicit:
                self.explicit.add(fact)
                self._now_explicit(fact)

    def _no_longer_explicit(self, fact: Fact) -> None:
        if fact in self.facts:
            self.lost_explicit(fact)
            return
        addition = self.add.open(fact)
        if addition is not None and not addition.implied:
            self.add.drop(fact)
            self.cancelled += 1

    def _now_explicit(self, fact: Fact) -> None:
        if fact not in self.facts:
            self.determine_addition(fact)
        elif (deletion := self.delete.open(fact)) is not None:
            self.cancel(deletion)

    # --- one computation step: lines 5 and 6 --------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether there are operations left."""
        return bool(self.add) or bool(self.delete)

    def run(self) -> None:
        """Take steps until no operation is left."""
        while self.is_open:
            self.take(self.choose(self))

    def settled(self) -> None:
        """What happened so far has been taken over by others."""
        self.changed.clear()
        self.work.clear()

    def named_facts(self) -> Iterator[Fact]:
        """Facts that came since then, or are about to, and what they come from."""
        yield from self.changed
        for addition in self.add:
            yield addition.fact
            if addition.reason is not None:
                yield from addition.reason.body

    def stratum(self) -> int:
        """The lowest stratum that has operations."""
        return min(level for level in (self.add.lowest(), self.delete.lowest()) if level is not None)

    def steps(self) -> list[Step]:
        """All steps that may be next."""
        stratum = self.stratum()
        operations = [*self.delete, *self.add]
        return [step for each in operations if each.stratum == stratum for step in steps_of(each)]

    def take(self, step: Step) -> None:
        operation, start = step
        if start is not None:
            operation.todo.remove(start)
            self._determine(operation, start)
        elif operation.kind is Kind.ADD:
            self._execute_addition(operation)
        else:
            self._execute_deletion(operation)
        if operation.executed and not operation.todo and not operation.done:
            (self.add if operation.kind is Kind.ADD else self.delete).drop(operation.fact)

    # --- (1) determine implicitly -------------------------------------------------------------------------------------

    def _determine(self, operation: Operation, start: RuleStart) -> None:
        """1. ii): what follows from an operation by one rule. Where the rule negates the fact, it is the opposite."""
        if (operation.kind is Kind.ADD) is start.negated:
            for instance in self.losses(operation, start):
                self.lost(instance, operation, start)
            return
        for instance in self.instances.using(start, operation.fact):
            if not self._is_found_later(instance, operation.fact):
                self.gained(instance)

    def _is_found_later(self, instance: Instance, fact: Fact) -> bool:
        """Whether another new fact of the body has yet to determine the same rule: it will find the instance, too."""
        body = instance.body
        for place, start in enumerate(self.instances.starts_of(instance)):
            addition = self.add.get(body[place])
            if addition is None or not addition.executed or start not in addition.todo:
                continue
            # A fact that stands at several places finds it at the first of them.
            if body[place] != fact and body[place] not in body[:place]:
                return True
        return False

    def determine_addition(self, fact: Fact, reason: Instance | None = None, implied: bool = False) -> None:
        """O := O ∪ {add(F)} for a fact that is not in I."""
        addition = self.add.get(fact) or self.add.put(fact, self.strata.level(fact[0]))
        addition.implied = addition.implied or implied
        addition.reason = reason or addition.reason
        addition.waits = False

    def determine_deletion(self, fact: Fact, since: int) -> None:
        """O := O ∪ {del(F)} for a fact in I, for all that was added before `since`."""
        deletion = self.delete.open(fact)
        if deletion is None:
            deletion = self.delete.put(fact, self.strata.level(fact[0]))
            # What the fact has not determined yet, it never will.
            deletion.touched = self.add.get(fact) is not None
            self.add.drop(fact)
        elif deletion.since >= since:
            return
        deletion.since = since
        deletion.todo = list(self.instances.starts(fact[0]))
        self.fronts.note(deletion, self.facts.age(fact))

    # --- (2) cancel ---------------------------------------------------------------------------------------------------

    def cancel(self, deletion: Operation) -> None:
        """O := O ∖ {del(F)}: the fact stays, and determines again what was left out or taken back meanwhile."""
        self.delete.drop(deletion.fact)
        self.cancelled += 1
        if deletion.touched:
            addition = self.add.put(deletion.fact, deletion.stratum)
            addition.executed = True
            addition.todo = self._all_starts(deletion.fact)
            if not addition.todo:
                self.add.drop(deletion.fact)
        self._wake()

    # --- (3) execute --------------------------------------------------------------------------------------------------

    def _execute_addition(self, addition: Operation) -> None:
        """I := I ∪ {F}, if F is still explicit or derived."""
        fact = addition.fact
        support = Support.CERTAIN if fact in self.explicit else self.support(addition)
        if support is Support.NONE:
            self.add.drop(fact)
            self.cancelled += 1
        elif support is Support.IN_DOUBT:
            addition.waits = True
            self._waiting.append(addition)
        else:
            self.executed += 1
            self.clock += 1
            self.facts.add(fact, self.clock)
            self._note_change(fact, True)
            addition.executed = True
            addition.todo = self._all_starts(fact)
            self.added(fact)

    def _execute_deletion(self, deletion: Operation) -> None:
        """I := I ∖ {F}."""
        fact = deletion.fact
        self.executed += 1
        self.facts.remove(fact)
        self._note_change(fact, False)
        deletion.executed = True
        deletion.todo = list(self.instances.negated(fact[0]))
        self.removed(fact)
        self._wake()

    def _all_starts(self, fact: Fact) -> list[RuleStart]:
        return [*self.instances.starts(fact[0]), *self.instances.negated(fact[0])]

    def _note_change(self, fact: Fact, came: bool) -> None:
        if self.changed.pop(fact, None) is None:
            self.changed[fact] = came

    def _wake(self) -> None:
        """A deletion is done: what waited for it may be certain now."""
        for addition in self._waiting:
            addition.waits = False
        self._waiting.clear()

    # --- doubt --------------------------------------------------------------------------------------------------------

    def is_certain(self, instance: Instance) -> bool:
        """Whether no fact of a body is in doubt."""
        return not any(map(self._is_in_doubt, instance.body))

    def _is_in_doubt(self, fact: Fact) -> bool:
        """Whether a deletion may still spread to a fact of I."""
        if fact in self.explicit:
            return False
        return self.delete.open(fact) is not None or any(
            self.strata.reaches(predicate, fact[0]) and self.may_spread(predicate, oldest, since, fact)
            for predicate, oldest, since in self.fronts
        )

    # --- what the variants decide -------------------------------------------------------------------------------------

    @abstractmethod
    def may_spread(self, predicate: str, oldest: int, since: int, fact: Fact) -> bool:
        """Whether deletions of facts of a predicate that are at least so old may reach a fact."""

    @abstractmethod
    def gained(self, instance: Instance) -> None:
        """An instance holds, by something new."""

    @abstractmethod
    def losses(self, operation: Operation, start: RuleStart) -> Iterator[Instance]:
        """The instances of a rule that an operation takes away."""

    @abstractmethod
    def lost(self, instance: Instance, operation: Operation, start: RuleStart) -> None:
        """An instance is about to go, or went, with a fact."""

    @abstractmethod
    def lost_explicit(self, fact: Fact) -> None:
        """A fact of I is no longer explicit."""

    @abstractmethod
    def support(self, addition: Operation) -> Support:
        """What derives a fact that is not in I."""

    @abstractmethod
    def added(self, fact: Fact) -> None:
        """A fact was added to I."""

    @abstractmethod
    def removed(self, fact: Fact) -> None:
        """A fact was removed from I: is it to be derived again?"""


def steps_of(operation: Operation) -> list[Step]:
    """What may be done next for an operation: determine in any order; execute additions before, deletions after."""
    if operation.kind is Kind.ADD and not operation.executed:
        return [] if operation.waits else [Step(operation, None)]
    if operation.todo:
        return [Step(operation, start) for start in operation.todo]
    return [Step(operation, None)]


def deletions_first(algorithm: FullyDynamic) -> Step:
    """The usual choice: deletions first, since additions then never wait; older operations first."""
    stratum = algorithm.stratum()
    operation = algorithm.delete.first(stratum) or algorithm.add.first(stratum)
    assert operation is not None, "additions wait only while there are deletions"
    return Step(operation, operation.todo[0] if operation.todo else None)
