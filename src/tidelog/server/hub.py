"""Subscribers: each has a stream of events, and those who ask the same share a topic.

A topic is one subscription of the knowledge base. What a commit changes for it becomes one event, which all its streams
send. A stream holds what its reader has not taken yet, up to a number of bytes. Beyond that it drops all of it, and
when the reader takes something again, gets the net difference since the last event that was sent, as somebody who comes
back after a lost connection does. So no reader misses anything, and none fills the memory.

Everything here runs in the event loop, except where it says that it is the writer's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from tidelog.engine.queries import run_query
from tidelog.engine.update.deltas import Request
from tidelog.errors import TidelogError, warnings_collected
from tidelog.facts.questions import query_of
from tidelog.facts.results import Answers, Encoded, row_identity
from tidelog.language.syntax import Query, body_atoms
from tidelog.live.subscriptions import AnswerChange, Subscription
from tidelog.server import problems
from tidelog.server.history import Commit
from tidelog.server.listing import json_rows, rows_of
from tidelog.server.problems import Problem
from tidelog.server.store import ServedStore
from tidelog.server.writer import CallJob, Writer
from tidelog.values import Row, Value

# Seconds between two signs of life, and from a commit to the mark of progress for those whom it does not concern.
BEAT = 15.0
MARK = 0.05

# Rows of one event of a snapshot.
ROWS_OF_EVENT = 2000

# Commits that somebody sees who has just come.
COMMITS_AT_FIRST = 100

Values = Mapping[str, Value]
Key = tuple[str, bytes]


def event(kind: str, number: int | None, data: Any) -> bytes:
    """An event as it goes over the wire."""
    identity = b"" if number is None else b"id: %d\n" % number
    return b"event: %b\n%bdata: %b\n\n" % (kind.encode(), identity, msgspec.json.encode(data))


class News(NamedTuple):
    """What a stream begins with, or goes on with after it fell behind."""

    number: int
    kind: str  # "snapshot", "change", "reset" or "nothing"
    names: tuple[str, ...] = ()
    answers: Answers | None = None
    added: list[Row] | None = None
    removed: list[Row] | None = None
    reason: str = ""

    def events(self) -> Iterator[bytes]:
        """The events that tell it; they can be many."""
        if self.kind == "change":
            assert self.added is not None
            assert self.removed is not None
            halves = {"added": json_rows(self.added), "removed": json_rows(self.removed)}
            yield event("change", self.number, {"update": self.number, **halves})
        elif self.kind == "nothing":
            yield event("progress", self.number, {"update": self.number})
        else:
            if self.kind == "reset":
                yield event("reset", None, {"update": self.number, "reason": self.reason})
            assert self.answers is not None
            rows = rows_of(self.answers)
            for first in range(0, max(len(rows), 1), ROWS_OF_EVENT):
                more = first + ROWS_OF_EVENT < len(rows)
                data = {
                    "update": self.number,
                    "variables": self.names,
                    "rows": rows[first : first + ROWS_OF_EVENT],
                    "more": more,
                }
                yield event("snapshot", None if more else self.number, data)


class Topic:
    """A query with values, and the streams of those who asked for it."""

    def __init__(self, key: Key, query: str, values: Values, told: Callable[[Topic, AnswerChange], None]) -> None:
        self.key = key
        self.query = query
        self.values = values
        self.streams: dict[Stream, None] = {}
        self.members = 0  # the writer's: how many streams there are, or will be
        self.subscription: Subscription | None = None
        self.first: AnswerChange | None = None
        self._told = told

    def take(self, message: AnswerChange) -> None:
        """The writer's: hear of a change."""
        if message.first:
            self.first = message
        else:
            self._told(self, message)


class Stream:
    """The events that one connection has yet to take."""

    def __init__(self, room: int, transport: asyncio.Transport | None = None) -> None:
        self.sent = 0  # all up to this commit has been handed over
        self.behind = False
        self.closed = False
        self.farewell: bytes | None = None
        self.since: float | None = None  # when what is being sent began to be
        self._room = room
        self._transport = transport
        self._pending: list[bytes] = []
        self._size = 0
        self._last = 0  # the commit of the last event that is pending
        self._mark: int | None = None
        self._beat = False
        self._waiter: asyncio.Future[None] | None = None

    def push(self, number: int, data: bytes) -> None:
        """Something to send."""
        if self.behind or self.closed:
            return
        if self._pending and self._size + len(data) > self._room:
            self._pending.clear()
            self._size = 0
            self.behind = True
        else:
            self._pending.append(data)
            self._size += len(data)
            self._last = number
        self.wake()

    def mark(self, number: int) -> None:
        """Everything up to a commit has been pushed."""
        if not self.behind and number > max(self.sent, self._last):
            self._mark = number
            self.wake()

    def beat(self) -> None:
        self._beat = True
        self.wake()

    def go_on_from(self, number: int) -> None:
        """What is pushed from now on comes after a commit."""
        self.sent = self._last = number
        self._pending.clear()
        self._size, self._mark, self.behind = 0, None, False

    def close(self, farewell: bytes | None = None) -> None:
        """End it, with a last event."""
        self.farewell = farewell
        self.closed = True
        self.wake()

    def abort(self) -> None:
        """End a connection whose other end takes nothing."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> bytes | None:
        """What to send next, when there is something; None where the stream ends, or where it has fallen behind."""
        while True:
            if self.closed or self.behind:
                return None
            if self._pending:
                data = b"".join(self._pending)
                self._pending.clear()
                self._size, self.sent = 0, self._last
                return data
            if self._mark is not None and self._mark > self.sent:
                self.sent, self._mark = self._mark, None
                return event("progress", self.sent, {"update": self.sent})
            if self._beat:
                self._beat = False
                return b": \n\n"
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
            self._waiter = None


class Hub:
    """All streams of a server."""

    def __init__(self, store: ServedStore, threads: Executor) -> None:
        self._store = store
        self._knowledge = store.knowledge
        self._threads = threads
        self._topics: dict[Key, Topic] = {}  # the writer's
        self._streams: dict[Stream, None] = {}
        self._commits: dict[Stream, None] = {}
        self._marking: asyncio.TimerHandle | None = None
        self._beating: asyncio.TimerHandle | None = None
        self._closed = False
        self.writer: Writer = None  # type: ignore[assignment]  # which is made with `publish`

    # --- for the application ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def closed(self) -> bool:
        """Whether the server is closing."""
        return self._closed

    @property
    def topics(self) -> int:
        return len(self._topics)

    def start(self) -> None:
        self._beating = asyncio.get_running_loop().call_later(BEAT, self._beat)

    def open(self, transport: asyncio.Transport | None) -> Stream:
        """A new stream."""
        most = self._store.settings.limits.max_subscriptions
        if self._closed:
            raise Problem(503, "busy", "The server is closing", "the server is closing; connect again")
        if len(self._streams) >= most:
            raise problems.over_limit("max_subscriptions", most, f"{most} streams are open already", 429, "too-many")
        stream = Stream(self._store.settings.limits.max_backlog, transport)
        self._streams[stream] = None
        return stream

    async def join(self, stream: Stream, query: str, values: Values, since: int | None) -> tuple[Topic, News]:
        """Let a stream tell of a query from a commit on, or from now on with all answers."""
        key = query, msgspec.json.encode(sorted((name, repr(value)) for name, value in values.items()))
        found: tuple[Topic, News] = await self.writer.call(
            lambda: self._join(key, query, values, since), lambda found: self._attach(stream, *found)
        )
        return found

    async def catch_up(self, stream: Stream, topic: Topic) -> News:
        """What a stream has missed that fell behind."""
        news: News = await self.writer.call(
            lambda: self._missed(topic, stream.sent), lambda news: stream.go_on_from(news.number)
        )
        return news

    async def events(self, news: News) -> list[bytes]:
        """The events of news; many rows become events in another thread."""
        count = len(news.answers or ()) + len(news.added or ()) + len(news.removed or ())
        if count < ROWS_OF_EVENT:
            return list(news.events())
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: list(news.events()))

    def join_commits(self, stream: Stream, since: int | None) -> list[bytes]:
        """Let a stream tell of commits: those after one, or the last ones, and all that come."""
        self._commits[stream] = None
        history = self._store.history
        commits = history.last(COMMITS_AT_FIRST) if since is None else history.after(since)
        published = [commit for commit in commits if commit.number <= self.writer.published]
        stream.go_on_from(self.writer.published)
        return [event("commit", commit.number, commit.told()) for commit in published]

    def leave(self, stream: Stream, topic: Topic | None = None) -> None:
        """A stream has ended."""
        stream.closed = True
        self._streams.pop(stream, None)
        self._commits.pop(stream, None)
        if topic is not None:
            topic.streams.pop(stream, None)
            self._let_go(topic)

    def publish(self, commit: Commit, told: list[tuple[Topic, bytes]]) -> None:
        """A commit was made."""
        for topic, data in told:
            for stream in topic.streams:
                stream.push(commit.number, data)
        if self._commits:
            data = event("commit", commit.number, commit.told())
            for stream in self._commits:
                stream.push(commit.number, data)
        if self._marking is None and self._streams:
            self._marking = asyncio.get_running_loop().call_later(MARK, self._mark)

    def close(self) -> None:
        """Tell everybody that the server closes."""
        self._closed = True
        for timer in (self._marking, self._beating):
            if timer is not None:
                timer.cancel()
        problem = Problem(503, "busy", "The server is closing", "the server is closing; connect again")
        farewell = event("error", None, problem.document())
        for stream in list(self._streams):
            stream.close(farewell)

    # --- timers -------------------------------------------------------------------------------------------------------

    def _mark(self) -> None:
        self._marking = None
        number = self.writer.published
        for stream in self._streams:
            if stream not in self._commits:
                stream.mark(number)

    def _beat(self) -> None:
        self._beating = asyncio.get_running_loop().call_later(min(BEAT, self._stall / 2), self._beat)
        now = time.monotonic()
        for stream in list(self._streams):
            if stream.since is not None and now - stream.since > self._stall:
                stream.abort()
            else:
                stream.beat()

    @property
    def _stall(self) -> float:
        return self._store.settings.limits.stall

    def _attach(self, stream: Stream, topic: Topic, news: News) -> None:
        if stream.closed:
            self._let_go(topic)
        else:
            topic.streams[stream] = None
            stream.go_on_from(news.number)

    def _let_go(self, topic: Topic) -> None:
        loop = asyncio.get_running_loop()
        with suppress(Problem):  # The server is closing, and so do all subscriptions.
            self.writer.submit(CallJob(lambda: self._drop(topic), loop.create_future()))

    # --- the writer's -------------------------------------------------------------------------------------------------

    def _tell(self, topic: Topic, message: AnswerChange) -> None:
        halves = {"added": rows_of(message.added), "removed": rows_of(message.removed)}
        number = self._store.number()
        self.writer.told.append((topic, event("change", number, {"update": number, **halves})))

    def _join(self, key: Key, query: str, values: Values, since: int | None) -> tuple[Topic, News]:
        with warnings_collected():
            topic = self._topics.get(key)
            news: News | None = None
            if topic is None:
                topic = Topic(key, query, values, self._tell)
                subscriptions = self._knowledge.subscriptions
                topic.subscription = subscriptions.subscribe(query, topic.take, values, self._end_of(topic))
                first, topic.first = topic.first, None
                assert first is not None
                if since is None:
                    news = self._snapshot(first.added)
                self._topics[key] = topic
            topic.members += 1
            try:
                if news is None:
                    news = self._snapshot(self._ask(topic)) if since is None else self._missed(topic, since)
                self._check_size(news)
            except BaseException:
                self._drop(topic)
                raise
            return topic, news

    def _end_of(self, topic: Topic) -> Callable[[Subscription], None]:
        """What is done when a subscription can no longer be told: its predicate has become another one."""

        def end(subscription: Subscription) -> None:
            self._topics.pop(topic.key, None)
            problem = subscription.error
            document = (
                problems.of_error(problem) if isinstance(problem, TidelogError) else problems.of_status(500)
            ).document()
            self.writer.tell(self._close_all, topic, event("error", None, document))

        return end

    def _close_all(self, topic: Topic, farewell: bytes) -> None:
        for stream in list(topic.streams):
            stream.close(farewell)

    def _check_size(self, news: News) -> None:
        most = self._store.settings.limits.max_answers
        if news.answers is not None and len(news.answers) > most:
            raise problems.over_limit("max_answers", most, f"the query has more than {most:,} answers; ask for fewer")

    def _drop(self, topic: Topic) -> None:
        topic.members -= 1
        if not topic.members:
            self._topics.pop(topic.key, None)
            if topic.subscription is not None:
                topic.subscription.close()

    def _ask(self, topic: Topic) -> Answers:
        return self._knowledge.query(topic.query, topic.values)

    def _snapshot(self, answers: Answers, kind: str = "snapshot", reason: str = "") -> News:
        return News(self._store.number(), kind, answers.variables, answers, reason=reason)

    def _missed(self, topic: Topic, since: int) -> News:
        """What a topic told after a commit, as one net difference; all answers where nobody knows any more."""
        history = self._store.history
        if since > history.number:
            reason = f"update {since} is none of this store, whose last one is {history.number}"
            return self._snapshot(self._ask(topic), "reset", reason)
        if not history.reaches(since):
            reason = f"the journal reaches back to update {history.reach}, and not to {since}"
            return self._snapshot(self._ask(topic), "reset", reason)
        before = self._answers_after(topic, since)
        if before is None:
            return News(history.number, "nothing")
        now = self._ask(topic)
        came = {row_identity(row): row for row in now.rows()}
        went = {row_identity(row): row for row in before}
        added = [row for key, row in came.items() if key not in went]
        removed = [row for key, row in went.items() if key not in came]
        if not added and not removed:
            return News(history.number, "nothing")
        return News(history.number, "change", added=added, removed=removed)

    def _answers_after(self, topic: Topic, number: int) -> list[Row] | None:
        """The answers after a commit, found in the state that the way back leads to; None where they are the same."""
        knowledge, history = self._knowledge, self._store.history
        if not any(commit.predicates for commit in history.after(number)):
            return None
        with knowledge.lock.working(), knowledge.reader.terms_for_a_question():
            catalogue = knowledge.catalogue
            query = query_of(topic.query, topic.values, catalogue, knowledge.functions.keys())
            if not self._concerns(query, history.after(number)):
                return None
            way = history.to_the_state(number)
            if not way:
                return None
            update = catalogue.check(way.add_rules, way.remove_rules, knowledge.functions.keys())
            arities = dict(update.arities)
            delete, add = knowledge.encode(way.delete, arities), knowledge.encode(way.add, arities)
            request = Request(delete, add, tuple(update.removed), tuple(update.added.values()))

            def look(_: object) -> list[Row]:
                with knowledge.engine.store.borrowed():
                    _, cells, _ = run_query(knowledge.engine, query)
                    return list(Encoded(cells.copy(), knowledge.engine.store.terms.table).rows())

            return knowledge.tried(request, look)

    def _concerns(self, query: Query, commits: list[Commit]) -> bool:
        """Whether commits changed anything that a query reads."""
        display = self._knowledge.catalogue.display
        read = {display(atom.predicate) for atom in body_atoms(query)}
        return any(not read.isdisjoint(commit.predicates) for commit in commits)
