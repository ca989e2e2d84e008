"""The fully dynamic mode in an event loop: order, room, cancellation, and a loop that stays free."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from functools import wraps
from types import FrameType

import pytest

from live_util import PATHS, chain
from tidelog import ArityError, KnowledgeBase, LimitError, TidelogError
from tidelog.facts.results import Change, row_identity
from tidelog.live import async_live
from tidelog.live.async_live import AsyncLive
from tidelog.live.merging import merged
from tidelog.live.subscriptions import AnswerChange


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that runs in an event loop, and fails where it takes too long."""

    @wraps(test)
    def run(**arguments: object) -> None:
        async def limited() -> None:
            await asyncio.wait_for(test(**arguments), 120)

        asyncio.run(limited())

    return run


@contextmanager
def held(kb: KnowledgeBase) -> Iterator[None]:
    """Another thread holds the knowledge base: nothing is settled meanwhile."""
    taken, release = threading.Event(), threading.Event()

    def hold() -> None:
        with kb._lock.bare():
            taken.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        release.set()
        thread.join()


class Steps:
    """Counts what each step of the event loop calls, in Python and in C; and where it is code of tidelog that reads or
    derives facts, whose calls say little of what they do, the names of its files.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = self._calls = 0
        self.working: set[str] = set()
        self.run = asyncio.events.Handle._run
        monkeypatch.setattr(asyncio.events.Handle, "_run", lambda handle: self._step(handle))

    def _step(self, handle: asyncio.Handle) -> None:
        self._calls = 0
        sys.setprofile(self._called)
        try:
            self.run(handle)
        finally:
            sys.setprofile(None)
            self.most = max(self.most, self._calls)

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self._calls += 1
            name = frame.f_code.co_filename
            if any(f"/tidelog/{folder}/" in name for folder in ("language", "store", "engine", "joins", "closures")):
                self.working.add(name)


@asynccontextmanager
async def beating() -> AsyncIterator[list[float]]:
    """The CPU time that the thread of the loop takes from one beat of a millisecond to the next. That of looking
    through everything that earlier tests have left is not counted.
    """
    beats: list[float] = []
    gc.collect()
    gc.freeze()

    async def beat() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            beats.append(time.thread_time() - before)

    task = asyncio.create_task(beat())
    try:
        yield beats
    finally:
        gc.unfreeze()
        task.cancel()


async def cancelled(waiting: Awaitable[object]) -> None:
    """Wait for a moment, and then give up."""
    task = asyncio.ensure_future(waiting)
    await asyncio.sleep(0.02)
    assert not task.done()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.001)


# --- updates


@in_loop
async def test_updates_are_numbered_in_the_order_in_which_they_were_submitted() -> None:
    kb = KnowledgeBase(PATHS)
    async with kb.live_async() as live:
        updates = [{"add": chain(1)} if place % 2 else {"delete": chain(1)} for place in range(20)]
        assert await asyncio.gather(*(live.submit(**update) for update in updates)) == list(range(1, 21))
        assert (await live.settle()).added["edge"] == {(0, 1)}
        assert (live.pending, live.settled) == (0, 20)
        assert await live.update(add=chain(2)) == 21
        assert await live.query("path(0, X)") == [{"X": 1}, {"X": 2}]
        assert await live.query("path($x, X)", x=1) == [{"X": 2}]
    assert len(kb.facts("path")) == 3


@in_loop
async def test_submit_waits_for_room_and_is_not_taken_in_if_it_is_cancelled() -> None:
    kb = KnowledgeBase(PATHS)
    async with kb.live_async(backlog=2) as live:
        with held(kb):
            await live.submit(add=chain(1))
            await live.submit(add=chain(2))
            await cancelled(live.submit(add=chain(5)))
            waiting = asyncio.create_task(live.submit(add=chain(3)))
            await asyncio.sleep(0.02)
            assert not waiting.done()
            assert live.pending == 2
        assert await waiting == 3
        await live.settle()
    assert len(kb.facts("edge")) == 3


@in_loop
async def test_submit_refuses_where_that_is_wanted() -> None:
    kb = KnowledgeBase(PATHS)
    async with kb.live_async(backlog=1, when_full="raise") as live:
        with held(kb):
            await live.submit(add=chain(1))
            with pytest.raises(LimitError, match="the backlog holds 1"):
                await live.submit(add=chain(2))


@in_loop
async def test_whoever_waits_may_be_cancelled_and_nothing_is_lost() -> None:
    kb = KnowledgeBase(PATHS)
    async with kb.live_async() as live:
        with held(kb):
            number = await live.submit(add=chain(1))
            await cancelled(live.settle())
            await cancelled(live.settled_at(number))
        await live.settled_at(number)
        with held(kb):
            # It waits for the net change alone.
            await cancelled(live.settle())
        await until(lambda: bool(live._unclaimed))
        await live.submit(add={"edge": [(1,)]})
        await live.submit(add=chain(2))
        with pytest.raises(ArityError):
            await live.settle()
        assert (await live.settle()).added["edge"] == {(0, 1), (1, 2)}
        assert not await live.settle()


@in_loop
async def test_changes_of_nothing_are_part_of_a_net_change() -> None:
    """Somebody who gave up waited for the net change of no updates."""
    kb = KnowledgeBase(PATHS)
    async with kb.live_async() as live:
        for number in range(2):
            with held(kb):
                await cancelled(live.settle())
            await until(lambda: live._unclaimed[0].done())
            await live.settled_at(await live.submit(add=chain(1, first=number)))
            if number:
                with held(kb):
                    await cancelled(live.settle())
                await until(lambda: all(change.done() for change in live._unclaimed))
            change = await live.settle()
            assert change.added["edge"] == {(number, number + 1)}
            assert not live._unclaimed


@in_loop
async def test_an_update_that_is_refused_raises_for_whoever_waits_for_it() -> None:
    async with KnowledgeBase(PATHS).live_async() as live:
        bad = await live.submit(add={"edge": [(1,)]})
        good = await live.submit(add=chain(1))
        await live.settled_at(good)
        with pytest.raises(ArityError, match="edge"):
            await live.settled_at(bad)
        assert (await live.settle()).added["edge"] == {(0, 1)}  # It has been told.
        with pytest.raises(ArityError):
            await live.update(delete={"edge": [(1,)]})
        await live.submit(add={"edge": [(1,)]})
        with pytest.raises(ArityError):
            await live.settle()
        with pytest.raises(TidelogError, match="there is no update 99"):
            await live.settled_at(99)


@in_loop
async def test_leaving_settles_unless_something_was_raised() -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live_async()

    async def submit_and_fail(stack: ExitStack) -> None:
        async with live:
            stack.enter_context(held(kb))
            await live.submit(add=chain(1))
            raise RuntimeError("within")

    with ExitStack() as stack:
        with pytest.raises(RuntimeError, match="within"):
            await submit_and_fail(stack)
        assert live.pending == 1
    with pytest.raises(TidelogError, match="async with"):
        await live.submit(add=chain(2))
    async with live:
        await live.submit(add=chain(1, first=1))
    assert len(kb.facts("edge")) == 2


# --- changes


@in_loop
async def test_changes_begin_with_the_answers_and_then_say_what_comes_and_goes() -> None:
    kb = KnowledgeBase(PATHS + "edge(0, 1).")
    async with kb.live_async() as live:
        messages = live.changes("path($x, X), X != 2", x=0)
        first = await anext(messages)
        assert first.first
        assert first.added == [{"X": 1}]
        await live.submit(add=chain(3))
        assert (await anext(messages)).added == [{"X": 3}]
        await cancelled(anext(messages))
        await live.submit(delete=chain(1))
        assert len((await anext(messages)).removed) == 2
        waiting = asyncio.ensure_future(anext(messages))
        await asyncio.sleep(0.02)
    with pytest.raises(StopAsyncIteration):
        await waiting


@in_loop
async def test_nobody_who_left_is_subscribed() -> None:
    kb = KnowledgeBase(PATHS)
    async with kb.live_async() as live:
        async for _ in live.changes("path(0, X)"):
            break
        async with aclosing(live.changes("path(X, 0)")) as messages:
            await anext(messages)
        with held(kb):
            live.changes("path(X, X)").close()  # before it has even begun
        gc.collect()
        await live.update(add=chain(1))
        assert not kb._knowledge.subscriptions._watched


@pytest.mark.filterwarnings("ignore::tidelog.UnknownPredicateWarning")
@in_loop
async def test_a_query_that_cannot_be_asked_raises_where_it_is_awaited() -> None:
    async with KnowledgeBase(PATHS).live_async() as live:
        with pytest.raises(ArityError):
            await anext(live.changes("edge(X)"))
        messages = live.changes("later(X, Y)")
        await anext(messages)
        await live.submit(add={"later": [(1,)]})
        with pytest.raises(ArityError, match="another number of arguments now"):
            await anext(messages)
    with pytest.raises(TidelogError, match="at least one"):
        KnowledgeBase().live_async(buffer=0)


@in_loop
async def test_a_slow_reader_gets_the_net_difference() -> None:
    kb = KnowledgeBase(PATHS)
    async with kb.live_async(buffer=3) as live:
        messages = live.changes("edge(X, Y)")
        for number in range(20):
            await live.update(add=chain(1, first=number), delete=chain(1, first=number - 2))
        await until(lambda: not kb._knowledge.subscriptions._queue)
        read: list[AnswerChange] = []
        while not read or read[-1].update < kb.version:
            read.append(await anext(messages))
    assert len(read) <= 3
    assert read[0].first
    net = merged(read)
    assert {tuple(row) for row in net.added.rows()} == {(18, 19), (19, 20)}
    assert not len(net.removed)


def test_merged_messages_say_the_same_together() -> None:
    kb = KnowledgeBase()
    messages: list[AnswerChange] = []
    values = (1, 1.0, "1", True, "a")
    with kb.subscribe("value(X)", messages.append):
        for value in values:
            kb.update(add={"value": [(value,)]})
        kb.update(delete={"value": [(1.0,), ("a",)]})
        kb.update(add={"value": [("a",)]}, delete={"value": [(1,)]})
    net = merged(messages)
    assert net.first
    assert net.update == 7
    assert set(map(row_identity, net.added.rows())) == set(map(row_identity, kb.query("value(X)").rows()))
    later = merged(messages[4:])
    assert not later.first
    assert set(map(row_identity, later.removed.rows())) == {row_identity((1,)), row_identity((1.0,))}
    assert set(map(row_identity, later.added.rows())) == {row_identity((True,)), row_identity(("a",))}
    assert merged([messages[0]]) is messages[0]


@pytest.mark.parametrize("seed", range(4))
@in_loop
async def test_whatever_is_cancelled_when_the_answers_add_up(seed: int) -> None:
    dice = random.Random(seed)
    kb = KnowledgeBase(PATHS)
    numbers: list[int] = []
    changes: list[Change] = []
    answers: set[tuple[object, ...]] = set()

    async def work(live: AsyncLive) -> None:
        for _ in range(10):
            edges = {"edge": [(dice.randrange(8), dice.randrange(8)) for _ in range(3)]}
            numbers.append(await live.submit(**{dice.choice(("add", "delete")): edges}))
            if dice.random() < 0.3:
                changes.append(await live.settle())
            elif dice.random() < 0.3:
                await live.settled_at(numbers[-1])

    async def follow(live: AsyncLive) -> None:
        async for message in live.changes("path(0, X), not edge(X, 0)"):
            answers.difference_update(message.removed.rows())
            answers.update(message.added.rows())

    async with kb.live_async(backlog=dice.choice((1, 3, None)), buffer=dice.choice((1, 64))) as live:
        follower = asyncio.create_task(follow(live))
        workers = [asyncio.create_task(work(live)) for _ in range(4)]
        for worker in workers[:3]:
            await asyncio.sleep(0.02 * dice.random())
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        changes.append(await live.settle())
        assert live.settled >= max(numbers)
        await until(lambda: answers == set(kb.query("path(0, X), not edge(X, 0)").rows()))
    await follower
    assert len(set(numbers)) == len(numbers)
    edges = Counter(row for change in changes for row in change.added.get("edge", ()))
    edges.subtract(row for change in changes for row in change.removed.get("edge", ()))
    assert {row for row, count in edges.items() if count} == set(kb.facts("edge"))


# --- the loop


@in_loop
async def test_the_loop_is_free_whoever_has_the_knowledge_base() -> None:
    kb = KnowledgeBase(PATHS)
    async with kb.live_async(backlog=1) as live, beating() as beats:
        await live.submit(add=chain(1))
        with held(kb):
            works = [live.submit(add=chain(3)), live.submit(add=chain(4)), live.settle(), live.query("path(X, Y)")]
            tasks = [asyncio.ensure_future(work) for work in works]
            tasks.append(asyncio.ensure_future(anext(live.changes("path(0, X)"))))
            await asyncio.sleep(0.01)
            before = len(beats)
            await until(lambda: len(beats) > before + 10)
        await asyncio.gather(*tasks)


@in_loop
async def test_the_loop_does_not_do_the_work() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    rows = [(number, f"text {number}") for number in range(50_000)]
    async with kb.live_async() as live, beating() as beats:
        follower = asyncio.ensure_future(anext(live.changes("large(X, Y), X < 10")))
        for add in ({"large": rows}, chain(150), chain(100, first=400)):
            await live.submit(add=add)
        change = await live.settle()
        await follower
    assert len(change.added["path"]) == 150 * 151 // 2 + 100 * 101 // 2
    assert max(beats) < 0.1


@in_loop
async def test_every_step_of_the_loop_is_short_however_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in calls: many who wait are told at once, many updates are refused, and a large change is delivered."""
    many = 400
    monkeypatch.setattr(async_live, "MOST_TOLD", 16)
    kb = KnowledgeBase("q(X) :- p(X).")
    rows = [(f"text {number}",) for number in range(50 * many)]
    parts = [rows[first : first + 10 * many] for first in range(0, len(rows), 10 * many)]
    live = kb.live_async(buffer=1)
    await live.__aenter__()
    changes = live.changes("q(X)")
    await anext(changes)
    steps = Steps(monkeypatch)
    with held(kb):
        waiting = []
        for number in range(many):
            wrong = [(number, number)] if number % 2 else [(number,)]
            done = live.settled_at(await live.submit(add={"p": wrong}))
            # Half of them wait for their own update, the others for the first one.
            waiting += [asyncio.ensure_future(done if number % 4 < 2 else live.settled_at(1))]
            if number % 4 > 1:
                done.close()
            if number % 8 == 0:
                waiting.append(asyncio.ensure_future(live.settle()))
            await asyncio.sleep(0)
    for task in waiting:
        await asyncio.sleep(0)  # To look at many that are done is not to be one step.
        with suppress(ArityError):
            await task
    for part in parts:
        await live.update(add={"p": part})
    message = await anext(changes)
    assert message.update > 1
    with suppress(ArityError):
        await live.__aexit__(None)
    assert steps.most < many
    assert not steps.working
