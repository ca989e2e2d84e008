"""Public update streams in every mode and under every algorithm, each held against materialising again.

A *way* is a mode of taking updates (`update`, `stream` without and with marking, `live` some updates at a time and in
single units of work) under one value of `maintenance`, with closure modules or without. Every way has to report the
change that materialising again makes of each update, and to end in the same facts. Where a program has few predicates
all facts are compared after every update. With `--data` the streams are those of M-Illich/inc-mat-mark, otherwise
drawn ones.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.update_streams import P_SEQ, P_TRANS, random_stream, read_rules, read_stream
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Cell, Check, Plot, Report, Table
from tidelog.engine.algorithms.names import MAINTENANCE
from tidelog.errors import DataError
from tidelog.facts.results import Change
from tidelog.formats.files.updates import Update
from tidelog.values import Row

Facts = dict[str, frozenset[Row]]
Steps = Iterator[tuple[int, Change]]
"""How many updates have been taken so far, and what changed since the last time."""

KINDS = ("random", "overlap", "real", "scale-update")
AHEAD = 5
"""Updates that `live` gets before it has to settle."""
FEW_PREDICATES = 50
_PATIENCE = 10


@dataclass(frozen=True)
class Source:
    """A stream, and the rules that it is for."""

    kind: str
    program: str
    run: str
    rules: str
    updates: list[Update]


@dataclass
class Verdict:
    """What became of a stream: facts in the end, ways that were tried, where they went wrong; CPU time by mode."""

    facts: int
    ways: int = 0
    problems: list[str] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)


def run(options: Options) -> Report:
    report = Report("Streams in every mode, under every algorithm: updates a second under `auto`")
    table = Table(
        "Updates a second",
        ["streams", "program", "runs", "updates", "facts in the end", *(f"{mode} /s" for mode in _MODES), "ways agree"],
    )
    groups: dict[tuple[str, str], list[Source]] = {}
    for source in sources(options):
        groups.setdefault((source.kind, source.program), []).append(source)
    series: dict[str, list[tuple[str, float | None]]] = {}
    for (kind, program), runs in groups.items():
        verdicts = []
        for source in runs:
            options.progress(f"{kind}, {program}, {source.run}")
            verdict = isolated(verify, source, options.seed, timeout=_PATIENCE * options.timeout)
            claim = f"{kind}/{program}/{source.run}: every way agrees with materialising again"
            found = verdict.reason if isinstance(verdict, Failed) else verdict.problems
            report.checks.append(Check(claim, [], found))
            if not isinstance(verdict, Failed):
                verdicts.append(verdict)
        table.rows.append([kind, program, len(runs), *_cells(runs, verdicts)])
        for mode, speed in zip(_MODES, _speeds(runs, verdicts), strict=False):
            series.setdefault(mode, []).append((f"{kind} {program}", speed))
    report.tables.append(table)
    report.plots.append(Plot("Updates a second", "", "updates a second", series, bars=True))
    return report


def _cells(runs: list[Source], verdicts: list[Verdict]) -> list[Cell]:
    """Sums over the runs of a program."""
    updates = sum(len(source.updates) for source in runs)
    if len(verdicts) < len(runs):
        return [updates, None, *[None] * len(_MODES), None]
    speeds: list[Cell] = [round(speed) for speed in _speeds(runs, verdicts)]
    ways = sum(verdict.ways for verdict in verdicts)
    wrong = sum(len(verdict.problems) for verdict in verdicts)
    return [updates, sum(verdict.facts for verdict in verdicts), *speeds, f"{ways - wrong} of {ways}"]


def _speeds(runs: list[Source], verdicts: list[Verdict]) -> list[float]:
    """Updates a second in each mode, over all runs; nothing where a run failed."""
    if len(verdicts) < len(runs):
        return []
    updates = sum(len(source.updates) for source in runs)
    return [updates / sum(verdict.cpu[mode] for verdict in verdicts) for mode in _MODES]


# --- where streams come from ------------------------------------------------------------------------------------------


def sources(options: Options) -> Iterator[Source]:
    """Public streams, all of them or a quick choice; drawn ones where there is no data."""
    if options.data is None:
        for program, rules, nodes in (("path", P_TRANS, 20), ("sequence", P_SEQ, 100)):
            for overlap in (0.0, 0.5):
                yield Source("drawn", program, f"{overlap:.0%}", rules, random_stream(nodes, 10, options.seed, overlap))
        return
    folders = sorted({file.parent for file in (options.data / "updates").glob("*/*/*/*/*.pl")})
    if not folders:
        raise DataError(f"there are no streams in {options.data / 'updates'}; --data is the folder with `updates`")
    for kind in KINDS[:2] if options.quick else KINDS:
        for folder in folders:
            found, program, number, name = folder.parts[-4:]
            if found == kind and not (options.quick and number != "0"):
                rules = read_rules(options.data, program)
                yield Source(kind, program, f"{number}/{name}", rules, read_stream(folder))


# --- the modes --------------------------------------------------------------------------------------------------------


def _one_at_a_time(kb: KnowledgeBase, updates: list[Update], _: random.Random) -> Steps:
    return enumerate((kb.update(**update) for update in updates), 1)


def _stream(kb: KnowledgeBase, updates: list[Update], _: random.Random) -> Steps:
    return enumerate(kb.stream(updates, marking=False), 1)


def _marked_stream(kb: KnowledgeBase, updates: list[Update], _: random.Random) -> Steps:
    return enumerate(kb.stream(updates), 1)


def _live(kb: KnowledgeBase, updates: list[Update], _: random.Random) -> Steps:
    live = kb.live()
    for first in range(0, len(updates), AHEAD):
        for update in updates[first : first + AHEAD]:
            number = live.submit(**update)
        yield number, live.settle()


def _live_in_units(kb: KnowledgeBase, updates: list[Update], dice: random.Random) -> Steps:
    """Submitted while others are in work, settled now and then."""
    live = kb.live()
    for number, update in enumerate(updates, 1):
        live.submit(**update)
        live.step(dice.randrange(4))
        if number == len(updates) or dice.random() < 0.2:
            yield number, live.settle()


_MODES: Mapping[str, Callable[[KnowledgeBase, list[Update], random.Random], Steps]] = {
    "update": _one_at_a_time,
    "stream": _stream,
    "stream, marked": _marked_stream,
    f"live, {AHEAD} ahead": _live,
    "live in units": _live_in_units,
}


# --- comparing --------------------------------------------------------------------------------------------------------


def verify(source: Source, seed: int) -> Verdict:
    """Take a stream in every way."""
    warnings.simplefilter("ignore")
    states = _states(source)
    verdict = Verdict(sum(map(len, states[-1].values())))
    for maintenance, modules, mode in product(MAINTENANCE, (False, True), _MODES):
        timed = maintenance == "auto" and modules
        for _ in range(2 if timed else 1):  # The first run may load kernels.
            kb = KnowledgeBase(source.rules, maintenance=maintenance, modules=modules)
            cpu, problem = _follow(kb, _MODES[mode](kb, source.updates, random.Random(seed)), states)
            if timed:
                verdict.cpu[mode] = min(cpu, verdict.cpu.get(mode, cpu))
        verdict.ways += 1
        if problem:
            verdict.problems.append(f"{maintenance}, modules {'on' if modules else 'off'}, {mode}: {problem}")
    return verdict


def _states(source: Source) -> list[Facts]:
    """All facts before the first update and after each one, by materialising again."""
    kb = KnowledgeBase(source.rules, maintenance="recompute", modules=False)
    states = [_facts(kb)]
    for update in source.updates:
        kb.update(**update)
        states.append(_facts(kb))
    return states


def _facts(kb: KnowledgeBase) -> Facts:
    return {name: rows for name in kb.predicates if (rows := frozenset(kb.facts(name)))}


def _follow(kb: KnowledgeBase, steps: Steps, states: list[Facts]) -> tuple[float, str]:
    """The CPU seconds of a way without those of the comparison, and where it went wrong, if anywhere."""
    cpu, before = 0.0, 0
    every_time = len(kb.predicates) <= FEW_PREDICATES
    while before < len(states) - 1:
        started = time.process_time()
        number, change = next(steps)
        cpu += time.process_time() - started
        if _changed(change) != _difference(states[before], states[number]):
            return cpu, f"another change between update {before} and {number}"
        if (every_time or number == len(states) - 1) and _facts(kb) != states[number]:
            return cpu, f"other facts after update {number}"
        before = number
    return cpu, ""


def _changed(change: Change) -> tuple[Facts, Facts]:
    added, removed = ({name: frozenset(rows) for name, rows in half.items()} for half in (change.added, change.removed))
    return added, removed


def _difference(before: Facts, after: Facts) -> tuple[Facts, Facts]:
    """What came and what went between two states."""
    return _without(after, before), _without(before, after)


def _without(facts: Facts, others: Facts) -> Facts:
    return {name: left for name, rows in facts.items() if (left := rows - others.get(name, frozenset()))}
