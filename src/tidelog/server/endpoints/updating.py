"""Updates: made, tried, taken back, and written to a snapshot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from tidelog.errors import ArityError, DataError, ParseError, TidelogError, UnsafeRuleError
from tidelog.language import parse_program
from tidelog.server import problems
from tidelog.server.commits.keys import hash_of
from tidelog.server.commits.store import ServedStore
from tidelog.server.commits.writer import UpdateJob, Writer
from tidelog.server.questions.changes import Changes
from tidelog.server.questions.reading import Reading
from tidelog.server.requests import bodies
from tidelog.server.requests.access import check_role
from tidelog.server.requests.arrow_bodies import update_of_arrow
from tidelog.server.requests.asking import Asked
from tidelog.server.requests.bodies import ARROW, JSON, JSON_LINES
from tidelog.server.requests.dispatch import Endpoint, ForCallers, json_response
from tidelog.server.threads import Threads
from tidelog.server.tokens import ADMIN, READ, RULES, WRITE, Caller

ROWS_LISTED = 100
MOST_ROWS_LISTED = 10_000

# A body that is longer than this is parsed in another thread.
LONG_BODY = 1 << 16

# Errors that come from an update and the predicates that it names, whatever else there is.
_OF_AN_UPDATE = (ArityError, DataError, ParseError, UnsafeRuleError)


class Updating:
    """Hands updates to the writer."""

    def __init__(
        self, store: ServedStore, reading: Reading, changes: Changes, threads: Threads, callers: ForCallers
    ) -> None:
        self._store = store
        self._reading = reading
        self._changes = changes
        self._threads = threads
        self.writer: Writer
        self.endpoints = [
            Endpoint("/update", {"POST": callers(None, self._update)}),
            Endpoint("/what-if", {"POST": callers(READ, self._what_if, all=True)}),
            Endpoint("/undo", {"POST": callers(RULES, self._undo)}),
            Endpoint("/save", {"POST": callers(ADMIN, self._save)}),
        ]

    async def _body(self, asked: Asked) -> bytes:
        return await bodies.read_body(asked, self._store.settings.limits.max_body)

    async def _update(self, asked: Asked, caller: Caller) -> Response:
        if not (caller.may(WRITE) or caller.may(RULES)):
            check_role(caller, WRITE)
        arrived = time.perf_counter()
        key = bodies.key_of(asked)
        rows = _rows(asked)
        body = await self._body(asked)
        update = await self._update_of(asked, body)
        _check_update(caller, update)
        self._check_prefixes(caller, update)
        job = UpdateJob(update, asyncio.get_running_loop().create_future(), caller, rows, arrived=arrived)
        if key:
            job.key, job.asked = key, hash_of(asked.query, bodies.media_type(asked).encode(), body)
        job.alone = update.pop("alone", False)
        replaced = update.pop("replace_rules", None)
        if replaced is not None:
            job.prepare = lambda: (self._changes.replacing(update, replaced), None)
        return await self._made(job)

    def _check_prefixes(self, caller: Caller, update: Mapping[str, Any]) -> None:
        """Refuse a text of facts that gives a prefix another meaning: names in everybody's questions would change."""
        if not caller.may(RULES):
            known = self._store.knowledge.catalogue.prefixes
            for text in (update.get(side) for side in ("add", "delete")):
                if isinstance(text, str) and "prefix" in text.lower():
                    for name, namespace in parse_program(text, "<update>", known).prefixes:
                        if known.get(name, namespace) != namespace:
                            raise problems.forbidden(
                                f"to change the prefix `{name}` needs a token with the role `rules`"
                            )

    async def _made(self, job: UpdateJob) -> Response:
        """The answer to an update. What it was refused for may be what somebody may not read."""
        self.writer.submit(job)
        try:
            return Response(await job.answer, media_type=JSON)
        except TidelogError as error:
            if job.caller.predicates is None or self._is_own(error, job):
                raise
            raise problems.unexplained(error) from None

    def _is_own(self, error: TidelogError, job: UpdateJob) -> bool:
        """Whether an error tells of an update alone, and of predicates that its sender may read."""
        return isinstance(error, _OF_AN_UPDATE) and self._reading.may_know_mistakes(job.caller, job.update)

    async def _update_of(self, asked: Asked, content: bytes) -> dict[str, Any]:
        """The update that a body asks for."""
        kind, given = bodies.media_type(asked), asked.parameters
        if kind == ARROW:
            predicate, action = given.get("predicate", ""), given.get("action", "add")
            if not predicate or action not in ("add", "delete"):
                raise problems.bad_request("Arrow needs ?predicate=NAME and &action=add or delete")
            most = self._store.settings.limits.max_body
            return await self._threads.run(lambda: update_of_arrow(content, predicate, action, most))
        if kind == JSON_LINES:
            resolve = self._store.knowledge.catalogue.resolve
            return await self._threads.run(lambda: bodies.updates_of_lines(content, resolve))
        if kind != JSON:
            raise bodies.unsupported(kind, f"{JSON}, {JSON_LINES} or {ARROW}")
        if len(content) > LONG_BODY:
            return await self._threads.run(lambda: bodies.update_of(bodies.parsed_json(content)))
        return bodies.update_of(bodies.parsed_json(content))

    async def _what_if(self, asked: Asked, caller: Caller) -> Response:
        update = await self._update_of(asked, await self._body(asked))
        rows = _rows(asked)
        return json_response(await self.writer.call(lambda: self._changes.what_if(update, rows)))

    async def _undo(self, asked: Asked, caller: Caller) -> Response:
        await self._no_body(asked)
        key = bodies.key_of(asked)
        job = UpdateJob({}, asyncio.get_running_loop().create_future(), caller, ROWS_LISTED, key, key and "undo")
        job.prepare = self._changes.undoing
        return await self._made(job)

    async def _save(self, asked: Asked, caller: Caller) -> Response:
        await self._no_body(asked)
        await self.writer.call(self._store.save)
        return json_response({"update": self._store.history.number})

    async def _no_body(self, asked: Asked) -> None:
        body = await self._body(asked)
        if body:
            bodies.decoded(asked, body, bodies.NoBody)


def _rows(asked: Asked) -> int:
    """How many facts of each predicate the answer is to list."""
    return bodies.integer(asked.parameters, "rows", ROWS_LISTED, 0, MOST_ROWS_LISTED)


def _check_update(caller: Caller, update: Mapping[str, Any]) -> None:
    if update.get("add") or update.get("delete") or "at" in update:
        check_role(caller, WRITE)
    if update.get("add_rules") or update.get("remove_rules") or update.get("replace_rules") is not None:
        check_role(caller, RULES)
