"""What users of the fully dynamic mode wait for while a large update is in work: wall time, not CPU time.

A thread in the background works on a large update. Meanwhile, every few milliseconds, a small update of another
predicate is submitted, and a question is asked. For the update it is measured when `submit` has *returned*, when the
update is *taken in* (its facts are read, and it is merged with what waits, where it can cancel what is in work), and
when it is *visible*: whoever reads finds its facts. The question is a lookup of one fact. Then, each time that the load
is in work, an urgent update takes back one fact of the load. On a machine that others use, the longest times are those
of the scheduler.
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
MOST = 1_000
"""Updates that are submitted while one runs."""
WORKED = 0.05
"""Seconds that a load has been in work when a fact of it is taken back."""
TAKEN_BACK = 5
"""How often that is measured."""

Loads = Mapping[str, tuple[str, bool, Callable[[Tables, int], tuple[Tables, Tables]]]]
"""What runs: a case, whether with closure modules, and of its facts those that are there and the change in work."""

SHARES = ((0.5, "median"), (0.99, "99 %"))


@dataclass
class Latencies:
    """Seconds, one for each update or question."""

    returned: list[float] = field(default_factory=list)
    taken_in: list[float] = field(default_factory=list)
    visible: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    taken_back: list[float] = field(default_factory=list)


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
    kinds = ("submit returns", "taken in", "visible", "one fact looked up", "same component, visible")
    table = Table(
        "While a large update is in work: wall time in ms",
        ["in work", "its seconds", "updates", *(f"{kind}, {share}" for kind in kinds for _, share in SHARES)],
        note="Wanted, 99 %: visible within 5 ms, a fact looked up within 1 ms, in the same component within 50 ms.",
    )
    for title in _LOADS:
        options.progress(f"latency, {title}")
        found = isolated(latencies, title, options.seed, options.scale(0.3), timeout=options.timeout)
        if isinstance(found, Failed):
            table.rows.append([title, None, found, *[None] * (2 * len(kinds))])
            continue
        seconds, measured = found
        lists = measured.returned, measured.taken_in, measured.visible, measured.answered, measured.taken_back
        figures = [1e3 * percentile(times, share) if times else None for times in lists for share, _ in SHARES]
        table.rows.append([title, seconds, len(measured.visible), *figures])
    return table


def latencies(title: str, seed: int, size: float) -> tuple[float, Latencies]:
    """Submit small updates and ask for as long as a load is in work; the seconds of the load, and what was measured."""
    case, modules, split = _LOADS[title]
    facts = CASES[case].facts(seed, size)
    warm(CASES[case].rules, CASES[case].facts(seed, size / 20), modules=modules)
    there, change = split(facts, seed)
    kb = KnowledgeBase(CASES[case].rules, modules=modules)
    kb.update(add={**there, "small": [(0,)]})
    found = Latencies()
    with kb.live() as live:
        taken = Times(live)
        began = time.perf_counter()
        load = _submit_load(live, there, change)
        while not live.is_settled(load) and len(found.visible) < MOST:
            _submit_and_ask(kb, live, taken, len(found.visible) + 1, found)
            time.sleep(PAUSE)
        live.settle()
        seconds = time.perf_counter() - began
        for _ in range(TAKEN_BACK):
            _take_back(live, there, change, found)
    return seconds, found


def _submit_load(live: Live, there: Tables, change: Tables) -> int:
    return live.submit(add={} if there else change, delete=change if there else {})


def _submit_and_ask(kb: KnowledgeBase, live: Live, taken: Times, value: int, found: Latencies) -> None:
    started = time.perf_counter()
    number = live.submit(add={"small": [(value,)]})
    found.returned.append(time.perf_counter() - started)
    while not live.is_settled(number):
        time.sleep(PAUSE / 10)
    found.visible.append(time.perf_counter() - started)
    found.taken_in.append(taken[number] - started)
    asked = time.perf_counter()
    assert ("small", value) in kb
    found.answered.append(time.perf_counter() - asked)


def _take_back(live: Live, there: Tables, change: Tables, found: Latencies) -> None:
    """Submit the load again, after what it did was undone, and take one of its facts back."""
    live.submit(add=change if there else {}, delete={} if there else change)
    live.settle()
    load = _submit_load(live, there, change)
    time.sleep(WORKED)
    predicate, rows = next((name, rows) for name, rows in change.items() if len(rows))
    fact = {predicate: rows.slice(0, 1)}
    started = time.perf_counter()
    number = live.submit(add=fact if there else {}, delete={} if there else fact, priority=1)
    while not live.is_settled(number):
        time.sleep(PAUSE / 10)
    if not live.is_settled(load):  # Otherwise there was nothing to wait for.
        found.taken_back.append(time.perf_counter() - started)
    live.settle()


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
