"""Components that the driver settles by lookups: which these are, what comes of them, and their files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import pyarrow as pa

from tidelog.program.graph import Component
from tidelog.program.normal_form import NormalRule
from tidelog.spark.maintain.update_work import Work
from tidelog.spark.plan.rule_changes import RuleChanges
from tidelog.spark.plan.schedule import within_budget
from tidelog.spark.small.small_update import Outcome, SmallUpdate, carry_out
from tidelog.spark.small.touched_facts import rows_table
from tidelog.spark.stored.keyed_files import ColumnCache

# At most this many facts and rule instances are looked up, some 4 µs each: up to there jobs take longer, and more would
# not fit well into the memory of a driver.
MOST_FACTS = 1_000_000

# Of rules that change, this many instances are found faster by lookups than by jobs: some 11 µs each, while jobs take
# three seconds of CPU time and more. Facts that need another proof count several times: some 28 µs each. (The rule over
# e-mail addresses of LUBM(10), 105,295 instances.)
FEW_INSTANCES = 300_000
_TO_BE_PROVED = 2.5


def eligible(work: Work, rules: RuleChanges, components: Iterable[Component]) -> list[Component]:
    """The components, in order, that are not too large to scan, nor read any that is.

    None if the rules that change may have many instances, or are the first ones: a task materialises faster."""
    budget = work.options.lookup_facts
    if not budget or not work.options.local_facts or _expected_instances(work, rules) > FEW_INSTANCES:
        return []
    return within_budget(rules.graph, components, work.facts.old.count, budget)


def _expected_instances(work: Work, rules: RuleChanges) -> float:
    """About how many instances the rules that change have: as many as the smallest of their atoms has facts."""
    count, stored = work.facts.old.count, work.facts.stored

    def smallest(rule: NormalRule) -> int:
        return min((count(atom.predicate) for atom in rule.positives), default=1)

    if rules.changed and not any(map(count, stored)):
        return math.inf
    # Facts that a removed rule derived need another proof if no count tells whether they still hold.
    checked = [
        rule
        for number, rule in rules.removed.items()
        if number in rules.was_recursive or not stored[rule.head.predicate].counted
    ]
    return sum(map(smallest, rules.changed)) + (_TO_BE_PROVED - 1) * sum(map(smallest, checked))


def solve(
    work: Work, rules: RuleChanges, columns: ColumnCache, records: pa.Table, components: Sequence[Component]
) -> Outcome:
    """Take the update through the components, and settle as many of them as possible."""
    concerned = {name for component in components for name in rules.reads(component)} | rules.read_by_removed
    stored = {name: work.facts.stored[name] for name in concerned}
    small = SmallUpdate(
        work.facts.root, columns, stored, work.dictionary, work.ids, rules, components, MOST_FACTS, work.functions
    )
    outcome = carry_out(small, records)
    work.dictionary.append(outcome.terms)
    work.counts.update(outcome.work)
    _settle(work, outcome, components[: outcome.settled])
    return outcome


def _settle(work: Work, outcome: Outcome, components: Iterable[Component]) -> None:
    """Write what was touched, a file for each predicate."""
    stored = work.facts.stored
    tables: dict[str, pa.Table] = {}
    uncounted: set[str] = set()
    for component in components:
        if not all(stored[name].counted for name in component.predicates):
            uncounted.update(component.predicates)
        touched = [name for name in component.predicates if name in outcome.rows]
        tables |= {name: rows_table(stored[name], outcome.rows[name]) for name in touched}
    work.facts.settle_tables(tables, uncounted)
