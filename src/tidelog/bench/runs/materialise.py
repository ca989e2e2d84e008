"""Materialisation from nothing, beside the peers: each on the same facts in a process of its own, one thread.

The inputs and wishes are those that the project set itself: at most half of DuckDB's CPU time on linear closures and
points-to, no more than DuckDB's on the rest, and closures that do not store their pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tidelog.bench.data.cases import CASES
from tidelog.bench.measure import Failed, Measured
from tidelog.bench.options import Options
from tidelog.bench.peers.engines import agreeing, installed, run_peer, run_tidelog
from tidelog.bench.report import Cell, Check, Plot, Report, Table, quickest, ratio

Outcome = Measured | Failed


@dataclass(frozen=True)
class Row:
    """A case, whether with closure modules, the least times that we want to be faster than DuckDB, and bounds on
    seconds and megabytes."""

    case: str
    modules: bool = False
    faster: float | None = None
    seconds: float | None = None
    megabytes: float | None = None

    def wish(self) -> str:
        parts = [f"{self.faster:g}× DuckDB"] if self.faster else []
        parts += [f"≤ {self.seconds:g} s"] if self.seconds else []
        parts += [f"≤ {self.megabytes:g} MB"] if self.megabytes else []
        return ", ".join(parts)


ROWS = (
    Row("dag-right", faster=2),
    Row("dag-nonlinear", faster=1),
    Row("dag-large", faster=2),
    Row("dag-large", modules=True, seconds=0.5, megabytes=100),
    Row("cycle", modules=True, seconds=0.05),
    Row("same-generation", faster=1),
    Row("points-to", faster=2),
    Row("lubm-plain", faster=2),
    Row("lubm-numbers", faster=2),
    Row("lubm", modules=True),
)
_PEERS = ("DuckDB", "DuckDB loop", "clingo", "Soufflé", "SWI-Prolog", "plain Python")
"""Those without a minute of warming up; `bench peers` has the others too."""
_QUICK_SECONDS = 3.0
"""What a peer gets in the quick form, which has time for half of the inputs."""
_SHORT, _REPEATS = 0.2, 5
"""What takes fewer seconds differs by half from one run to the next, and is measured so often."""


def run(options: Options) -> Report:
    if options.quick:
        options = replace(options, timeout=min(options.timeout, _QUICK_SECONDS))
    size = options.scale(0.1)
    peers = {name: text for name, text in installed().items() if name in _PEERS}
    duck = [name for name in peers if name.startswith("DuckDB")]
    others = [name for name in peers if name not in duck]
    versions = ", ".join(f"{name} {text}" for name, text in peers.items() if name != "DuckDB loop")
    report = Report("Materialisation: CPU seconds and megabytes, one thread each")
    table = Table(
        f"size {size:g}, seed {options.seed}",
        ["input", "modules", "facts", "tidelog", "MB", "DuckDB", "MB", "faster", "wanted", *others],
        note=f"{versions}. DuckDB: the quicker of a recursive query and a loop of statements.",
    )
    known: dict[tuple[str, str], Outcome] = {}
    series: dict[str, list[tuple[str, float | None]]] = {}
    for row in ROWS[:: 2 if options.quick else 1]:
        case = CASES[row.case]
        options.progress(f"{case.title}, tidelog")
        ours = best(partial(run_tidelog, row.case, options.seed, size, row.modules, options.timeout), options)
        for peer in peers:
            if (row.case, peer) not in known:
                options.progress(f"{case.title}, {peer}")
                known[row.case, peer] = _peer(row.case, peer, size, options)
        found = {peer: agreeing(ours, known[row.case, peer]) for peer in peers}
        theirs = quickest(found[peer] for peer in duck)
        table.rows.append(
            [
                case.title,
                "on" if row.modules else "off",
                *_tidelog_cells(ours),
                theirs,
                round(theirs.memory) if theirs else None,
                ratio(ours, theirs),
                row.wish(),
                *(found[peer] for peer in others),
            ]
        )
        title = f"{case.title}{', with modules' if row.modules else ''}"
        for name, outcome in (("tidelog", ours), ("DuckDB", theirs), *((peer, found[peer]) for peer in others)):
            if isinstance(outcome, Measured):
                series.setdefault(name, []).append((title, outcome.cpu))
            elif isinstance(outcome, Failed) and outcome.is_timeout:
                series.setdefault(name, []).append((title, None))
        report.checks += _same_sizes(title, ours, {peer: known[row.case, peer] for peer in peers})
    report.tables.append(table)
    limit = options.timeout if any(y is None for points in series.values() for _, y in points) else None
    report.plots.append(Plot("Materialisation, one thread", "", "CPU seconds", series, bars=True, limit=limit))
    return report


def best(measure: Callable[[], Outcome], options: Options) -> Outcome:
    """The least CPU time of several runs; what is over soon is measured more often, whoever does it."""
    outcomes = [measure()]
    short = isinstance(outcomes[0], Measured) and outcomes[0].cpu < _SHORT and not options.quick
    outcomes += [measure() for _ in range(max(options.repeat, _REPEATS if short else 1) - 1)]
    return quickest(outcomes) or outcomes[0]


def _peer(case: str, peer: str, size: float, options: Options) -> Outcome:
    return best(lambda: run_peer(peer, case, options.seed, size, options.timeout), options)


def _tidelog_cells(ours: Outcome) -> list[Cell]:
    if isinstance(ours, Failed):
        return [None, ours, None]
    return [ours.value, ours, round(ours.memory)]


def _same_sizes(title: str, ours: Outcome, found: dict[str, Outcome]) -> list[Check]:
    """Times are comparable only where all engines found as many facts."""
    sizes = {name: outcome.value for name, outcome in found.items() if isinstance(outcome, Measured)}
    if isinstance(ours, Failed) or not sizes:
        return []
    return [Check(f"{title}: facts found by {', '.join(sizes)}", [ours.value] * len(sizes), list(sizes.values()))]
