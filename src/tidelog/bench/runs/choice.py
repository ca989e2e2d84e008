"""`auto` beside every fixed choice of `maintenance`, for updates from one fact to all of E.

Each algorithm materialises the same facts once, and then deletes and adds back ever more of them. Closure modules are
on wherever a case says so, for all algorithms alike: the question is what to choose, not what modules save.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.cases import Tables, random_rows
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Cell, Check, Plot, Report, Table
from tidelog.bench.work import Step, ready_for_updates, summed, timed
from tidelog.engine.algorithms.names import MAINTENANCE

# Small updates are over so soon that one alone says little.
_REPEAT_BELOW, _REPEATS = 1_000, 5

# The machine's noise is larger than what is compared: all is measured so often, and the least counts, but for updates
# that take so many seconds.
_PASSES, _LONG = 3, 1.0

# `auto` is to take at most so many times what the best fixed choice takes.
WANTED = 1.3


@dataclass(frozen=True)
class Input:
    """A case, its size, and whether closure modules are on."""

    case: str
    size: float
    modules: bool = True


INPUTS = {
    "LUBM-L": Input("lubm-plain", 0.1),
    "LUBM-LE": Input("lubm", 0.1),
    "cliques": Input("places", 1.0),
    "cliques, modules off": Input("places", 0.5, modules=False),
    "SKOS": Input("skos", 0.2),
    "DAG, modules off": Input("dag-right", 0.5, modules=False),
    "same generation": Input("same-generation", 0.2),
    "points-to": Input("points-to", 0.5),
}
_KINDS = ("delete", "add")


@dataclass(frozen=True)
class Measurement:
    """An update of `count` facts: to delete them, and to add them again."""

    count: int
    delete: Step
    add: Step

    def cpu(self, kind: str) -> float:
        step: Step = getattr(self, kind)
        return step.cpu

    @property
    def long(self) -> bool:
        return max(self.delete.cpu, self.add.cpu) >= _LONG

    def least(self, other: Measurement) -> Measurement:
        """The lesser times of two measurements of the same."""
        delete, add = (min(getattr(self, kind), getattr(other, kind), key=lambda step: step.cpu) for kind in _KINDS)
        return Measurement(self.count, delete, add)


def run(options: Options) -> Report:
    report = Report("What `auto` chooses: CPU ms of updates from one fact to all of E, beside every fixed choice")
    worst: list[float] = []
    # A process for each algorithm takes a second to begin: the quick form has time for half of the inputs.
    for name, data in list(INPUTS.items())[:: 2 if options.quick else 1]:
        found: dict[str, list[Measurement] | Failed] = {}
        for maintenance in MAINTENANCE:
            options.progress(f"{name}, {maintenance}")
            found[maintenance] = isolated(
                measure_sizes,
                data.case,
                options.seed,
                data.size * options.scale(0.1),
                maintenance,
                data.modules,
                timeout=options.timeout,
            )
        _report_input(report, name, found, worst)
    if worst:
        report.tables[-1].note = f"The largest ratio of all inputs: {max(worst):.2f}; wanted: at most {WANTED}."
    return report


def _report_input(report: Report, name: str, found: dict[str, list[Measurement] | Failed], worst: list[float]) -> None:
    auto = found["auto"]
    if isinstance(auto, Failed):
        report.tables.append(Table(name, ["failed"], [[auto]]))
        return
    fixed = [maintenance for maintenance in MAINTENANCE if maintenance != "auto"]
    for kind in _KINDS:
        table = Table(f"{name}: {kind}", ["facts", "auto", *fixed, "auto / best"])
        series: dict[str, list[tuple[int, float | None]]] = {}
        for place, ours in enumerate(auto):
            others = {maintenance: _at(found[maintenance], place, kind) for maintenance in fixed}
            best = min((cpu for cpu in others.values() if isinstance(cpu, float)), default=ours.cpu(kind))
            worst.append(ours.cpu(kind) / best)
            cells = [_milliseconds(cell) for cell in (ours.cpu(kind), *others.values())]
            table.rows.append([ours.count, *cells, f"{ours.cpu(kind) / best:.2f}"])
            for maintenance, cell in (("auto", ours.cpu(kind)), *others.items()):
                if isinstance(cell, float):
                    series.setdefault(maintenance, []).append((ours.count, cell))
        report.tables.append(table)
        report.plots.append(Plot(f"{name}: {kind}", f"facts to {kind}", "CPU seconds", series, log_x=True))
    report.checks += _checks(name, found)


def _at(found: list[Measurement] | Failed, place: int, kind: str) -> float | Failed:
    return found if isinstance(found, Failed) else found[place].cpu(kind)


def _milliseconds(cell: float | Failed) -> Cell:
    return cell if isinstance(cell, Failed) else 1000 * cell


def _checks(name: str, found: dict[str, list[Measurement] | Failed]) -> list[Check]:
    """All algorithms have to remove as many facts, and to bring as many back."""
    sizes = {
        maintenance: [(row.delete.removed, row.add.added) for row in rows]
        for maintenance, rows in found.items()
        if not isinstance(rows, Failed)
    }
    return [
        Check(f"{name}: facts changed by {maintenance}", sizes["auto"], changed)
        for maintenance, changed in sizes.items()
        if maintenance != "auto"
    ]


def measure_sizes(case: str, seed: int, size: float, maintenance: str, modules: bool) -> list[Measurement]:
    """One row for each size of the update."""
    kb, facts = ready_for_updates(case, seed, size, maintenance, modules)
    gc.disable()  # a collection takes longer than many an update
    rows = [measure_size(kb, facts, count, seed) for count in sizes_up_to(sum(map(len, facts.values())))]
    for _ in range(_PASSES - 1):
        rows = [row if row.long else row.least(measure_size(kb, facts, row.count, seed)) for row in rows]
    return rows


def measure_size(kb: KnowledgeBase, facts: Tables, count: int, seed: int) -> Measurement:
    """Delete so many facts and add them again; small numbers of them several times, others each time."""
    pairs = []
    for number in range(_REPEATS if count < _REPEAT_BELOW else 1):
        part = random_rows(facts, count, seed + number)
        pairs.append((timed(kb, delete=part), timed(kb, add=part)))
    return Measurement(count, summed(pair[0] for pair in pairs), summed(pair[1] for pair in pairs))


def sizes_up_to(explicit: int) -> list[int]:
    """One fact, ten, a hundred …; then a tenth, three tenths and all of E."""
    sizes = []
    count = 1
    while count < explicit // 10:
        sizes.append(count)
        count *= 10
    return [*sizes, explicit // 10, 3 * explicit // 10, explicit]
