"""How updates are taken in beside the work: while kernels run, arrays grow, and larger updates are read."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import threading
from collections import deque
from typing import Any

import pytest

import tidelog.engine.transaction.task
import tidelog.facts.encoding
import tidelog.live.backlog
import tidelog.live.worker
import tidelog.store.store
from audit import audit
from engine_util import materialisation
from live_util import COMPUTES, PATHS, chain
from tidelog import ArityError, ConstraintError, KnowledgeBase
from tidelog.engine.engine import Engine
from tidelog.engine.transaction.transaction import Transaction
from tidelog.live.backlog import Batch, Part, Submission
from tidelog.live.incoming import Incoming
from tidelog.live.intake import Intake, Window
from tidelog.live.worker import Worker
from tidelog.machine import growth
from tidelog.store.relation import Relation


def test_updates_are_taken_in_while_arrays_grow_and_closures_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growth cannot be interrupted, but what arrives meanwhile need not wait for it to end."""
    monkeypatch.setattr(growth, "PIECE", 4)
    waiting: list[int] = []
    between_pieces = Worker.between_pieces

    def submit_and_go_on(worker: Worker, passable: bool = False) -> None:
        if not waiting:
            live.submit(add={"edge": [(1000, 0)]})
        between_pieces(worker, passable)
        waiting.append(len(worker._intake.incoming))

    monkeypatch.setattr(Worker, "between_pieces", submit_and_go_on)
    for modules in (False, True):
        waiting.clear()
        kb = KnowledgeBase("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), path(Y, Z).", modules=modules)
        live = kb.live()
        live.submit(add={"edge": [(number, number + 1) for number in range(40)]})
        live.settle()
        live.settle()
        assert waiting
        assert not any(waiting)
        assert len(kb.facts("path")) == 41 * 40 // 2 + 41
        audit(kb)


def test_an_update_is_not_lost_if_another_one_is_refused_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batch then gets new parts, since what the refused one would have overwritten counts again."""
    monkeypatch.setattr(tidelog.facts.encoding, "PIECE", 1)
    kb = KnowledgeBase(f"{PATHS} :- on(X), broken(X).")
    kb.update(add=chain(6))
    live = kb.live()
    void = live.submit(add={"lamp": [("hall",)]})
    urgent = live.submit(delete={"lamp": [("hall",)]}, priority=1)
    while not live.is_settled(urgent):
        live.step()
    assert not live.is_settled(void)
    live.submit(delete={"edge": [(2, 3), (4, 5)]})
    refused = live.submit(add={"on": [(1,)], "broken": [(1,)]})
    with pytest.raises(ConstraintError, match=f"update {refused}|violates"):
        live.step()
    live.step(1000)
    assert live.pending == 0
    assert set(kb.facts("edge")) == {(0, 1), (1, 2), (3, 4), (5, 6)}
    audit(kb)


# --- while a kernel runs


def test_a_window_that_is_shut_lets_nothing_in() -> None:
    waiting, taken = [1, 2], []
    window = Window(lambda: bool(waiting), lambda: taken.append(waiting.pop()))
    window.use()
    assert not taken
    with window:
        assert taken == [2, 1]
        waiting.append(3)
        with window.using_terms():
            with window, window.using_terms():
                window.use()
            window.use()
            assert waiting == [3]
        with window:
            window.use()
        assert not waiting
        waiting.append(5)
        window.use()
        assert not waiting
    waiting.append(4)
    window.use()
    assert waiting == [4]


@pytest.mark.usefixtures("_tiny_slices")
@pytest.mark.parametrize(
    ("rules", "beside"),
    [
        (PATHS, True),
        # Its kernels read terms, so nobody else may create any.
        (PATHS.replace("edge(X, Y).", "edge(X, Y), X < 100.", 1), False),
        (PATHS.replace("path(X, Y) :-", "path(X, abs(Y)) :-", 1), False),
    ],
    ids=["joins", "compares", "computes"],
)
def test_an_update_is_taken_in_while_a_kernel_runs(rules: str, beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, left = 0, []
    run_rounds = tidelog.engine.transaction.task.run_rounds

    def submit_and_run(*arguments: object) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            other = threading.Thread(target=live.submit, kwargs={"add": {"edge": [("new", 0)]}})
            other.start()
            other.join()
            left.append(len(live._intake.incoming))
        return int(run_rounds(*arguments))

    kb = KnowledgeBase(rules, modules=False)
    live = kb.live()
    monkeypatch.setattr(tidelog.engine.transaction.task, "run_rounds", submit_and_run)
    live.submit(add=chain(5))
    live.settle()
    live.settle()
    assert left == [0 if beside else 1]
    truth = KnowledgeBase(rules)
    truth.update(add={"edge": [*chain(5)["edge"], ("new", 0)]})
    assert set(kb.facts("path")) == set(truth.facts("path"))
    audit(kb)


@pytest.mark.parametrize("rules", [PATHS, COMPUTES], ids=["joins", "computes"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [(Relation, "index_on"), (Transaction, "collect"), (Transaction, "commit"), (Engine, "_tidy")],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_an_update_is_taken_in_between_two_kernels(
    rules: str, owner: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    original = getattr(owner, name)

    def submit_and_go_on(self: object, *arguments: object) -> object:
        if not left:
            other = threading.Thread(target=live.submit, kwargs={"add": {"edge": [("new", 0)]}})
            other.start()
            other.join()
            left.append(len(live._intake.incoming))
        return original(self, *arguments)

    kb = KnowledgeBase(rules, modules=False)
    kb.update(add=chain(9))
    live = kb.live()
    monkeypatch.setattr(owner, name, submit_and_go_on)
    live.submit(delete=chain(4, 5))
    live.settle()
    live.settle()
    assert left == [0]
    truth = KnowledgeBase(rules)
    truth.update(add={"edge": [*chain(5)["edge"], ("new", 0)]})
    assert materialisation(kb) == materialisation(truth)


def test_small_updates_are_read_while_a_large_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    read = Intake.read

    def note(self: Intake, submission: Submission, arities: dict[str, int]) -> Part:
        part = read(self, submission, arities)
        done.append(submission.number)
        return part

    monkeypatch.setattr(Intake, "read", note)
    monkeypatch.setattr(tidelog.facts.encoding, "PIECE", 4)
    kb = KnowledgeBase(PATHS)
    live = kb.live()
    live.submit(add=chain(9))
    live.submit(delete=chain(1, 5))
    live.submit(add={"edge": [("one",)]})
    live.submit(add={"other": [("one",)]})
    live.submit(add={"other": [("one", "two")]})
    live.submit(add_rules="back(Y, X) :- edge(X, Y).")
    live.submit(add=chain(1, 20))
    with pytest.raises(ArityError, match="`edge` has 2 arguments") as problem:
        live.settle()
    # By then, 4 has been applied: 5 cannot be read.
    assert done == [2, 4, 1, 7]
    assert "in update 3" in problem.value.__notes__[0]
    assert "update 5 is refused as well" in problem.value.__notes__[1]
    truth = KnowledgeBase(PATHS + "back(Y, X) :- edge(X, Y).")
    truth.update(add={"edge": [*chain(5)["edge"], *chain(3, 6)["edge"], *chain(1, 20)["edge"]], "other": [("one",)]})
    assert materialisation(kb) == materialisation(truth)
    audit(kb)


def test_small_updates_are_read_between_two_predicates_of_a_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []
    encode_rows, read = Incoming._encode_rows, Intake.read

    def note_rows(self: Incoming, name: str, rows: Any) -> Any:
        events.append(name)
        return encode_rows(self, name, rows)

    def note_read(self: Intake, submission: Submission, arities: dict[str, int]) -> Part:
        part = read(self, submission, arities)
        events.append(submission.number)
        return part

    monkeypatch.setattr(Incoming, "_encode_rows", note_rows)
    monkeypatch.setattr(Intake, "read", note_read)
    live = KnowledgeBase(PATHS).live()
    live.submit(add={**chain(3), "other": [(1,)]})
    live.submit(delete=chain(1, 1))
    assert len(live.settle().added["path"]) == 2
    assert events == ["edge", "edge", 2, "other", 1]


def test_encoding_is_at_hand_before_anything_is_submitted() -> None:
    """Loading or compiling a kernel while an update is read would keep all others waiting."""
    program = """
    from tidelog import KnowledgeBase
    from tidelog.store import term_kernels

    KnowledgeBase().live()
    for kernel in (term_kernels.encode_numbers, term_kernels.encode_texts, term_kernels.rebuild_term_slots):
        print(kernel._code is not None)
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True"] * 3


def test_what_waits_may_go_while_somebody_looks_at_it() -> None:
    class Vanishing(deque[Any]):
        def __bool__(self) -> bool:
            return True

    live = KnowledgeBase(PATHS).live()
    live._intake.in_work, live._intake.waiting = Batch(), Vanishing()
    assert live.submit(add=chain(1)) == 1
    assert live.pending == 1


@pytest.mark.parametrize("modules", [False, True])
@pytest.mark.parametrize("rules", [PATHS, COMPUTES], ids=["joins", "computes"])
def test_threads_take_updates_in_beside_the_work(rules: str, modules: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread has its own edges with its own names, so that every thread creates terms and makes them grow."""
    monkeypatch.setattr(tidelog.store.store, "INITIAL_CAPACITY", 1)
    kb = KnowledgeBase(rules, modules=modules)
    ends: list[set[tuple[str, str]]] = [set() for _ in range(4)]

    def write(number: int) -> None:
        rng, present = random.Random(number), ends[number]
        for step in range(60):
            edges = {(f"{number}-{rng.randrange(step + 2)}", f"{number}-{rng.randrange(step + 2)}") for _ in range(5)}
            gone = set(rng.sample(sorted(present), len(present) // 4))
            live.submit(add={"edge": list(edges)}, delete={"edge": list(gone)})
            present -= gone
            present |= edges

    with kb.live() as live:
        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    truth = KnowledgeBase(rules)
    truth.update(add={"edge": set().union(*ends)})
    assert materialisation(kb) == materialisation(truth)
    audit(kb)
