"""Fully dynamic against one at a time: updates that come while earlier ones are in work, on streams that undo
themselves.

"One at a time" is `KnowledgeBase.update` for each. "Live" submits some updates ahead of the work: an addition and a
deletion of the same fact cancel where neither has taken effect. Batches of net operations, the usual mode, stand beside
`overlap="operations"`, in which operations meet while they spread. There, "in flux" means that each update comes in
when some steps of the one before it have been taken.
"""

from __future__ import annotations

import time
import warnings

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.update_streams import P_SEQ, P_TRANS, PROGRAMS, random_stream, read_rules, read_streams
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.parts.latency import latency_table
from tidelog.bench.parts.subscriptions import subscription_table
from tidelog.bench.report import Check, Plot, Report, Table
from tidelog.bench.work import Step, percentile, summed, timed
from tidelog.formats.files.updates import Update

_AHEAD = (1, 2, 5, 10)

_WINDOW = 5
"""Updates ahead where batches and operations are compared."""
_STEPS = 20
"""Steps that are taken between two updates in flux."""
_PAUSE = 0.002
"""Seconds between two updates, where it is measured how soon each is visible."""

_VARIANTS = ("dred", "counting")


def run(options: Options) -> Report:
    report = Report("Fully dynamic updates against one update at a time: CPU time and rule applications")
    times = Table(
        "Streams of 50 updates of 10 + 10 facts; columns: how many updates wait while one is in work",
        ["program", "overlap", "one at a time ms", *(f"live, {ahead} ahead, ms" for ahead in _AHEAD)],
    )
    work = Table(
        "Rule applications on the same streams",
        ["program", "overlap", "one at a time", *(f"live, {ahead} ahead" for ahead in _AHEAD)],
    )
    series: dict[str, list[tuple[str, float | None]]] = {}
    for title, rules, overlap, stream in _streams(options):
        options.progress(f"{title}, overlap {overlap}")
        runs = [isolated(one_at_a_time, rules, stream, timeout=options.timeout)]
        runs += [isolated(fully_dynamic, rules, stream, ahead, timeout=options.timeout) for ahead in _AHEAD]
        times.rows.append([title, overlap, *(run if isinstance(run, Failed) else 1000 * run[0].cpu for run in runs)])
        work.rows.append([title, overlap, *(run if isinstance(run, Failed) else run[0].applications for run in runs)])
        one = runs[0]
        for ahead, live in zip(_AHEAD, runs[1:], strict=True):
            if not isinstance(one, Failed) and not isinstance(live, Failed):
                claim = f"{title}, overlap {overlap}, {ahead} ahead"
                report.checks.append(Check(f"{claim}: the same facts", one[1], live[1]))
                if ahead > 1 and overlap.startswith("overlap/"):
                    less = live[0].applications < one[0].applications
                    report.checks.append(Check(f"{claim}: less work than one at a time", True, less))
                faster = one[0].cpu / live[0].cpu
                series.setdefault(f"{ahead} ahead", []).append((f"{title}, {overlap}", faster))
    report.tables += [times, work, *_both_modes(options, report), latency_table(options), subscription_table(options)]
    title = "Live updates: how many may wait while one is in work"
    report.plots.append(Plot(title, "", "times faster than one at a time", series, bars=True, log_y=False, even=1))
    return report


def _both_modes(options: Options, report: Report) -> list[Table]:
    """Batches and operations side by side."""
    ways = [("batches", 0), ("operations", 0), ("operations", _STEPS)]
    names = [f"{mode}{' in flux' if steps else ''}, {variant}" for variant in _VARIANTS for mode, steps in ways]
    work = Table(f"Batches and operations, {_WINDOW} ahead: rule applications", ["program", "overlap", *names])
    times = Table(
        f"Batches and operations, {_WINDOW} ahead: CPU ms", ["program", "overlap", *(f"{name}, ms" for name in names)]
    )
    visible = Table(
        f"An update every {1000 * _PAUSE:g} ms: until it is visible, CPU time",
        [
            "program",
            "overlap",
            *(f"{mode}, {share} ms" for mode in ("batches", "dred", "counting") for share in ("median", "most")),
        ],
    )
    streams = _streams(options)
    public = [each for each in streams if each[2].startswith("overlap/")]
    for title, rules, overlap, stream in public or streams:
        options.progress(f"batches and operations, {title}, overlap {overlap}")
        found = isolated(both_modes, rules, stream, ways, timeout=options.timeout)
        if isinstance(found, Failed):
            work.rows.append([title, overlap, found, *[None] * (len(names) - 1)])
            continue
        runs, seen = found
        work.rows.append([title, overlap, *(step.applications for step, _ in runs)])
        times.rows.append([title, overlap, *(1000 * step.cpu for step, _ in runs)])
        visible.rows.append([title, overlap, *(1000 * percentile(each, share) for each in seen for share in (0.5, 1))])
        for name, (_, facts) in zip(names, runs, strict=True):
            report.checks.append(Check(f"{title}, overlap {overlap}, {name}: the same facts", runs[0][1], facts))
    return [work, times, visible]


def both_modes(
    rules: str, stream: list[Update], ways: list[tuple[str, int]]
) -> tuple[list[tuple[Step, int]], list[list[float]]]:
    """A stream in each way under each variant, and how soon its updates are visible: batches, then the variants."""
    runs = [
        fully_dynamic(rules, stream, _WINDOW, variant, mode, steps, runs=2 if mode == "batches" else 1)
        for variant in _VARIANTS
        for mode, steps in ways
    ]
    modes = [("auto", "batches"), *((variant, "operations") for variant in _VARIANTS)]
    return runs, [until_visible(rules, stream, variant, mode) for variant, mode in modes]


def _streams(options: Options) -> list[tuple[str, str, str, list[Update]]]:
    found = []
    for title, rules, nodes in (("P_trans", P_TRANS, 20), ("P_seq", P_SEQ, 100)):
        for overlap in (0.0, 0.5, 1.0):
            stream = random_stream(nodes, 10, options.seed, overlap)
            found.append((title, rules, f"{overlap:.0%}", stream))
    if options.data:
        for program in ("path", "sequence") if options.quick else PROGRAMS:
            for number, stream in enumerate(read_streams(options.data, "overlap", program)):
                found.append((program, read_rules(options.data, program), f"overlap/{number}", stream))
    return found


def one_at_a_time(rules: str, stream: list[Update]) -> tuple[Step, int]:
    """The whole stream and the number of facts at its end, after a run that loads the kernels."""
    warnings.simplefilter("ignore")
    for _ in range(2):
        kb = KnowledgeBase(rules, modules=False)
        total = summed(timed(kb, **update) for update in stream)
    return total, len(kb)


def fully_dynamic(
    rules: str,
    stream: list[Update],
    ahead: int,
    maintenance: str = "auto",
    overlap: str = "batches",
    steps: int = 0,
    runs: int = 2,
) -> tuple[Step, int]:
    """The same with so many updates submitted before the work on the first of them ends, and some steps in between."""
    warnings.simplefilter("ignore")
    for _ in range(runs):
        kb = KnowledgeBase(rules, modules=False, maintenance=maintenance)
        live = kb.live(overlap=overlap)
        changes = []
        started = time.process_time()
        for first in range(0, len(stream), ahead):
            for update in stream[first : first + ahead]:
                live.submit(**update)
                if steps:
                    live.step(steps)
            changes.append(live.settle())
        cpu = time.process_time() - started
    total = summed(Step(0.0, dict(change.work)) for change in changes)
    total.cpu = cpu
    return total, len(kb)


def until_visible(rules: str, stream: list[Update], maintenance: str, overlap: str) -> list[float]:
    """CPU seconds from submitting each update until a reader sees it, if one comes in every `_PAUSE` seconds. Time
    passes while work is done, and where there is none until the next update: other load does not count.
    """
    warnings.simplefilter("ignore")
    live = KnowledgeBase(rules, modules=False, maintenance=maintenance).live(overlap=overlap)
    units = 1 if overlap == "batches" else _STEPS
    now = 0.0
    submitted: list[float] = []
    seen: list[float] = []
    while len(seen) < len(stream):
        while len(submitted) < len(stream) and (not live.pending or _PAUSE * len(submitted) <= now):
            now = max(now, _PAUSE * len(submitted))
            submitted.append(_PAUSE * len(submitted))
            live.submit(**stream[len(submitted) - 1])
        started = time.process_time()
        live.step(units)
        now += time.process_time() - started
        seen += [now - came for came in submitted[len(seen) : live.settled]]
    return seen
