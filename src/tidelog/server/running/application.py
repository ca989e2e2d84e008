"""The application that speaks HTTP, without its sockets: what it consists of, and its life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version

from starlette.applications import Starlette
from starlette.types import ASGIApp

from tidelog.errors import StorageError
from tidelog.server.commits.store import ServedStore
from tidelog.server.commits.writer import Writer
from tidelog.server.endpoints.looking import Looking
from tidelog.server.endpoints.operating import Operating
from tidelog.server.endpoints.proving import Proving
from tidelog.server.endpoints.sessions import Sessions
from tidelog.server.endpoints.streaming import Streaming
from tidelog.server.endpoints.updating import Updating
from tidelog.server.metrics import Metrics
from tidelog.server.questions.changes import Changes
from tidelog.server.questions.facts import Facts
from tidelog.server.questions.overview import Overview
from tidelog.server.questions.proofs import Proofs
from tidelog.server.questions.queries import Queries
from tidelog.server.questions.reading import Reading
from tidelog.server.questions.texts import Texts
from tidelog.server.requests.access import Access
from tidelog.server.requests.dispatch import Dispatcher, ForCallers
from tidelog.server.requests.pages import page_routes
from tidelog.server.settings import Settings
from tidelog.server.subscriptions.hub import Hub
from tidelog.server.threads import Threads

VERSION = version("tidelog")

# A longer journal becomes a snapshot in the end: the next start then has little to do again.
SHORT_JOURNAL = 1 << 16


class Application:
    """A server without its sockets."""

    def __init__(self, settings: Settings, store: ServedStore) -> None:
        self._store = store
        self._threads = threads = Threads()
        self.hub = hub = Hub(store, threads)
        access, metrics = Access(settings), Metrics()
        reading = Reading(store.knowledge)
        queries, overview, changes = Queries(store, reading), Overview(store), Changes(store)
        callers = ForCallers(access)
        self._writers = (
            Updating(store, reading, changes, threads, callers),
            Proving(settings.limits.max_body, Proofs(store, reading), changes, Texts(store), threads, callers),
            Operating(store, overview, hub, metrics, threads, callers, VERSION),
        )
        looking = Looking(settings.limits, queries, Facts(store, queries, reading), overview, threads, metrics, callers)
        parts = (*self._writers, looking, Sessions(access, VERSION))
        self.asgi: ASGIApp = Dispatcher(
            [endpoint for part in parts for endpoint in part.endpoints],
            Streaming(hub, queries, threads, access).streams,
            page_routes(),
            self._lifespan,
            metrics,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        writer = self.hub.writer = Writer(self._store, loop, self.hub.publish)
        for part in self._writers:
            part.writer = writer
        writer.start()
        self.hub.start()
        try:
            yield
        finally:
            self.hub.close()
            await writer.stop()
            if self._store.journal_bytes > SHORT_JOURNAL:
                with suppress(StorageError):  # The journal has it all.
                    await loop.run_in_executor(None, self._store.save)
            self._threads.close()
            self._store.close()
