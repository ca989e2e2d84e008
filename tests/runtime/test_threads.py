"""Threads and children: who waits for whom, and who is refused."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pyarrow as pa
import pytest

import tidelog.runtime.knowledge_lock
import tidelog.runtime.signals
from tidelog import KnowledgeBase, StorageError, TidelogError
from tidelog.errors import BrokenError
from tidelog.formats.batch import FactBatch

CHAIN = [(number, number + 1) for number in range(2_000)]
PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z), X < 400."


def test_close_waits_for_an_update_in_another_thread(tmp_path: Path) -> None:
    KnowledgeBase(PATHS).save(tmp_path / "kb")
    kb = KnowledgeBase.open(tmp_path / "kb", journal=True)
    begun = threading.Event()
    kb.register("noted", lambda value: (begun.set(), time.sleep(0.2), value)[2])
    kb.add_rules("seen(Y) :- edge(1, X), Y = noted(X).")
    problems: list[BaseException] = []

    def update() -> None:
        try:
            kb.update(add={"edge": CHAIN})
        except TidelogError as problem:
            problems.append(problem)

    thread = threading.Thread(target=update)
    thread.start()
    assert begun.wait(60)
    kb.close()
    # Whatever gets the journal's descriptor now must be left alone.
    other = (tmp_path / "unrelated").open("w+b")
    thread.join()
    other.seek(0)
    assert other.read() == b""
    other.close()
    assert problems == []
    opened = KnowledgeBase.open(tmp_path / "kb", functions={"noted": lambda value: value})
    assert len(opened.facts("edge")) == len(CHAIN)
    assert len(opened) == len(kb)
    with pytest.raises(StorageError, match="has been closed"):
        kb.update(add={"edge": [(-1, 0)]})


def test_a_thread_that_a_function_waits_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.runtime.knowledge_lock, "MOST_OF_A_CALL", 0.2)
    kb = KnowledgeBase()
    told: list[BaseException] = []

    def ask() -> None:
        try:
            kb.query("q(X)")
        except TidelogError as error:
            told.append(error)

    def function(value: int) -> int:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return value

    kb.register("f", function)
    kb.add_rules("r(Y) :- q(X), Y = f(X).")
    assert kb.update(add={"q": [(1,)]}).added["r"] == {(1,)}
    assert len(told) == 1
    assert "has not returned" in str(told[0])


def test_a_thread_that_changes_something_waits_for_many_short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.runtime.knowledge_lock, "MOST_OF_A_CALL", 1.0)
    monkeypatch.setattr(tidelog.runtime.signals, "LOOK_EVERY", 0.01)
    kb = KnowledgeBase()
    inside = threading.Event()
    kb.register("slow", lambda value: (inside.set(), time.sleep(0.05), value)[2])
    kb.add_rules("r(Y) :- q(X), Y = slow(X).")
    thread = threading.Thread(target=kb.update, kwargs={"add": {"q": [(number,) for number in range(30)]}})
    thread.start()
    assert inside.wait(60)
    assert len(kb.facts("r")) == 0
    kb.update(add={"q": [(30,)]})
    assert len(kb.facts("r")) == 31
    thread.join()


def test_prefixes_of_an_update_in_work_are_not_seen() -> None:
    kb = KnowledgeBase()
    inside, go_on = threading.Event(), threading.Event()
    kb.register("wait", lambda value: (inside.set(), go_on.wait(60), value)[2])
    kb.update(add={"q": [(1,)]})
    rules = "@prefix ex: <http://example.org/> . ex:p(Y) :- q(X), Y = wait(X)."
    thread = threading.Thread(target=kb.add_rules, args=(rules,))
    thread.start()
    inside.wait(60)
    threading.Timer(0.1, go_on.set).start()
    assert len(kb.facts("ex:p")) == 0  # of the state before the update, prefixes and facts
    thread.join()
    assert len(kb.facts("ex:p")) == 1


# Code that runs in between


def _asking(kb: KnowledgeBase, told: list[object]) -> Callable[..., None]:
    """Query the knowledge base, and note how many answers there were, or that it was refused."""

    def ask(*_: object) -> None:
        try:
            told.append(len(kb.query("q(X)")))
        except TidelogError:
            told.append("refused")

    return ask


@contextmanager
def _alarms(handler: Callable[..., None], every: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, every, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_handler_may_ask_another_knowledge_base_while_a_program_is_parsed() -> None:
    other, told = KnowledgeBase("q(1)."), list[object]()
    program = "".join(f"p{number}(X) :- r{number}(X, {number}).\n" for number in range(2_000))
    with _alarms(_asking(other, told), 0.01):
        kb = KnowledgeBase(program)
    assert len(kb.rules) == 2_000
    assert 1 in told


def test_a_handler_is_refused_where_the_next_update_waits_for_what_it_interrupts() -> None:
    """The main thread lists changes, and the updates of another thread wait for that. Neither waits forever."""
    size = 1_500
    kb, told = KnowledgeBase("q(1). path(X, Y) :- e(X, Y). path(X, Z) :- path(X, Y), path(Y, Z)."), list[object]()
    middle = {"e": [(size // 2, size // 2 + 1)]}
    changes = [kb.update(add={"e": [(number, number + 1) for number in range(size)]})]
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            changes[0] = kb.update(delete=middle)
            changes[0] = kb.update(add=middle)

    thread = threading.Thread(target=work)
    thread.start()
    end = time.monotonic() + 2
    with _alarms(_asking(kb, told), 0.003):
        while time.monotonic() < end:
            facts = {**changes[0].added, **changes[0].removed}["path"]
            assert len(facts.to_arrow()) == len(facts)
    over.set()
    thread.join()
    assert told


def test_two_threads_read_what_rules_brought_and_took() -> None:
    """One closure replaces another: both halves of the change have to be found in both closures."""
    rules = ("p(X, Z) :- p(X, Y), p(Y, Z).", "p(Y, X) :- p(X, Y).")
    kb = KnowledgeBase("p(X, Y) :- e(X, Y). " + rules[0])
    kb.update(add={"e": [(number, number + 1) for number in range(300)]})
    for number in range(20):
        change = kb.update(
            **{"remove_rules" if number % 2 else "add_rules": rules[1]},
            add={"e": [(1000 + number, 0)]},
            delete={"e": [(number, number + 1)]},
        )
        halves = [facts for facts in (change.added.get("p"), change.removed.get("p")) if facts is not None]
        threads = [threading.Thread(target=facts.to_arrow, daemon=True) for facts in halves]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()


def _queued(updates: list[dict[str, Any]]) -> Queue[Any]:
    queue: Queue[Any] = Queue()
    for update in (*updates, *[None] * SHARERS):
        queue.put(update)
    return queue


SHARERS = 3


@pytest.mark.parametrize("marking", [False, True])
@pytest.mark.parametrize("source", [list, iter, lambda updates: (update for update in updates), _queued])
def test_threads_that_share_a_stream_take_turns(source: Callable[[Any], Any], marking: bool) -> None:
    kb = KnowledgeBase("k(X) :- q(X).")
    stream = kb.stream(source([{"add": {"q": [(number,)]}} for number in range(120)]), marking=marking)
    told: list[tuple[Any, ...]] = []

    def read() -> None:
        for change in stream:
            (row,) = change.added["q"]
            told.append(row)

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=read) for _ in range(SHARERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switching)
    assert sorted(told) == [(number,) for number in range(120)]


def test_a_finalizer_cannot_change_what_its_thread_reads() -> None:
    kb = KnowledgeBase("q(1).")
    with kb._lock:
        assert len(kb) == 1
        with pytest.raises(TidelogError, match="in work in this thread"):
            kb.update(add={"q": [(2,)]})
    assert len(kb) == 1


@pytest.mark.parametrize("given", ["rows", "batches"])
def test_a_thread_that_a_reader_of_facts_waits_for_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.runtime.knowledge_lock, "MOST_OF_A_CALL", 0.2)
    kb, told = KnowledgeBase("q(1)."), list[object]()

    def waiting(item: object) -> Iterator[Any]:
        thread = threading.Thread(target=_asking(kb, told))
        thread.start()
        thread.join()
        yield item

    if given == "rows":
        kb.update(add={"q": waiting((2,))})
    else:
        kb.load(waiting(FactBatch("q", [pa.array([2])], "a test", 1)))
    assert told == ["refused"]
    assert set(kb.facts("q")) == {(1,), (2,)}


def test_who_leaves_a_context_does_not_wait_for_the_update_in_work() -> None:
    kb, told = KnowledgeBase(), list[int]()
    inside, go_on = threading.Event(), threading.Event()
    kb.register("wait", lambda value: (inside.set(), go_on.wait(60), told.append(value), value)[3])
    kb.add_rules("r(Y) :- q(X), Y = wait(X).")
    live = kb.live()
    live.__enter__()
    live.submit(add={"q": [(1,)]})
    assert inside.wait(60)
    live.__exit__(ZeroDivisionError, None, None)
    assert not told, "the function has not returned"
    go_on.set()
    live.settle()
    assert len(kb) == 2


# Children


def _in_child(act: Callable[[], int]) -> int:
    """What a forked child finds, a number up to 100; -1 if it does not finish."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(act())
        finally:
            os._exit(101)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def _refused(act: Callable[[], object]) -> int:
    try:
        act()
    except BrokenError:
        return 7
    return 8


def test_a_child_that_is_forked_while_another_thread_works_is_refused() -> None:
    kb = KnowledgeBase("q(1).")
    change = kb.update(add={"q": [(2,)]})
    inside, go_on = threading.Event(), threading.Event()
    kb.register("wait", lambda value: (inside.set(), go_on.wait(60), value)[2])
    thread = threading.Thread(target=kb.add_rules, args=("r(Y) :- q(X), Y = wait(X).",))
    thread.start()
    inside.wait(60)
    assert _in_child(lambda: _refused(lambda: kb.query("q(X)"))) == 7
    assert _in_child(lambda: len(set(change.added["q"]))) == 1
    assert _in_child(lambda: len(KnowledgeBase("s(1). t(X) :- s(X)."))) == 2
    go_on.set()
    thread.join()
    assert _in_child(lambda: len(kb.query("r(X)"))) == 2


def test_a_child_that_another_thread_forks_gets_its_signals() -> None:
    """The main thread defers signals while it works, and does not exist in the child to end that."""
    kb, found = KnowledgeBase("q(1)."), list[int]()

    def strike() -> int:
        signal.raise_signal(signal.SIGUSR1)
        return 9

    def fork(value: int) -> int:
        thread = threading.Thread(target=lambda: found.append(_in_child(strike)))
        thread.start()
        thread.join()
        return value

    def handler(*_: object) -> None:
        os._exit(7)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with kb._lock.working():
            fork(1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert found == [7]


def test_a_child_goes_on_with_what_waits_in_live_mode() -> None:
    kb = KnowledgeBase("q(1).")
    with kb.live() as live:
        live.submit(add={"q": [(2,)]})
        live.settle()

        def more() -> int:
            live.submit(add={"q": [(3,)]})
            live.settle()
            return len(kb)

        assert _in_child(more) == 3
