"""Backward/Forward against DRed: Table 2 of the B/F paper, for growing deletions up to the equilibrium.

The equilibrium is the deletion at which materialising again takes as long as B/F. Every smaller deletion is a part of
it. Closure modules are off: the algorithms are compared, not what can be avoided altogether. What `auto` does with the
same deletions, without modules and with them, is a table of its own. The paper's figures are of
LUBM-1k (133.6 M facts) and Claros; ours are of smaller data of the same shape, so ratios are to be compared, not
seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tidelog.bench.data.cases import CASES, Tables, random_rows
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Cell, Check, Plot, Report, Table
from tidelog.bench.work import Step, timed, timed_materialise, warm, without

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
    "Del",
)
_AUTO_COLUMNS = ("|E⁻|", "again s", "DRed s", "B/F s", "auto s", "looks", "overdeleted", "auto with modules s")
_BISECTIONS = 7


@dataclass(frozen=True)
class DataSet:
    """A case, its size, and rows of the paper's Table 2 for a set of the same shape: |E⁻|, and seconds of materialising
    again, of DRed and of B/F."""

    case: str
    size: float
    paper: str


SETS = {
    "LUBM-L": DataSet(
        "lubm-plain",
        0.1,
        "LUBM-1k-L, |E⁻| 5.0k: again 101.8 s, DRed 0.2 s, B/F 0.2 s; 10 M: again 99.5 s, DRed 127.9 s, B/F 102.2 s",
    ),
    "LUBM-LE": DataSet("lubm", 0.02, "not in the table"),
    "cliques": DataSet(
        "places",
        1.0,
        "Claros-LE, |E⁻| 7.5k: again 4,855 s, DRed 7,419 s, B/F 19.5 s; 10k: again 5,621 s, DRed 7,558 s, B/F 3,907 s",
    ),
}


@dataclass
class Comparison:
    """One deletion, done in five ways."""

    deleted: int
    again: Step
    dred: Step
    bf: Step
    auto: Step
    modular: Step

    def cells(self) -> list[Cell]:
        dred, bf = self.dred.work, self.bf.work
        return [
            self.deleted,
            self.bf.removed,
            self.again.cpu,
            self.again.work["insertion"],
            self.dred.cpu,
            dred["overdeleted"],
            dred["deletion"],
            dred["rederivation"],
            dred["insertion"],
            self.bf.cpu,
            bf["checked"],
            bf["backward"],
            bf["forward"],
            bf["deletion"],
        ]

    def auto_cells(self) -> list[Cell]:
        work = self.auto.work
        times = [self.again.cpu, self.dred.cpu, self.bf.cpu, self.auto.cpu]
        return [self.deleted, *times, work["checked"], work["overdeleted"], self.modular.cpu]


def run(options: Options) -> Report:
    report = Report("Backward/Forward against DRed: CPU seconds, facts, rule applications (Table 2 of the B/F paper)")
    for name, data in SETS.items():
        options.progress(name)
        size = data.size * options.scale(0.2)
        found = isolated(compare, data.case, options.seed, size, timeout=options.timeout * 5)
        if isinstance(found, Failed):
            report.tables.append(Table(name, ["failed"], [[found]]))
            continue
        explicit, facts, rows = found
        table = Table(f"{name}: |E| = {explicit:,}, |I| = {facts:,}", _COLUMNS, [row.cells() for row in rows])
        table.note = f"The last row is the equilibrium ({rows[-1].deleted / explicit:.1%} of E). Paper: {data.paper}."
        report.tables.append(table)
        report.tables.append(Table(f"{name}: what auto does", _AUTO_COLUMNS, [row.auto_cells() for row in rows]))
        series = {
            "materialise again": [(row.deleted, row.again.cpu) for row in rows],
            "DRed": [(row.deleted, row.dred.cpu) for row in rows],
            "B/F": [(row.deleted, row.bf.cpu) for row in rows],
            "auto": [(row.deleted, row.auto.cpu) for row in rows],
        }
        report.plots.append(Plot(f"{name}: deletions", "deleted facts", "CPU seconds", series, log_x=True))
        for row in rows:
            claim = f"{name}, {row.deleted:,} deleted: facts removed by B/F, DRed, auto"
            removed = [step.removed for step in (row.bf, row.dred, row.auto, row.modular)]
            report.checks.append(Check(claim, [facts - row.again.added] * 4, removed))
    return report


def compare(case: str, seed: int, size: float) -> tuple[int, int, list[Comparison]]:
    """|E|, |I| and the rows of the table."""
    chosen = CASES[case]
    facts = chosen.facts(seed, size)
    for maintenance in ("dred", "backward-forward", "auto"):
        warm(chosen.rules, chosen.facts(seed, size / 10), maintenance, modules=False)
    warm(chosen.rules, chosen.facts(seed, size / 10))
    explicit = sum(map(len, facts.values()))
    trial = _Trial(chosen.rules, facts, seed)
    most = equilibrium(explicit, lambda count: trial.bf(count).cpu - trial.again(count).cpu)
    counts = sorted({*(n for n in (100, 5000) if n < most), *(max(1, most * k // 4) for k in range(1, 5))})
    return explicit, trial.facts, [trial.compare(count) for count in counts]


class _Trial:
    """A program and its facts, of which any number can be deleted in any way."""

    def __init__(self, rules: str, facts: Tables, seed: int) -> None:
        self._rules = rules
        self._facts = facts
        self._seed = seed
        self.facts = timed_materialise(rules, facts, "dred", modules=False)[1].added

    def compare(self, count: int) -> Comparison:
        dred, auto, modular = (
            self._delete("dred", count),
            self._delete("auto", count),
            self._delete("auto", count, True),
        )
        return Comparison(count, self.again(count), dred, self.bf(count), auto, modular)

    def bf(self, count: int) -> Step:
        return self._delete("backward-forward", count)

    def _delete(self, maintenance: str, count: int, modules: bool = False) -> Step:
        kb, _ = timed_materialise(self._rules, self._facts, maintenance, modules)
        # Indexes that only deletions use are there in a knowledge base at work; build them before the clock starts.
        first = random_rows(self._facts, 1, self._seed)
        kb.update(delete=first)
        kb.update(add=first)
        return timed(kb, delete=random_rows(self._facts, count, self._seed))

    def again(self, count: int) -> Step:
        left = without(self._facts, random_rows(self._facts, count, self._seed))
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
