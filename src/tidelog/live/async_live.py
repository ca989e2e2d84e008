"""The fully dynamic mode for asyncio: updates are submitted, awaited and followed without holding the event loop.

Whatever may wait for the knowledge base, or grows with what it is given, is done in threads: reading an update, asking,
subscribing, netting changes. What only waits for updates waits in the loop: it holds no thread, and can be cancelled at
any time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Self, TypeVar
from weakref import WeakSet

from tidelog.errors import TidelogError
from tidelog.facts.arguments import Time
from tidelog.facts.questions import Values
from tidelog.facts.results import Answers, Change
from tidelog.language.syntax import Query
from tidelog.live.fully_dynamic import Live, check_priority, given_update
from tidelog.live.inbox import Inbox
from tidelog.live.incoming import GivenFacts
from tidelog.live.knowledge import Knowledge
from tidelog.live.subscriptions import AnswerChange, Subscription

Found = TypeVar("Found")

# So many are told at once that their update is settled, before the loop looks at all else.
MOST_TOLD = 256


class AsyncLive:
    """`Live` in an event loop, with a thread in the background: `async with kb.live_async() as live`.

    `backlog` bounds the updates that wait; when it is full, `submit` waits for room, or refuses with
    `when_full="raise"`. `buffer` bounds the messages that wait for a reader of `changes`. Whoever waits can be
    cancelled; what has been submitted stays so.

    Examples:
        >>> import asyncio
        >>> async def main():
        ...     kb = tidelog.KnowledgeBase("on(X) :- switch(X).")
        ...     async with kb.live_async() as live:
        ...         number = await live.submit(add={"switch": [("lamp",)]})
        ...         await live.settled_at(number)
        ...         return await live.query("on(X)")
        >>> asyncio.run(main())
        [{'X': 'lamp'}]
    """

    def __init__(self, knowledge: Knowledge, backlog: int | None, when_full: str, buffer: int) -> None:
        if type(buffer) is not int or buffer < 1:
            raise TidelogError(f"a buffer holds a number of messages, at least one, not {buffer!r}")
        self._knowledge = knowledge
        self._live = Live(knowledge, backlog, when_full)
        self._intake = self._live._intake
        self._buffer = buffer
        self._threads: ThreadPoolExecutor | None = None
        self._turn = asyncio.Lock()  # of whoever submits, so that updates keep their order
        # Who waits for room (the one who has the turn), for an update, by its number, and for all updates up to one.
        self._for_room: list[asyncio.Future[None]] = []
        self._waiting: dict[int, dict[asyncio.Future[None], None]] = {}
        self._waiting_for_all: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap
        self._order = count()
        self._ready: deque[asyncio.Future[None]] = deque()  # those who need no longer wait, and are still to be told
        self._followed: WeakSet[Changes] = WeakSet()
        # Net changes, or why there are none, that somebody waited for who was cancelled.
        self._unclaimed: deque[Future[Change]] = deque()

    # --- the context --------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._threads is not None:
            raise TidelogError("this live knowledge base is in use already; `kb.live_async()` gives another one")
        self._threads = ThreadPoolExecutor(thread_name_prefix="tidelog-async")
        loop = asyncio.get_running_loop()

        def tell(numbers: Sequence[int]) -> None:
            with suppress(RuntimeError):  # The loop is closed, and nobody waits any more.
                loop.call_soon_threadsafe(self._progressed, numbers)

        self._intake.on_settled = tell
        entered = self.begin(self._live.__enter__)
        try:
            await asyncio.wrap_future(entered)
        except BaseException:
            if not entered.cancelled():
                entered.add_done_callback(lambda _: self._live.leave())
            self._end_threads()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self._all_settled(self._intake.submitted)
                await self._in_thread(self._intake.raise_refused)
        finally:
            for changes in tuple(self._followed):
                changes.close()
            self._live.leave()
            self._end_threads()

    def _end_threads(self) -> None:
        assert self._threads is not None
        self._threads.shutdown(wait=False)
        self._threads = None

    def _progressed(self, numbers: Sequence[int]) -> None:
        """Updates are settled: tell those who wait, some now and the others when the loop has looked at all else."""
        loop, ready, for_all = asyncio.get_running_loop(), self._ready, self._waiting_for_all
        ready.extend(self._for_room)
        self._for_room.clear()
        for number in numbers[:MOST_TOLD]:
            ready.extend(self._waiting.pop(number, ()))
        for _ in range(MOST_TOLD):
            if for_all and for_all[0][0] <= self._intake.settled:
                ready.append(heappop(for_all)[2])
            # It may have been cancelled, or be of a loop that has ended.
            if ready and not (waiting := ready.popleft()).done() and waiting.get_loop() is loop:
                waiting.set_result(None)
        left = numbers[MOST_TOLD:]
        if left or ready or (for_all and for_all[0][0] <= self._intake.settled):
            loop.call_soon(self._progressed, left)

    def _in_thread(self, function: Callable[[], Found]) -> asyncio.Future[Found]:
        return asyncio.wrap_future(self.begin(function))

    def begin(self, function: Callable[[], Found]) -> Future[Found]:
        """Let a thread call a function."""
        if self._threads is None:
            raise TidelogError("a live knowledge base works within `async with kb.live_async() as live:`")
        return self._threads.submit(copy_context().run, function)

    # --- updates ------------------------------------------------------------------------------------------------------

    async def submit(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        priority: int = 0,
        client: Hashable = None,
        at: Time | None = None,
    ) -> int:
        """Take in an update; its number, counted from 1. If this is cancelled while it waits for room, the update is
        not taken in. For `priority`, `client` and `at`, see `Live.submit`.
        """
        check_priority(priority)
        async with self._turn:
            while not self._live.has_room():
                self._live.refuse_if_full()
                self._for_room.append(waiting := _future())
                await waiting
            return await self._in_thread(
                lambda: self._live.take(given_update(add, delete, add_rules, remove_rules, at), priority, client)
            )

    async def update(
        self,
        add: GivenFacts = None,
        delete: GivenFacts = None,
        add_rules: str = "",
        remove_rules: str = "",
        at: Time | None = None,
    ) -> int:
        """Submit an update, and wait until it can be seen; its number. Raises its error if it is refused."""
        number = await self.submit(add, delete, add_rules, remove_rules, at=at)
        await self.settled_at(number)
        return number

    async def settled_at(self, number: int) -> None:
        """Wait until an update can be seen; others before it may be in work. Raises its error if it was refused."""
        if not 0 <= number <= self._intake.submitted:
            raise TidelogError(f"there is no update {number}: {self._intake.submitted} have been submitted")
        if not self._intake.is_settled(number):
            waiting = _future()
            others = self._waiting.setdefault(number, {})
            others[waiting] = None
            try:
                await waiting
            finally:
                others.pop(waiting, None)
        refusal = self._intake.take_refusal(number)
        if refusal is not None:
            raise refusal

    async def _all_settled(self, number: int) -> None:
        """Wait until an update and all before it are settled."""
        if self._intake.settled < number:
            heappush(self._waiting_for_all, (number, next(self._order), waiting := _future()))
            await waiting

    async def settle(self) -> Change:
        """Wait for all that was submitted before; the net change since the last time. If this is cancelled, the next
        `settle` has the change as well.
        """
        await self._all_settled(self._intake.submitted)
        taken = self.begin(self._take_change)
        try:
            return await asyncio.wrap_future(taken)
        except asyncio.CancelledError:
            if not taken.cancelled():
                self._unclaimed.append(taken)
            raise

    def _take_change(self) -> Change:
        """The net change of what has been settled, and of what nobody has got."""
        changes: list[Change] = []
        try:
            while (earlier := self._next_unclaimed()) is not None:
                changes.append(earlier.result())
            changes.append(self._live.take_change())
            if len(changes) == 1:
                return changes[0]
            with self._knowledge.lock.working():
                return self._intake.net(changes)
        except BaseException:
            self._unclaimed.extendleft(map(_done, reversed(changes)))
            raise

    def _next_unclaimed(self) -> Future[Change] | None:
        try:
            return self._unclaimed.popleft()
        except IndexError:  # There is none, or another thread has just taken it.
            return None

    @property
    def pending(self) -> int:
        """How many submitted updates are not settled yet."""
        return self._live.pending

    @property
    def settled(self) -> int:
        """The number of the last update that is settled; those before it are settled, too."""
        return self._live.settled

    # --- questions ----------------------------------------------------------------------------------------------------

    async def query(self, text: str | Query, /, **values: object) -> Answers:
        """The answers of a query, as `kb.query` gives them."""
        return await self._in_thread(partial(self._knowledge.questions.query, text, values))

    def changes(self, query: str | Query, /, **values: object) -> Changes:
        """The answers of a query, and then what comes and what goes, as messages to iterate over.

        A reader who is slower than the updates gets several of them in one message, which has their net difference.

        Examples:
            >>> import asyncio
            >>> async def main():
            ...     kb = tidelog.KnowledgeBase("edge(hub, a).")
            ...     async with kb.live_async() as live:
            ...         async for change in live.changes("edge(hub, X)"):
            ...             print(change)
            ...             if not change.first:
            ...                 break
            ...             await live.submit(add={"edge": [("hub", "b")]})
            >>> asyncio.run(main())
            <AnswerChange: update 1, + 1, - 0>
            <AnswerChange: update 2, + 1, - 0>
        """
        changes = Changes(self, self._knowledge, query, values, self._buffer)
        self._followed.add(changes)
        return changes


class Changes(AsyncIterator[AnswerChange]):
    """The messages of a subscription. It ends with `close`, with the `async with` that it belongs to, or when nobody
    holds it any more: after `break` in a loop over it.

    Examples:
        >>> import asyncio
        >>> async def main():
        ...     async with tidelog.KnowledgeBase("edge(hub, a).").live_async() as live:
        ...         changes = live.changes("edge($from, X)", **{"from": "hub"})
        ...         print((await anext(changes)).added)
        ...         await live.submit(delete={"edge": [("hub", "a")]})
        ...         print((await anext(changes)).removed)
        >>> asyncio.run(main())
        [{'X': 'a'}]
        [{'X': 'a'}]
    """

    def __init__(self, live: AsyncLive, knowledge: Knowledge, query: str | Query, values: Values, buffer: int) -> None:
        self._inbox = inbox = Inbox(asyncio.get_running_loop(), buffer)
        # The subscription knows the inbox, and not this: otherwise somebody would always hold it.
        self._subscribed: Future[Subscription] = live.begin(
            lambda: knowledge.subscriptions.subscribe(query, inbox.put, values, lambda ended: inbox.end(ended.error))
        )

    async def __anext__(self) -> AnswerChange:
        if not self._subscribed.done():
            await asyncio.wait([asyncio.wrap_future(self._subscribed)])
        if not self._inbox.ended:
            self._subscribed.result()  # raises what is wrong with the query
        return await self._inbox.get()

    def close(self) -> None:
        """Hear of nothing any more. What has arrived can still be read."""
        if not self._subscribed.cancel():
            self._subscribed.add_done_callback(_close)
        self._inbox.end()

    async def aclose(self) -> None:
        """The same, for `contextlib.aclosing`."""
        self.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # It may not even have begun.
            self.close()


def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


def _done(change: Change) -> Future[Change]:
    future: Future[Change] = Future()
    future.set_result(change)
    return future


def _close(subscribed: Future[Subscription]) -> None:
    if subscribed.exception() is None:
        subscribed.result().close()
