"""A small update, seen from the driver: whether it is one, what comes of it, and the files of that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import pyarrow as pa

from tidelog.program.graph import Component
from tidelog.spark.maintain.layers import Stored
from tidelog.spark.maintain.rule_versions import RuleChanges, reads
from tidelog.spark.maintain.update_work import Work
from tidelog.spark.small.small_component import Row
from tidelog.spark.small.small_update import Outcome, SmallUpdate, carry_out

# So many facts and rule instances are looked up at most, some 4 µs each: jobs take longer up to there, and more
# would not fit well into the memory of a driver.
MOST_FACTS = 1_000_000

# Of rules that change, so many instances are found by lookups faster than by jobs: some 11 µs each, where jobs take
# three seconds of CPU time and more. Facts that need another proof count several times: some 28 µs each. (The rule over
# e-mail addresses of LUBM(10), 105,295 instances.)
FEW_INSTANCES = 300_000
_TO_BE_PROVED = 2.5


def eligible(work: Work, rules: RuleChanges, components: Iterable[Component]) -> list[Component]:
    """Those components, in order, that are not too large to scan, nor read any that is.

    None where rules change that may have many instances, or that are the first ones: a task materialises faster."""
    budget = work.options.lookup_facts
    if not budget or not work.options.local_facts or _expected_instances(work, rules) > FEW_INSTANCES:
        return []
    chosen: list[Component] = []
    missing: set[str] = set()
    counted: set[str] = set()
    for component in components:
        read = reads(rules, component)
        size = sum(work.old.count(name) for name in read - counted)
        if read & missing or size > budget:
            missing.update(component.predicates)
        else:
            chosen.append(component)
            budget -= size
            counted |= read
    return chosen


def _expected_instances(work: Work, rules: RuleChanges) -> float:
    """About how many instances the rules that change have: as many as the smallest of their atoms has facts."""
    if rules.changed and not any(map(work.old.count, work.stored)):
        return math.inf
    checked = [rule for number, rule in rules.removed.items() if _is_checked(work, rules, number)]
    return sum(map(work.smallest, rules.changed)) + (_TO_BE_PROVED - 1) * sum(map(work.smallest, checked))


def _is_checked(work: Work, rules: RuleChanges, removed: int) -> bool:
    """Whether the facts that a removed rule derived have no count that tells whether they still hold."""
    return removed in rules.was_recursive or not work.stored[rules.removed[removed].head.predicate].counted


def solve(work: Work, rules: RuleChanges, records: pa.Table, components: Sequence[Component]) -> Outcome:
    """Take the update through the components."""
    concerned = {name for component in components for name in reads(rules, component)} | rules.read_by_removed
    dictionary = work.dictionary
    small = SmallUpdate(
        work.root,
        work.columns,
        {name: work.stored[name] for name in concerned},
        tuple(dictionary.parts),
        dictionary.size,
        work.ids,
        rules,
        components,
        MOST_FACTS,
        dictionary.floats,
        work.functions,
    )
    outcome = carry_out(small, records)
    dictionary.append(outcome.terms)
    work.counts.update(outcome.work)
    return outcome


def settle(work: Work, outcome: Outcome, components: Iterable[Component]) -> None:
    """Write what was touched, a file for each predicate."""
    tables: dict[str, pa.Table] = {}
    uncounted: set[str] = set()
    for component in components:
        if not all(work.stored[name].counted for name in component.predicates):
            uncounted.update(component.predicates)
        touched = [name for name in component.predicates if name in outcome.rows]
        tables |= {name: rows_table(work.stored[name], outcome.rows[name]) for name in touched}
    work.settle_tables(tables, uncounted)


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
