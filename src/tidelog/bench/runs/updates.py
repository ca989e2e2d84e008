"""Small updates: how long they take, whether that depends on the data, and how they compare with materialising again.

The example of B/F §1 is here as well: C_1 has two derivations and C_i follows from C_(i-1), so B/F's work must not
depend on n, while DRed overdeletes all n.
"""

from __future__ import annotations

from itertools import pairwise

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.cases import CASES, random_rows
from tidelog.bench.data.update_streams import P_TRANS, random_stream, read_streams
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Check, Plot, Report, Table
from tidelog.bench.work import Step, percentile, single_rows, summed, timed, timed_materialise, warm, without
from tidelog.formats.files.updates import Update

_PROLOG = "60 to 110 s"
"""What the authors' Prolog takes for the public stream `random/path`."""


def run(options: Options) -> Report:
    report = Report("Updates: CPU time")
    sizes = (0.01, 0.1) if options.quick else (0.1 * options.size, options.size)
    _latency(report, options, sizes)
    _deletions(report, options, sizes[1])
    _example(report)
    _stream(report, options)
    return report


# --- one in, one out --------------------------------------------------------------------------------------------------


def _latency(report: Report, options: Options, sizes: tuple[float, float]) -> None:
    table = Table(
        "LUBM, 107 rules: an update of one deletion and one addition",
        ["data", "explicit", "facts", "median ms", "95 % ms", "wanted"],
    )
    medians = []
    for size in sizes:
        options.progress(f"latency, LUBM({10 * size:g})")
        found = isolated(latency, options.seed, size, 60 if options.quick else 300, timeout=options.timeout * 3)
        if isinstance(found, Failed):
            table.rows.append([f"LUBM({10 * size:g})", None, None, found, None, "< 1 ms"])
            continue
        explicit, facts, times = found
        medians.append(percentile(times, 0.5))
        cells = [1000 * medians[-1], 1000 * percentile(times, 0.95)]
        table.rows.append([f"LUBM({10 * size:g})", explicit, facts, *cells, "< 1 ms"])
    if len(medians) == 2:
        table.note = f"Ten times the data: {medians[1] / medians[0]:.2f} times the median."
    report.tables.append(table)


def latency(seed: int, size: float, updates: int) -> tuple[int, int, list[float]]:
    """Explicit facts, facts, and the CPU time of each update; the fact that one update deletes, the next one adds."""
    case = CASES["lubm"]
    facts = case.facts(seed, size)
    warm(case.rules, case.facts(seed, 0.005))
    kb, _ = timed_materialise(case.rules, facts)
    rows = list(single_rows(random_rows(facts, updates + 20, seed)))
    times = [timed(kb, delete=row, add=before).cpu for before, row in pairwise(rows)]
    return sum(map(len, facts.values())), len(kb), times[19:]


# --- deletions against materialising again ----------------------------------------------------------------------------


def _deletions(report: Report, options: Options, size: float) -> None:
    table = Table(
        f"LUBM({10 * size:g}), 107 rules: deleting random facts",
        ["deleted", "gone from I", "update s", "materialise again s", "faster", "wanted", "add them again s"],
    )
    wanted = {100: "≥ 100×", 5000: "≥ 10×"}
    options.progress("deletions")
    counts = (1, 10, 10, 500) if options.quick else (1, 100, 100, 5000)
    table.note = "The first deletions from a relation also build the indexes that only deletions use: 100 stands twice."
    rows = isolated(deletions, options.seed, size, counts, timeout=options.timeout * 3)
    for count, deletion, again, back in [] if isinstance(rows, Failed) else rows:
        faster = f"{again.cpu / deletion.cpu:,.0f}×"
        table.rows.append([count, deletion.removed, deletion.cpu, again.cpu, faster, wanted.get(count), back.cpu])
        report.checks.append(Check(f"facts after {count} deletions, both ways", again.added, deletion.added))
    if isinstance(rows, Failed):
        table.note = rows.reason
    report.tables.append(table)


def deletions(seed: int, size: float, counts: tuple[int, ...]) -> list[tuple[int, Step, Step, Step]]:
    """For each count: the deletion (`added` is the number of facts left), materialising what is left, adding them
    again."""
    case = CASES["lubm"]
    facts = case.facts(seed, size)
    warm(case.rules, case.facts(seed, 0.005))
    kb, _ = timed_materialise(case.rules, facts)
    rows = []
    for number, count in enumerate(counts):
        deleted = random_rows(facts, count, seed + number)
        deletion = timed(kb, delete=deleted)
        deletion.added = len(kb)
        fresh, again = timed_materialise(case.rules, without(facts, deleted))
        again.added = len(fresh)
        rows.append((count, deletion, again, timed(kb, add=deleted)))
    return rows


# --- the example of B/F §1 --------------------------------------------------------------------------------------------


def _example(report: Report) -> None:
    table = Table(
        "B/F §1: delete A(a) where C_1(a) follows from A(a) and from B(a), C_i(a) from C_(i-1)(a)",
        ["n", "C_1 from C_n too", "B/F applications", "B/F ms", "DRed applications", "DRed ms"],
        note="Each C_i alone is a hyper-node, and nothing passes it that did not change: only where they are one, DRed "
        "overdeletes all.",
    )
    for loop in (False, True):
        applications = []
        for length in (10, 100, 1000):
            found = isolated(example, length, loop)
            if isinstance(found, Failed):
                table.rows.append([length, loop, None, found, None, None])
                continue
            bf, dred = found
            applications.append(bf.applications)
            table.rows.append([length, loop, bf.applications, 1000 * bf.cpu, dred.applications, 1000 * dred.cpu])
        claim = f"B/F's rule applications for every n{', in one hyper-node' if loop else ''}"
        report.checks.append(Check(claim, applications[:1] * 3, applications))
    report.tables.append(table)


def example(length: int, loop: bool) -> tuple[Step, Step]:
    """The deletion under B/F and under DRed."""
    rules = "c1(X) :- a(X). c1(X) :- b(X)."
    rules += "".join(f" c{i}(X) :- c{i - 1}(X)." for i in range(2, length + 1))
    rules += f" c1(X) :- c{length}(X)." if loop else ""
    steps = []
    for maintenance in ("backward-forward", "dred"):
        kb = KnowledgeBase(rules, maintenance=maintenance)
        kb.update(add={"a": [("warm",), ("a",)], "b": [("warm",), ("a",)]})
        kb.update(delete={"a": [("warm",)]})
        steps.append(timed(kb, delete={"a": [("a",)]}))
    return steps[0], steps[1]


# --- a stream ---------------------------------------------------------------------------------------------------------


def _stream(report: Report, options: Options) -> None:
    if options.data:
        streams = {f"random/path {n}": s for n, s in enumerate(read_streams(options.data, "random", "path"))}
    else:
        streams = {"generated": random_stream(20, 10, options.seed)}
    table = Table(
        "P_trans: a stream of 50 updates, each deletes and adds 10 edges",
        ["stream", "modules", "CPU s", "wanted", "authors' Prolog", "applications"],
    )
    for name, stream in streams.items():
        for modules in (True, False):
            total = isolated(stream_totals, P_TRANS, stream, modules)
            applications = None if isinstance(total, Failed) else total.applications
            cpu = total if isinstance(total, Failed) else total.cpu
            paper = _PROLOG if options.data else None
            table.rows.append([name, "on" if modules else "off", cpu, "< 0.1 s", paper, applications])
    report.tables.append(table)
    rows = report.tables[0].rows
    points: list[tuple[str, float | None]] = [(str(row[0]), row[3]) for row in rows if isinstance(row[3], float)]
    report.plots.append(
        Plot("One deletion and one addition", "", "median, CPU ms", {"tidelog": points}, bars=True, log_y=False)
    )


def stream_totals(rules: str, stream: list[Update], modules: bool) -> Step:
    """A whole stream, update by update, after one to warm up."""
    for _ in range(2):
        kb = KnowledgeBase(rules, modules=modules)
        total = summed(timed(kb, **update) for update in stream)
    return total
