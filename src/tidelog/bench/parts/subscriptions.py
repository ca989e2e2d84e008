"""What subscriptions cost: a thousand of them on one predicate with a bound argument, and one fact that changes.

Two knowledge bases get the same updates in turn, one of them with subscriptions. The difference of their medians is
what it takes to find out what has changed for whom, and to tell them.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from statistics import median

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Table

SUBSCRIPTIONS = 1_000
UPDATES = 200
FACTS_EACH = 10
RULES = """
    high(S, V) :- reading(S, V), limit(S, L), V > L.
    reaches(X, Y) :- feeds(X, Y).
    reaches(X, Z) :- reaches(X, Y), feeds(Y, Z).
"""

# What is subscribed to by each of the sensors, or by all of them for one sensor; and the fact that comes and goes.
CASES: dict[str, tuple[str, bool, str, tuple[object, ...]]] = {
    "reading($s, V), each another $s": ("reading($s, V)", True, "reading", (7, 99)),
    "reading($s, V), all the same $s": ("reading($s, V)", False, "reading", (7, 99)),
    "high($s, V), derived": ("high($s, V)", True, "reading", (7, 99)),
    "reading($s, V), limit($s, L), V > L": ("reading($s, V), limit($s, L), V > L", True, "reading", (7, 99)),
    "reading($s, _), not limit(_, $s)": ("reading($s, _), not limit(_, $s)", True, "reading", (7, 99)),
    "reaches($s, X), a closure": ("reaches($s, X)", True, "feeds", (SUBSCRIPTIONS - 1, 0)),
    "limit($s, L), which does not change": ("limit($s, L)", True, "reading", (7, 99)),
}


@dataclass
class Found:
    """Seconds of CPU time for an update without and with subscriptions, and the messages of one update."""

    plain: float
    watched: float
    messages: float


def subscription_table(options: Options) -> Table:
    """What a thousand subscriptions add to an update of one fact."""
    table = Table(
        f"One fact changes, {SUBSCRIPTIONS:,} subscriptions: CPU time, median of {UPDATES} updates",
        ["subscriptions", "messages", "update alone µs", "with them µs", "more µs"],
        note="Wanted: 1,000 µs more at most, where the argument is bound.",
    )
    for title in CASES:
        options.progress(f"subscriptions, {title}")
        found = isolated(cost, title, timeout=options.timeout)
        if isinstance(found, Failed):
            table.rows.append([title, found, None, None, None])
            continue
        plain, watched = 1e6 * found.plain, 1e6 * found.watched
        table.rows.append([title, found.messages, plain, watched, watched - plain])
    return table


def cost(title: str) -> Found:
    """Apply the same updates to a knowledge base with subscriptions and to one without, in turn."""
    warnings.simplefilter("ignore")
    query, differ, predicate, row = CASES[title]
    plain, watched = _ready(), _ready()
    told: list[object] = []
    for sensor in range(SUBSCRIPTIONS):
        watched.subscribe(query, told.append, s=sensor if differ else row[0])
    told.clear()
    change: dict[str, list[tuple[object, ...]]] = {predicate: [row]}
    times: dict[KnowledgeBase, list[float]] = {plain: [], watched: []}
    for number in range(UPDATES):
        for kb, seconds in times.items():
            started = time.process_time()
            kb.update(**{"delete" if number % 2 else "add": change})  # type: ignore[arg-type]
            seconds.append(time.process_time() - started)
    return Found(median(times[plain]), median(times[watched]), len(told) / UPDATES)


def _ready() -> KnowledgeBase:
    kb = KnowledgeBase(RULES)
    sensors = range(SUBSCRIPTIONS)
    kb.update(
        add={
            "reading": [(sensor, value) for sensor in sensors for value in range(FACTS_EACH)],
            "limit": [(sensor, 50) for sensor in sensors],
            # Chains of ten; the last one feeds the first one for a while.
            "feeds": [(sensor, sensor + 1) for sensor in sensors if sensor % FACTS_EACH != FACTS_EACH - 1],
        }
    )
    return kb
