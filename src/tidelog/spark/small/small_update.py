"""A small update, by lookups alone: ids for its constants, then each component that it reaches, in order.

The driver does it by itself: a job of Spark takes longer than all that is to be done here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from tidelog.language.syntax import Constant
from tidelog.program.graph import Component
from tidelog.spark.data.dictionary import Fields
from tidelog.spark.maintain.layers import Stored
from tidelog.spark.maintain.rule_versions import RuleChanges, reads
from tidelog.spark.plan.sql_expressions import Functions
from tidelog.spark.small.keyed_files import Files, TooMuch
from tidelog.spark.small.parquet_columns import Columns
from tidelog.spark.small.pending_facts import Changes
from tidelog.spark.small.record_encoding import Encoded, Fact, encoded
from tidelog.spark.small.small_component import Asked, Maintained, Row
from tidelog.spark.small.term_values import Values


@dataclass(frozen=True)
class SmallUpdate:
    """An update: where the version before it lies, and the components to be looked at, each after those it reads."""

    root: Path
    columns: Columns
    stored: Mapping[str, Stored]
    terms: tuple[str, ...]
    terms_count: int
    ids: Mapping[Constant, int]
    rules: RuleChanges
    components: Sequence[Component]
    most: int
    floats: bool = False
    functions: Functions = field(default_factory=dict)


@dataclass
class Outcome:
    """What came of it: what was given and taken, and what was touched.

    `settled` components are done; it is less than there were where too many facts would have been needed. `terms` are
    the constants that are new with the update, in the order of their ids."""

    asked: Encoded
    terms: list[Fields] = field(default_factory=list)
    settled: int = 0
    rows: dict[str, list[Row]] = field(default_factory=dict)
    work: Mapping[str, int] = field(default_factory=dict)


def carry_out(small: SmallUpdate, records: pa.Table) -> Outcome:
    """Take an update through the components."""
    outcome = Outcome(encoded(small.terms, small.terms_count, records))
    files = Files(small.root, small.columns, small.stored, small.terms_count + len(outcome.asked.terms), small.most)
    values = Values(small.terms, small.terms_count, outcome.asked.terms, small.floats, small.functions)
    changes = Changes(files, small.stored, small.ids, values)
    give, take = _by_predicate(outcome.asked.give), _by_predicate(outcome.asked.take)
    try:
        for component in small.components:
            asked = Asked(_of(component, give), _of(component, take))
            if asked.give or asked.take or _is_reached(component, small.rules, changes):
                outcome.rows |= Maintained(changes, component, small.rules, asked).run()
            outcome.settled += 1
    except TooMuch:
        pass
    outcome.work = changes.work
    computed, ids = values.kept(id_ for rows in outcome.rows.values() for row in rows for id_ in row.ids)
    outcome.terms = [*outcome.asked.terms, *computed]
    if computed:
        outcome.rows = {name: [_renumbered(row, ids) for row in rows] for name, rows in outcome.rows.items()}
    return outcome


def _renumbered(row: Row, ids: Mapping[int, int]) -> Row:
    return replace(row, ids=tuple([ids.get(id_, id_) for id_ in row.ids]))


def _is_reached(component: Component, rules: RuleChanges, changes: Changes) -> bool:
    if rules.heads.intersection(component.predicates):
        return True
    return any(changes.come[name] or changes.gone[name] for name in reads(rules, component))


def _by_predicate(facts: Iterable[Fact]) -> Mapping[str, frozenset[Fact]]:
    found: dict[str, set[Fact]] = defaultdict(set)
    for fact in facts:
        found[fact[0]].add(fact)
    return {name: frozenset(of_name) for name, of_name in found.items()}


def _of(component: Component, facts: Mapping[str, frozenset[Fact]]) -> frozenset[Fact]:
    return frozenset().union(*(facts.get(name, frozenset()) for name in component.predicates))
