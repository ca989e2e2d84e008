"""Fully dynamic against one at a time: updates that come while earlier ones are in work, on streams that undo
themselves.

"One at a time" is `KnowledgeBase.update` for each. "Live" submits some updates ahead of the work: an addition and a
deletion of the same fact cancel where neither has taken effect.
"""

from __future__ import annotations

import time
import warnings

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.update_streams import P_SEQ, P_TRANS, PROGRAMS, random_stream, read_rules, read_streams
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Check, Plot, Report, Table
from tidelog.bench.runs.latency import latency_table
from tidelog.bench.work import Step, summed, timed
from tidelog.formats.updates import Update

_AHEAD = (1, 2, 5, 10)


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
    report.tables += [times, work, latency_table(options)]
    title = "Live updates: how many may wait while one is in work"
    report.plots.append(Plot(title, "", "times faster than one at a time", series, bars=True, log_y=False, even=1))
    return report


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


def fully_dynamic(rules: str, stream: list[Update], ahead: int) -> tuple[Step, int]:
    """The same with so many updates submitted before the work on the first of them ends."""
    warnings.simplefilter("ignore")
    for _ in range(2):
        kb = KnowledgeBase(rules, modules=False)
        live = kb.live()
        changes = []
        started = time.process_time()
        for first in range(0, len(stream), ahead):
            for update in stream[first : first + ahead]:
                live.submit(**update)
            changes.append(live.settle())
        cpu = time.process_time() - started
    total = summed(Step(0.0, dict(change.work)) for change in changes)
    total.cpu = cpu
    return total, len(kb)
