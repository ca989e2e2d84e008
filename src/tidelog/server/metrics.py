"""What is counted, as Prometheus reads it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Metrics:
    """Counts since the start. Threads add to some of them, so that a count may lag by one or two."""

    def __init__(self) -> None:
        self.queries = 0
        self.query_seconds = 0.0
        self._requests: Counter[tuple[str, int]] = Counter()

    def request(self, method: str, status: int) -> None:
        self._requests[method, status] += 1

    @contextmanager
    def query(self) -> Iterator[None]:
        """Within, a question is answered."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.queries += 1
            self.query_seconds += time.perf_counter() - began

    def text(self, statistics: Mapping[str, Any]) -> str:
        """Everything in the text format of Prometheus."""
        return "\n".join(self._lines(statistics)) + "\n"

    def _lines(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        yield from _family("tidelog_http_requests_total", "counter", "Requests by method and status")
        for (method, status), count in sorted(self._requests.items()):
            shown = method if method in _METHODS else "other"
            yield f'tidelog_http_requests_total{{method="{shown}",status="{status}"}} {count}'
        for name, kind, told, path in _VALUES:
            found: Any = statistics
            for part in path.split("."):
                found = found[part]
            yield from _family(name, kind, told)
            yield f"{name} {found}"


_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))

_VALUES = (
    ("tidelog_update_number", "gauge", "The number of the last commit", "update"),
    ("tidelog_facts", "gauge", "Facts", "facts"),
    ("tidelog_explicit_facts", "gauge", "Explicit facts", "explicit"),
    ("tidelog_constants", "gauge", "Constants", "constants"),
    ("tidelog_rules", "gauge", "Rules", "rules"),
    ("tidelog_evaluation_errors_total", "counter", "Matches in which an expression had no value", "errors"),
    ("tidelog_commits_total", "counter", "Commits since the start", "updates.commits"),
    ("tidelog_updates_total", "counter", "Updates since the start", "updates.requests"),
    ("tidelog_updates_refused_total", "counter", "Updates that were refused", "updates.refused"),
    ("tidelog_update_seconds_total", "counter", "Seconds that commits took", "updates.seconds"),
    ("tidelog_updates_waiting", "gauge", "Updates that wait", "updates.waiting"),
    ("tidelog_queries_total", "counter", "Questions since the start", "queries.count"),
    ("tidelog_query_seconds_total", "counter", "Seconds that questions took", "queries.seconds"),
    ("tidelog_streams", "gauge", "Open streams of events", "subscriptions.streams"),
    ("tidelog_watched_queries", "gauge", "Queries that are subscribed to", "subscriptions.queries"),
    ("tidelog_resident_bytes", "gauge", "Memory of the process", "memory.resident"),
    ("tidelog_journal_bytes", "gauge", "Bytes of the journal", "journal.bytes"),
    ("tidelog_uptime_seconds", "gauge", "Seconds since the start", "uptime"),
)


def _family(name: str, kind: str, told: str) -> Iterator[str]:
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} {kind}"
