"""The same for an event loop: `async with tidelog.connect_async(url) as kb`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from tidelog.api.statistics import ListedRule
from tidelog.client import exchange, several
from tidelog.client.exchange import Call, GivenFacts
from tidelog.client.graph import RemoteGraph
from tidelog.client.picture import EventLines, Picture
from tidelog.client.refusals import INSTEAD, Remote, refuse_folder, refuse_note, refuse_other_syntax
from tidelog.client.results import RemoteAnswerChange, RemoteAnswers, RemoteChange, RemoteRule
from tidelog.client.several import Requests
from tidelog.client.subscriptions import subscription_request
from tidelog.client.transport import (
    FIRST_PAUSES,
    PAUSES,
    SILENCE,
    check_open,
    headers_of,
    is_busy,
    read_answer,
    unreachable,
)
from tidelog.errors import TidelogError
from tidelog.facts.arguments import Time, checked_marking
from tidelog.language import DLOG
from tidelog.live.update_sources import check_update
from tidelog.proofs.failure import WhyNot
from tidelog.proofs.proof import Proof
from tidelog.values import Row

if TYPE_CHECKING:
    from tidelog.language.syntax import Query

Answer = TypeVar("Answer")
Result = TypeVar("Result")


class AsyncConnection(Remote):
    """A server's knowledge base, for an event loop; see `Connection`."""

    instead = INSTEAD | {
        "subscribe": "iterate over what it tells: `async for change in kb.changes(query)`",
        "close": "it is closed by `await kb.aclose()`, or by `async with`",
        "explicit": "ask for `facts(predicate, explicit=True)`",
        "live": "it is live already: updates that wait for each other are committed together; `asyncio.gather` them",
    }

    def __init__(self, url: str, token: str | None = None, timeout: float = 60.0, verify: Any = True) -> None:
        self.url = url
        self._http = httpx.AsyncClient(base_url=url, headers=headers_of(token), timeout=timeout, verify=verify)
        self._reached = False

    async def _send(self, call: Call[Answer]) -> Answer:
        check_open(self._http)
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

    async def _send_all(self, requests: Requests[Result]) -> Result:
        try:
            call = next(requests)
            while True:
                call = requests.send(await self._send(call))
        except StopIteration as end:
            found: Result = end.value
            return found

    async def update(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        commit: None = None,
        syntax: str = DLOG,
        at: Time | None = None,
    ) -> RemoteChange:
        """Apply one update: deletions before additions, all or nothing."""
        refuse_note(commit)
        refuse_other_syntax(syntax)
        parts = {"add": add, "delete": delete, "add_rules": add_rules, "remove_rules": remove_rules, "at": at}
        return await self._send(exchange.update(parts))

    async def what_if(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        syntax: str = DLOG,
        at: Time | None = None,
    ) -> RemoteChange:
        """The change that an update would make, which is not made."""
        refuse_other_syntax(syntax)
        parts = {"add": add, "delete": delete, "add_rules": add_rules, "remove_rules": remove_rules, "at": at}
        return await self._send(exchange.what_if(parts))

    async def advance(self, to: Time) -> RemoteChange:
        """Let time pass on the server: what has expired by then goes; see `KnowledgeBase.advance`."""
        return await self.update(at=to)

    async def add_rules(self, text: str, syntax: str = DLOG) -> RemoteChange:
        """An update that adds rules, and nothing else."""
        return await self.update(add_rules=text, syntax=syntax)

    async def remove_rules(self, text: str, syntax: str = DLOG) -> RemoteChange:
        """An update that removes rules, and nothing else."""
        return await self.update(remove_rules=text, syntax=syntax)

    async def undo(self) -> RemoteChange:
        """Take back the last change of rules."""
        return await self._send(exchange.undo())

    async def stream(
        self, updates: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]], marking: int = True
    ) -> AsyncIterator[RemoteChange]:
        """The change of each update, in order. Nothing is looked at ahead, so that `marking` changes nothing."""
        checked_marking(marking)
        if isinstance(updates, AsyncIterable):
            async for update in updates:
                yield await self.update(**check_update(update))
        else:
            for update in updates:
                yield await self.update(**check_update(update))

    async def load(
        self, source: Any, predicate: str | None = None, header: bool | None = None, types: Any = None
    ) -> RemoteChange:
        """Add the facts of a file or a folder of files that lie here. They are read in a thread."""
        return await self.update(add=await asyncio.to_thread(exchange.rows_of_files, source, predicate, header, types))

    async def export(
        self,
        folder: str | PathLike[str],
        format: str = "csv",
        predicates: Iterable[str] | None = None,
        explicit: bool = False,
    ) -> list[Path]:
        """Write facts to a folder that lies here; all of them are of one state."""
        return await self._send_all(several.exported(folder, format, predicates, explicit))

    async def query(self, asked: str | Query, /, **values: object) -> RemoteAnswers:
        """The answers of a query, with the values of its parameters."""
        return await self._send_all(several.all_answers(asked, values))

    async def facts(self, predicate: str, explicit: bool = False) -> AsyncIterator[Row]:
        """The facts of a predicate, page by page."""
        cursor: str | None = None
        while True:
            page = await self._send(exchange.facts(predicate, explicit, cursor))
            for row in page.rows:
                yield row
            cursor = page.cursor
            if cursor is None:
                return

    async def predicates(self) -> list[str]:
        """Every predicate that has facts, that a rule mentions, or that is declared."""
        return [item["name"] for item in (await self._send(exchange.get("/predicates")))["predicates"]]

    async def explicit_predicates(self) -> list[str]:
        """Every predicate that has explicit facts."""
        found = (await self._send(exchange.get("/predicates")))["predicates"]
        return [item["name"] for item in found if item["explicit"]]

    async def declared(self) -> dict[str, int]:
        """The predicates that are declared, with their numbers of arguments."""
        found = (await self._send(exchange.get("/predicates")))["predicates"]
        return {item["name"]: item["arity"] for item in found if item["declared"]}

    async def prefixes(self) -> dict[str, str]:
        """The declared prefixes, and the IRIs that they stand for."""
        found: dict[str, str] = (await self._send(exchange.get("/predicates")))["prefixes"]
        return found

    async def constants(self) -> int:
        """How many constants the server knows."""
        return int((await self.statistics())["constants"])

    async def errors(self) -> int:
        """In how many matches an expression had no value, since the server was started."""
        return int((await self.statistics())["errors"])

    async def missing_functions(self) -> list[str]:
        """The functions that rules call and that whoever started the server has not registered."""
        found: list[str] = (await self._send(exchange.get("/rules")))["missing_functions"]
        return found

    async def rule_statistics(self) -> list[RemoteRule]:
        """What each rule has done and how long it took."""
        return await self._send(exchange.rules())

    async def rules(self) -> list[ListedRule]:
        """The rules of the program as text, each with the `facts` it derived and the `seconds` it took so far."""
        return list(map(ListedRule.of, await self.rule_statistics()))

    @property
    def graph(self) -> RemoteGraph[Awaitable[str]]:
        """The dependency graph: `await graph.draw("svg")`, `dot`, `mermaid` or `json`."""
        return RemoteGraph(self._send)

    async def statistics(self) -> dict[str, Any]:
        """What there is on the server, and what it has done."""
        found: dict[str, Any] = await self._send(exchange.get("/statistics"))
        return found

    async def count(self) -> int:
        """How many facts there are, which `len` cannot wait for."""
        return int((await self.statistics())["facts"])

    async def version(self) -> int:
        """The number of the last update."""
        return int((await self._send(exchange.get("/health")))["update"])

    async def holds(self, fact: Any) -> bool:
        """Whether a fact holds."""
        return await self._send(exchange.holds(fact))

    async def explain(self, fact: Any, /, **values: object) -> Proof | None:
        """A proof of least height of a fact; None if it does not hold."""
        found: list[Proof] = await self._send(exchange.proofs(fact, values, 1))
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
        check_open(self._http)
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

    async def save(self, folder: None = None) -> int:
        """Let the server write a snapshot; the number of the last update."""
        refuse_folder(folder)
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
