"""Closure modules: Tables 1 and 2 of Modular Materialisation, with and without modules.

The rules are the paper's where the closures are: `path` as a transitive relation (DAG-R), all 41 rules of the SKOS
vocabulary, LUBM with the harder rules, and the symmetric and transitive `relatedPlaces` of Claros without its other
rules. Our data are smaller, so that updates without modules end (DAG-R is the same and smaller only for these), and so
ratios between the columns are to be compared: wanted are ten times those of the paper. With `--data` there are rows
for public facts of DBpedia as well, and for all public rules of Claros. One more table has closures inside a larger
recursion, which the paper does not.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, replace

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data import claros
from tidelog.bench.data.cases import Case, Tables, case_of, random_rows
from tidelog.bench.data.update_streams import read_case, read_rules
from tidelog.bench.measure import Failed, Measured, isolated
from tidelog.bench.options import Options
from tidelog.bench.parts.equal import equal_constants
from tidelog.bench.parts.within import within_recursion
from tidelog.bench.peers.engines import run_tidelog
from tidelog.bench.report import Cell, Check, Plot, Report, Table, factor, ratio
from tidelog.bench.work import Step, ready_for_updates, timed
from tidelog.language import parse_program
from tidelog.language.syntax import Rule, body_atoms
from tidelog.program.graph import RuleGraph
from tidelog.program.modules import Kind, recognise, recognise_modules

MODULAR, PLAIN = True, False

# How many times the paper's ratio of DRed^c to DRed^c-Mod is wanted of DRed^c to `auto`.
WANTED = 10

# The paper draws ten samples and takes the mean. So do we, but begin none after so many seconds.
_SAMPLES, _ENOUGH = 10, 5.0

# Ways without modules take so many times as long as other engines may.
_PATIENCE = 5

Seconds = tuple[float, float]
"""The paper's, with modules and without."""


@dataclass(frozen=True)
class DataSet:
    """A case, and the paper's times for it; `plain_updates` is the share at which updates without modules still end."""

    case: str | Case
    materialise: Seconds
    small_delete: Seconds
    small_insert: Seconds
    large_delete: Seconds
    plain_updates: float = 1.0

    @property
    def updates(self) -> dict[str, Seconds]:
        """By name, in the order of `maintain`. The paper has no column for large insertions: they "can already be seen
        in Table 1"."""
        return {
            "small deletions": self.small_delete,
            "small insertions": self.small_insert,
            "large deletion": self.large_delete,
            "large insertion": self.materialise,
        }


SETS = {
    "Claros-LE (cliques)": DataSet("places-large", (733.55, 3593.32), (0.93, 1035.28), (0.17, 0.80), (314.33, 3616.93)),
    "LUBM-LE": DataSet("lubm", (291.90, 1100.22), (0.32, 3.87), (0.01, 0.01), (182.93, 1369.77)),
    "DBpedia-SKOS": DataSet("skos", (103.23, 3623.37), (21.77, 691.32), (0.20, 2.78), (111.28, 3826.87)),
    "DAG-R": DataSet("dag-r", (29.60, 3238.86), (64.92, 3005.11), (14.56, 116.78), (62.48, 4316.71), 0.2),
}


def run(options: Options) -> Report:
    report = Report("Closure modules: CPU seconds (Tables 1 and 2 of Modular Materialisation)")
    scale = options.scale(0.1)
    sets = data_sets(options)
    report.tables.append(_programs(options, sets, scale))
    _materialisation(report, options, sets, scale)
    _maintenance(report, options, sets, scale)
    for measure in (within_recursion, equal_constants):
        table, checks = measure(options, scale)
        report.tables.append(table)
        report.checks += checks
    return report


def data_sets(options: Options) -> dict[str, DataSet]:
    """The generated inputs, and the public one where it is given."""
    if options.data is None:
        return SETS
    public = replace(SETS["DBpedia-SKOS"], case=read_case(options.data, "dbpedia"))
    whole = replace(SETS["Claros-LE (cliques)"], case=claros.case(options.data, harder=True))
    return {**SETS, "DBpedia-SKOS, public facts": public, "Claros-LE, public rules": whole}


# S, |Π_nr|, |Π_r|, |TC| and |STC| of the paper's Table 1.
PAPER_PROGRAMS = {
    "Claros-LE": (11, 1031, 306, 27, 2),
    "LUBM-LE": (5, 85, 22, 1, 2),
    "DBpedia-SKOS": (5, 26, 15, 2, 1),
    "DAG-R": (1, 1, 1, 1, 0),
}


def _programs(options: Options, sets: dict[str, DataSet], scale: float) -> Table:
    columns = [
        "data",
        "S",
        "|E|",
        "|Π_nr|",
        "|Π_r|",
        "|TC|",
        "|STC|",
        "in modules",
        "modules",
        "paper: S, |Π_nr|, |Π_r|, |TC|, |STC|",
    ]
    found = Table("Table 1: programs", columns)
    for name, data in sets.items():
        case = case_of(data.case)
        explicit = sum(map(len, case.facts(options.seed, scale).values()))
        strata, *counts = program_counts(case.rules)
        paper = next(figures for prefix, figures in PAPER_PROGRAMS.items() if name.startswith(prefix))
        found.rows.append([name, strata, explicit, *counts, ", ".join(map(str, paper))])
    if options.data is not None:
        strata, *counts = program_counts(read_rules(options.data, "relations"))
        found.rows.append(["relation ontology, public rules", strata, None, *counts, None])
    found.note = (
        "|TC| and |STC| count predicates whose own rules are a closure, and `in modules` those of them that a module "
        "has; predicates that are copied into each other, as inverses are, form one module."
    )
    return found


def program_counts(text: str) -> tuple[int, int, int, int, int, int, int]:
    """Strata, non-recursive and recursive rules, transitive and symmetric-transitive predicates; how many of these
    predicates modules have, and how many modules there are.
    """
    graph = RuleGraph()
    graph.update(parse_program(text).rules)
    components = graph.components_in_order()
    depths: dict[str, int] = {}
    for component in components:
        read = (atom.predicate for number in component.rules for atom in body_atoms(graph.rule(number)))
        depth = 1 + max((depths.get(name, 0) for name in read if name not in component.predicates), default=0)
        depths.update(dict.fromkeys(component.predicates, depth))
    recursive = sum(len(component.recursive_rules) for component in components)
    closures = [module for name in graph.predicates for module in recognise(_rules_of(graph, name))[0] if module.rules]
    symmetric = [closure.kind for closure in closures].count(Kind.SYMMETRIC_TRANSITIVE)
    modules = [module for component in components for module in recognise_modules(component, graph.rules)]
    inside = {predicate for module in modules for predicate in module.predicates}
    taken = sum(closure.predicate in inside for closure in closures)
    plain = len(graph.rules) - recursive
    return max(depths.values()), plain, recursive, len(closures) - symmetric, symmetric, taken, len(modules)


def _rules_of(graph: RuleGraph, predicate: str) -> dict[int, Rule]:
    return {number: graph.rule(number) for number in graph.producers(predicate)}


def _materialisation(report: Report, options: Options, sets: dict[str, DataSet], scale: float) -> None:
    columns = ["data", "facts", "Mat-Mod", "MB", "Mat", "MB", "ratio", "paper Mat-Mod", "paper Mat", "ratio"]
    table = Table("Table 1: materialisation", columns)
    series: dict[str, list[tuple[str, float | None]]] = {"with modules": [], "without": []}
    for name, data in sets.items():
        options.progress(f"{name}, materialisation")
        outcomes = [run_tidelog(data.case, options.seed, scale, m, options.timeout) for m in (MODULAR, PLAIN)]
        cells: list[Cell] = []
        for series_name, outcome in zip(series, outcomes, strict=True):
            cells += [outcome, round(outcome.memory) if isinstance(outcome, Measured) else None]
            if isinstance(outcome, Measured):
                series[series_name].append((name, outcome.cpu))
        found = [outcome.value for outcome in outcomes if isinstance(outcome, Measured)]
        table.rows.append([name, *found[:1], *cells, ratio(*outcomes), *data.materialise, ratio(*data.materialise)])
        report.checks.append(Check(f"{name}: facts with and without modules", found[:1] * len(found), found))
    report.tables.append(table)
    report.plots.append(Plot("Materialisation, closures as modules or not", "", "CPU seconds", series, bars=True))


def _maintenance(report: Report, options: Options, sets: dict[str, DataSet], scale: float) -> None:
    table = Table(
        "Table 2: maintenance",
        [
            *("data", "update", "auto, whole", "at size", "auto", "DRed^c-Mod", "DRed^c"),
            *("DRed^c / auto", "DRed^c / DRed^c-Mod", "paper", "paper ratio", f"{WANTED}× the paper's"),
        ],
    )
    reached: list[bool] = []
    for name, data in sets.items():
        options.progress(f"{name}, maintenance")
        whole, auto, modular, plain = _ways(data, options, scale)
        for number, (update, paper) in enumerate(data.updates.items()):
            cells = [_cell(found, number) for found in (auto, modular, plain)]
            verdict = is_reached(cells[0], cells[2], paper)
            reached += [] if verdict is None else [verdict]
            ratios = [
                ratio(cells[0], cells[2]),
                ratio(cells[1], cells[2]),
                f"{paper[0]:g} / {paper[1]:g}",
                ratio(*paper),
            ]
            table.rows.append([name, update, _cell(whole, number), f"{data.plain_updates:g}", *cells, *ratios, verdict])
        report.checks += _checks(name, modular, plain)
    table.note = (
        "Small: 1,000 facts (1 % where there are fewer than 100,000), the mean of ten samples, or of as many as begin "
        f"within {_ENOUGH:g} s; large: 25 % of E. The paper's times for large insertions are those of Table 1. The "
        "columns after `at size` are measured on that share of the data, where DRed^c without modules still ends. "
        f"{WANTED} times the paper's ratio is reached by DRed^c / auto in {sum(reached)} of {len(reached)} rows."
    )
    report.tables.append(table)


Found = list[Step] | Failed


def _ways(data: DataSet, options: Options, scale: float) -> tuple[Found, Found, Found, Found]:
    """`auto` on all of the data; then `auto`, DRed^c-Mod and DRed^c where the last one still ends."""

    def measured(size: float, maintenance: str, modules: bool) -> Found:
        timeout = options.timeout * _PATIENCE
        found: Found = isolated(maintain, data.case, options.seed, size, maintenance, modules, timeout=timeout)
        return found

    part = scale * data.plain_updates
    whole = measured(scale, "auto", MODULAR)
    auto = whole if part == scale else measured(part, "auto", MODULAR)
    return whole, auto, measured(part, "dred-counting", MODULAR), measured(part, "dred-counting", PLAIN)


def _cell(found: Found, number: int) -> Cell:
    return found if isinstance(found, Failed) else found[number].cpu


def is_reached(auto: Cell, plain: Cell, paper: Seconds) -> bool | None:
    """Whether DRed^c by `auto` is as many times the paper's ratio as is wanted; None where one of them has no time."""
    ours, theirs = factor(auto, plain), factor(*paper)
    return None if ours is None or theirs is None else ours >= WANTED * theirs


def _checks(name: str, modular: Found, plain: Found) -> list[Check]:
    if isinstance(modular, Failed) or isinstance(plain, Failed):
        return []
    sizes = [[step.added + step.removed for step in steps] for steps in (plain, modular)]
    return [Check(f"{name}: facts changed with and without modules", *sizes)]


def maintain(case: str | Case, seed: int, size: float, maintenance: str, modules: bool) -> list[Step]:
    """Small deletions, the insertions of the same facts, a large deletion, and the insertion of its facts."""
    kb, facts = ready_for_updates(case, seed, size, maintenance, modules)
    explicit = sum(map(len, facts.values()))
    gc.disable()  # a collection takes longer than many an update
    large = random_rows(facts, explicit // 4, seed)
    return [
        *_small(kb, facts, min(1000, max(1, explicit // 100)), seed),
        *(timed(kb, delete=large), timed(kb, add=large)),
    ]


def _small(kb: KnowledgeBase, facts: Tables, count: int, seed: int) -> tuple[Step, Step]:
    """Delete samples and add them again: what the first one changed, and the mean time of all."""
    pairs: list[tuple[Step, Step]] = []
    while len(pairs) < _SAMPLES and sum(step.cpu for pair in pairs for step in pair) < _ENOUGH:
        rows = random_rows(facts, count, seed + 1 + len(pairs))
        pairs.append((timed(kb, delete=rows), timed(kb, add=rows)))
    deletions, insertions = zip(*pairs, strict=True)
    return _mean(deletions), _mean(insertions)


def _mean(steps: tuple[Step, ...]) -> Step:
    return replace(steps[0], cpu=sum(step.cpu for step in steps) / len(steps))
