"""A knowledge base that a server has, with the methods of one that is here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from tidelog.api.statistics import ListedRule
from tidelog.client import exchange, several
from tidelog.client.exchange import Call, GivenFacts
from tidelog.client.facts import RemoteFacts
from tidelog.client.graph import RemoteGraph
from tidelog.client.refusals import Remote, refuse_folder, refuse_note, refuse_other_syntax
from tidelog.client.results import RemoteAnswerChange, RemoteAnswers, RemoteChange, RemoteRule
from tidelog.client.several import Requests
from tidelog.client.subscriptions import Changes, RemoteSubscription
from tidelog.client.transport import FIRST_PAUSES, PAUSES, check_open, headers_of, is_busy, read_answer, unreachable
from tidelog.errors import TidelogError
from tidelog.facts.arguments import Time, checked_marking
from tidelog.language import DLOG
from tidelog.live.update_sources import Source, check_update, source_of
from tidelog.proofs.failure import WhyNot
from tidelog.proofs.proof import Proof

if TYPE_CHECKING:
    from tidelog.language.syntax import Query

Answer = TypeVar("Answer")
Result = TypeVar("Result")


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
        check_open(self._http)
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
        commit: None = None,
        syntax: str = DLOG,
        at: Time | None = None,
    ) -> RemoteChange:
        """Apply one update: deletions before additions, all or nothing; see `KnowledgeBase.update`."""
        refuse_note(commit)
        refuse_other_syntax(syntax)
        parts = {"add": add, "delete": delete, "add_rules": add_rules, "remove_rules": remove_rules, "at": at}
        return self._send(exchange.update(parts))

    def what_if(
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
        return self._send(exchange.what_if(parts))

    def advance(self, to: Time) -> RemoteChange:
        """Let time pass on the server: what has expired by then goes; see `KnowledgeBase.advance`."""
        return self.update(at=to)

    def add_rules(self, text: str, syntax: str = DLOG) -> RemoteChange:
        """An update that adds rules, and nothing else."""
        return self.update(add_rules=text, syntax=syntax)

    def remove_rules(self, text: str, syntax: str = DLOG) -> RemoteChange:
        """An update that removes rules, and nothing else."""
        return self.update(remove_rules=text, syntax=syntax)

    def undo(self) -> RemoteChange:
        """Take back the last change of rules."""
        return self._send(exchange.undo())

    def stream(
        self, updates: Iterable[Mapping[str, Any]] | Queue[Any] | Source, marking: int = True
    ) -> Iterator[RemoteChange]:
        """The change of each update, in order. Nothing is looked at ahead, so that `marking` changes nothing."""
        checked_marking(marking)
        return (self.update(**check_update(update)) for update in iter(source_of(updates).take, None))

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
        return RemoteFacts(self._send, predicate, explicit=False)

    def explicit(self, predicate: str) -> RemoteFacts:
        """Only the explicit facts of a predicate."""
        return RemoteFacts(self._send, predicate, explicit=True)

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
        found: dict[str, str] = self._send(exchange.get("/predicates"))["prefixes"]
        return found

    @property
    def rules(self) -> list[ListedRule]:
        """The rules of the program as text, each with the `facts` it derived and the `seconds` it took so far."""
        return list(map(ListedRule.of, self.rule_statistics()))

    def rule_statistics(self) -> list[RemoteRule]:
        """What each rule has done and how long it took."""
        return self._send(exchange.rules())

    @property
    def graph(self) -> RemoteGraph[str]:
        """The dependency graph: `graph.draw("svg")`, `dot`, `mermaid` or `json`."""
        return RemoteGraph(self._send)

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
        return isinstance(fact, str | tuple) and self._send(exchange.holds(fact))

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
        return Changes(self._http, query, values).messages()

    def subscribe(
        self, query: str, on_change: Callable[[RemoteAnswerChange], object], /, **values: object
    ) -> RemoteSubscription:
        """Be told of the answers of a query, and then of what comes and what goes, by a thread, until `close`. What
        cannot be followed is refused at once.
        """
        return RemoteSubscription(Changes(self._http, query, values), query, on_change)

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
