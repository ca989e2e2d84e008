"""A knowledge base that a server has, with the methods of one that is here."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from tidelog.client import exchange, several
from tidelog.client.exchange import Call, GivenFacts
from tidelog.client.picture import EventLines, Picture
from tidelog.client.refusals import Remote, refuse_folder
from tidelog.client.results import RemoteAnswerChange, RemoteAnswers, RemoteChange, RemoteRule
from tidelog.client.several import Requests
from tidelog.errors import ServerError, SubscriptionWarning, TidelogError, warn
from tidelog.facts.arguments import Time
from tidelog.proofs.failure import WhyNot
from tidelog.proofs.proof import Proof
from tidelog.values import Row

if TYPE_CHECKING:
    from tidelog.language.syntax import Query

Answer = TypeVar("Answer")
Result = TypeVar("Result")

# Seconds between two tries to reach a server: one that nobody has reached yet, and one that may be starting again.
FIRST_PAUSES = (0.05, 0.1, 0.2, 0.4)
PAUSES = (*FIRST_PAUSES, 0.8, 1.6, *[2.0] * 15)

# Seconds without a sign of life, after which a stream is begun again; the server gives one every 15.
SILENCE = 45.0


def headers_of(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def read_answer(call: Call[Answer], response: httpx.Response) -> Answer:
    """The value of an answer; raises what the server refused with."""
    if response.is_success:
        return call.read(response.text if call.plain else response.json())
    try:
        problem = response.json()
    except ValueError:
        problem = None
    raise exchange.error_of(response.status_code, problem)


def is_busy(response: httpx.Response) -> bool:
    return response.status_code == 503


def unreachable(url: str, problem: object) -> ServerError:
    return ServerError(f"cannot reach {url}: {problem}; is the server there, and does it speak so?", {})


class Connection(Remote):
    """A server's knowledge base. Every update has an Idempotency-Key, and is sent again while the server cannot be
    reached: it is made once.

    Examples:
        >>> with tidelog.connect("http://127.0.0.1:8765") as kb:  # doctest: +SKIP
        ...     kb.update(add={"edge": [("a", "b")]})
        <Change: + edge: 1>
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 60.0, verify: Any = True) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, headers=headers_of(token), timeout=timeout, verify=verify)
        self._reached = False

    def _send(self, call: Call[Answer]) -> Answer:
        for pause in (*(PAUSES if self._reached else FIRST_PAUSES), None):
            try:
                response = self._http.request(
                    call.method, call.path, json=call.body, params=dict(call.parameters), headers=dict(call.headers)
                )
                self._reached = True
                if not is_busy(response) or pause is None:
                    return read_answer(call, response)
            except httpx.TransportError as problem:
                if pause is None:
                    raise unreachable(self.url, problem) from None
            time.sleep(pause)
        raise AssertionError("the last try ends otherwise")

    def _send_all(self, requests: Requests[Result]) -> Result:
        try:
            call = next(requests)
            while True:
                call = requests.send(self._send(call))
        except StopIteration as end:
            found: Result = end.value
            return found

    # --- updates ------------------------------------------------------------------------------------------------------

    def update(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        at: Time | None = None,
    ) -> RemoteChange:
        """Apply one update: deletions before additions, all or nothing; see `KnowledgeBase.update`."""
        parts = {"add": add, "delete": delete, "add_rules": add_rules, "remove_rules": remove_rules, "at": at}
        return self._send(exchange.update(parts))

    def what_if(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        at: Time | None = None,
    ) -> RemoteChange:
        """The change that an update would make, which is not made."""
        parts = {"add": add, "delete": delete, "add_rules": add_rules, "remove_rules": remove_rules, "at": at}
        return self._send(exchange.what_if(parts))

    def advance(self, to: Time) -> RemoteChange:
        """Let time pass on the server: what has expired by then goes; see `KnowledgeBase.advance`."""
        return self.update(at=to)

    def add_rules(self, text: str) -> RemoteChange:
        """An update that adds rules, and nothing else."""
        return self.update(add_rules=text)

    def remove_rules(self, text: str) -> RemoteChange:
        """An update that removes rules, and nothing else."""
        return self.update(remove_rules=text)

    def undo(self) -> RemoteChange:
        """Take back the last change of rules."""
        return RemoteChange.of(self._send(exchange.post("/undo", {})))

    def stream(self, updates: Iterable[Mapping[str, Any]]) -> Iterator[RemoteChange]:
        """The change of each update, in order."""
        return (self.update(**update) for update in updates)

    def load(
        self, source: Any, predicate: str | None = None, header: bool | None = None, types: Any = None
    ) -> RemoteChange:
        """Add the facts of a file or a folder of files that lie here; see `KnowledgeBase.load`."""
        return self.update(add=exchange.rows_of_files(source, predicate, header, types))

    def export(
        self,
        folder: str | PathLike[str],
        format: str = "csv",
        predicates: Iterable[str] | None = None,
        explicit: bool = False,
    ) -> list[Path]:
        """Write facts to a folder that lies here; see `KnowledgeBase.export`. All of them are of one state: if they
        change while they are read, they are read again.
        """
        return self._send_all(several.exported(folder, format, predicates, explicit))

    # --- reading ------------------------------------------------------------------------------------------------------

    def query(self, asked: str | Query, /, **values: object) -> RemoteAnswers:
        """The answers of a query, with the values of its parameters."""
        return self._send_all(several.all_answers(asked, values))

    def facts(self, predicate: str) -> RemoteFacts:
        """The facts of a predicate, as they are whenever one looks."""
        return RemoteFacts(self, predicate, explicit=False)

    def explicit(self, predicate: str) -> RemoteFacts:
        """Only the explicit facts of a predicate."""
        return RemoteFacts(self, predicate, explicit=True)

    @property
    def predicates(self) -> list[str]:
        """Every predicate that has facts, that a rule mentions, or that is declared."""
        return [item["name"] for item in self._send(exchange.get("/predicates"))["predicates"]]

    @property
    def explicit_predicates(self) -> list[str]:
        """Every predicate that has explicit facts."""
        found = self._send(exchange.get("/predicates"))["predicates"]
        return [item["name"] for item in found if item["explicit"]]

    @property
    def declared(self) -> dict[str, int]:
        """The predicates that are declared, with their numbers of arguments."""
        found = self._send(exchange.get("/predicates"))["predicates"]
        return {item["name"]: item["arity"] for item in found if item["declared"]}

    @property
    def prefixes(self) -> dict[str, str]:
        """The declared prefixes, and the IRIs that they stand for."""
        found: dict[str, str] = self._send(exchange.get("/rules"))["prefixes"]
        return found

    @property
    def rules(self) -> list[str]:
        """The rules of the program as text."""
        return list(map(str, self.rule_statistics()))

    def rule_statistics(self) -> list[RemoteRule]:
        """What each rule has done and how long it took."""
        return self._send(exchange.rules())

    def graph(self, format: str = "svg") -> str:
        """The dependency graph as `svg`, `dot`, `mermaid` or `json`."""
        return self._send(exchange.text("/graph", format=format))

    def statistics(self) -> dict[str, Any]:
        """What there is on the server, and what it has done."""
        found: dict[str, Any] = self._send(exchange.get("/statistics"))
        return found

    @property
    def version(self) -> int:
        """The number of the last update."""
        return int(self._send(exchange.get("/health"))["update"])

    @property
    def constants(self) -> int:
        """How many constants the server knows."""
        return int(self.statistics()["constants"])

    @property
    def errors(self) -> int:
        """In how many matches an expression had no value, since the server was started."""
        return int(self.statistics()["errors"])

    @property
    def missing_functions(self) -> list[str]:
        """The functions that rules call and that whoever started the server has not registered."""
        found: list[str] = self._send(exchange.get("/rules"))["missing_functions"]
        return found

    def __len__(self) -> int:
        return int(self.statistics()["facts"])

    def __contains__(self, fact: object) -> bool:
        found: list[Proof] = self._send(exchange.proofs(fact, {}, 1))
        return bool(found)

    # --- proofs -------------------------------------------------------------------------------------------------------

    def explain(self, fact: Any, /, **values: object) -> Proof | None:
        """A proof of least height of a fact; None if it does not hold."""
        found: list[Proof] = self._send(exchange.proofs(fact, values, 1))
        return next(iter(found), None)

    def proofs(self, fact: Any, /, limit: int = 10, **values: object) -> Iterator[Proof]:
        """The `limit` lowest proofs of a fact, the lowest first."""
        found: list[Proof] = self._send(exchange.proofs(fact, values, limit))
        return iter(found)

    def why_not(self, fact: Any, /, **values: object) -> WhyNot:
        """What a fact that does not hold lacks."""
        return self._send(exchange.why_not(fact, values))

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def changes(self, query: str, /, **values: object) -> Iterator[RemoteAnswerChange]:
        """The answers of a query, and then what comes and what goes, as messages to iterate over. A lost connection is
        made again, and nothing is missed or told twice.
        """
        return _Changes(self._http, query, values).messages()

    def subscribe(
        self, query: str, on_change: Callable[[RemoteAnswerChange], object], /, **values: object
    ) -> RemoteSubscription:
        """Be told of the answers of a query, and then of what comes and what goes, by a thread, until `close`."""
        return RemoteSubscription(_Changes(self._http, query, values), query, on_change)

    # --- the end ------------------------------------------------------------------------------------------------------

    def save(self, folder: None = None) -> int:
        """Let the server write a snapshot, after which its journal is empty; the number of the last update."""
        refuse_folder(folder)
        return int(self._send(exchange.post("/save", {}))["update"])

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Connection: {self.url}>"


class RemoteFacts:
    """The facts of a predicate of a server, read page by page."""

    def __init__(self, connection: Connection, predicate: str, explicit: bool) -> None:
        self._connection = connection
        self._predicate = predicate
        self._explicit = explicit

    def __iter__(self) -> Iterator[Row]:
        cursor: str | None = None
        while True:
            page = self._connection._send(exchange.facts(self._predicate, self._explicit, cursor))
            yield from page.rows
            cursor = page.cursor
            if cursor is None:
                return

    def __len__(self) -> int:
        return self._connection._send(exchange.facts(self._predicate, self._explicit, None, 1)).total

    def __contains__(self, row: object) -> bool:
        if not isinstance(row, tuple | list):
            return False
        if self._explicit:
            return tuple(row) in set(self)
        return (self._predicate, *row) in self._connection

    def __repr__(self) -> str:
        return f"<RemoteFacts: {len(self):,} of {self._predicate}>"


def subscription_request(query: str, values: Mapping[str, object]) -> dict[str, str]:
    """The parameters of a subscription."""
    return {"query": query, "parameters": json.dumps(exchange.json_values(values))}


class _Changes:
    """The messages of a subscription."""

    def __init__(self, http: httpx.Client, query: str, values: Mapping[str, object]) -> None:
        self._http = http
        self._asked = subscription_request(query, values)
        self._picture = Picture()
        self._response: httpx.Response | None = None
        self.closed = False

    def messages(self) -> Iterator[RemoteAnswerChange]:
        tries = iter(FIRST_PAUSES)
        while not self.closed:
            try:
                for message in self._connected():
                    tries = iter(PAUSES)
                    yield message
            except httpx.TransportError as problem:
                pause = next(tries, None)
                if pause is None:
                    raise unreachable(str(self._http.base_url), problem) from None
                time.sleep(pause)

    def _connected(self) -> Iterator[RemoteAnswerChange]:
        last = self._picture.update
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        limits = httpx.Timeout(SILENCE)
        with self._http.stream("GET", "/subscribe", params=self._asked, headers=headers, timeout=limits) as response:
            self._response = response
            if not response.is_success:
                response.read()
                if is_busy(response):
                    raise httpx.ReadError("the server is closing")
                read_answer(exchange.get("/subscribe"), response)
            lines = EventLines()
            for line in response.iter_lines():
                event = lines.take(line)
                if event is not None and event[0] == "error":
                    if event[2].get("status") == 503:
                        raise httpx.ReadError("the server is closing")
                    raise exchange.error_of(event[2].get("status", 500), event[2])
                message = None if event is None else self._picture.take(event)
                if message is not None:
                    yield message
        raise httpx.ReadError("the stream has ended")

    def close(self) -> None:
        """Hear of nothing any more."""
        self.closed = True
        if self._response is not None:
            self._response.close()


class RemoteSubscription:
    """Somebody who is told of the answers of a query by a thread, until `close`. If `on_change` raises, or if the
    server cannot be reached any more, it ends: `error` is why.
    """

    def __init__(self, changes: _Changes, query: str, on_change: Callable[[RemoteAnswerChange], object]) -> None:
        self.query = query
        self.error: Exception | None = None
        self._changes = changes
        self._on_change = on_change
        self._thread = threading.Thread(target=self._run, name="tidelog-subscription", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        return self._changes.closed

    def _run(self) -> None:
        try:
            for message in self._changes.messages():
                if self.closed:
                    return
                self._on_change(message)
        except Exception as problem:
            if not self.closed:
                self.error, self._changes.closed = problem, True
                warn(f"the subscription to `{self.query}` has ended: {problem}", SubscriptionWarning)

    def close(self) -> None:
        """Hear of nothing any more."""
        self._changes.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(url: str, token: str | None = None, timeout: float = 60.0, verify: Any = True) -> Connection:
    """The knowledge base of a server: `tidelog serve` in another process, or on another machine.

    `verify` is what `httpx` takes: an `ssl.SSLContext` for a certificate of one's own, say.

    Examples:
        >>> try:
        ...     tidelog.connect("http://127.0.0.1:9", timeout=1).version
        ... except tidelog.ServerError as error:
        ...     print("cannot reach" in str(error))
        True
    """
    if not url.startswith(("http://", "https://")):
        raise TidelogError(f"{url!r} is no address of a server; write it like http://127.0.0.1:8765")
    return Connection(url, token, timeout, verify)
