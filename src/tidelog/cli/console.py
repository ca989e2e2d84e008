"""What commands and the shell print: answers, facts, changes and plans as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.formats.columns.order import sort_key, sorted_rows
from tidelog.formats.files.jsonl import value_to_json
from tidelog.language import DLOG, display_predicate, render, render_in, resolve_predicate
from tidelog.language.syntax import Atom, Constant, Query, Rule, variables
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.modules import recognise_whole
from tidelog.program.normal_form import normalise
from tidelog.program.plan import Pivot, Start, make_plan
from tidelog.values import Row, Value

if TYPE_CHECKING:
    from tidelog.engine.update.failures import Failures

MOST_FACTS = 20
MOST_FAILURES = 3


def fact_text(predicate: str, row: Row, prefixes: Mapping[str, str]) -> str:
    """A fact as the language writes it."""
    resolved = resolve_predicate(predicate, prefixes)
    return render(Atom(resolved, tuple(Constant(value) for value in row)), prefixes)


def answer_lines(
    query: Query, answers: Iterable[Mapping[str, Value]], prefixes: Mapping[str, str], syntax: str = DLOG
) -> Iterator[str]:
    """The query in its syntax, then a line for each answer in ascending order, or `no`; `yes` where it asks for no
    variable.
    """
    yield render_in(syntax, query, prefixes)
    found = sorted(answers, key=lambda answer: [sort_key(value) for value in answer.values()])
    # In answers, `?x` is `x`; print it as it was written.
    written = {variable.name for item in query.body for variable in variables(item)}
    if not found:
        yield "no"
    for answer in found:
        names = (name if name in written else f"?{name}" for name in answer)
        values = (render(Constant(value), prefixes) for value in answer.values())
        yield ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True)) or "yes"


def answers_in(
    format: str,
    query: Query,
    names: Sequence[str],
    answers: Iterable[Mapping[str, Value]],
    prefixes: Mapping[str, str],
    syntax: str = DLOG,
) -> Iterator[str]:
    """The answers of a query for people (`text`) or for programs, in ascending order: as one array of objects on a line
    (`json`), an object a line (`jsonl`), or a table below the names of its columns (`csv`, `tsv`).
    """
    if format == "text":
        yield from answer_lines(query, answers, prefixes, syntax)
        return
    rows = sorted_rows(tuple(answer.values()) for answer in answers)
    if format in ("json", "jsonl"):
        objects = [dict(zip(names, map(value_to_json, row), strict=True)) for row in rows]
        yield from (json.dumps(line, ensure_ascii=False) for line in ([objects] if format == "json" else objects))
        return
    from tidelog.formats.columns.tables import columns_of_rows
    from tidelog.formats.files.rendering import delimited_format

    separator = {"csv": ",", "tsv": "\t"}[format]
    yield separator.join(names)
    columns = columns_of_rows(rows, str)
    for block in delimited_format(separator).lines([] if columns is None else [columns]):
        yield block.decode().removesuffix("\n")


def change_lines(
    added: Mapping[str, Iterable[Row]], removed: Mapping[str, Iterable[Row]], prefixes: Mapping[str, str]
) -> Iterator[str]:
    """The facts that appeared and vanished; where there are many, the first ones."""
    for sign, facts in (("+", added), ("-", removed)):
        total = 0
        for predicate in sorted(facts):
            for row in sorted_rows(facts[predicate]):
                total += 1
                if total <= MOST_FACTS:
                    yield f"{sign} {fact_text(predicate, row, prefixes)}"
        if total > MOST_FACTS:
            yield f"{sign} … {total - MOST_FACTS:,} more"


def failure_lines(failures: Failures) -> Iterator[str]:
    """How many rule instances failed in an expression, of which kinds, and the first of them in full."""
    yield failures.summary()
    for failure in failures.first[:MOST_FAILURES]:
        yield f"  {failure}"


def plan_lines(graph: RuleGraph, count: Callable[[str], int], prefixes: Mapping[str, str]) -> Iterator[str]:
    """How rules are evaluated, each component after those that it reads: closures by name, other rules by their plans.

    `count` gives the number of facts of a predicate, by which atoms are ordered.
    """
    for component in graph.components_in_order():
        names = ", ".join(display_predicate(predicate, prefixes) for predicate in component.predicates)
        yield f"{names} ({'recursive' if component.recursive else 'not recursive'})"
        module = recognise_whole(component, graph.rules)
        closed = () if module is None else module.rules
        if module is not None:
            yield f"  {module.kind} closure of rules {', '.join(map(str, closed))}"
        for number in component.rules:
            if number not in closed:
                yield from _rule_plans(number, graph.rule(number), component, count, prefixes)


def _rule_plans(
    number: int, rule: Rule, component: Component, count: Callable[[str], int], prefixes: Mapping[str, str]
) -> Iterator[str]:
    yield f"  rule {number}: {render(rule, prefixes)}"
    normal = normalise(rule)
    pivots = [Pivot(Start.ALL)]
    pivots += [Pivot(Start.POSITIVE, position) for position in range(len(normal.positives))]
    pivots += [Pivot(Start.NEGATIVE, position) for position in range(len(normal.negatives))]

    def estimate(atom: Atom, bound: tuple[int, ...]) -> float:
        return count(atom.predicate) * 0.1 ** len(bound)  # a tenth of the facts for each bound column

    for pivot in pivots:
        plan = make_plan(normal, pivot, component.predicates, estimate)
        steps = "; ".join(str(step) for step in plan.steps)
        yield f"    from {_PIVOT_TEXTS[pivot.start]}: {steps}{'  (cross product!)' if plan.crosses else ''}"


_PIVOT_TEXTS = {Start.ALL: "nothing", Start.POSITIVE: "a new fact", Start.NEGATIVE: "a fact gone"}
