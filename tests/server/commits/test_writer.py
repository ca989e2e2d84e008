"""The thread that makes the updates of a server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
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
