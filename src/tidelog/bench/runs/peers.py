"""The other engines on the same inputs: materialisation, and what 1, 10 and 100 deleted facts cost afterwards.

Only tidelog, SWI-Prolog (incremental tabling) and Pathway maintain what they derived; for the others a change costs
what the whole costs. Sizes of results are compared before times are shown: an engine that found another number of facts
is named, not timed.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.bench.data.cases import CASES, Tables, random_rows
from tidelog.bench.measure import Failed, Measured, isolated, measure_command
from tidelog.bench.options import Options
from tidelog.bench.peers.engines import (
    Pathway,
    SwiProlog,
    agreeing,
    count_facts,
    derived_predicates,
    installed,
    run_peer,
    run_tidelog,
)
from tidelog.bench.peers.peer import Task
from tidelog.bench.peers.translate import PROLOG, derived_names, facts_text, plain_tables, program_of
from tidelog.bench.report import Cell, Check, Plot, Report, Table
from tidelog.bench.work import timed, timed_materialise, warm, without

CHANGES = (1, 10, 100)
_CASES = {"dag-right": 1.0, "same-generation": 0.3, "points-to": 0.3, "lubm-plain": 0.1}


_SLOW_TO_START = ("Spark SQL", "Pathway")
"""What a quick run has no time for."""


@dataclass
class Changes:
    """What it took to follow each change, and how many facts there were after it."""

    cpu: list[float] = field(default_factory=list)
    facts: list[int] = field(default_factory=list)


def run(options: Options) -> Report:
    report = Report("Peers: materialisation and changes, CPU seconds, one thread each")
    peers = {name: text for name, text in installed().items() if not (options.quick and name in _SLOW_TO_START)}
    versions = ", ".join(f"{name} {text}" for name, text in peers.items())
    for case, default in _CASES.items():
        size = default * options.scale(0.2)
        title = CASES[case].title
        table = Table(
            f"{title} (size {size:g})",
            ["engine", "facts", "materialise s", "MB", *(f"{count} deleted, ms" for count in CHANGES)],
            note=versions,
        )
        points: dict[str, list[tuple[str, float | None]]] = {}
        for modules in (True, False):
            name = f"tidelog{'' if modules else ', modules off'}"
            options.progress(f"{title}, {name}")
            whole = run_tidelog(case, options.seed, size, modules, options.timeout)
            changes = isolated(tidelog_changes, case, options.seed, size, modules, timeout=options.timeout)
            table.rows.append([name, *_cells(whole), *_change_cells(changes)])
            points[name] = _points(whole, changes)
            if modules:
                expected, followed = whole, changes
        for peer in peers:
            options.progress(f"{title}, {peer}")
            outcome = run_peer(peer, case, options.seed, size, options.timeout)
            found: Changes | Failed | None = None
            if peer in _MAINTAINED and isinstance(outcome, Measured):
                found = isolated(_MAINTAINED[peer], case, options.seed, size, timeout=options.timeout)
                report.checks += _same_after_changes(title, followed, found)
            report.checks += _same(f"{title}: facts found by {peer}", expected, outcome)
            outcome = agreeing(expected, outcome)
            cells = _change_cells(found) if found else [_again(outcome)] * len(CHANGES)
            table.rows.append([peer, *_cells(outcome), *cells])
            points[peer] = _points(outcome, found)
        report.tables.append(table)
        series = {name: values for name, values in points.items() if values}
        report.plots.append(Plot(title, "", "CPU seconds", series, bars=True))
    return report


def _cells(outcome: Measured | Failed) -> list[Cell]:
    if isinstance(outcome, Failed):
        return [None, outcome, None]
    return [outcome.value, outcome, round(outcome.memory)]


def _change_cells(changes: Changes | Failed) -> list[Cell]:
    if isinstance(changes, Failed):
        return [changes, *[None] * (len(CHANGES) - 1)]
    return [1000 * cpu for cpu in changes.cpu]


def _again(outcome: Measured | Failed) -> Cell:
    return None if isinstance(outcome, Failed) else f"{1000 * outcome.cpu:,.0f} (again)"


def _points(outcome: Measured | Failed, changes: Changes | Failed | None) -> list[tuple[str, float | None]]:
    if isinstance(outcome, Failed):
        return []
    times = changes.cpu if isinstance(changes, Changes) else [outcome.cpu] * len(CHANGES)
    return [("materialise", outcome.cpu), *((f"{n} deleted", cpu) for n, cpu in zip(CHANGES, times, strict=True))]


def _same(claim: str, expected: Measured | Failed, found: Measured | Failed) -> list[Check]:
    if isinstance(expected, Failed) or isinstance(found, Failed):
        return []
    return [Check(claim, expected.value, found.value)]


def _same_after_changes(title: str, ours: Changes | Failed, theirs: Changes | Failed) -> list[Check]:
    if isinstance(ours, Failed) or isinstance(theirs, Failed):
        return []
    return [Check(f"{title}: facts after each change", theirs.facts, ours.facts)]


def _deleted(facts: Tables, seed: int) -> list[Tables]:
    return [random_rows(facts, count, seed + count) for count in CHANGES]


def tidelog_changes(case: str, seed: int, size: float, modules: bool) -> Changes:
    """Deletions one after the other; one more before them builds the indexes that only deletions use."""
    chosen = CASES[case]
    facts = chosen.facts(seed, size)
    warm(chosen.rules, chosen.facts(seed, size / 50), modules=modules)
    kb, _ = timed_materialise(chosen.rules, facts, modules=modules)
    first = random_rows(facts, 1, seed)
    kb.update(delete=first)
    kb.update(add=first)
    answer = chosen.answer or derived_predicates(chosen.rules)
    changes = Changes()
    for deleted in _deleted(facts, seed):
        changes.cpu.append(timed(kb, delete=deleted).cpu)
        changes.facts.append(count_facts(kb, answer))
    return changes


def prolog_changes(case: str, seed: int, size: float) -> Changes:
    """The same by incremental tabling: each count of the answers after a deletion evaluates what depends on it
    again."""
    task = Task.of(CASES[case], seed, size)
    prefixes = program_of(CASES[case].rules)[1]
    derived = derived_names(task.rules)
    lines = [SwiProlog().program(task, incremental=True)]
    for number, deleted in enumerate(_deleted(CASES[case].facts(seed, size), seed)):
        for name, rows in plain_tables(deleted, prefixes).items():
            facts = facts_text(f"given_{name}" if name in derived else name, rows, PROLOG).splitlines()
            lines += [f"go({number}, ignore(retract({fact.removesuffix('.')})))." for fact in facts]
    lines.append(
        "changed(K) :- statistics(cputime, A), forall(go(K, G), G), count(N), statistics(cputime, B), T is B - A, "
        "format('~w ~w~n', [T, N])."
    )
    goal = f"count(_), forall(between(0, {len(CHANGES) - 1}, K), changed(K))"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.pl").write_text("\n".join(lines), encoding="utf-8")
        measured = measure_command(["swipl", *SwiProlog.OPTIONS, "-g", goal, "-t", "halt", "program.pl"], folder)
    pairs = [line.split() for line in measured.value.splitlines()]
    return Changes([float(cpu) for cpu, _ in pairs], [int(count) for _, count in pairs])


def pathway_changes(case: str, seed: int, size: float) -> Changes:
    """The same by Pathway, each deletion when the one before is done; a fact that is gone already is not deleted
    again, which Pathway would take for a fact that is there less than never."""
    task = Task.of(CASES[case], seed, size)
    prefixes = program_of(CASES[case].rules)[1]
    deletions = []
    left = task.facts
    for deleted in _deleted(CASES[case].facts(seed, size), seed):
        gone = plain_tables(deleted, prefixes)
        deletions.append(
            {name: rows.join(left[name], rows.column_names, join_type="inner") for name, rows in gone.items()}
        )
        left = without(left, gone)
    steps = Pathway().follow(task, deletions)[1:]
    return Changes([cpu for cpu, _ in steps], [facts for _, facts in steps])


_MAINTAINED = {SwiProlog.name: prolog_changes, Pathway.name: pathway_changes}
