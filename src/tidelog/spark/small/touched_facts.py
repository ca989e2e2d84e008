"""What a small update touches in one component: facts with their state before and after it, and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, Pivot, Start, group_head
from tidelog.spark.data.term_lookup import Fact, Ids
from tidelog.spark.plan.rule_changes import bound_group, grouping, guarded
from tidelog.spark.small.pending_facts import InMemory, PendingFacts
from tidelog.spark.stored.layers import Stored


@dataclass(frozen=True)
class Row:
    """A touched fact with its state before (`e0`, `h0`) and after, as a layer stores it."""

    ids: Ids
    e0: bool
    h0: bool
    e: bool
    n: int
    h: bool


class Touched:
    """The facts that may have changed, with the state that everything but checked rules gives them."""

    def __init__(
        self,
        facts: PendingFacts,
        give: frozenset[Fact],
        take: frozenset[Fact],
        gained: Mapping[Fact, int],
        counted: bool,
    ) -> None:
        self._facts = facts
        self._give, self._take = give, take
        self._gained = gained
        self._counted = counted
        self.facts = set(gained) | give | take

    def explicit(self, fact: Fact) -> bool:
        before = self._facts.before(fact)
        return fact in self._give or (before is not None and before.explicit and fact not in self._take)

    def derivations(self, fact: Fact) -> int:
        before = self._facts.before(fact)
        known = before.derivations if before and self._counted else 0
        return known + self._gained.get(fact, 0)

    def protected(self, fact: Fact) -> bool:
        """Whether a fact needs no proof by checked rules."""
        return self.explicit(fact) or self.derivations(fact) > 0

    def row(self, fact: Fact, holds: bool) -> Row | None:
        """The row of a fact in the next layer; None if it is as it was."""
        before = self._facts.before(fact)
        was_explicit, held = bool(before and before.explicit), before is not None
        explicit = self.explicit(fact)
        is_same = (was_explicit, held) == (explicit, holds) and not self._gained.get(fact, 0)
        if is_same or not (held or holds):
            return None
        return Row(fact[1], was_explicit, held, explicit, self.derivations(fact), holds)


class Groups:
    """The groups of one rule with aggregates, by those of their variables that atoms bind."""

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


def rows_table(stored: Stored, rows: Sequence[Row]) -> pa.Table:
    """Touched facts of one predicate as a layer lays them out."""
    columns: dict[str, pa.Array] = {"q": pa.array([stored.number] * len(rows), pa.int32())}
    for place, column in enumerate(stored.columns):
        columns[column] = pa.array([row.ids[place] if stored.arity else 0 for row in rows], pa.int64())
    for flag in ("e0", "h0", "e"):
        columns[flag] = pa.array([getattr(row, flag) for row in rows], pa.bool_())
    columns["n"] = pa.array([row.n for row in rows], pa.int64())
    columns["h"] = pa.array([row.h for row in rows], pa.bool_())
    return pa.table(columns)
