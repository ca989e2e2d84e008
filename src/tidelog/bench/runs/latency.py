"""How soon the fully dynamic mode takes an update in while another one is in work: wall time, not CPU time.

A thread in the background works on a large update. Meanwhile small ones are submitted, one a millisecond. For each it
is measured how long `submit` took, and how long it was until the update was *in work*: its facts are read, and it is
merged with what waits, where it can cancel what is in work, or will be as soon as the updates before it are read. On a
machine that others use, the longest times are those of the scheduler.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.cases import CASES, Tables, random_rows
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Table
from tidelog.bench.work import percentile, warm
from tidelog.live.backlog import Part, Submission
from tidelog.live.fully_dynamic import Live

PAUSE = 0.001
MOST = 3_000
"""Updates that are submitted while one runs."""

Loads = Mapping[str, tuple[str, bool, Callable[[Tables, int], tuple[Tables, Tables]]]]
"""What runs: a case, whether with closure modules, and of its facts those that are there and the change in work."""


@dataclass
class Latencies:
    """Seconds, one for each update that was submitted."""

    submit: list[float] = field(default_factory=list)
    in_work: list[float] = field(default_factory=list)


class Times(dict[int, float]):
    """When each update was taken in."""

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._read = live._intake.read
        live._intake.read = self._read_and_note  # type: ignore[method-assign]

    def _read_and_note(self, submission: Submission, arities: dict[str, int]) -> Part:
        part = self._read(submission, arities)
        self[submission.number] = time.perf_counter()
        return part


def latency_table(options: Options) -> Table:
    """The latencies while each of the loads runs."""
    table = Table(
        "A small update while a large one is in work: wall time, one a millisecond",
        [
            "in work",
            "updates",
            *(f"submit, {share} µs" for share in ("median", "99 %", "most")),
            *(f"until in work, {share} ms" for share in ("median", "99 %", "most")),
            "in work within 1 ms",
        ],
        note="Wanted: in work within 1 ms.",
    )
    for title in _LOADS:
        options.progress(f"latency, {title}")
        found = isolated(latencies, title, options.seed, options.scale(0.3), timeout=options.timeout)
        if isinstance(found, Failed):
            table.rows.append([title, None, found, *[None] * 6])
            continue
        shares = (0.5, 0.99, 1.0)
        table.rows.append(
            [
                title,
                len(found.submit),
                *(1e6 * percentile(found.submit, share) for share in shares),
                *(1e3 * percentile(found.in_work, share) for share in shares),
                f"{sum(seconds <= 0.001 for seconds in found.in_work) / len(found.in_work):.1%}",
            ]
        )
    return table


def latencies(title: str, seed: int, size: float) -> Latencies:
    """Submit small updates for as long as a load is in work."""
    case, modules, split = _LOADS[title]
    facts = CASES[case].facts(seed, size)
    warm(CASES[case].rules, CASES[case].facts(seed, size / 20), modules=modules)
    there, change = split(facts, seed)
    kb = KnowledgeBase(CASES[case].rules, modules=modules)
    kb.update(add=there)
    found = Latencies()
    with kb.live() as live:
        taken = Times(live)
        live.submit(add={} if there else change, delete=change if there else {})
        submitted: dict[int, float] = {}
        while live.settled == 0 and len(submitted) < MOST:
            started = time.perf_counter()
            number = live.submit(add={"small": [(len(submitted),)]})
            found.submit.append(time.perf_counter() - started)
            submitted[number] = started
            time.sleep(PAUSE)
        live.settle()
        found.in_work = [taken[number] - started for number, started in submitted.items()]
    return found


def _all_new(facts: Tables, _: int) -> tuple[Tables, Tables]:
    return {}, facts


def _some_gone(facts: Tables, seed: int) -> tuple[Tables, Tables]:
    return facts, random_rows(facts, sum(map(len, facts.values())) // 50, seed)


_LOADS: Loads = {
    "insertion: closure of a DAG, modules off": ("dag-right", False, _all_new),
    "insertion: points-to": ("points-to", False, _all_new),
    "deletion of 2 %: closure of a DAG, modules off": ("dag-right", False, _some_gone),
    "deletion of 2 %: same generation": ("same-generation", False, _some_gone),
    "insertion: closure of a large DAG as a module": ("dag-large", True, _all_new),
}
