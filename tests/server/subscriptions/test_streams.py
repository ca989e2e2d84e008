"""What one stream does with its events: written at once, kept for its reader within a number of bytes, or dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tidelog.server.commits.store import ServedStore
from tidelog.server.commits.writer import Writer
from tidelog.server.settings import Limits, Settings
from tidelog.server.subscriptions.hub import Hub
from tidelog.server.subscriptions.news import Piece, event, progress
from tidelog.server.subscriptions.streams import Stream
from tidelog.server.threads import Threads


class Peer:
    """A connection that takes chunks at once as long as it is `ready`."""

    def __init__(self) -> None:
        self.ready = True
        self.chunks: list[bytes] = []

    def write(self, chunk: bytes) -> bool:
        if self.ready:
            self.chunks.append(chunk)
        return self.ready


def told(number: int, size: int = 1) -> Piece:
    return Piece.of(event("change", number, {"update": number, "text": "x" * size}))


def with_stream(do: Callable[[Stream, Peer, asyncio.Task[bytes | None]], Awaitable[None]]) -> None:
    """Do something with a stream whose task waits for what is to be sent."""

    async def run() -> None:
        peer = Peer()
        stream = Stream(1000, peer.write)
        waiting = asyncio.ensure_future(stream.next())
        await asyncio.sleep(0)
        await do(stream, peer, waiting)
        waiting.cancel()

    asyncio.run(run())


def test_a_reader_who_waits_is_told_at_once() -> None:
    async def do(stream: Stream, peer: Peer, waiting: asyncio.Task[bytes | None]) -> None:
        stream.push(1, told(1))
        stream.mark(1, Piece.of(progress(1)))  # It is in the event already.
        stream.mark(2, Piece.of(progress(2)))
        stream.beat()
        await asyncio.sleep(0)
        beat = b"4\r\n: \n\n\r\n"
        assert peer.chunks == [told(1).chunk, Piece.of(progress(2)).chunk, beat]
        assert stream.sent == 2
        assert not waiting.done()

    with_stream(do)


def test_what_cannot_be_written_at_once_keeps_its_order() -> None:
    async def do(stream: Stream, peer: Peer, waiting: asyncio.Task[bytes | None]) -> None:
        peer.ready = False
        stream.push(1, told(1))
        peer.ready = True
        stream.push(2, told(2))  # The first one has not been sent yet.
        stream.mark(3, Piece.of(progress(3)))
        assert await waiting == told(1).data + told(2).data
        assert await stream.next() == progress(3)
        assert peer.chunks == []
        assert stream.sent == 3

    with_stream(do)


def test_too_much_is_dropped_and_said() -> None:
    async def do(stream: Stream, peer: Peer, waiting: asyncio.Task[bytes | None]) -> None:
        peer.ready = False
        stream.push(1, told(1, 800))
        stream.push(2, told(2, 800))
        peer.ready = True
        stream.push(3, told(3))
        assert stream.behind
        assert await waiting is None
        assert peer.chunks == []
        assert stream.sent == 0, "nothing was sent: all of it is to be made good"
        stream.go_on_from(3)
        again = asyncio.ensure_future(stream.next())
        await asyncio.sleep(0)
        stream.push(4, told(4))
        assert peer.chunks == [told(4).chunk]
        again.cancel()

    with_stream(do)


def test_a_query_is_let_go_of_however_many_updates_wait(tmp_path: Path) -> None:
    store = ServedStore(Settings(tmp_path / "store", limits=Limits(max_waiting=0)))

    async def run() -> None:
        hub = Hub(store, Threads())
        hub.writer = Writer(store, asyncio.get_running_loop(), hub.publish)
        topic, _ = hub._topics.join("edge(a, X)", {}, None)
        hub.leave(hub.open(lambda _: False), topic)
        hub.writer.start()
        await hub.writer.stop()
        assert (len(hub), hub.topics) == (0, 0)

    asyncio.run(run())
    store.close()
