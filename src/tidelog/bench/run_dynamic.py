"""Fully dynamic against one at a time: updates that come while earlier ones are in work, on streams that undo
themselves.

"One at a time" is `KnowledgeBase.update` for each. "Live" submits some updates ahead of the work: an addition and a
deletion of the same fact cancel where neither has taken effect.
"""

from __future__ import annotations

import time

from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Cell, Check, Plot, Report, Table
from tidelog.bench.streams import P_SEQ, P_TRANS, random_stream, read_streams
from tidelog.bench.work import Step, summed, timed
from tidelog.formats.updates import Update
from tidelog.knowledge_base import KnowledgeBase

_AHEAD = (1, 2, 5, 10)


def run(options: Options) -> Report:
    report = Report("Fully dynamic updates: CPU time against one update at a time")
    table = Table(
        "Streams of 50 updates of 10 + 10 facts; columns: how many updates wait while one is in work",
        ["program", "overlap", "one at a time ms", *(f"live, {ahead} ahead, ms" for ahead in _AHEAD)],
    )
    series: dict[str, list[tuple[int, float]]] = {}
    for title, rules, overlap, stream in _streams(options):
        options.progress(f"{title}, overlap {overlap}")
        cells: list[Cell] = []
        one = isolated(one_at_a_time, rules, stream, timeout=options.timeout)
        cells.append(one if isinstance(one, Failed) else 1000 * one[0].cpu)
        for ahead in _AHEAD:
            live = isolated(fully_dynamic, rules, stream, ahead, timeout=options.timeout)
            cells.append(live if isinstance(live, Failed) else 1000 * live[0])
            if not isinstance(one, Failed) and not isinstance(live, Failed):
                claim = f"{title}, overlap {overlap}, {ahead} ahead: the same facts"
                report.checks.append(Check(claim, one[1], live[1]))
                series.setdefault(f"{title}, {overlap}", []).append((ahead, one[0].cpu / live[0]))
        table.rows.append([title, overlap, *cells])
    report.tables.append(table)
    report.plots.append(Plot("Times faster than one at a time", "updates ahead", "times faster", series, log_y=False))
    return report


def _streams(options: Options) -> list[tuple[str, str, str, list[Update]]]:
    found = []
    for title, rules, nodes in (("P_trans", P_TRANS, 20), ("P_seq", P_SEQ, 100)):
        for overlap in (0.0, 0.5, 1.0):
            stream = random_stream(nodes, 10, options.seed, overlap)
            found.append((title, rules, f"{overlap:.0%}", stream))
    if options.data:
        for title, rules, name in (("P_trans", P_TRANS, "path"), ("P_seq", P_SEQ, "sequence")):
            found.append((title, rules, f"overlap/{name}", read_streams(options.data, "overlap", name)[0]))
    return found


def one_at_a_time(rules: str, stream: list[Update]) -> tuple[Step, int]:
    """The whole stream and the number of facts at its end, after a run that loads the kernels."""
    for _ in range(2):
        kb = KnowledgeBase(rules, modules=False)
        total = summed(timed(kb, **update) for update in stream)
    return total, len(kb)


def fully_dynamic(rules: str, stream: list[Update], ahead: int) -> tuple[float, int]:
    """The CPU seconds of the same with so many updates submitted before the work on the first of them ends."""
    for _ in range(2):
        kb = KnowledgeBase(rules, modules=False)
        live = kb.live()
        started = time.process_time()
        for first in range(0, len(stream), ahead):
            for update in stream[first : first + ahead]:
                live.submit(**update)
            live.settle()
        cpu = time.process_time() - started
    return cpu, len(kb)
