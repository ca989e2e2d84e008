"""The same for an event loop: `async with tidelog.connect_async(url) as kb`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Self, TypeVar

import httpx

from tidelog.client import exchange
from tidelog.client.connection import (
    FIRST_PAUSES,
    PAUSES,
    SILENCE,
    headers_of,
    is_busy,
    read_answer,
    subscription_request,
    unreachable,
)
from tidelog.client.exchange import Call, GivenFacts
from tidelog.client.picture import EventLines, Picture
from tidelog.client.results import RemoteAnswerChange, RemoteAnswers, RemoteChange, RemoteRule
from tidelog.errors import TidelogError
from tidelog.proofs.failure import WhyNot
from tidelog.proofs.proof import Proof
from tidelog.values import Row

Answer = TypeVar("Answer")


class AsyncConnection:
    """A server's knowledge base, for an event loop; see `Connection`."""

    def __init__(self, url: str, token: str | None = None, timeout: float = 60.0, verify: Any = True) -> None:
        self.url = url
        self._http = httpx.AsyncClient(base_url=url, headers=headers_of(token), timeout=timeout, verify=verify)
        self._reached = False

    async def _send(self, call: Call[Answer]) -> Answer:
        for pause in (*(PAUSES if self._reached else FIRST_PAUSES), None):
            try:
                response = await self._http.request(
                    call.method, call.path, json=call.body, params=dict(call.parameters), headers=dict(call.headers)
                )
                self._reached = True
                if not is_busy(response) or pause is None:
                    return read_answer(call, response)
            except httpx.TransportError as problem:
                if pause is None:
                    raise unreachable(self.url, problem) from None
            await asyncio.sleep(pause)
        raise AssertionError("the last try ends otherwise")

    async def update(
        self, add: GivenFacts = None, delete: GivenFacts = None, add_rules: str = "", remove_rules: str = ""
    ) -> RemoteChange:
        """Apply one update: deletions before additions, all or nothing."""
        parts = {"add": add, "delete": delete, "add_rules": add_rules, "remove_rules": remove_rules}
        return await self._send(exchange.update(parts))

    async def what_if(
        self, add: GivenFacts = None, delete: GivenFacts = None, add_rules: str = "", remove_rules: str = ""
    ) -> RemoteChange:
        """The change that an update would make, which is not made."""
        parts = {"add": add, "delete": delete, "add_rules": add_rules, "remove_rules": remove_rules}
        return await self._send(exchange.what_if(parts))

    async def add_rules(self, text: str) -> RemoteChange:
        """An update that adds rules, and nothing else."""
        return await self.update(add_rules=text)

    async def remove_rules(self, text: str) -> RemoteChange:
        """An update that removes rules, and nothing else."""
        return await self.update(remove_rules=text)

    async def undo(self) -> RemoteChange:
        """Take back the last change of rules."""
        return RemoteChange.of(await self._send(exchange.post("/undo", {})))

    async def query(self, text: str, /, **values: object) -> RemoteAnswers:
        """The answers of a query, with the values of its parameters."""
        first, cursor = await self._send(exchange.query(text, values))
        rows = first.rows()
        while cursor is not None:
            page, cursor = await self._send(exchange.query(text, values, cursor))
            rows += page.rows()
        return RemoteAnswers(first.variables, rows, first.update, first.errors)

    async def facts(self, predicate: str, explicit: bool = False) -> AsyncIterator[Row]:
        """The facts of a predicate, page by page."""
        cursor: str | None = None
        while True:
            rows, cursor, _ = await self._send(exchange.facts(predicate, explicit, cursor))
            for row in rows:
                yield row
            if cursor is None:
                return

    async def predicates(self) -> list[str]:
        """Every predicate that has facts, that a rule mentions, or that is declared."""
        return [item["name"] for item in (await self._send(exchange.get("/predicates")))["predicates"]]

    async def rules(self) -> list[RemoteRule]:
        """The rules, with what each has done."""
        return await self._send(exchange.rules())

    async def graph(self, format: str = "svg") -> str:
        """The dependency graph as `svg`, `dot`, `mermaid` or `json`."""
        return await self._send(exchange.text("/graph", format=format))

    async def statistics(self) -> dict[str, Any]:
        """What there is on the server, and what it has done."""
        found: dict[str, Any] = await self._send(exchange.get("/statistics"))
        return found

    async def version(self) -> int:
        """The number of the last update."""
        return int((await self._send(exchange.get("/health")))["update"])

    async def holds(self, fact: Any) -> bool:
        """Whether a fact holds."""
        found: list[Proof] = await self._send(exchange.proofs(fact, {}, 1))
        return bool(found)

    async def explain(self, fact: Any, /, **values: object) -> Proof | None:
        """A proof of least height of a fact; None if it does not hold."""
        found = await self.proofs(fact, 1, **values)
        return found[0] if found else None

    async def proofs(self, fact: Any, /, limit: int = 10, **values: object) -> list[Proof]:
        """The `limit` lowest proofs of a fact, the lowest first."""
        return await self._send(exchange.proofs(fact, values, limit))

    async def why_not(self, fact: Any, /, **values: object) -> WhyNot:
        """What a fact that does not hold lacks."""
        return await self._send(exchange.why_not(fact, values))

    async def changes(self, query: str, /, **values: object) -> AsyncIterator[RemoteAnswerChange]:
        """The answers of a query, and then what comes and what goes. A lost connection is made again, and nothing is
        missed or told twice.
        """
        asked, picture, tries = subscription_request(query, values), Picture(), iter(FIRST_PAUSES)
        while True:
            try:
                headers = {} if picture.update is None else {"Last-Event-ID": str(picture.update)}
                limits = httpx.Timeout(SILENCE)
                async with self._http.stream(
                    "GET", "/subscribe", params=asked, headers=headers, timeout=limits
                ) as response:
                    if not response.is_success:
                        await response.aread()
                        if is_busy(response):
                            raise httpx.ReadError("the server is closing")
                        read_answer(exchange.get("/subscribe"), response)
                    lines = EventLines()
                    async for line in response.aiter_lines():
                        event = lines.take(line)
                        if event is not None and event[0] == "error":
                            if event[2].get("status") == 503:
                                raise httpx.ReadError("the server is closing")
                            raise exchange.error_of(event[2].get("status", 500), event[2])
                        message = None if event is None else picture.take(event)
                        if message is not None:
                            tries = iter(PAUSES)
                            yield message
                raise httpx.ReadError("the stream has ended")
            except httpx.TransportError as problem:
                pause = next(tries, None)
                if pause is None:
                    raise unreachable(self.url, problem) from None
                await asyncio.sleep(pause)

    async def save(self) -> int:
        """Let the server write a snapshot; the number of the last update."""
        return int((await self._send(exchange.post("/save", {})))["update"])

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def connect_async(url: str, token: str | None = None, timeout: float = 60.0, verify: Any = True) -> AsyncConnection:
    """The knowledge base of a server, for an event loop.

    Examples:
        >>> import asyncio
        >>> async def main():
        ...     async with tidelog.connect_async("http://127.0.0.1:9", timeout=1) as kb:
        ...         try:
        ...             await kb.version()
        ...         except tidelog.ServerError as error:
        ...             print("cannot reach" in str(error))
        >>> asyncio.run(main())
        True
    """
    if not url.startswith(("http://", "https://")):
        raise TidelogError(f"{url!r} is no address of a server; write it like http://127.0.0.1:8765")
    return AsyncConnection(url, token, timeout, verify)
