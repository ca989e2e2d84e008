"""What the task of a small update does: ids for its constants, then each component that it reaches, in order.

The task reads files and writes none, so that it can be run again anywhere: what it found goes back to the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from tidelog.language.syntax import Constant
from tidelog.program.graph import Component
from tidelog.program.normal import NormalRule
from tidelog.spark.expressions import Functions
from tidelog.spark.lookups.changes import Changes
from tidelog.spark.lookups.component import Asked, Maintained, Row
from tidelog.spark.lookups.encoding import Encoded, encoded
from tidelog.spark.lookups.files import Files, TooMuch
from tidelog.spark.lookups.values import Values
from tidelog.spark.maintenance.snapshot import Stored
from tidelog.spark.terms import Fields


@dataclass(frozen=True)
class Job:
    """An update: where the version before it lies, and the components to be looked at, each after those it reads."""

    root: Path
    stored: Mapping[str, Stored]
    terms: tuple[str, ...]
    terms_count: int
    ids: Mapping[Constant, int]
    rules: Mapping[int, NormalRule]
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


def carry_out(job: Job, records: pa.Table) -> Outcome:
    """Take an update through the components."""
    outcome = Outcome(encoded(job.terms, job.terms_count, records))
    files = Files(job.root, job.stored, job.terms_count + len(outcome.asked.terms), job.most)
    values = Values(job.terms, job.terms_count, outcome.asked.terms, job.floats, job.functions)
    changes = Changes(files, job.stored, job.ids, values)
    try:
        for component in job.components:
            asked = _asked(outcome.asked, component)
            if asked.give or asked.take or _is_reached(component, job.rules, changes):
                outcome.rows |= Maintained(changes, component, job.rules, asked).run()
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


def _is_reached(component: Component, rules: Mapping[int, NormalRule], changes: Changes) -> bool:
    read = (atom.predicate for n in component.rules for atom in (*rules[n].positives, *rules[n].negatives))
    return any(changes.come[name] or changes.gone[name] for name in read)


def _asked(whole: Encoded, component: Component) -> Asked:
    give, take = (
        frozenset(fact for fact in facts if fact[0] in component.predicates) for facts in (whole.give, whole.take)
    )
    return Asked(give, take)
