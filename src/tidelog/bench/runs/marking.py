"""Streams with and without marking: Tables 1–3 of B/F with Marking, "old" and "new" side by side.

Counts are those of the paper's Algorithm 1 (`trace="paper"`), by line: deletions 23, backward 20, forward 11,
insertions 28, explicit marks 9, implicit marks 12 and 29. Times are those of the engine, which ends in the same facts
by other steps. Insertions and explicit marks are determined by a stream, and all counts of P_seq are. The GPS tracks of
Table 3 are public data, read with `--data`; there, forward applications are the paper's, too.

The paper looks one update ahead. One more table has what the engine takes and counts if it looks further, also on a
stream in which each edge goes a few updates after it came.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.update_streams import (
    P_SEQ,
    P_TRANS,
    WAYS,
    coin_stream,
    read_stream,
    read_streams,
)
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Check, Plot, Report, Table
from tidelog.bench.work import Step, summed
from tidelog.formats.files.updates import Update
from tidelog.values import Value

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
    "paper",
)
_PAPER = "Paper: reduction; deletions, backward and forward, old → new; insertions; marks ex., im."
_CHOICE = (
    "Deletions, backward and im. differ: the paper leaves open which instance an iteration takes (“∃ r”). Here it is "
    "the one whose condition became true first. The authors' program applies several rules an iteration, and deletes "
    "what it has disproved (line 25) before it looks for more affected facts (line 23)."
)
_TRANS_NOTE = (
    f"{_PAPER} {_CHOICE} Forward, insertions and ex. are those of our streams, drawn as the authors draw theirs, with "
    "other random numbers."
)
_SEQ_NOTE = (
    f"{_PAPER} Updates now and then draw an edge twice or find too few edges to delete, so sums differ a little from "
    "stream to stream. Deletions with marks and im. differ by definition: Algorithm 1 marks a head when a rule is "
    "applied (lines 12, 29). In the authors' program, an edge and its copy share one mark, even if the copy is older. "
    "The engine's marks reach as far, and its counts are the paper's: see the checks."
)
_TRACK_NOTE = f"{_PAPER} Forward, insertions and ex. are the paper's. {_CHOICE}"
_PAPER_TRANS = {
    10: "7.8 %; 1,603 → 447; 11,253 → 14,447; 18,777 → 19,001; 545; 480, 991",
    20: "7.4 %; 3,046 → 594; 10,468 → 13,199; 15,373 → 15,516; 2,912; 960, 2,277",
    30: "7.9 %; 5,146 → 1,100; 10,206 → 11,856; 11,154 → 11,224; 7,288; 1,399, 4,153",
    40: "2.9 %; 4,755 → 682; 10,834 → 13,036; 12,560 → 12,612; 6,575; 1,816, 4,069",
    50: "−3.4 %; 3,778 → 360; 11,514 → 14,441; 15,060 → 15,096; 4,570; 2,215, 3,660",
    60: "−6.0 %; 3,227 → 213; 11,842 → 15,254; 16,518 → 16,547; 3,327; 2,604, 3,428",
    70: "−9.1 %; 2,724 → 161; 11,919 → 16,054; 17,780 → 17,796; 2,158; 2,973, 3,085",
    80: "−11.4 %; 2,584 → 126; 11,863 → 16,323; 18,169 → 18,183; 1,782; 3,293, 3,078",
}
_PAPER_SEQ = {
    10: "15.4 %; 1,960 → 1,480; 0; 0; 2,360; 480, 480",
    20: "16.1 %; 3,920 → 2,960; 0; 0; 4,317; 960, 960",
    30: "18.4 %; 5,880 → 4,440; 0; 0; 6,265; 1,440, 1,440",
    40: "19.8 %; 7,827 → 5,910; 0; 0; 8,228; 1,917, 1,917",
    50: "18.5 %; 9,709 → 7,332; 0; 0; 10,173; 2,377, 2,377",
    60: "19.9 %; 11,588 → 8,744; 0; 0; 12,129; 2,844, 2,844",
    70: "20.9 %; 13,457 → 10,147; 0; 0; 14,069; 3,311, 3,311",
    80: "19.6 %; 15,283 → 11,516; 0; 0; 16,005; 3,767, 3,767",
}
_PAPER_TRACKS = {
    0: "7.3 %; 859 → 754; 4,329 → 4,400; 3,299 → 3,299; 4,638; 910, 70",
    1: "1.4 %; 684 → 544; 2,697 → 2,733; 2,317 → 2,317; 2,653; 1,208, 119",
    2: "2.2 %; 558 → 400; 1,484 → 1,479; 1,206 → 1,206; 1,704; 1,017, 137",
}
_TRACKS_DETERMINED = {0: (3299, 3299, 4638, 910), 1: (2317, 2317, 2653, 1208), 2: (1206, 1206, 1704, 1017)}
"""Of each track: forward old and new, insertions, explicit marks."""
_FURTHER = (0, 1, 2, 5)
"""How many updates ahead."""
_WINDOW = 5
"""After how many updates an edge goes, in a stream that is a window."""
_FURTHER_NOTE = (
    "The engine's own counts, Backward/Forward without modules. In “window”, each update deletes the edges that came "
    f"{_WINDOW} updates before it."
)
_RUNS = 24
"""Of each stream in each way: what marking costs is less than what two runs differ by. Of each update the least of
them counts, which is short enough to be now and then undisturbed."""


@dataclass
class Compared:
    """A stream without and with marking: what the engine took, and what Algorithm 1 counts."""

    old: Step
    new: Step
    old_paper: Step
    new_paper: Step


def run(options: Options) -> Report:
    report = Report(
        "B/F with marking: streams of updates, CPU time of the engine and counts of the paper's Algorithm 1"
    )
    sizes = (10, 40) if options.quick else tuple(_PAPER_TRANS)
    programs = (
        ("Table 1: P_trans", P_TRANS, 20, _PAPER_TRANS, _TRANS_NOTE),
        ("Table 2: P_seq", P_SEQ, 100, _PAPER_SEQ, _SEQ_NOTE),
    )
    for title, rules, nodes, paper, note in programs:
        table = Table(title, ["size", *_COLUMNS], note=note)
        series: dict[str, list[tuple[int, float | None]]] = {"old": [], "new": []}
        for size in sizes:
            options.progress(f"{title}, updates of {size}")
            stream = coin_stream(nodes, size, options.seed)
            found = compare(rules, stream, options)
            table.rows.append([size, *_cells(found, paper[size])])
            if not isinstance(found, Failed):
                for name, step in zip(series, (found.old_paper, found.new_paper), strict=True):
                    series[name].append((size, float(step.work["deletion"])))
                report.checks += _sequence_checks(f"P_seq, size {size}", stream, found) if rules == P_SEQ else []
        report.tables.append(table)
        report.plots.append(Plot(title, "facts an update", "rule applications of deletion", series, log_y=False))
    report.tables.append(_further_ahead(options))
    if options.data:
        report.tables += [_public_sequences(report, options), _tracks(report, options)]
    return report


def _further_ahead(options: Options) -> Table:
    columns = [f"{what} {most}" for what in ("ms", "deletions", "marks im.") for most in _FURTHER]
    table = Table("Looking further ahead: 0, 1, 2 and 5 updates", ["stream", "size", *columns], note=_FURTHER_NOTE)
    for name, rules, nodes in (("P_trans", P_TRANS, 20), ("P_seq", P_SEQ, 100), ("window, P_trans", P_TRANS, 100)):
        for size in (10,) if options.quick else (10, 40):
            options.progress(f"{name}, updates of {size}, further ahead")
            windows = name.startswith("window")
            stream = (window_stream if windows else coin_stream)(nodes, size, options.seed)
            found = isolated(in_ways, rules, stream, _FURTHER, _RUNS, timeout=options.timeout * 5)
            cells: list[Any] = [found, *[None] * (len(columns) - 1)]
            if not isinstance(found, Failed):
                cells = [round(1000 * step.cpu, 1) for step in found]
                cells += [step.work[kind] for kind in ("deletion", "marked_implicit") for step in found]
            table.rows.append([name, size, *cells])
    return table


def window_stream(nodes: int, size: int, seed: int) -> list[Update]:
    """50 updates of a graph. Each adds edges that are not there, and deletes those that came some updates before."""
    dice = random.Random(seed)
    edges: list[tuple[Value, ...]] = [(source, target) for source in range(nodes) for target in range(nodes)]
    batches: list[list[tuple[Value, ...]]] = []
    for _ in range(50):
        present = {edge for batch in batches[-_WINDOW:] for edge in batch}
        batches.append([edge for edge in dice.sample(edges, 2 * size + len(present)) if edge not in present][:size])
    gone: list[list[tuple[Value, ...]]] = [*([] for _ in range(_WINDOW)), *batches]
    return [{"add": {"edge": come}, "delete": {"edge": went}} for come, went in zip(batches, gone, strict=False)]


def _public_sequences(report: Report, options: Options) -> Table:
    """Table 2 for updates of 10 facts on public streams."""
    assert options.data is not None
    table = Table("Table 2, public streams: P_seq, updates of 10", ["run", *_COLUMNS])
    for number, stream in enumerate(read_streams(options.data, "random", "sequence")):
        options.progress(f"random/sequence, run {number}")
        found = compare(P_SEQ, stream, options)
        table.rows.append([number, *_cells(found, _PAPER_SEQ[10])])
        if not isinstance(found, Failed):
            report.checks += _sequence_checks(f"random/sequence, run {number}", stream, found)
    return table


def _tracks(report: Report, options: Options) -> Table:
    assert options.data is not None
    table = Table("Table 3: GPS tracks", ["track", *_COLUMNS], note=_TRACK_NOTE)
    for track, paper in _PAPER_TRACKS.items():
        options.progress(f"track {track}")
        stream = read_stream(options.data / "updates" / "real" / "ways" / str(track) / "gps-track")
        found = compare(WAYS, stream, options)
        table.rows.append([track, *_cells(found, paper)])
        if not isinstance(found, Failed):
            old, new = found.old_paper.work, found.new_paper.work
            counts = (old["forward"], new["forward"], new["insertion"], new["marked_explicit"])
            claim = f"track {track}: forward old and new, insertions, explicit marks, as in the paper"
            report.checks.append(Check(claim, _TRACKS_DETERMINED[track], counts))
    return table


def _cells(found: Compared | Failed, paper: str) -> list[Any]:
    if isinstance(found, Failed):
        return [found, *[None] * (len(_COLUMNS) - 2), paper]
    cells: list[Any] = [1000 * found.old.cpu, 1000 * found.new.cpu]
    cells.append(round(100 * (1 - found.new.cpu / found.old.cpu), 1))
    old, new = found.old_paper.work, found.new_paper.work
    for kind in ("deletion", "backward", "forward"):
        cells += [old[kind], new[kind]]
    return [*cells, new["insertion"], new["marked_explicit"], new["marked_implicit"], paper]


def _sequence_checks(name: str, stream: list[Update], found: Compared) -> list[Check]:
    """What a stream determines. Each deleted edge takes four copies with it, and each added one brings four. What the
    next update deletes is marked, from the second update on. Its copy is marked, too, if it is derived just then, and a
    marked copy saves a rule application. For the engine it does not matter when the copy was derived."""
    added, deleted = ([update[key].get("edge", []) for update in stream] for key in ("add", "delete"))
    marked = sum(map(len, deleted[2:]))
    copied = sum(len(set(gone) & set(come)) for gone, come in zip(deleted[2:], added[1:], strict=False))
    plain = {"backward": 0, "forward": 0, "insertion": 4 * sum(map(len, added))}
    spread = 4 * sum(map(len, deleted))

    def expected(explicit: int, implicit: int) -> dict[str, int]:
        return {**plain, "deletion": spread - implicit, "marked_explicit": explicit, "marked_implicit": implicit}

    ways = {
        "without marks": (expected(0, 0), found.old_paper),
        "with marks": (expected(marked, copied), found.new_paper),
        "with the engine's marks": (expected(marked, marked), found.new),
    }
    return [
        Check(f"{name}: {way}", counts, {kind: step.work[kind] for kind in counts})
        for way, (counts, step) in ways.items()
    ]


def compare(rules: str, stream: list[Update], options: Options) -> Compared | Failed:
    """A stream without and with marking."""
    found: Compared | Failed = isolated(both_ways, rules, stream, _RUNS, timeout=options.timeout * 5)
    return found


def both_ways(rules: str, stream: list[Update], repeat: int) -> Compared:
    """The least CPU time of each update over several runs, after one that loads the kernels; runs alternate. Then the
    counts of the paper's procedure."""
    old, new = in_ways(rules, stream, (False, True), repeat)
    old_paper, new_paper = (summed(single_updates(rules, stream, marking, "paper")) for marking in (False, True))
    return Compared(old, new, old_paper, new_paper)


def in_ways(rules: str, stream: list[Update], ways: Sequence[int], repeat: int) -> list[Step]:
    """The least CPU time of each update over several alternating runs, for each number of updates to look ahead."""
    runs: dict[int, list[list[Step]]] = {marking: [] for marking in ways}
    for _ in range(repeat + 1):
        for marking, taken in runs.items():
            taken.append(single_updates(rules, stream, marking))
    return [
        summed(min(steps, key=lambda step: step.cpu) for steps in zip(*taken[1:], strict=True))
        for taken in runs.values()
    ]


def single_updates(rules: str, stream: list[Update], marking: int, trace: str | None = None) -> list[Step]:
    """What each update took. The first one is done before the others are looked at, as in the paper."""
    kb = KnowledgeBase(rules, maintenance="backward-forward", modules=False, trace=trace)
    steps = []
    started = time.process_time()
    for change in chain(kb.stream(stream[:1], marking=marking), kb.stream(stream[1:], marking=marking)):
        ended = time.process_time()
        steps.append(Step(ended - started, dict(change.work)))
        started = time.process_time()
    return steps
