"""Closure modules: Tables 1 and 2 of Modular Materialisation, with and without modules.

Our data are smaller than the paper's (DAG-R is the same), so ratios between the columns are to be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.bench.cases import random_rows
from tidelog.bench.measure import Failed, Measured, isolated
from tidelog.bench.options import Options
from tidelog.bench.peers import run_tidelog
from tidelog.bench.report import Cell, Check, Plot, Report, Table, ratio
from tidelog.bench.work import Step, ready_for_updates, timed

MODULAR, PLAIN = True, False


@dataclass(frozen=True)
class DataSet:
    """A case and its size, and the paper's seconds: Mat-Mod and Mat; DRed^c-Mod and DRed^c for small deletions, small
    insertions and large deletions. `plain_updates` is the size at which updates without modules still end."""

    case: str
    size: float
    mat: tuple[float, float]
    updates: tuple[tuple[float, float], ...]
    plain_updates: float


SETS = {
    "Claros-LE (cliques)": DataSet(
        "places", 1.0, (733.55, 3593.32), ((0.93, 1035.28), (0.17, 0.80), (314.33, 3616.93)), 1
    ),
    "LUBM-LE": DataSet("lubm", 1.0, (291.90, 1100.22), ((0.32, 3.87), (0.01, 0.01), (182.93, 1369.77)), 1),
    "DBpedia-SKOS": DataSet("skos", 1.0, (103.23, 3623.37), ((21.77, 691.32), (0.20, 2.78), (111.28, 3826.87)), 1),
    "DAG-R": DataSet("dag-large", 1.0, (29.60, 3238.86), ((64.92, 3005.11), (14.56, 116.78), (62.48, 4316.71)), 0.2),
}
_UPDATES = ("small deletions", "small insertions", "large deletion")


def run(options: Options) -> Report:
    report = Report("Closure modules: CPU seconds (Tables 1 and 2 of Modular Materialisation)")
    scale = options.scale(0.1)
    _materialisation(report, options, scale)
    _maintenance(report, options, scale)
    return report


def _materialisation(report: Report, options: Options, scale: float) -> None:
    columns = ["data", "facts", "Mat-Mod", "MB", "Mat", "MB", "ratio", "paper Mat-Mod", "paper Mat", "ratio"]
    table = Table("Table 1: materialisation", columns)
    series: dict[str, list[tuple[str, float]]] = {"with modules": [], "without": []}
    for name, data in SETS.items():
        options.progress(f"{name}, materialisation")
        outcomes = [
            run_tidelog(data.case, options.seed, data.size * scale, m, options.timeout) for m in (MODULAR, PLAIN)
        ]
        cells: list[Cell] = []
        for series_name, outcome in zip(series, outcomes, strict=True):
            cells += [outcome, round(outcome.memory) if isinstance(outcome, Measured) else None]
            if isinstance(outcome, Measured):
                series[series_name].append((name, outcome.cpu))
        found = [outcome.value for outcome in outcomes if isinstance(outcome, Measured)]
        table.rows.append([name, *found[:1], *cells, ratio(*outcomes), *data.mat, ratio(*data.mat)])
        report.checks.append(Check(f"{name}: facts with and without modules", found[:1] * len(found), found))
    report.tables.append(table)
    report.plots.append(Plot("Materialisation with and without modules", "", "CPU seconds", series, bars=True))


def _maintenance(report: Report, options: Options, scale: float) -> None:
    table = Table(
        "Table 2: maintenance",
        [
            *("data", "update", "auto, whole", "at size", "auto", "DRed^c-Mod", "DRed^c"),
            *("DRed^c / auto", "DRed^c / DRed^c-Mod", "paper", "paper ratio"),
        ],
        note="Small: 1,000 facts (1 % where there are fewer than 100,000); large: 25 % of E. The columns after "
        "`at size` are measured on that share of the data, where DRed^c without modules still ends.",
    )
    for name, data in SETS.items():
        options.progress(f"{name}, maintenance")
        whole, part = data.size * scale, data.size * scale * data.plain_updates
        ways = (
            *((whole, "auto", MODULAR), (part, "auto", MODULAR)),
            *((part, "dred-counting", MODULAR), (part, "dred-counting", PLAIN)),
        )
        measured = [isolated(maintain, data.case, options.seed, *way, timeout=options.timeout * 3) for way in ways]
        for number, update in enumerate(_UPDATES):
            all_of_it, auto, modular, plain = (_cell(found, number) for found in measured)
            paper = data.updates[number]
            ratios = [ratio(auto, plain), ratio(modular, plain), f"{paper[0]:g} / {paper[1]:g}", ratio(*paper)]
            table.rows.append([name, update, all_of_it, f"{data.plain_updates:g}", auto, modular, plain, *ratios])
        report.checks += _checks(name, *measured[2:])
    report.tables.append(table)


def _cell(found: list[Step] | Failed, number: int) -> Cell:
    return found if isinstance(found, Failed) else found[number].cpu


def _checks(name: str, modular: list[Step] | Failed, plain: list[Step] | Failed) -> list[Check]:
    if isinstance(modular, Failed) or isinstance(plain, Failed):
        return []
    sizes = [[step.added + step.removed for step in steps] for steps in (plain, modular)]
    return [Check(f"{name}: facts changed with and without modules", *sizes)]


def maintain(case: str, seed: int, size: float, maintenance: str, modules: bool) -> list[Step]:
    """A small deletion, the insertion of the same facts, and a large deletion."""
    kb, facts = ready_for_updates(case, seed, size, maintenance, modules)
    explicit = sum(map(len, facts.values()))
    small = random_rows(facts, min(1000, max(1, explicit // 100)), seed + 1)
    large = random_rows(facts, explicit // 4, seed + 2)
    return [timed(kb, delete=small), timed(kb, add=small), timed(kb, delete=large)]
