"""All streams of a server, in the event loop: they are opened, told of commits, kept alive, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.server import problems
from tidelog.server.commits.history import Commit
from tidelog.server.commits.store import ServedStore
from tidelog.server.commits.writer import Writer
from tidelog.server.problems import Problem
from tidelog.server.subscriptions.news import ROWS_OF_EVENT, News, Piece, event, progress, reset
from tidelog.server.subscriptions.streams import Stream
from tidelog.server.subscriptions.topics import Topic, Topics, Values
from tidelog.server.threads import Threads

# Seconds between two signs of life, and from a commit to the mark of progress for those whom it does not concern.
BEAT = 15.0
MARK = 0.05

# Commits that somebody sees who has just come.
COMMITS_AT_FIRST = 100


class Hub:
    """All streams of a server."""

    def __init__(self, store: ServedStore, threads: Threads) -> None:
        self._store = store
        self._threads = threads
        self._topics = Topics(store, self._told, self._ended)
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

    def open(self, write: Callable[[bytes], bool]) -> Stream:
        """A new stream; `write` writes a chunk at once, or says that it cannot."""
        most = self._store.settings.limits.max_subscriptions
        if self._closed:
            raise Problem(503, "busy", "The server is closing", "the server is closing; connect again")
        if len(self._streams) >= most:
            raise problems.over_limit("max_subscriptions", most, f"{most} streams are open already", 429, "too-many")
        stream = Stream(self._store.settings.limits.max_backlog, write)
        self._streams[stream] = None
        return stream

    async def join(self, stream: Stream, query: str, values: Values, since: int | None) -> tuple[Topic, News]:
        """Let a stream tell of a query from a commit on, or from now on with all answers."""
        found: tuple[Topic, News] = await self.writer.call(
            lambda: self._topics.join(query, values, since), lambda found: self._attach(stream, *found)
        )
        return found

    async def catch_up(self, stream: Stream, topic: Topic) -> News:
        """What a stream has missed that fell behind."""
        news: News = await self.writer.call(
            lambda: self._topics.missed(topic, stream.sent), lambda news: stream.go_on_from(news.number)
        )
        return news

    async def events(self, news: News) -> list[bytes]:
        """The events of news; many rows become events in another thread."""
        count = len(news.answers or ()) + len(news.added or ()) + len(news.removed or ())
        if count < ROWS_OF_EVENT:
            return list(news.events())
        return await self._threads.run(lambda: list(news.events()))

    def join_commits(self, stream: Stream, since: int | None) -> list[bytes]:
        """Let a stream tell of commits: those after one, or the last ones, and all that come. Where some are not kept
        any more, a mark says so.
        """
        self._commits[stream] = None
        history = self._store.history
        commits = history.last(COMMITS_AT_FIRST) if since is None else history.after(since)
        published = [commit for commit in commits if commit.number <= self.writer.published]
        stream.go_on_from(self.writer.published)
        reason = "" if since is None else history.out_of_reach(since)
        marks = [reset(history.reach, reason)] if reason else []
        return marks + [event("commit", commit.number, commit.told()) for commit in published]

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
            piece = Piece.of(data)
            for stream in topic.streams:
                stream.push(commit.number, piece)
        if self._commits:
            piece = Piece.of(event("commit", commit.number, commit.told()))
            for stream in self._commits:
                stream.push(commit.number, piece)
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
        piece = Piece.of(progress(number))
        for stream in self._streams:
            if stream not in self._commits:
                stream.mark(number, piece)

    def _beat(self) -> None:
        self._beating = asyncio.get_running_loop().call_later(BEAT, self._beat)
        for stream in self._streams:
            stream.beat()

    def _attach(self, stream: Stream, topic: Topic, news: News) -> None:
        if stream.closed:
            self._let_go(topic)
        else:
            topic.streams[stream] = None
            stream.go_on_from(news.number)

    def _let_go(self, topic: Topic) -> None:
        self.writer.soon(lambda: self._topics.drop(topic))

    # --- the writer's -------------------------------------------------------------------------------------------------

    def _told(self, topic: Topic, data: bytes) -> None:
        """The update in work changes something for a topic."""
        self.writer.told.append((topic, data))

    def _ended(self, topic: Topic, farewell: bytes) -> None:
        self.writer.tell(_close_all, topic, farewell)


def _close_all(topic: Topic, farewell: bytes) -> None:
    for stream in list(topic.streams):
        stream.close(farewell)
