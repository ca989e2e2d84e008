"""Streams with and without marking: Tables 1–3 of B/F with Marking, "old" and "new" side by side.

P_seq's counts are determined by the stream: each of 49 updates deletes 4 copies of each edge, and a mark saves one rule
application for each edge that the next update deletes. For update size 10 they are the paper's to the digit. The GPS
tracks of Table 3 are public data, read with `--data`.
"""

from __future__ import annotations

import time
from itertools import chain
from typing import Any

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.update_streams import (
    FIRST,
    P_SEQ,
    P_TRANS,
    UPDATES,
    WAYS,
    random_stream,
    read_stream,
    read_streams,
)
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Check, Plot, Report, Table
from tidelog.bench.work import Step, summed
from tidelog.formats.updates import Update

_COLUMNS = (
    "old ms",
    "new ms",
    "reduction %",
    "deletions old",
    "new",
    "backward old",
    "new",
    "forward old",
    "new",
    "insertions",
    "marks ex.",
    "im.",
    "paper: reduction %, deletions old → new",
)
_PAPER_TRANS = {
    10: "7.8, 1,603 → 447",
    20: "7.4, 3,046 → 594",
    30: "7.9, 5,146 → 1,100",
    40: "2.9, 4,755 → 682",
    50: "−3.4, 3,778 → 360",
    60: "−6.0, 3,227 → 213",
    70: "−9.1, 2,724 → 161",
    80: "−11.4, 2,584 → 126",
}
_PAPER_SEQ = {
    10: "15.4, 1,960 → 1,480",
    20: "16.1, 3,920 → 2,960",
    30: "18.4, 5,880 → 4,440",
    40: "19.8, 7,827 → 5,910",
    50: "18.5, 9,709 → 7,332",
    60: "19.9, 11,588 → 8,744",
    70: "20.9, 13,457 → 10,147",
    80: "19.6, 15,283 → 11,516",
}
_PAPER_TRACKS = {0: "7.3, 859 → 754", 1: "1.4, 684 → 544", 2: "2.2, 558 → 400"}
_RUNS = 24
"""Of each stream in each way: what marking costs is less than what two runs differ by. Of each update the least of
them counts, which is short enough to be now and then undisturbed."""
_TRACK_MARKS = {0: 910, 1: 1208, 2: 1017}


def run(options: Options) -> Report:
    report = Report("B/F with marking: streams of 50 updates, CPU time and rule applications")
    sizes = (10, 40, 80) if options.quick else tuple(_PAPER_TRANS)
    programs = (("Table 1: P_trans", P_TRANS, 20, _PAPER_TRANS), ("Table 2: P_seq", P_SEQ, 100, _PAPER_SEQ))
    for title, rules, nodes, paper in programs:
        table = Table(title, ["size", *_COLUMNS])
        series: dict[str, list[tuple[int, float]]] = {"old": [], "new": []}
        for size in sizes:
            options.progress(f"{title}, updates of {size}")
            pair = compare(rules, random_stream(nodes, size, options.seed), options)
            table.rows.append([size, *_cells(pair, paper[size])])
            if not isinstance(pair, Failed):
                for name, step in zip(series, pair, strict=True):
                    series[name].append((size, float(step.work["deletion"])))
                report.checks += _sequence_checks(size, *pair) if rules == P_SEQ else []
        report.tables.append(table)
        report.plots.append(Plot(title, "facts an update", "rule applications of deletion", series, log_y=False))
    if options.data:
        report.tables += [_public_sequences(report, options), _tracks(report, options)]
    return report


def _public_sequences(report: Report, options: Options) -> Table:
    """Table 2 for updates of 10 facts on the authors' own streams."""
    assert options.data is not None
    table = Table("Table 2, public streams: P_seq, updates of 10", ["run", *_COLUMNS])
    for number, stream in enumerate(read_streams(options.data, "random", "sequence")):
        options.progress(f"random/sequence, run {number}")
        pair = compare(P_SEQ, stream, options)
        table.rows.append([number, *_cells(pair, _PAPER_SEQ[10])])
        if not isinstance(pair, Failed):
            report.checks += _sequence_checks(10, *pair)
    return table


def _tracks(report: Report, options: Options) -> Table:
    assert options.data is not None
    table = Table("Table 3: GPS tracks", ["track", *_COLUMNS])
    for track, paper in _PAPER_TRACKS.items():
        options.progress(f"track {track}")
        stream = read_stream(options.data / "updates" / "real" / "ways" / str(track) / "gps-track")
        pair = compare(WAYS, stream, options)
        table.rows.append([track, *_cells(pair, paper)])
        if not isinstance(pair, Failed):
            marks = pair[1].work["marked_explicit"]
            report.checks.append(Check(f"track {track}: explicit marks", _TRACK_MARKS[track], marks))
    return table


def _cells(pair: tuple[Step, Step] | Failed, paper: str) -> list[Any]:
    if isinstance(pair, Failed):
        return [pair, *[None] * (len(_COLUMNS) - 2), paper]
    old, new = pair
    cells: list[Any] = [1000 * old.cpu, 1000 * new.cpu, round(100 * (1 - new.cpu / old.cpu), 1)]
    for kind in ("deletion", "backward", "forward"):
        cells += [old.work[kind], new.work[kind]]
    return [*cells, new.work["insertion"], new.work["marked_explicit"], new.work["marked_implicit"], paper]


def _sequence_checks(size: int, old: Step, new: Step) -> list[Check]:
    deleted, saved = 4 * size * (UPDATES - 1), size * (UPDATES - 2)
    expected = {
        "deletion": deleted - saved,
        "backward": 0,
        "forward": 0,
        "insertion": 4 * (FIRST + size * (UPDATES - 1)),
        "marked_explicit": saved,
        "marked_implicit": saved,
    }
    return [
        Check(f"P_seq, size {size}: deletions without marks", deleted, old.work["deletion"]),
        Check(f"P_seq, size {size}: the rest with marks", expected, {kind: new.work[kind] for kind in expected}),
    ]


def compare(rules: str, stream: list[Update], options: Options) -> tuple[Step, Step] | Failed:
    """A stream without and with marking."""
    pair: tuple[Step, Step] | Failed = isolated(both_ways, rules, stream, _RUNS, timeout=options.timeout)
    return pair


def both_ways(rules: str, stream: list[Update], repeat: int) -> tuple[Step, Step]:
    """The least CPU time of each update over several runs, after one that loads the kernels; runs alternate."""
    runs: dict[bool, list[list[Step]]] = {False: [], True: []}
    for _ in range(repeat + 1):
        for marking, taken in runs.items():
            taken.append(_single_updates(rules, stream, marking))
    old, new = (
        summed(min(steps, key=lambda step: step.cpu) for steps in zip(*taken[1:], strict=True))
        for taken in runs.values()
    )
    return old, new


def _single_updates(rules: str, stream: list[Update], marking: bool) -> list[Step]:
    """What each update took. The first one is done before the others are looked at, as in the paper."""
    kb = KnowledgeBase(rules, maintenance="backward-forward", modules=False)
    steps = []
    started = time.process_time()
    for change in chain([kb.update(**stream[0])], kb.stream(stream[1:], marking=marking)):
        ended = time.process_time()
        steps.append(Step(ended - started, dict(change.work)))
        started = time.process_time()
    return steps
