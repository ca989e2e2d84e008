"""Rules with aggregates under a small update: the groups that it touches, as they were and as they are.

A group is looked up by the variables that atoms bind of it (as `maintenance/counting.py` does it with sets).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidelog.language.syntax import Atom
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, Pivot, Start, group_head
from tidelog.spark.maintain.derivation_counts import GROUPS, bound_group, grouping
from tidelog.spark.small.keyed_files import Ids
from tidelog.spark.small.matching import Matches
from tidelog.spark.small.pending_facts import Changes, Given


class Groups:
    """The groups of one rule."""

    def __init__(self, changes: Changes, rule: NormalRule) -> None:
        self._changes = changes
        self._rule = rule
        self._bound = bound_group(rule)

    def touched(self) -> set[Ids]:
        """The groups for which what changed below creates or destroys an instance."""
        rule, changes = grouping(self._rule), self._changes
        found: set[Ids] = set()
        for created in (False, True):
            for pivot, negated in changes.pivots_below(rule, (), created):
                sets = changes.sets.created(negated) if created else changes.sets.destroyed(negated)
                found.update(changes.instances(rule, pivot, (), sets).values(self._bound))
        return found

    def of_facts(self, facts: Iterable[Ids]) -> set[Ids]:
        """The groups that could derive facts."""
        places = [self._rule.head.arguments.index(variable) for variable in self._bound]
        return {tuple([fact[place] for place in places]) for fact in facts}

    def heads(self, groups: set[Ids], before: bool) -> list[Ids]:
        """What the rule derives for groups, from what held before or from what holds after the update."""
        if not groups:
            return []
        if not self._bound:
            return self.all_heads(before)
        phases = self._changes.sets
        sets = phases.held(lambda _: Given(groups)) if before else phases.holding(take=lambda _: Given(groups))
        guarded = replace(self._rule, positives=(Atom(GROUPS, self._bound), *self._rule.positives))
        return self._heads(self._changes.instances(guarded, Pivot(Start.POSITIVE, 0), (), sets))

    def all_heads(self, before: bool) -> list[Ids]:
        """The same for all groups that there are."""
        sets = self._changes.sets.held() if before else self._changes.sets.holding()
        return self._heads(self._changes.instances(self._rule, ALL, (), sets))

    def _heads(self, found: Matches) -> list[Ids]:
        return self._changes.values.aggregated(self._rule, found.values(group_head(self._rule)))
