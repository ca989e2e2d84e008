"""The application that speaks HTTP: routes, who may use them, and what each answers."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from importlib.metadata import version
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidelog.errors import StorageError, TidelogError
from tidelog.server import bodies, openapi, problems
from tidelog.server.bodies import EVENTS, JSON
from tidelog.server.changes import Changes
from tidelog.server.formats import FORMATS, response_of
from tidelog.server.hub import Hub, Stream, Topic
from tidelog.server.keys import hash_of
from tidelog.server.metrics import Metrics
from tidelog.server.pages import page_routes
from tidelog.server.problems import Problem
from tidelog.server.reading import Questions
from tidelog.server.settings import Settings, is_loopback
from tidelog.server.store import ServedStore
from tidelog.server.tokens import ADMIN, EVERYBODY, NOBODY, READ, RULES, WRITE, Caller
from tidelog.server.writer import UpdateJob, Writer

Found = TypeVar("Found")
Endpoint = Callable[[Request], Awaitable[Response]]

VERSION = version("tidelog")
COOKIE = "tidelog"
ROWS_LISTED = 100
MOST_ROWS_LISTED = 10_000
MOST_PROOFS = 100

# A longer journal becomes a snapshot in the end: the next start then has little to do again.
SHORT_JOURNAL = 1 << 16

# A body that is longer than this is parsed in another thread.
LONG_BODY = 1 << 16

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
SECURITY = [
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Application:
    """A server without its sockets."""

    def __init__(self, settings: Settings, store: ServedStore) -> None:
        self.settings = settings
        self.store = store
        self.started = datetime.now(UTC)
        self._on_loopback = is_loopback(settings.address[0])
        self.threads = ThreadPoolExecutor(8, "tidelog-read")
        self.questions = Questions(store)
        self.hub = Hub(store, self.threads)
        self.metrics = Metrics()
        self.writer: Writer
        self.changes: Changes
        routes = [
            # Those that are asked for most come first.
            self._route("/update", {"POST": self._asked(None, self._update)}),
            self._route("/query", {"POST": self._asked(READ, self._query)}),
            Route("/subscribe", _Events(self, self._subscribe), methods=["GET"]),
            *page_routes(),
            self._route("/session", {"GET": self._session, "POST": self._log_in, "DELETE": self._log_out}),
            self._route("/facts/{predicate:path}", {"GET": self._asked(READ, self._facts)}),
            self._route("/predicates", {"GET": self._asked(READ, self._predicates)}),
            self._route("/rules", {"GET": self._asked(READ, self._rules, all=True)}),
            self._route("/graph", {"GET": self._asked(READ, self._graph, all=True)}),
            self._route("/statistics", {"GET": self._asked(READ, self._statistics, all=True)}),
            self._route("/explain", {"POST": self._asked(READ, self._explain)}),
            self._route("/why-not", {"POST": self._asked(READ, self._why_not, all=True)}),
            self._route("/what-if", {"POST": self._asked(READ, self._what_if, all=True)}),
            self._route("/explain-change", {"POST": self._asked(READ, self._explain_change, all=True)}),
            self._route("/check", {"POST": self._asked(READ, self._check, all=True)}),
            self._route("/undo", {"POST": self._asked(RULES, self._undo)}),
            self._route("/save", {"POST": self._asked(ADMIN, self._save)}),
            self._route("/metrics", {"GET": self._asked(READ, self._metrics, all=True)}),
            self._route("/health", {"GET": self._health}),
            self._route("/openapi.json", {"GET": self._openapi}),
            Route("/updates", _Events(self, self._updates), methods=["GET"]),
        ]
        inner = Starlette(
            routes=routes,
            exception_handlers={HTTPException: _http_problem, Exception: _internal_problem},
            lifespan=self._lifespan,
        )
        self.asgi: ASGIApp = Guarded(inner, self.metrics)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        self.writer = self.hub.writer = Writer(self.store, loop, self.hub.publish)
        self.changes = Changes(self.store, self.questions)
        self.writer.start()
        self.hub.start()
        try:
            yield
        finally:
            self.hub.close()
            await self.writer.stop()
            if self.store.journal_bytes > SHORT_JOURNAL:
                with suppress(StorageError):  # The journal has it all.
                    await asyncio.get_running_loop().run_in_executor(None, self.store.save)
            self.threads.shutdown(wait=True, cancel_futures=True)
            self.store.close()

    # --- who may ------------------------------------------------------------------------------------------------------

    def caller(self, request: Request) -> Caller:
        """Who has sent a request."""
        tokens = self.settings.tokens
        if not tokens:
            self._check_host(request)
            return tokens.caller(None)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return tokens.caller(token.strip())
        cookie = request.cookies.get(COOKIE)
        if cookie is None:
            return NOBODY
        if request.method not in ("GET", "HEAD"):
            _check_origin(request)
        return tokens.caller(cookie)

    def _check_host(self, request: Request) -> None:
        """Where no token is needed, other pages that a browser shows could ask for anything: refuse them, also where
        their host has taken the address of this machine.
        """
        host = request.headers.get("host", "")
        if self._on_loopback and not _names_loopback(host):
            raise problems.forbidden(f"this server is {self.settings.listen}, and not {host!r:.60}")
        if request.method not in ("GET", "HEAD"):
            _check_origin(request)

    def _asked(
        self, role: str | None, answer: Callable[[Request, Caller], Awaitable[Response]], all: bool = False
    ) -> Endpoint:
        """An endpoint for those who have a role; with `all`, for those from whom nothing is hidden."""

        async def endpoint(request: Request) -> Response:
            caller = self.caller(request)
            if role is not None:
                check_role(caller, role)
            if all and not caller.may_read_all():
                raise problems.forbidden("this token may read some predicates alone")
            return await answer(request, caller)

        return endpoint

    def _route(self, path: str, methods: Mapping[str, Endpoint]) -> Route:
        async def endpoint(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" and "GET" in methods else request.method
            try:
                return await methods[method](request)
            except Problem as problem:
                return problem.response()
            except TidelogError as error:
                return problems.of_error(error).response()

        return Route(path, endpoint, methods=list(methods))

    async def in_thread(self, look: Callable[[], Found]) -> Found:
        """What a function finds that may take long."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, look)

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def _session(self, request: Request) -> Response:
        caller = self.caller(request)
        return json_response(
            {
                "roles": sorted(caller.roles),
                "predicates": None if caller.predicates is None else sorted(caller.predicates),
                "tokens": bool(self.settings.tokens),
                "version": VERSION,
            }
        )

    async def _log_in(self, request: Request) -> Response:
        _check_origin(request)
        body = bodies.decoded(request, await bodies.read_body(request, LONG_BODY), bodies.SessionBody)
        if self.settings.tokens.caller(body.token) is NOBODY:
            raise problems.unauthorised()
        response = Response(status_code=204)
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, body.token, secure=secure, httponly=True, samesite="strict", path="/")
        return response

    async def _log_out(self, request: Request) -> Response:
        _check_origin(request)
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _query(self, request: Request, caller: Caller) -> Response:
        kind = bodies.accepted(request, *FORMATS)
        body = bodies.decoded(request, await self._body(request), bodies.Question)
        limit = self._limit(body.limit, kind)

        def answer() -> Response:
            page = self.questions.query(caller, body.query, body.parameters, limit, body.cursor)
            more = {"variables": page.names, "errors": page.errors, "warnings": page.warnings}
            return response_of(page, kind, more)

        return await self._timed(answer)

    def _limit(self, wanted: int | None, kind: str, default: int = 1000) -> int:
        most = self.settings.limits.max_answers
        if wanted is None:
            return min(default, most) if kind == JSON else most
        if wanted < 1:
            raise problems.bad_request("`limit` is a whole number from 1 on")
        if wanted > most:
            raise problems.over_limit("max_answers", most, f"`limit` is at most {most:,}; read the rest page by page")
        return wanted

    async def _timed(self, answer: Callable[[], Found]) -> Found:
        began = time.perf_counter()
        try:
            return await self.in_thread(answer)
        finally:
            self.metrics.query(time.perf_counter() - began)

    async def _facts(self, request: Request, caller: Caller) -> Response:
        kind = bodies.accepted(request, *FORMATS)
        asked = request.query_params
        name = request.path_params["predicate"]
        wanted = bodies.integer(asked, "limit", 0, 1, 1 << 40) if "limit" in asked else None
        limit = self._limit(wanted, kind, 100)
        where = _columns(asked.get("where"))
        explicit, containing, cursor = bodies.flag(asked, "explicit"), asked.get("filter", ""), asked.get("cursor")

        def answer() -> Response:
            page = self.questions.facts(caller, name, limit, cursor, explicit, containing, where)
            return response_of(page, kind, {"predicate": name, "arity": len(page.names)})

        return await self._timed(answer)

    async def _predicates(self, request: Request, caller: Caller) -> Response:
        return json_response(await self.in_thread(lambda: self.questions.predicates(caller)))

    async def _rules(self, request: Request, caller: Caller) -> Response:
        kind = bodies.accepted(request, JSON, "text/plain")
        found = await self.in_thread(self.questions.rules)
        return json_response(found) if kind == JSON else PlainTextResponse(found["text"])

    async def _graph(self, request: Request, caller: Caller) -> Response:
        kind = bodies.accepted(request, JSON, "image/svg+xml", "text/plain")
        format = request.query_params.get("format", "svg" if kind == "image/svg+xml" else "json")
        if format == "json":
            return json_response(await self.in_thread(self.questions.graph))
        if format not in ("svg", "dot", "mermaid"):
            raise problems.bad_request("`format` is json, svg, dot or mermaid")
        drawn = await self.in_thread(partial(self.questions.drawn, format))
        return Response(drawn, media_type="image/svg+xml" if format == "svg" else "text/plain; charset=utf-8")

    async def _statistics(self, request: Request, caller: Caller) -> Response:
        return json_response(await self.in_thread(self.statistics))

    def statistics(self) -> dict[str, Any]:
        """What there is and what has been done."""
        store, writer, kb = self.store, self.writer, self.store.kb
        found = self.questions.predicates(EVERYBODY)
        now = datetime.now(UTC)
        return {
            "update": found["update"],
            "facts": sum(item["facts"] for item in found["predicates"]),
            "explicit": sum(item["explicit"] for item in found["predicates"]),
            "predicates": len(found["predicates"]),
            "rules": len(store.knowledge.engine.graph.rules),
            "constants": kb.constants,
            "errors": int(kb.errors),
            "version": VERSION,
            "started": self.started.isoformat(timespec="seconds"),
            "uptime": round((now - self.started).total_seconds(), 3),
            "updates": {
                "commits": writer.commits,
                "requests": writer.updates,
                "refused": writer.refused,
                "seconds": round(writer.seconds, 6),
                "waiting": writer.waiting,
            },
            "queries": {"count": self.metrics.queries, "seconds": round(self.metrics.query_seconds, 6)},
            "subscriptions": {"streams": len(self.hub), "queries": self.hub.topics},
            "memory": {"resident": resident_bytes()},
            "journal": {"bytes": store.journal_bytes, "reaches_back_to": store.history.reach},
        }

    async def _health(self, request: Request) -> Response:
        if self.hub.closed or self.store.knowledge.lock.is_broken:
            why = "closing" if self.hub.closed else "broken: start it again"
            raise Problem(503, "busy", "The server is not well", f"the server is {why}")
        return json_response({"status": "ok", "update": self.store.history.number})

    async def _openapi(self, request: Request) -> Response:
        return json_response(openapi.description(VERSION))

    async def _metrics(self, request: Request, caller: Caller) -> Response:
        statistics = await self.in_thread(self.statistics)
        return Response(self.metrics.text(statistics), media_type="text/plain; version=0.0.4; charset=utf-8")

    # --- proofs -------------------------------------------------------------------------------------------------------

    async def _explain(self, request: Request, caller: Caller) -> Response:
        body = bodies.decoded(request, await self._body(request), bodies.FactBody)
        if not 1 <= body.limit <= MOST_PROOFS:
            raise problems.bad_request(f"`limit` is a whole number from 1 to {MOST_PROOFS}")
        return json_response(
            await self.in_thread(lambda: self.questions.explain(caller, body.fact, body.parameters, body.limit))
        )

    async def _why_not(self, request: Request, caller: Caller) -> Response:
        body = bodies.decoded(request, await self._body(request), bodies.FactBody)
        return json_response(await self.in_thread(lambda: self.questions.why_not(caller, body.fact, body.parameters)))

    async def _what_if(self, request: Request, caller: Caller) -> Response:
        update = await self._update_of(request)
        rows = bodies.integer(request.query_params, "rows", ROWS_LISTED, 0, MOST_ROWS_LISTED)
        return json_response(await self.writer.call(lambda: self.changes.what_if(update, rows)))

    async def _explain_change(self, request: Request, caller: Caller) -> Response:
        body = bodies.decoded(request, await self._body(request), bodies.ChangeBody)
        return json_response(await self.writer.call(lambda: self.changes.explain(body.fact, body.update)))

    async def _check(self, request: Request, caller: Caller) -> Response:
        body = bodies.decoded(request, await self._body(request), bodies.CheckBody)
        return json_response(await self.in_thread(lambda: self.changes.check(body.text, body.kind, body.replace)))

    # --- changing -----------------------------------------------------------------------------------------------------

    async def _body(self, request: Request) -> bytes:
        return await bodies.read_body(request, self.settings.limits.max_body)

    async def _no_body(self, request: Request) -> None:
        body = await self._body(request)
        if body:
            bodies.decoded(request, body, bodies.NoBody)

    async def _update_of(self, request: Request, body: bytes | None = None) -> dict[str, Any]:
        """The update that a body asks for."""
        content = await self._body(request) if body is None else body
        kind, asked = bodies.media_type(request), request.query_params
        if kind == bodies.ARROW:
            predicate, action = asked.get("predicate", ""), asked.get("action", "add")
            if not predicate or action not in ("add", "delete"):
                raise problems.bad_request("Arrow needs ?predicate=NAME and &action=add or delete")
            return await self.in_thread(lambda: bodies.update_of_arrow(content, predicate, action))
        if kind == bodies.JSON_LINES:
            return await self.in_thread(lambda: bodies.updates_of_lines(content))
        if kind != JSON:
            raise bodies.unsupported(kind, f"{JSON}, {bodies.JSON_LINES} or {bodies.ARROW}")
        if len(content) > LONG_BODY:
            return await self.in_thread(lambda: bodies.update_of(bodies.parsed_json(content)))
        return bodies.update_of(bodies.parsed_json(content))

    async def _update(self, request: Request, caller: Caller) -> Response:
        if not (caller.may(WRITE) or caller.may(RULES)):
            check_role(caller, WRITE)
        arrived = time.perf_counter()
        key = bodies.key_of(request)
        rows = bodies.integer(request.query_params, "rows", ROWS_LISTED, 0, MOST_ROWS_LISTED)
        body = await self._body(request)
        update = await self._update_of(request, body)
        self._check_update(caller, update)
        job = UpdateJob(update, asyncio.get_running_loop().create_future(), rows, arrived=arrived)
        if key:
            job.key, job.asked = key, hash_of(request.url.query.encode(), bodies.media_type(request).encode(), body)
        job.alone = update.pop("alone", False)
        replaced = update.pop("replace_rules", None)
        if replaced is not None:
            job.prepare = lambda: (self.changes.replacing(update, replaced), None)
        self.writer.submit(job)
        return Response(await job.answer, media_type=JSON)

    def _check_update(self, caller: Caller, update: Mapping[str, Any]) -> None:
        if update.get("add") or update.get("delete"):
            check_role(caller, WRITE)
        if update.get("add_rules") or update.get("remove_rules") or update.get("replace_rules") is not None:
            check_role(caller, RULES)

    async def _undo(self, request: Request, caller: Caller) -> Response:
        await self._no_body(request)
        key = bodies.key_of(request)
        job = UpdateJob({}, asyncio.get_running_loop().create_future(), ROWS_LISTED, key, key and "undo")
        job.prepare = self.changes.undoing
        self.writer.submit(job)
        return Response(await job.answer, media_type=JSON)

    async def _save(self, request: Request, caller: Caller) -> Response:
        await self._no_body(request)
        await self.writer.call(self.store.save)
        return json_response({"update": self.store.history.number})

    # --- streams ------------------------------------------------------------------------------------------------------

    async def _subscribe(self, request: Request, caller: Caller, stream: Stream) -> tuple[Topic | None, list[bytes]]:
        asked = request.query_params
        query = asked.get("query")
        if query is None:
            raise problems.bad_request("give the query: /subscribe?query=path(a,X)")
        parameters = _parameters(asked)
        values = await self.in_thread(lambda: self.questions.checked_query(caller, query, parameters))
        topic, news = await self.hub.join(stream, query, values, _last_event(request))
        return topic, await self.hub.events(news)

    async def _updates(self, request: Request, caller: Caller, stream: Stream) -> tuple[Topic | None, list[bytes]]:
        if not caller.may_read_all():
            raise problems.forbidden("this token may read some predicates alone")
        return None, self.hub.join_commits(stream, _last_event(request))


class _Events:
    """An endpoint that sends events until somebody ends it. It is bare ASGI: a stream is a task and little more."""

    def __init__(
        self,
        application: Application,
        begin: Callable[[Request, Caller, Stream], Awaitable[tuple[Topic | None, list[bytes]]]],
    ) -> None:
        self._application = application
        self._begin = begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub = self._application.hub
        request = Request(scope, receive)
        stream: Stream | None = None
        topic: Topic | None = None
        try:
            try:
                caller = self._application.caller(request)
                check_role(caller, READ)
                bodies.accepted(request, EVENTS)
                stream = hub.open(scope.get("tidelog.transport"))
                topic, events = await self._begin(request, caller, stream)
            except TidelogError as error:
                await problems.of_error(error).response()(scope, receive, send)
                return
            except Problem as problem:
                await problem.response()(scope, receive, send)
                return
            await self._run(stream, topic, events, receive, send)
        finally:
            if stream is not None:
                hub.leave(stream, topic)

    async def _run(
        self, stream: Stream, topic: Topic | None, events: list[bytes], receive: Receive, send: Send
    ) -> None:
        hub = self._application.hub
        gone = asyncio.ensure_future(_until_gone(receive))
        gone.add_done_callback(lambda _: stream.close())
        try:
            headers = [(b"content-type", EVENTS.encode()), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            # At once: the other end then knows that it is connected.
            await self._send(stream, send, b": tidelog\n\n")
            while True:
                for data in events:
                    await self._send(stream, send, data)
                while (data_or_none := await stream.next()) is not None:
                    await self._send(stream, send, data_or_none)
                if stream.closed:
                    break
                if topic is None:
                    events = hub.join_commits(stream, stream.sent)
                else:
                    events = await hub.events(await hub.catch_up(stream, topic))
            if stream.farewell is not None and not gone.done():
                await self._send(stream, send, stream.farewell)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()

    async def _send(self, stream: Stream, send: Send, data: bytes) -> None:
        stream.since = time.monotonic()
        await send({"type": "http.response.body", "body": data, "more_body": True})
        stream.since = None


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Guarded:
    """Around everything: headers that keep browsers from doing more than they should, and counts of requests."""

    def __init__(self, inner: ASGIApp, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        metrics, method = self._metrics, scope["method"]

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *SECURITY]
                metrics.request(method, message["status"])
            await send(message)

        await self._inner(scope, receive, guarded)


# --- parts ------------------------------------------------------------------------------------------------------------


def json_response(content: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type=JSON)


def check_role(caller: Caller, role: str) -> None:
    """Refuse somebody who has not a role."""
    if caller is NOBODY:
        raise problems.unauthorised()
    if not caller.may(role):
        raise problems.forbidden(f"this needs a token with the role `{role}`")


@lru_cache(1024)
def _names_loopback(host: str) -> bool:
    """Whether the `Host` of a request is a name of loopback."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _check_origin(request: Request) -> None:
    """Refuse a request that a page of somebody else makes a browser send."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    if site not in ("same-origin", "none") or (origin is not None and origin.partition("://")[2] != host):
        raise problems.forbidden("this request comes from a page of another origin")


def _columns(text: str | None) -> dict[int, Any] | None:
    """The values of columns, as a parameter of a request gives them."""
    if text is None:
        return None
    found = bodies.parsed_json(text.encode())
    if not isinstance(found, dict) or not all(name.isascii() and name.isdigit() and len(name) < 5 for name in found):
        raise problems.bad_request('`where` is an object of columns, counted from 0, and values: {"0": "a"}')
    return {int(name): value for name, value in found.items()}


def _parameters(asked: Mapping[str, str]) -> dict[str, Any]:
    """The parameters of a query that stands in a URL."""
    found: Any = bodies.parsed_json(asked["parameters"].encode()) if "parameters" in asked else {}
    if not isinstance(found, dict):
        raise problems.bad_request("`parameters` is an object of names and values")
    return found | {name.removeprefix("param."): asked[name] for name in asked if name.startswith("param.")}


def _last_event(request: Request) -> int | None:
    """The number of the last commit that a client knows."""
    text = request.headers.get("last-event-id") or request.query_params.get("last_event_id") or ""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise problems.bad_request("Last-Event-ID is the number of an update")
    return int(text)


def resident_bytes() -> int:
    """The memory that the process has, where the system tells."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


async def _http_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problems.of_status(error.status_code, str(error.detail), error.headers).response()


async def _internal_problem(_: Request, error: Exception) -> Response:
    return problems.of_status(500, "something went wrong in the server; its log says what").response()
