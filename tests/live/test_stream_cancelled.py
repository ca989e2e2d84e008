"""Asynchronous streams whose reader is cancelled: no update and no change is lost, wherever that happens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tidelog import KnowledgeBase, TidelogError
from tidelog.facts.results import Change
from tidelog.live import async_streams as streaming

RULES = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z)."
BAD = {"add": {"edge": [("a",)]}}
UPDATES: list[Mapping[str, Any]] = [
    {"add": {"edge": [(number, number + 1)]}} if number % 3 else {"delete": {"edge": [(number - 2, number - 1)]}}
    for number in range(1, 10)
]
EXPECTED = [str(change) for change in KnowledgeBase(RULES).stream(UPDATES)]


class Broken(Exception):
    """An error that a source raises."""


class Items:
    """A source that continues after raising, and yields to the loop a given number of times before each update."""

    def __init__(self, items: list[Any], pauses: int = 2) -> None:
        self._items = iter(items)
        self._pauses = pauses

    def __aiter__(self) -> Items:
        return self

    async def __anext__(self) -> Any:
        for _ in range(self._pauses):
            await asyncio.sleep(0)
        item = next(self._items, StopAsyncIteration())
        if isinstance(item, Exception):
            raise item
        return item


async def generated(items: list[Any]) -> AsyncIterator[Any]:
    for item in items:
        await asyncio.sleep(0)
        yield item
        await asyncio.sleep(0)


async def told(stream: AsyncIterator[Change], ticks: int | None) -> str | None:
    """The next change or error as a text, requested by a task that is cancelled after some turns of the loop."""
    task = asyncio.ensure_future(anext(stream))
    if ticks is not None:
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
    try:
        return str(await task)
    except asyncio.CancelledError:
        return None
    except (TidelogError, Broken) as error:
        return type(error).__name__


async def cancelled_everywhere(stream: AsyncIterator[Change], ticks: int) -> list[str]:
    """Everything that a stream yields if each change is requested twice, first by a task that does not wait."""
    found: list[str] = []
    while True:
        try:
            for patience in (ticks, None):
                text = await told(stream, patience)
                if text is not None:
                    found.append(text)
        except StopAsyncIteration:
            return found


@pytest.mark.plain
@pytest.mark.parametrize("marking", [0, 1, 3])
@pytest.mark.parametrize("source", [Items, generated])
@pytest.mark.parametrize("ticks", range(12))
def test_nothing_is_lost_at_any_turn_of_the_loop(ticks: int, source: Any, marking: int) -> None:
    kb = KnowledgeBase(RULES)
    stream = kb.stream(source(UPDATES), marking=marking)
    assert asyncio.run(cancelled_everywhere(stream, ticks)) == EXPECTED
    again = KnowledgeBase(RULES)
    for update in UPDATES:
        again.update(**update)
    assert set(kb.facts("path")) == set(again.facts("path"))


@pytest.mark.plain
@pytest.mark.parametrize("marking", [0, 1, 3])
@pytest.mark.parametrize("ticks", range(8))
def test_errors_come_once_and_in_their_place(ticks: int, marking: int) -> None:
    items = [UPDATES[0], BAD, Broken(), UPDATES[1], BAD, Broken(), Broken(), *UPDATES[2:]]
    stream = KnowledgeBase(RULES).stream(Items(items), marking=marking)
    expected = [EXPECTED[0], "ArityError", "Broken", EXPECTED[1], "ArityError", "Broken", "Broken", *EXPECTED[2:]]
    assert asyncio.run(cancelled_everywhere(stream, ticks)) == expected


class Gate:
    """Holds updates back in their thread until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()
        apply = streaming.apply_observed

        def held(*arguments: Any) -> Change:
            self.reached.set()
            assert self._open.wait(30)
            return apply(*arguments)

        monkeypatch.setattr(streaming, "apply_observed", held)

    def open(self) -> None:
        self._open.set()


async def cancelled_in_work(stream: AsyncIterator[Change], gate: Gate) -> None:
    """Ask for a change, and leave while its update is in work."""
    task = asyncio.ensure_future(anext(stream))
    while not gate.reached.is_set():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("marking", [0, 1, 3])
def test_an_update_in_work_goes_on(monkeypatch: pytest.MonkeyPatch, marking: int) -> None:
    async def run() -> list[str]:
        gate = Gate(monkeypatch)
        stream = KnowledgeBase(RULES).stream(Items(UPDATES), marking=marking)
        await cancelled_in_work(stream, gate)
        asyncio.get_running_loop().call_later(0.01, gate.open)
        return [str(change) async for change in stream]

    assert asyncio.run(run()) == EXPECTED


def test_a_change_waits_for_another_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first loop ends while the update is in work; what it awaited is the source's own to give again."""
    gate = Gate(monkeypatch)
    stream = KnowledgeBase(RULES).stream(Items(UPDATES), marking=False)
    asyncio.run(cancelled_in_work(stream, gate))
    gate.open()

    async def rest() -> list[str]:
        return [str(change) async for change in stream]

    assert asyncio.run(rest()) == EXPECTED


@pytest.mark.parametrize("marking", [0, 1, 3])
def test_a_stream_is_read_in_one_loop_after_the_other(marking: int) -> None:
    """Each loop cancels what it still awaits when it ends: the update after those that were asked for."""
    stream = KnowledgeBase(RULES).stream(Items(UPDATES, pauses=5), marking=marking)

    async def next_one() -> str:
        return str(await anext(stream))

    assert [asyncio.run(next_one()) for _ in UPDATES] == EXPECTED


def test_who_waits_too_short_a_time_loses_nothing() -> None:
    async def run() -> list[str]:
        stream = KnowledgeBase(RULES).stream(Items(UPDATES))
        found = []
        while True:
            try:
                found.append(str(await asyncio.wait_for(anext(stream), 0.0002)))
            except TimeoutError:
                continue
            except StopAsyncIteration:
                return found

    assert asyncio.run(run()) == EXPECTED


def test_two_readers_take_turns() -> None:
    async def run() -> list[str]:
        stream = KnowledgeBase(RULES).stream(Items(UPDATES))
        return [str(change) for change in await asyncio.gather(*(anext(stream) for _ in UPDATES))]

    assert asyncio.run(run()) == EXPECTED
