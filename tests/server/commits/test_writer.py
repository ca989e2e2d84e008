"""The thread that makes the updates of a server, and what they do that are committed together."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog import KnowledgeBase
from tidelog.server.commits import writer
from tidelog.server.commits.history import Commit, commit_of
from tidelog.server.commits.store import ServedStore
from tidelog.server.commits.writer import UpdateJob, Writer
from tidelog.server.settings import Limits, Settings
from tidelog.server.tokens import EVERYBODY


def updated(store: ServedStore, updates: int) -> list[int]:
    """The numbers of updates that are made one after the other."""

    async def update() -> list[int]:
        loop = asyncio.get_running_loop()
        made = Writer(store, loop, lambda *_: None)
        made.start()
        numbers = []
        for number in range(updates):
            job = UpdateJob({"add": {"p": [(number,)]}}, loop.create_future(), EVERYBODY)
            made.submit(job)
            numbers.append(json.loads(await asyncio.wait_for(job.answer, 30))["update"])
        await made.stop()
        return numbers

    return asyncio.run(update())


@pytest.mark.parametrize("problem", [MemoryError, RuntimeError, OSError])
def test_a_snapshot_that_cannot_be_made_ends_nothing(
    problem: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has it all. The thread goes on with the next update."""
    KnowledgeBase("p(a).").save(tmp_path / "store")
    store = ServedStore(Settings(store=tmp_path / "store", limits=Limits(compact=1)))

    def save() -> None:
        raise problem

    monkeypatch.setattr(store, "save", save)
    assert updated(store, 3) == [1, 2, 3]
    assert len(store.kb.facts("p")) == 4
    store.close()


def test_an_update_counts_even_if_nobody_can_keep_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KnowledgeBase("p(a).").save(tmp_path / "store")
    store = ServedStore(Settings(store=tmp_path / "store"))
    failures = iter([MemoryError()])

    def failing(*arguments: Any) -> Commit:
        for failure in failures:
            raise failure
        return commit_of(*arguments)

    monkeypatch.setattr(writer, "commit_of", failing)
    assert updated(store, 3) == [1, 2, 3]
    assert store.history.number == store.number() == 3
    assert not store.history.reaches(0)
    assert store.history.reaches(1)
    store.close()


def together(store: ServedStore, *updates: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers to updates that wait at the same time."""

    async def run() -> list[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        made = Writer(store, loop, lambda commit, told: None)
        jobs = [UpdateJob(update, loop.create_future(), EVERYBODY) for update in updates]
        for job in jobs:
            made.submit(job)
        made.start()
        answers = await asyncio.gather(*(job.answer for job in jobs))
        await made.stop()
        return list(map(json.loads, answers))

    return asyncio.run(run())


def test_a_predicate_is_one_however_it_is_spelt(tmp_path: Path) -> None:
    (tmp_path / "program.dlog").write_text("@prefix ex: <http://example.org/> .  @predicate ex:p/1.")
    store = ServedStore(Settings(tmp_path / "store", program=str(tmp_path / "program.dlog")))
    short, full = "ex:p", "<http://example.org/p>"
    answers = together(
        store,
        {"add": {short: [("a",), ("b",)]}},
        {"delete": {full: [("a",)]}},
        {"delete": {full: [("c",)]}},
        {"add": {short: [("c",)]}},
    )
    assert [answer["together"] for answer in answers] == [4] * 4
    assert set(store.kb.facts(short)) == {("b",), ("c",)}
    store.close()


def test_a_commit_waits_for_as_many_updates_as_the_last_one_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for ever, and not after an update that came alone."""
    KnowledgeBase("p(a).").save(tmp_path / "store")
    store = ServedStore(Settings(store=tmp_path / "store"))
    looks: list[float] = []

    async def run() -> list[int]:
        loop = asyncio.get_running_loop()
        made = Writer(store, loop, lambda commit, told: None)
        jobs = [UpdateJob({"add": {"p": [(n,)]}}, loop.create_future(), EVERYBODY) for n in range(6)]
        later = iter(jobs[3:4])

        def sleep(seconds: float) -> None:
            looks.append(seconds)
            for job in later:
                made.submit(job)

        monkeypatch.setattr(writer, "time", SimpleNamespace(sleep=sleep, perf_counter=time.perf_counter))
        made.submit(jobs[0])
        made.submit(jobs[1])
        made.start()
        together = []
        for job in jobs[1:3] + jobs[4:]:
            if job is not jobs[1]:
                made.submit(job)
            together.append(json.loads(await asyncio.wait_for(job.answer, 30))["together"])
        await made.stop()
        return together

    assert asyncio.run(run()) == [2, 2, 1, 1]
    assert looks == [writer.MOMENT] * (1 + writer.LOOKS)
    store.close()
