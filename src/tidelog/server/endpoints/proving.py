"""Proofs, what a fact lacks, why it came or went, and what a text of rules is worth."""

from __future__ import annotations

from starlette.responses import Response

from tidelog.server import problems
from tidelog.server.commits.writer import Writer
from tidelog.server.questions.changes import Changes
from tidelog.server.questions.proofs import Proofs
from tidelog.server.questions.texts import Texts
from tidelog.server.requests import bodies
from tidelog.server.requests.asking import Asked
from tidelog.server.requests.bodies import Body
from tidelog.server.requests.dispatch import Endpoint, ForCallers, json_response
from tidelog.server.threads import Threads
from tidelog.server.tokens import READ, Caller

MOST_PROOFS = 100


class Proving:
    """Answers why, and why not."""

    def __init__(
        self, max_body: int, proofs: Proofs, changes: Changes, texts: Texts, threads: Threads, callers: ForCallers
    ) -> None:
        self._max_body = max_body
        self._proofs = proofs
        self._changes = changes
        self._texts = texts
        self._threads = threads
        self.writer: Writer
        self.endpoints = [
            Endpoint("/explain", {"POST": callers(READ, self._explain)}),
            Endpoint("/why-not", {"POST": callers(READ, self._why_not, all=True)}),
            Endpoint("/explain-change", {"POST": callers(READ, self._explain_change, all=True)}),
            Endpoint("/check", {"POST": callers(READ, self._check, all=True)}),
        ]

    async def _body(self, asked: Asked, kind: type[Body]) -> Body:
        return bodies.decoded(asked, await bodies.read_body(asked, self._max_body), kind)

    async def _explain(self, asked: Asked, caller: Caller) -> Response:
        body = await self._body(asked, bodies.FactBody)
        if not 0 <= body.limit <= MOST_PROOFS:
            raise problems.bad_request(f"`limit` is a whole number from 0 to {MOST_PROOFS}")
        return json_response(
            await self._threads.run(lambda: self._proofs.explain(caller, body.fact, body.parameters, body.limit))
        )

    async def _why_not(self, asked: Asked, caller: Caller) -> Response:
        body = await self._body(asked, bodies.FactBody)
        return json_response(await self._threads.run(lambda: self._proofs.why_not(caller, body.fact, body.parameters)))

    async def _explain_change(self, asked: Asked, caller: Caller) -> Response:
        body = await self._body(asked, bodies.ChangeBody)
        return json_response(await self.writer.call(lambda: self._changes.explain(body.fact, body.update)))

    async def _check(self, asked: Asked, caller: Caller) -> Response:
        body = await self._body(asked, bodies.CheckBody)
        return json_response(await self._threads.run(lambda: self._texts.check(body.text, body.kind, body.replace)))
