"""A small update by lookups alone: ids for its constants, then each component that it reaches, in order.

The driver does all of it: a Spark job takes longer than everything that is to be done here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from tidelog.language.syntax import Constant
from tidelog.program.graph import Component
from tidelog.spark.data.dictionary import Dictionary, Fields
from tidelog.spark.data.term_lookup import Encoded, Fact, Ids, encode_few
from tidelog.spark.plan.rule_changes import RuleChanges
from tidelog.spark.plan.sql_expressions import Functions
from tidelog.spark.small.component_update import ComponentUpdate
from tidelog.spark.small.pending_facts import PendingFacts, by_predicate
from tidelog.spark.small.term_values import Values
from tidelog.spark.small.touched_facts import Row
from tidelog.spark.stored.keyed_files import ColumnCache, Files, TooManyFacts
from tidelog.spark.stored.layers import Stored


@dataclass(frozen=True)
class SmallUpdate:
    """An update: the files of the version before it, and the components to look at, each after those it reads."""

    root: Path
    columns: ColumnCache
    stored: Mapping[str, Stored]
    dictionary: Dictionary
    ids: Mapping[Constant, int]
    rules: RuleChanges
    components: Sequence[Component]
    most: int
    functions: Functions = field(default_factory=dict)


@dataclass
class Outcome:
    """What an update asked for, and the facts that it touched.

    The first `settled` components are done: fewer than all if too many facts would have been needed. `terms` are the
    constants that are new with the update, in the order of their ids."""

    asked: Encoded
    terms: list[Fields] = field(default_factory=list)
    settled: int = 0
    rows: dict[str, list[Row]] = field(default_factory=dict)
    work: Mapping[str, int] = field(default_factory=dict)


def carry_out(small: SmallUpdate, records: pa.Table) -> Outcome:
    """Take an update through the components; the dictionary stays as it is."""
    outcome = Outcome(encode_few(small.dictionary, records))
    known = small.dictionary.size + len(outcome.asked.terms)
    files = Files(small.root, small.columns, small.stored, known, small.most)
    values = Values(small.dictionary, outcome.asked.terms, small.functions)
    facts = PendingFacts(files, small.stored, small.ids, values)
    given, taken = by_predicate(outcome.asked.give), by_predicate(outcome.asked.take)
    try:
        for component in small.components:
            give, take = _of(component, given), _of(component, taken)
            if give or take or small.rules.reach(component, facts.has_changed):
                outcome.rows |= ComponentUpdate(facts, component, small.rules).run(give, take)
            outcome.settled += 1
    except TooManyFacts:
        pass
    outcome.work = facts.work
    computed, ids = values.kept(id_ for rows in outcome.rows.values() for row in rows for id_ in row.ids)
    outcome.terms = [*outcome.asked.terms, *computed]
    if computed:
        outcome.rows = {name: [_renumbered(row, ids) for row in rows] for name, rows in outcome.rows.items()}
    return outcome


def _renumbered(row: Row, ids: Mapping[int, int]) -> Row:
    return replace(row, ids=tuple([ids.get(id_, id_) for id_ in row.ids]))


def _of(component: Component, facts: Mapping[str, set[Ids]]) -> frozenset[Fact]:
    return frozenset((name, ids) for name in component.predicates for ids in facts.get(name, ()))
