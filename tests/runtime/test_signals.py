"""Signals whose handlers raise at any line of what a knowledge base does: it is done or not done, never half done."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from at_any_line import Struck, count_lines, struck_at
from audit import audit, fingerprint
from engine_util import ALGORITHMS
from soaking import soak_seconds, tell
from tidelog import KnowledgeBase, TidelogError
from tidelog.runtime.signals import check, comes_from_signal, deferred, interruptible

AGGREGATE = "degree(X, count(Y)) :- path(X, Y)."
RULES = """
    path(X, Y) :- edge(X, Y).
    path(X, Z) :- path(X, Y), path(Y, Z).
    twice(X, Z) :- path(X, Y), edge(Y, Z), not blocked(X).
    even(X, Y) :- odd(X, Z), edge(Z, Y).
    odd(X, Y) :- edge(X, Y).
    odd(X, Y) :- even(X, Z), edge(Z, Y).
    degree(X, count(Y)) :- path(X, Y).
    label(X, L) :- node(X), L = concat(X, "!").
"""
FACTS: dict[str, Any] = {"edge": [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")], "node": [("a",)]}
UPDATE: dict[str, Any] = {
    "add": {"edge": [("d", "e"), ("e", 7)], "node": [("new",)], "fresh": [("q", 1)], "blocked": [("a",)]},
    "delete": {"edge": [("b", "c")]},
    "add_rules": "@prefix ex: <http://example.org/> . ex:loop(X) :- path(X, X).",
    "remove_rules": 'label(X, L) :- node(X), L = concat(X, "!").',
}
FACTS_ONLY = {key: UPDATE[key] for key in ("add", "delete")}

# How many of the lines are tried in each case; a soak divides its time among about this many cases.
TRIED = 20
CASES = 70


def example(maintenance: str, modules: bool = True, folder: Path | None = None) -> KnowledgeBase:
    kb = KnowledgeBase(RULES, maintenance=maintenance, modules=modules)
    kb.update(add=FACTS)
    if folder is None:
        return kb
    kb.save(folder)
    return KnowledgeBase.open(folder, journal=True)


def lines_to_try(total: int, seed: int) -> Iterator[int]:
    """Lines spread over all of them, others for each case, so that the cases together try many. A soak goes through
    all in any order, for as long as there is time.
    """
    if not soak_seconds():
        step = max(1, total // TRIED)
        yield from range(1 + seed % step, total + 1, step)
        return
    end = time.monotonic() + soak_seconds() / CASES
    tried = 0
    for line in random.sample(range(1, total + 1), total):
        if time.monotonic() > end:
            break
        yield line
        tried += 1
    tell(f"signals at one of {total} lines", tried)


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize("update", [FACTS_ONLY, UPDATE], ids=["facts", "rules"])
@pytest.mark.parametrize("modules", [True, False])
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_an_update_that_is_struck_at_any_line_is_whole_or_nothing(
    maintenance: str, modules: bool, update: dict[str, Any], journal: bool, tmp_path: Path
) -> None:
    fresh = iter(range(10**9))

    def make() -> KnowledgeBase:
        return example(maintenance, modules, tmp_path / str(next(fresh)) if journal else None)

    kb = make()
    before = fingerprint(kb)
    total = count_lines(lambda: kb.update(**update))
    after = fingerprint(kb)
    kb = make()
    for line in lines_to_try(total, seed=sum(map(ord, maintenance)) + 7 * modules + 3 * journal):
        struck = struck_at(line, partial(kb.update, **update)).raised
        found = fingerprint(kb)
        assert found == (before if struck else after) or (struck and found == after), line
        audit(kb, oracle=False)
        if journal and found == after:
            kb.close()
            assert fingerprint(KnowledgeBase.open(kb._knowledge.home.folder))["facts"] == after["facts"]  # type: ignore[union-attr]
        if found == after:
            kb = make()


READS: dict[str, Callable[[KnowledgeBase], object]] = {
    "query": lambda kb: kb.query("path(a, X), degree(X, N), N > 1").rows(),
    "explain": lambda kb: str(kb.explain("path(a, d)")),
    "why_not": lambda kb: kb.why_not("path(d, a)"),
    "contains": lambda kb: "odd(a, b)" in kb,
    "facts": lambda kb: sorted(map(str, kb.facts("path"))),
    "computes": lambda kb: kb.query('node(X), Y = concat(X, "?", "!")').rows(),
    "register": lambda kb: kb.register("twice", lambda value: 2 * value),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_that_is_struck_at_any_line_leaves_everything_as_it_was(
    read: Callable[[KnowledgeBase], object],
) -> None:
    kb = example("auto")
    before = fingerprint(kb)
    total = count_lines(lambda: read(kb))
    expected = read(kb)
    for line in lines_to_try(total, seed=0):
        struck_at(line, partial(read, kb))
        assert fingerprint(kb) == before
    assert read(kb) == expected
    audit(kb)


def test_saving_that_is_struck_at_any_line_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    kb = example("auto")
    kb.save(tmp_path / "kb")
    total = count_lines(lambda: kb.save(tmp_path / "kb"))
    for line in lines_to_try(total, seed=0):
        kb.update(add={"node": [(line,)]})
        struck = struck_at(line, partial(kb.save, tmp_path / "kb")).raised
        saved = set(KnowledgeBase.open(tmp_path / "kb").facts("node"))
        assert saved == set(kb.facts("node")) or (struck and saved == set(kb.facts("node")) - {(line,)})
        kb.save(tmp_path / "kb")


STREAMED: list[dict[str, Any]] = [
    FACTS_ONLY,
    {"delete": {"edge": [("d", "e")]}},
    {"add": {"edge": [("e", "a")]}},
    {"add": {"node": [("last",)]}},
]


class Given(Iterator[Any]):
    """Updates that come one by one."""

    def __init__(self, updates: list[dict[str, Any]]) -> None:
        self._updates = iter(updates)

    def __next__(self) -> Any:
        return next(self._updates)


def queued(updates: list[dict[str, Any]]) -> Queue[Any]:
    queue: Queue[Any] = Queue()
    for update in (*updates, None):
        queue.put(update)
    return queue


@pytest.mark.parametrize("marking", [False, True])
@pytest.mark.parametrize("source", [list, Given, queued])
def test_streams_that_are_struck_at_any_line_go_on_and_lose_nothing(source: Callable[..., Any], marking: bool) -> None:
    def run(stream: Iterator[Any]) -> None:
        for _ in stream:
            pass

    finished = example("auto")
    total = count_lines(lambda: run(finished.stream(source(STREAMED), marking=marking)))
    after = fingerprint(finished)
    for line in lines_to_try(total, seed=0):
        kb = example("auto")
        stream = kb.stream(source(STREAMED), marking=marking)
        struck_at(line, partial(run, stream))
        audit(kb)
        run(stream)
        assert fingerprint(kb) == after, line


@pytest.mark.parametrize("overlap", ["batches", "operations"])
def test_live_updates_that_are_struck_at_any_line_are_not_lost(overlap: str) -> None:
    def submit_and_settle(live: Any) -> None:
        live.submit(**FACTS_ONLY)
        live.submit(delete={"edge": [("d", "e")]})
        live.settle()

    def begin() -> KnowledgeBase:
        kb = example("auto")
        if overlap == "operations":
            kb.remove_rules(AGGREGATE)
        return kb

    finished = begin()
    total = count_lines(lambda: submit_and_settle(finished.live(overlap=overlap)))
    after = fingerprint(finished)
    for line in lines_to_try(total, seed=0):
        kb = begin()
        live = kb.live(overlap=overlap)
        struck_at(line, partial(submit_and_settle, live))
        submitted = live.pending + live.settled
        live.settle()
        assert live.pending == 0
        if submitted == 2:
            assert fingerprint(kb) == after
        audit(kb)


# Handlers


def test_a_handler_of_the_program_is_run_and_put_back() -> None:
    def handler(number: int, _frame: object) -> None:
        seen.append(number)

    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with deferred():
            signal.raise_signal(signal.SIGUSR1)
            assert seen == []
            with deferred():
                check()
            assert seen == [signal.SIGUSR1]
        assert signal.getsignal(signal.SIGUSR1) is handler
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_handler_that_is_replaced_meanwhile_stays_replaced() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with deferred():
            signal.signal(signal.SIGUSR1, other := lambda *_: None)
        assert signal.getsignal(signal.SIGUSR1) is other
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_late_signal_does_not_kill_a_program_that_has_given_its_handler_up() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with deferred():
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()


def test_other_threads_do_not_make_the_main_one_interruptible() -> None:
    """A function that another thread calls can be interrupted; what the main thread does meanwhile cannot."""
    inside, over = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        over.wait(10)

    thread = threading.Thread(target=interruptible, args=(wait,))
    thread.start()
    inside.wait(10)
    before = signal.signal(signal.SIGUSR1, _strike)
    try:
        with deferred():
            signal.raise_signal(signal.SIGUSR1)
            with pytest.raises(Struck):
                check()
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def _strike(*_: object) -> None:
    raise Struck


def test_what_a_handler_raises_in_a_function_is_no_failure_of_the_function() -> None:
    def function(value: int) -> int:
        if not struck:
            struck.append(value)
            signal.raise_signal(signal.SIGUSR1)
            time.sleep(10)
        return 2 * value

    struck: list[int] = []
    kb = KnowledgeBase()
    kb.register("twice", function)
    kb.add_rules("r(X, Y) :- q(X), Y = twice(X).")
    before = signal.signal(signal.SIGUSR1, _strike)
    try:
        with pytest.raises(Struck) as caught:
            kb.update(add={"q": [(1,)]})
        assert comes_from_signal(caught.value)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(kb) == 0
    assert kb.update(add={"q": [(1,)]}).added["r"] == {(1, 2)}


def test_a_function_of_a_rule_may_use_another_knowledge_base_which_is_not_interrupted_in_its_middle() -> None:
    inner = example("auto")
    total = count_lines(lambda: inner.update(**FACTS_ONLY))
    after = fingerprint(inner)
    for line in lines_to_try(total, seed=1):
        inner = example("auto")
        before = fingerprint(inner)
        outer = KnowledgeBase()
        outer.register("f", lambda value, inner=inner: (inner.update(**FACTS_ONLY), value)[1])
        outer.add_rules("r(Y) :- q(X), Y = f(X).")
        struck_at(line + 500, partial(outer.update, add={"q": [(1,)]}))
        assert fingerprint(inner) in (before, after)
        audit(inner, oracle=False)


def test_a_handler_cannot_use_a_knowledge_base_that_is_in_work() -> None:
    kb = example("auto")
    told: list[BaseException] = []

    def handler(*_: object) -> None:
        try:
            kb.query("path(X, Y)")
        except TidelogError as error:
            told.append(error)

    kb.register("f", lambda value: (signal.raise_signal(signal.SIGUSR1), value)[1])
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        kb.add_rules("r(Y) :- node(X), Y = f(X).")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(told) == 1
    assert "in work in this thread" in str(told[0])
    audit(kb, oracle=False)
