"""The search for a proof of least height: what lies behind a fact, discovered by lookups as far as that can matter.

The search is that of the embedded engine (`explain/search.py`), a set at a time. What lies behind the fact is
discovered backwards and breadth first: one lookup finds the instances of a rule for all facts of a level. Heights are
measured forwards from the explicit facts. A proof of height h lies within h steps of its fact, so the search ends once
the fact has a proof that is no higher than the levels that are complete. Pairs of large closures are not expanded:
their heights come from `closure_paths.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from tidelog.language.names import is_checked_once, is_evident
from tidelog.program.normal_form import NormalRule
from tidelog.spark.data.term_lookup import Fact
from tidelog.spark.proofs.closure_paths import ClosurePaths
from tidelog.spark.proofs.stored_facts import Instance, StoredFacts
from tidelog.spark.small.pending_facts import by_predicate

# Heights are measured when what was discovered has grown by half, and by at least this many instances.
_MEASURED = 64


class Cone:
    """What lies behind some facts, the goals, by rules for each predicate."""

    def __init__(
        self,
        facts: StoredFacts,
        rules: Mapping[str, Sequence[NormalRule]],
        closures: Mapping[str, ClosurePaths],
        goals: Iterable[Fact],
    ) -> None:
        self._facts = facts
        self._rules = rules
        self._closures = closures
        self._has_parts = any(map(is_checked_once, rules))
        self._goals = list(goals)
        self._explicit: set[Fact] = set()
        self._known: set[Fact] = set()
        self._instances: list[Instance] = []
        self._uses: dict[Fact, list[int]] = defaultdict(list)
        self._given: dict[Fact, int] = {}
        self.heights: dict[Fact, int] = {}
        self.choices: dict[Fact, Instance | None] = {}
        """How each fact comes about in a lowest proof: by an instance; None if it is explicit, or a closure has it."""

    def find(self) -> None:
        """Discover as much as the lowest proofs of all goals need, and measure it; all goals hold."""
        level = self._discovered(self._goals)
        depth = measured = 0
        while level:
            level = self._expanded(level)
            depth += 1  # All facts within fewer steps have been expanded.
            if not level or len(self._instances) >= measured + max(_MEASURED, measured // 2) or depth < 8:
                measured = len(self._instances)
                self._measure()
                least = (depth + 1) // 2 if self._has_parts else depth + 1  # of proofs with facts beyond
                if all(self.heights.get(goal, depth + 2) <= least for goal in self._goals):
                    return

    def _discovered(self, facts: Iterable[Fact]) -> list[Fact]:
        """Those of some facts that are new, each once."""
        new = [fact for fact in dict.fromkeys(facts) if fact not in self._known]
        self._known.update(new)
        for fact, explicit in self._facts.holding(new).items():
            if explicit or is_evident(fact[0]):
                self._explicit.add(fact)
        return new

    def _expanded(self, level: Collection[Fact]) -> list[Fact]:
        """Find the instances that derive the facts of a level; the facts of the next one."""
        following: list[Fact] = []
        for predicate, wanted in by_predicate(fact for fact in level if fact not in self._explicit).items():
            closure = self._closures.get(predicate)
            if closure is not None:
                for ids in wanted:
                    self._given[predicate, ids] = closure.height(ids)
                continue
            open_ones = set(wanted)
            for rule in self._rules.get(predicate, ()):
                if open_ones:
                    found = [instance for instance in self._facts.instances(rule, open_ones) if _is_one(instance)]
                    following += self._discovered(fact for instance in found for fact in instance.premises)
                    self._note(found)
                    # A fact that is not explicit has no lower proof than one step.
                    open_ones -= {each.head[1] for each in found if self._explicit.issuperset(each.premises)}
        return following

    def _note(self, found: Iterable[Instance]) -> None:
        for instance in found:
            for fact in instance.premises:
                self._uses[fact].append(len(self._instances))
            self._instances.append(instance)

    def _measure(self) -> None:
        """Find the heights of all facts, in their order: the first complete instance of a fact is its lowest."""
        self.heights = {}
        self.choices = {}
        waiting: dict[int, list[tuple[Fact, Instance | None]]] = defaultdict(list)
        waiting[0] = [(fact, None) for fact in self._known if fact in self._explicit]
        for fact, height in self._given.items():
            waiting[height].append((fact, None))
        missing = [len(instance.premises) for instance in self._instances]
        waiting[1] += [(each.head, each) for each, count in zip(self._instances, missing, strict=True) if not count]
        height = 0
        while waiting:
            level = waiting.pop(height, [])
            for fact, choice in level:
                if fact in self.heights:
                    continue
                self.heights[fact] = height
                self.choices[fact] = choice
                for number in self._uses.get(fact, ()):
                    missing[number] -= 1
                    if not missing[number]:
                        instance = self._instances[number]
                        # A part of a rule is no step of a proof.
                        above = level if is_checked_once(instance.head[0]) else waiting[height + 1]
                        above.append((instance.head, instance))
            height += 1


def _is_one(instance: Instance) -> bool:
    """Whether an instance can be in a proof: not one that uses what it derives."""
    return instance.head not in instance.premises
