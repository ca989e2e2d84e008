"""Threads: who waits for whom, and who is refused."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import tidelog.settling
from tidelog import KnowledgeBase, StorageError, TidelogError

CHAIN = [(number, number + 1) for number in range(2_000)]
PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z), X < 400."


def test_close_waits_for_an_update_in_another_thread(tmp_path: Path) -> None:
    KnowledgeBase(PATHS).save(tmp_path / "kb")
    kb = KnowledgeBase.open(tmp_path / "kb", journal=True)
    begun = threading.Event()
    kb.register("noted", lambda value: (begun.set(), time.sleep(0.2), value)[2])
    kb.add_rules("seen(Y) :- edge(X, Z), X = 1, Y = noted(X).")
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
    # Whatever gets the descriptor of the journal now is nobody else's business.
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
    monkeypatch.setattr(tidelog.settling, "MOST_OF_A_CALL", 0.2)
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


def test_a_thread_waits_for_many_short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.settling, "MOST_OF_A_CALL", 0.3)
    monkeypatch.setattr(tidelog.settling, "PATIENCE", 0.01)
    kb = KnowledgeBase()
    inside = threading.Event()
    kb.register("slow", lambda value: (inside.set(), time.sleep(0.05), value)[2])
    kb.add_rules("r(Y) :- q(X), Y = slow(X).")
    thread = threading.Thread(target=kb.update, kwargs={"add": {"q": [(number,) for number in range(20)]}})
    thread.start()
    inside.wait(60)
    assert len(kb.facts("r")) == 20
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
    assert len(kb.facts("ex:p")) == 1  # of the state after the update, prefixes and facts
    thread.join()
