"""Streams of events: subscriptions, and the commits as they are made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tidelog.errors import TidelogError
from tidelog.server import problems
from tidelog.server.questions.queries import Queries
from tidelog.server.requests import bodies
from tidelog.server.requests.access import Access, check_reads_all, check_role
from tidelog.server.requests.asking import Asked
from tidelog.server.requests.bodies import EVENTS
from tidelog.server.subscriptions.hub import Hub
from tidelog.server.subscriptions.streams import Stream
from tidelog.server.subscriptions.topics import Topic
from tidelog.server.threads import Threads
from tidelog.server.tokens import READ, Caller


class Streaming:
    """Begins streams."""

    def __init__(self, hub: Hub, queries: Queries, threads: Threads, access: Access) -> None:
        self._hub = hub
        self._queries = queries
        self._threads = threads
        self.streams: dict[str, ASGIApp] = {
            "/subscribe": Events(hub, access, self._subscribe),
            "/updates": Events(hub, access, self._updates),
        }

    async def _subscribe(self, asked: Asked, caller: Caller, stream: Stream) -> tuple[Topic | None, list[bytes]]:
        query = asked.parameters.get("query")
        if query is None:
            raise problems.bad_request("give the query: /subscribe?query=path(a,X)")
        parameters = _parameters(asked.parameters)
        try:
            values = await self._threads.run(lambda: self._queries.checked_query(caller, query, parameters))
            topic, news = await self._hub.join(stream, query, values, _last_event(asked))
        except TidelogError as error:
            raise problems.for_caller(error, caller) from None
        return topic, await self._hub.events(news)

    async def _updates(self, asked: Asked, caller: Caller, stream: Stream) -> tuple[Topic | None, list[bytes]]:
        check_reads_all(caller)
        return None, self._hub.join_commits(stream, _last_event(asked))


class Events:
    """An endpoint that sends events until somebody ends it. It is bare ASGI: a stream is a task and little more."""

    def __init__(
        self,
        hub: Hub,
        access: Access,
        begin: Callable[[Asked, Caller, Stream], Awaitable[tuple[Topic | None, list[bytes]]]],
    ) -> None:
        self._hub = hub
        self._access = access
        self._begin = begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub, asked = self._hub, Asked(scope, receive)
        stream: Stream | None = None
        topic: Topic | None = None
        try:
            try:
                caller = self._access.caller(asked)
                check_role(caller, READ)
                bodies.accepted(asked, EVENTS)
                stream = hub.open(scope["tidelog.write"])
                topic, events = await self._begin(asked, caller, stream)
            except Exception as error:
                await problems.of_raised(error).response()(scope, receive, send)
                return
            if asked.method == "HEAD":  # Nobody would wait for what has no body.
                await Response(media_type=EVENTS)(scope, receive, send)
            else:
                await self._run(stream, topic, events, receive, send)
        finally:
            if stream is not None:
                hub.leave(stream, topic)

    async def _run(
        self, stream: Stream, topic: Topic | None, events: list[bytes], receive: Receive, send: Send
    ) -> None:
        hub = self._hub
        gone = asyncio.ensure_future(_until_gone(receive))
        gone.add_done_callback(lambda _: stream.close())
        try:
            headers = [(b"content-type", EVENTS.encode()), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            # At once: the other end then knows that it is connected.
            await _send(send, b": tidelog\n\n")
            while True:
                for data in events:
                    await _send(send, data)
                while (data_or_none := await stream.next()) is not None:
                    await _send(send, data_or_none)
                if stream.closed:
                    break
                if topic is None:
                    events = hub.join_commits(stream, stream.sent)
                else:
                    events = await hub.events(await hub.catch_up(stream, topic))
            if stream.farewell is not None and not gone.done():
                await _send(send, stream.farewell)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()


async def _send(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _parameters(given: Mapping[str, str]) -> dict[str, Any]:
    """The parameters of a query that stands in a URL."""
    found: Any = bodies.parsed_json(given["parameters"].encode()) if "parameters" in given else {}
    if not isinstance(found, dict):
        raise problems.bad_request("`parameters` is an object of names and values")
    return found | {name.removeprefix("param."): given[name] for name in given if name.startswith("param.")}


def _last_event(asked: Asked) -> int | None:
    """The number of the last commit that a client knows."""
    text = asked.headers.get("last-event-id") or asked.parameters.get("last_event_id") or ""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise problems.bad_request("Last-Event-ID is the number of an update")
    return int(text)
