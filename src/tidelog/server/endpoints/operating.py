"""For those who run the server: whether it is well, what it has done, and what can be asked of it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from tidelog.server.commits.store import ServedStore
from tidelog.server.commits.writer import Writer
from tidelog.server.metrics import Metrics
from tidelog.server.problems import Problem
from tidelog.server.questions.overview import Overview
from tidelog.server.requests import openapi
from tidelog.server.requests.asking import Asked
from tidelog.server.requests.dispatch import Endpoint, ForCallers, json_response
from tidelog.server.subscriptions.hub import Hub
from tidelog.server.threads import Threads
from tidelog.server.tokens import EVERYBODY, READ, Caller


class Operating:
    """Tells of the server itself."""

    def __init__(
        self,
        store: ServedStore,
        overview: Overview,
        hub: Hub,
        metrics: Metrics,
        threads: Threads,
        callers: ForCallers,
        version: str,
    ) -> None:
        self._store = store
        self._overview = overview
        self._hub = hub
        self._metrics = metrics
        self._threads = threads
        self._version = version
        self._started = datetime.now(UTC)
        self.writer: Writer
        self.endpoints = [
            Endpoint("/health", {"GET": self._health}),
            Endpoint("/statistics", {"GET": callers(READ, self._statistics, all=True)}),
            Endpoint("/metrics", {"GET": callers(READ, self._as_metrics, all=True)}),
            Endpoint("/openapi.json", {"GET": self._openapi}),
        ]

    async def _health(self, asked: Asked) -> Response:
        if self._hub.closed or self._store.knowledge.lock.is_broken:
            why = "closing" if self._hub.closed else "broken: start it again"
            raise Problem(503, "busy", "The server is not well", f"the server is {why}")
        return json_response({"status": "ok", "update": self._store.history.number})

    async def _statistics(self, asked: Asked, caller: Caller) -> Response:
        return json_response(await self._threads.run(self._all))

    async def _as_metrics(self, asked: Asked, caller: Caller) -> Response:
        found = await self._threads.run(self._all)
        return Response(self._metrics.text(found), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _openapi(self, asked: Asked) -> Response:
        return json_response(openapi.description(self._version))

    def _all(self) -> dict[str, Any]:
        """What there is and what has been done."""
        store, writer, kb = self._store, self.writer, self._store.kb
        found = self._overview.predicates(EVERYBODY)
        return {
            "update": found["update"],
            "facts": sum(item["facts"] for item in found["predicates"]),
            "explicit": sum(item["explicit"] for item in found["predicates"]),
            "predicates": len(found["predicates"]),
            "rules": len({rule.written for rule in store.knowledge.engine.graph.rules.values()}),
            "constants": kb.constants,
            "errors": int(kb.errors),
            "version": self._version,
            "started": self._started.isoformat(timespec="seconds"),
            "uptime": round((datetime.now(UTC) - self._started).total_seconds(), 3),
            "updates": {
                "commits": writer.commits,
                "requests": writer.updates,
                "refused": writer.refused,
                "seconds": round(writer.seconds, 6),
                "waiting": writer.waiting,
            },
            "queries": {"count": self._metrics.queries, "seconds": round(self._metrics.query_seconds, 6)},
            "subscriptions": {"streams": len(self._hub), "queries": self._hub.topics},
            "memory": {"resident": _resident_bytes()},
            "journal": {"bytes": store.journal_bytes, "reaches_back_to": store.history.reach},
        }


def _resident_bytes() -> int:
    """The memory that the process has, where the system tells."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
