"""Backward/Forward against DRed: Table 2 of the B/F paper, for growing deletions up to the equilibrium.

The equilibrium is the deletion at which materialising again takes as long as B/F. Every smaller deletion is a part of
it. Closure modules are off: the algorithms are compared, not what can be avoided altogether. What `auto` does with the
same deletions, without modules and with them, is a table of its own.

Counts are those of the paper's procedures (`bench/paper_counts.py`). Times are those of the engine, which maintains one
component after the other and so takes other steps. The data are of the kind of the paper's and smaller: LUBM(10), UOBM,
and, with `--data`, Claros without and with the hard rules. So ratios are to be compared, not seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tidelog.bench.data import claros
from tidelog.bench.data.cases import Case, Tables, case_of, random_rows
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.paper_counts import BackwardForwardCounts, BackwardForwardProgram, DredCounts, DredProgram
from tidelog.bench.report import Cell, Check, Plot, Report, Table
from tidelog.bench.work import Step, materialised, timed, timed_materialise, warm, without

_COLUMNS = (
    "|E⁻|",
    "|I∖I′|",
    "again s",
    "Fwd",
    "DRed s",
    "|D|",
    "DR2",
    "DR4",
    "DR5",
    "B/F s",
    "|C|",
    "Bwd",
    "Sat",
    "Del Prop",
)
_AUTO_COLUMNS = ("|E⁻|", "again s", "DRed s", "B/F s", "auto s", "looks", "overdeleted", "auto with modules s")
_NOTE = (
    "Counts are the paper's. Fwd, |D|, DR2, DR4, DR5 and Del Prop are determined; |C|, Bwd and Sat depend on the order "
    "in which instances are found, which the paper leaves open. DR4 counts rederived facts, not all instances of rule "
    "(6). A dash: the procedure takes longer than --timeout."
)
_BISECTIONS = 7
_TIMEOUTS = 10
"""How often --timeout, for all that is done with one data set."""


@dataclass(frozen=True)
class DataSet:
    """The rules and facts of one of the paper's data sets, its size here, and rows of the paper's Table 2."""

    name: str
    case: str
    size: float
    paper: str

    def of(self, data: Path | None) -> str | Case | None:
        """The case, or its name; None for Claros without the folder of public data."""
        if self.case != "claros":
            return self.case
        return claros.case(data, self.name == "Claros-LE") if data else None


SETS = (
    DataSet(
        "LUBM-L",
        "lubm-plain",
        1.0,
        "LUBM-1k-L, |E| 133.6 M, |E⁻| 5.0k: |D| 55.5k, |C| 23.0k, again 101.8 s, DRed 0.2 s, B/F 0.2 s; "
        "10.0 M: |D| 30.0 M, |C| 34.1 M, again 99.5 s, DRed 127.9 s, B/F 102.2 s",
    ),
    DataSet(
        "UOBM",
        "uobm",
        0.1,
        "UOBM-1k-Uo, |E| 254.8 M, |E⁻| 100: |D| 1.8 G, |C| 0.8k, again 3,482 s, DRed 8,798 s, B/F 5.4 s; "
        "68.0 M: |D| 1.9 G, |C| 687.0 M, again 3,982 s, DRed 11,352 s, B/F 3,737 s",
    ),
    DataSet(
        "Claros-L",
        "claros",
        0.2,
        "Claros-L, |E| 18.8 M, |E⁻| 5.0k: |D| 37.8k, |C| 29.1k, again 62.8 s, DRed 0.4 s, B/F 0.4 s; "
        "2.3 M: |D| 14.8 M, |C| 11.7 M, again 60.0 s, DRed 91.0 s, B/F 60.6 s",
    ),
    DataSet(
        "Claros-LE",
        "claros",
        0.05,
        "Claros-LE, |E| 18.8 M, |E⁻| 7.5k: |D| 6.5 M, |C| 683.4k, again 4,855 s, DRed 7,419 s, B/F 19.5 s; "
        "10.0k: |D| 6.8 M, |C| 6.0 M, again 5,621 s, DRed 7,558 s, B/F 3,907 s",
    ),
)


@dataclass
class Comparison:
    """One deletion, done in five ways by the engine, and counted as the paper counts."""

    deleted: int
    again: Step
    dred: Step
    bf: Step
    auto: Step
    modular: Step
    dred_counts: DredCounts
    bf_counts: BackwardForwardCounts | None

    def cells(self) -> list[Cell]:
        dred, bf = self.dred_counts, self.bf_counts
        return [
            *(self.deleted, self.bf.removed, self.again.cpu, self.again.work["insertion"]),
            *(self.dred.cpu, dred.overdeleted, dred.dr2, dred.dr4, dred.dr5),
            self.bf.cpu,
            *((bf.checked, bf.backward, bf.saturation) if bf else (None, None, None)),
            dred.dr2 - dred.dr5,
        ]

    def auto_cells(self) -> list[Cell]:
        work = self.auto.work
        times = [self.again.cpu, self.dred.cpu, self.bf.cpu, self.auto.cpu]
        return [self.deleted, *times, work["checked"], work["overdeleted"], self.modular.cpu]


@dataclass
class Compared:
    """A data set: |E|, |I|, the instances M_d and seconds M_t of its materialisation, and the rows of the table."""

    explicit: int
    materialisation: Step
    rows: list[Comparison]


def run(options: Options) -> Report:
    report = Report("Backward/Forward against DRed: CPU seconds of the engine, counts of the B/F paper's Table 2")
    for data in SETS:
        case = data.of(options.data)
        if case is None:
            continue
        options.progress(data.name)
        size = data.size * options.scale(0.02)
        found = isolated(compare, case, options.seed, size, options.timeout, timeout=options.timeout * _TIMEOUTS)
        if isinstance(found, Failed):
            report.tables.append(Table(data.name, ["failed"], [[found]]))
        else:
            _report(report, data, found)
    return report


def _report(report: Report, data: DataSet, found: Compared) -> None:
    rows, made = found.rows, found.materialisation
    title = f"{data.name}: |E| = {found.explicit:,}, |I| = {made.added:,}, M_d = {made.work['insertion']:,}"
    share = f"The last row is the equilibrium ({rows[-1].deleted / found.explicit:.1%} of E)."
    note = f"{share} {_NOTE} Paper: {data.paper}."
    report.tables.append(Table(title, _COLUMNS, [row.cells() for row in rows], note))
    report.tables.append(Table(f"{data.name}: what auto does", _AUTO_COLUMNS, [row.auto_cells() for row in rows]))
    series: dict[str, list[tuple[int, float | None]]] = {
        "auto": [(row.deleted, row.auto.cpu) for row in rows],
        "B/F": [(row.deleted, row.bf.cpu) for row in rows],
        "DRed": [(row.deleted, row.dred.cpu) for row in rows],
        "again": [(row.deleted, row.again.cpu) for row in rows],
    }
    picture = "Deleting facts, or materialising again"
    report.plots.append(Plot(data.name, "deleted facts", "CPU seconds", series, log_x=True, picture=picture))
    for row in rows:
        report.checks += _checks(f"{data.name}, {row.deleted:,} deleted", made, row)


def _checks(name: str, made: Step, row: Comparison) -> Iterator[Check]:
    gone = made.added - row.again.added
    removed = [step.removed for step in (row.bf, row.dred, row.auto, row.modular)]
    yield Check(f"{name}: facts removed by B/F, DRed, auto", [gone] * 4, removed)
    yield Check(f"{name}: D holds what goes", True, row.dred_counts.overdeleted >= gone)
    if row.bf_counts:
        yield Check(f"{name}: C holds what goes", True, row.bf_counts.checked >= gone)
        lost = made.work["insertion"] - row.again.work["insertion"]
        yield Check(f"{name}: deletion propagates along what goes, M(I) − M(I′)", lost, row.bf_counts.propagation)


def compare(case: str | Case, seed: int, size: float, seconds: float) -> Compared:
    """All deletions of a case; `seconds` is what the paper's procedure may take for one of them."""
    chosen = case_of(case)
    facts = chosen.facts(seed, size)
    for maintenance in ("dred", "backward-forward", "auto"):
        warm(chosen.rules, chosen.facts(seed, size / 10), maintenance, modules=False)
    warm(chosen.rules, chosen.facts(seed, size / 10))
    explicit = sum(map(len, facts.values()))
    trial = _Trial(chosen.rules, facts, seed)
    most = equilibrium(explicit, lambda count: trial.bf(count).cpu - trial.again(count).cpu)
    counts = sorted({*(n for n in (100, 5000) if n < most), *(max(1, most * k // 4) for k in range(1, 5))})
    return Compared(explicit, trial.made, list(trial.compare(counts, seconds)))


class _Trial:
    """A program and its facts, of which any number can be deleted in any way."""

    def __init__(self, rules: str, facts: Tables, seed: int) -> None:
        self._rules = rules
        self._facts = facts
        self._seed = seed
        kb, self.made = timed_materialise(rules, facts, "dred", modules=False)
        self._materialised = materialised(kb)

    def compare(self, counts: list[int], seconds: float) -> Iterator[Comparison]:
        """Growing deletions."""
        dred = DredProgram(self._rules, self._materialised, self.made.work["insertion"])
        bf = BackwardForwardProgram(self._rules, self._facts, self._materialised)
        for count in counts:
            rows, again = self._rows(count), self.again(count)
            yield Comparison(
                count,
                again,
                self._delete("dred", False, count),
                self.bf(count),
                self._delete("auto", False, count),
                self._delete("auto", True, count),
                dred.delete(rows, again.work["insertion"]),
                bf.delete(rows, seconds),
            )

    def _rows(self, count: int) -> Tables:
        return random_rows(self._facts, count, self._seed)

    def bf(self, count: int) -> Step:
        return self._delete("backward-forward", False, count)

    def _delete(self, maintenance: str, modules: bool, count: int) -> Step:
        kb, _ = timed_materialise(self._rules, self._facts, maintenance, modules)
        # Indexes that only deletions use are there in a knowledge base at work; build them before the clock starts.
        first = self._rows(1)
        kb.update(delete=first)
        kb.update(add=first)
        return timed(kb, delete=self._rows(count))

    def again(self, count: int) -> Step:
        left = without(self._facts, self._rows(count))
        return timed_materialise(self._rules, left, "dred", modules=False)[1]


def equilibrium(total: int, balance: Callable[[int], float]) -> int:
    """The number at which a balance turns positive, by bisection on a logarithmic scale between 1 and `total`; `total`
    if it never does."""
    low, high = 1, total
    if balance(high) <= 0:
        return high
    for _ in range(_BISECTIONS):
        middle = math.isqrt(low * high)
        low, high = (middle, high) if balance(middle) <= 0 else (low, middle)
    return max(low, 1)
