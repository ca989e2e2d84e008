"""Rules with aggregates under a small update: the groups that it touches, as they were and as they are.

A group is looked up by those of its variables that atoms bind, as in `maintain/derivation_counts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, Pivot, Start, group_head
from tidelog.spark.data.term_lookup import Fact, Ids
from tidelog.spark.plan.rule_changes import bound_group, grouping, guarded
from tidelog.spark.small.pending_facts import InMemory, PendingFacts


class Groups:
    """The groups of one rule."""

    def __init__(self, facts: PendingFacts, rule: NormalRule) -> None:
        self._facts = facts
        self._rule = rule
        self._bound = bound_group(rule)

    @cached_property
    def touched(self) -> set[Ids]:
        """The groups for which changes below create or destroy an instance."""
        rule = grouping(self._rule)
        found = (matches for created in (False, True) for matches in self._facts.from_below(rule, (), created))
        return {group for matches in found for group in matches.values(self._bound)}

    def deriving(self, facts: Iterable[Ids]) -> set[Ids]:
        """The groups that could derive facts."""
        places = [self._rule.head.arguments.index(variable) for variable in self._bound]
        return {tuple([fact[place] for place in places]) for fact in facts}

    def heads(self, groups: set[Ids] | None, before: bool) -> list[Fact]:
        """What the rule derives for groups, or for all of them, from what held before or holds after the update."""
        if groups is not None and not groups:
            return []
        if groups is None or not self._bound:
            rule, pivot, sets = self._rule, ALL, self._facts.phases.whole(before)
        else:
            start = InMemory(groups)
            rule, pivot = guarded(self._rule), Pivot(Start.POSITIVE, 0)
            sets = self._facts.phases.whole(before, lambda _: start)
        found = self._facts.instances(rule, pivot, (), sets).values(group_head(self._rule))
        return [(rule.head.predicate, ids) for ids in self._facts.values.aggregated(self._rule, found)]
