"""A program as a dataflow of Pathway: what one writes by hand to run Datalog there.

A rule is a chain of joins, a predicate the distinct union of its rules, a recursive component `pw.iterate` over its
predicates. All facts come through one connector, as rows of (predicate, first value, second value), so that an update
is one commit; a row of the predicate `tick` in each tells when the dataflow is done with it. Pathway maintains what it
derived.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from tidelog.bench.peers.translate import Untranslatable, arities, plain_name
from tidelog.language.syntax import Atom, Comparison, Rule, Term, Variable
from tidelog.program.graph import Component, RuleGraph
from tidelog.values import Row

Updates = Sequence[Sequence[tuple[bool, str, Row]]]
"""For each update its operations: whether a fact is added, its predicate, its values."""

TICK = "tick"


def follow(rules: tuple[Rule, ...], names: Iterable[str], answer: Sequence[str], updates: Updates) -> list[Any]:
    """Run a program over updates; the CPU seconds of each and the number of facts of the answer after it."""
    import pathway as pw

    value_type = int if isinstance(updates[0][0][2][0], int) else str
    schema = pw.schema_builder(
        {
            column: pw.column_definition(dtype=dtype, primary_key=True)
            for column, dtype in (("predicate", str), ("c0", value_type), ("c1", value_type))
        }
    )
    feed = _feed(pw, updates, value_type())
    rows = pw.io.python.read(feed, schema=schema, autocommit_duration_ms=None)
    given = {name: _given(pw, rows, name) for name in {*arities(rules, {}), *names}}
    tables = Dataflow(pw, value_type()).evaluate(rules, given)
    told = [_told(pw, tables[name], name) for name in answer]
    out = pw.Table.concat_reindex(_told(pw, _given(pw, rows, TICK), TICK), *told)
    pw.io.subscribe(out, on_change=feed.note, on_time_end=feed.done)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return list(feed.steps)


def _given(pw: Any, rows: Any, name: str) -> Any:
    return rows.filter(pw.this.predicate == name).select(pw.this.c0, pw.this.c1)


def _told(pw: Any, table: Any, name: str) -> Any:
    return table.select(pw.this.c0, pw.this.c1, predicate=name)


def _feed(pw: Any, updates: Updates, nothing: Any) -> Any:
    """The connector: it sends an update when the one before is done."""

    class Feed(pw.io.python.ConnectorSubject):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.facts = 0
            self.steps: list[tuple[float, int]] = []
            self._ended = threading.Event()

        def run(self) -> None:
            for number, update in enumerate(updates):
                self._ended.clear()
                started = time.process_time()
                for added, predicate, values in update:
                    row = {"predicate": predicate, "c0": values[0], "c1": values[1] if len(values) > 1 else nothing}
                    if added:
                        self.next(**row)
                    else:
                        self.delete(**row)
                self.next(predicate=TICK, c0=type(nothing)(number), c1=nothing)
                self.commit()
                self._ended.wait()
                self.steps.append((time.process_time() - started, self.facts))

        def note(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
            if row["predicate"] != TICK:
                self.facts += 1 if is_addition else -1

        def done(self, time: int) -> None:
            self._ended.set()

    return Feed()


# --- rules ------------------------------------------------------------------------------------------------------------


class Dataflow:
    """Rules as joins of tables with columns c0 and c1; predicates of one argument have `nothing` in the second."""

    def __init__(self, pathway: Any, nothing: Any) -> None:
        self._pathway = pathway
        self._nothing = nothing

    def evaluate(self, rules: tuple[Rule, ...], given: dict[str, Any]) -> dict[str, Any]:
        """A table for each predicate, component by component."""
        graph = RuleGraph(rules)
        tables = dict(given)
        for component in graph.components_in_order():
            own = [graph.rule(number) for number in component.rules]
            if component.recursive:
                tables.update(self._fixpoint(component, own, tables))
            else:
                for name in {plain_name(rule.head.predicate) for rule in own}:
                    tables[name] = self._union(name, own, tables, given[name])
        return tables

    def _fixpoint(self, component: Component, rules: list[Rule], tables: dict[str, Any]) -> dict[str, Any]:
        heads = sorted(map(plain_name, component.predicates))
        read = {plain_name(item.predicate) for rule in rules for item in rule.body if isinstance(item, Atom)}
        lower = {name: tables[name] for name in sorted(read.difference(heads))}
        given = {f"given_{name}": tables[name] for name in heads}

        def step(**known: Any) -> dict[str, Any]:
            return {name: self._union(name, rules, known, known[f"given_{name}"]) for name in heads}

        start = {name: self._pathway.iterate_universe(_distinct(tables[name])) for name in heads}
        found = self._pathway.iterate(step, **start, **lower, **given)
        # One table comes back as itself, several by name.
        return {name: getattr(found, name) for name in heads}

    def _union(self, name: str, rules: list[Rule], tables: dict[str, Any], given: Any) -> Any:
        derived = [self._heads(rule, tables) for rule in rules if plain_name(rule.head.predicate) == name]
        return _distinct(self._pathway.Table.concat_reindex(given, *derived))

    def _heads(self, rule: Rule, tables: dict[str, Any]) -> Any:
        """The heads of a rule's instances."""
        atoms = [item for item in rule.body if isinstance(item, Atom)]
        joined = reduce(_join, (_matches(tables[plain_name(atom.predicate)], atom) for atom in atoms))
        for item in rule.body:
            if isinstance(item, Comparison) and item.operator == "!=":
                joined = joined.filter(_value(joined, item.left) != _value(joined, item.right))
            elif not isinstance(item, Atom):
                raise Untranslatable(f"{item} is not translated")
        cells = [_value(joined, term) for term in rule.head.arguments]
        return joined.select(c0=cells[0], c1=cells[1] if len(cells) > 1 else self._nothing)


def _distinct(table: Any) -> Any:
    return table.groupby(table.c0, table.c1).reduce(table.c0, table.c1)


def _column(term: Term) -> str:
    if isinstance(term, Variable):
        return "v_" + re.sub(r"\W", "_", term.name)
    raise Untranslatable(f"{term} is not translated")


def _matches(table: Any, atom: Atom) -> Any:
    """The facts of an atom's predicate, with its variables as columns."""
    columns = dict(zip(map(_column, atom.arguments), (table.c0, table.c1), strict=False))
    if len(columns) < atom.arity:
        raise Untranslatable(f"{atom} has a variable twice")
    return table.select(**columns)


def _join(left: Any, right: Any) -> Any:
    shared = [name for name in right.column_names() if name in left.column_names()]
    both = left.join(right, *(left[name] == right[name] for name in shared))
    columns = {name: right[name] for name in right.column_names()} | {name: left[name] for name in left.column_names()}
    return both.select(**columns)


def _value(table: Any, term: Term) -> Any:
    return table[_column(term)]
