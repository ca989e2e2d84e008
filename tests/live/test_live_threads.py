"""The fully dynamic mode in several threads: nobody waits for what is in work, or for work that nobody does."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from audit import audit
from engine_util import ALGORITHMS, knowledge_base
from generate import EVERYTHING, soak
from live_util import PATHS, chain, check_settled, in_the_middle
from naive import Update
from tidelog import KnowledgeBase
from tidelog.live.backlog import Submission
from tidelog.live.worker import Worker


def test_threads_that_submit_and_read_while_one_works() -> None:
    """Each writer has its own edges. A reader sees only whole updates: both edges of a pair, or neither."""
    kb = KnowledgeBase(PATHS, modules=False)
    problems: list[object] = []
    done = threading.Event()

    def write(writer: int) -> None:
        for number in range(40):
            pair = {"edge": [(writer, 100 * writer + number), (100 * writer + number, -writer)]}
            live.submit(add=pair)
            if number % 3 == 0:
                live.submit(delete=pair)

    def read() -> None:
        seen = 0
        while not done.is_set():
            snapshot = live.snapshot()
            if snapshot.updates < seen:
                problems.append("a snapshot went back in time")
            seen = snapshot.updates
            for facts in (snapshot.facts("edge"), set(kb.facts("edge"))):
                firsts = {middle for first, middle in facts if 0 < first < 10}
                seconds = {middle for middle, last in facts if last < 0}
                if firsts != seconds:
                    problems.append((firsts, seconds))

    with kb.live(backlog=50) as live:
        writers = [threading.Thread(target=write, args=(writer,)) for writer in range(1, 4)]
        readers = [threading.Thread(target=read) for _ in range(2)]
        for thread in writers + readers:
            thread.start()
        for thread in writers:
            thread.join()
        live.settle()
        done.set()
        for thread in readers:
            thread.join()
    assert problems == []
    assert live.pending == 0
    assert len(kb.explicit("edge")) == 3 * 2 * (40 - 14)


def test_submit_does_not_wait_for_what_is_in_work() -> None:
    """A function that blocks holds up the work, but nobody else."""
    started, go_on = threading.Event(), threading.Event()
    kb = KnowledgeBase()

    def slow(value: int) -> int:
        started.set()
        assert go_on.wait(30)
        return value

    kb.register("slow", slow)
    kb.add_rules("p(Y) :- q(X), Y = slow(X).")
    with kb.live() as live:
        live.submit(add={"q": [(1,)]})
        assert started.wait(30)
        live.submit(add={"q": [(2,)]})
        assert live.pending == 2
        go_on.set()
        assert set(live.settle().added["p"]) == {(1,), (2,)}


@pytest.mark.parametrize("seed", range(6))
def test_threads_that_submit_whatever_they_like(seed: int) -> None:
    """Updates of a random program from several threads: the result is that of the order in which they were taken in."""
    case, stream = soak(8000 + seed, EVERYTHING, length=24)
    updates = [update for update in stream if not update.add_rules and not update.remove_rules]
    kb = knowledge_base(case.state, ALGORITHMS[seed % len(ALGORITHMS)], modules=seed % 2 == 0)
    taken: dict[int, Update] = {}

    def write(share: list[Update]) -> None:
        for update in share:
            taken[live.submit(**update.mapping())] = update  # type: ignore[arg-type]

    with kb.live(backlog=5) as live:
        threads = [threading.Thread(target=write, args=(updates[start::3],)) for start in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    state = case.state
    for number in sorted(taken):
        state = state.apply(taken[number])
    check_settled(kb, live, case.state, state)


def test_settle_works_where_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live()
    live.submit(add=chain(5))
    monkeypatch.setattr(threading.Thread, "start", None)
    assert len(live.settle().added["path"]) == 15
    assert live.pending == 0


def test_settle_finishes_what_another_thread_has_begun() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    live = kb.live()
    live.submit(add=chain(300))
    in_the_middle(live)
    live.submit(delete=chain(200, 50))
    live.settle()
    assert len(kb.facts("path")) == 50 * 51 // 2 + 50 * 51 // 2
    audit(kb)


def test_ctrl_c_leaves_updates_pending() -> None:
    def interrupt(value: object) -> object:
        if value == "c" and not interrupted:
            interrupted.append(value)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        return value

    interrupted: list[object] = []
    kb = KnowledgeBase()
    kb.register("slow", interrupt)
    kb.add_rules("slowly(X) :- edge(X, Y), X = slow(X).")
    live = kb.live()
    live.submit(add={"edge": [("a", "b")]})
    live.submit(add={"edge": [("c", "d")]})
    with pytest.raises(KeyboardInterrupt):
        live.settle()
    assert (live.pending, len(kb)) == (2, 0)
    assert set(live.settle().added["slowly"]) == {("a",), ("c",)}


def test_whoever_counts_waits_for_the_update_in_work() -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add=chain(3))
    looks = [lambda: len(kb), lambda: repr(kb), lambda: kb.predicates, lambda: kb.explicit_predicates]
    with kb._lock:
        threads = [threading.Thread(target=look) for look in looks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(0.05)
        assert all(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join()


# --- nobody waits for work that nobody does


def ends(work: Callable[[], object]) -> bool:
    """Whether something ends instead of waiting forever."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    return not thread.is_alive()


def test_settle_all_needs_no_background() -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live()
    live.submit(add=chain(3))
    assert ends(live.settle_all)
    assert len(kb.facts("path")) == 6
    assert len(live.settle().added["path"]) == 6


def test_a_context_within_another_does_not_end_its_work() -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live(backlog=1)
    with live:
        with live:
            live.submit(add=chain(2))
        assert ends(lambda: [live.submit(add=chain(2, first=10 * number)) for number in range(1, 4)])
    assert len(kb.facts("path")) == 12


@pytest.mark.usefixtures("_tiny_slices")
def test_who_waits_for_room_works_himself_when_the_background_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    live = kb.live(backlog=1)
    left = threading.Event()
    monkeypatch.setattr(live._worker, "give_way", left.wait)
    live.__enter__()
    live.submit(add=chain(20))
    waiting = threading.Thread(target=live.submit, kwargs={"add": chain(2, first=100)}, daemon=True)
    waiting.start()
    while not live._lock.condition._waiters:  # type: ignore[attr-defined]
        time.sleep(0.001)
    live.__exit__(RuntimeError)  # with work left to do
    left.set()
    waiting.join(30)
    assert not waiting.is_alive()
    live.settle()
    assert len(kb.facts("path")) == 210 + 3


def test_who_waits_for_room_is_told_when_the_background_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread in the background that fails refuses what waits, and the next one is started by whoever waits."""

    def fail(worker: Worker) -> None:
        raise MemoryError("no more")

    monkeypatch.setattr(Worker, "_work_on_next", fail)
    live = KnowledgeBase().live(backlog=1)

    told: list[BaseException] = []

    def submit() -> None:
        try:
            with live:
                for number in range(5):
                    live.submit(add={"edge": [(number, number)]})
        except MemoryError as error:
            told.append(error)

    thread = threading.Thread(target=submit, daemon=True)
    thread.start()
    thread.join(20)
    assert len(told) == 1


def test_who_submits_without_end_does_not_keep_others_from_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live()
    take_in = live._intake.take_in_next
    taken: list[int] = []

    def take_in_and_submit() -> None:
        take_in()
        taken.append(live._intake.submitted)
        if len(taken) < 500:
            live._intake.submitted += 1
            live._intake.incoming.append(Submission(live._intake.submitted, {"add": chain(1, first=2 * len(taken))}))

    monkeypatch.setattr(live._intake, "take_in_next", take_in_and_submit)
    live.submit(add=chain(1))
    live.step()
    assert len(taken) < 100
