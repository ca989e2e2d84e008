"""The fully dynamic mode against the oracle: whatever comes in whenever, the end is that of one update at a time."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import pytest

import tidelog.engine.transaction.jobs
import tidelog.facts.encoding
import tidelog.live.backlog
import tidelog.live.worker
import tidelog.store.store
from audit import audit
from engine_util import ALGORITHMS, explicit, facts_of, knowledge_base, materialisation
from generate import EVERYTHING, soak
from naive import State, Update, change, without_empty
from tidelog import ArityError, KnowledgeBase, LimitError, TidelogError
from tidelog.engine.engine import Engine
from tidelog.engine.transaction.transaction import Transaction
from tidelog.live.backlog import Batch, Part, Submission
from tidelog.live.fully_dynamic import Live
from tidelog.live.intake import Intake, Window
from tidelog.live.knowledge import Knowledge
from tidelog.live.worker import Worker
from tidelog.machine import growth
from tidelog.store.relation import Relation

PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."
COMPUTES = PATHS + 'far(X, concat("to ", str(Y))) :- path(X, Y), X != Y. reach(X, count(Y)) :- path(X, Y).'


@pytest.fixture
def _tiny_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices so small that every transaction rests in its middle."""
    monkeypatch.setattr(tidelog.live.worker, "SLICE", 3)


def holds(kb: KnowledgeBase, *names: str) -> set[str]:
    return {name for name in names if len(kb.facts(name))}


def chain(length: int, first: int = 0) -> Mapping[str, list[tuple[int, int]]]:
    return {"edge": [(number, number + 1) for number in range(first, first + length)]}


def in_the_middle(live: Live) -> None:
    """Work until something is in work, and rests."""
    live.step()
    assert live.pending


# --- the examples of the paper: facts stand for predicates without arguments, and U2 comes after any number of units

FACT = [()]
CYCLE = "b() :- a(). c() :- b(). a() :- c()."
EXAMPLES = [
    # rules, explicit before, U1, U2, what holds in the end
    (CYCLE, [], ({"a"}, set()), (set(), {"a"}), set()),
    (CYCLE + "a() :- d().", ["a"], ({"d"}, {"a"}), (set(), set()), {"a", "b", "c", "d"}),
    (CYCLE + "a() :- d().", ["a"], ({"d"}, {"a"}), (set(), {"d"}), set()),
    ("b() :- a(). c() :- a(). c() :- d().", [], ({"a", "d"}, set()), (set(), {"a"}), {"c", "d"}),
    ("b() :- a(). c() :- a().", ["a"], (set(), {"a"}), ({"a"}, set()), {"a", "b", "c"}),
]


@pytest.mark.usefixtures("_tiny_slices")
@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("units", range(6))
def test_examples_1_to_4(example: tuple[str, list[str], tuple, tuple, set[str]], maintenance: str, units: int) -> None:
    rules, before, *updates, expected = example
    kb = KnowledgeBase(rules, maintenance=maintenance)
    kb.update(add=dict.fromkeys(before, FACT))
    live = kb.live()
    for add, delete in updates:
        live.submit(add=dict.fromkeys(add, FACT), delete=dict.fromkeys(delete, FACT))
        if units:
            live.step(units)
    # No outcome is endless: deleting and adding again comes to its end in a bounded number of units.
    for _ in range(100):
        if not live.step():
            break
    assert live.pending == 0
    assert holds(kb, "a", "b", "c", "d") == expected


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_in_examples_1_and_4_the_second_update_overtakes_the_first(maintenance: str) -> None:
    """Where U2 takes back what U1 asked for before anything is done, nothing is done; later, nothing is done twice."""
    for rules, before, (added, deleted), (added_then, deleted_then), _ in (EXAMPLES[0], EXAMPLES[4]):
        kb = KnowledgeBase(rules, maintenance=maintenance)
        kb.update(add=dict.fromkeys(before, FACT))
        live = kb.live()
        live.submit(add=dict.fromkeys(added, FACT), delete=dict.fromkeys(deleted, FACT))
        live.submit(add=dict.fromkeys(added_then, FACT), delete=dict.fromkeys(deleted_then, FACT))
        settled = live.settle()
        assert not settled
        assert not settled.work


@pytest.mark.usefixtures("_tiny_slices")
def test_steps_of_several_threads_add_up() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    live = kb.live()
    for number in range(30):
        live.submit(add=chain(3, first=10 * number))
    threads = [threading.Thread(target=live.step, args=(40,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    live.settle()
    assert len(kb.facts("edge")) == 90


def test_a_step_ends_with_the_work_also_where_more_comes_before_it_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    live = KnowledgeBase(PATHS).live()
    more_came = threading.Event()
    wait_for = live._lock.wait_for

    def wait_late(predicate: Callable[[], bool]) -> None:
        while not more_came.is_set():
            live._lock.condition.wait(0.001)
        wait_for(predicate)

    monkeypatch.setattr(live._lock, "wait_for", wait_late)
    live.submit(add=chain(3))
    stepping = threading.Thread(target=live.step, args=(1_000,), daemon=True)
    stepping.start()
    while live.pending or live._worker.thread is not None:
        time.sleep(0.001)
    live.submit(add=chain(1, first=3))
    more_came.set()
    stepping.join(10)
    assert not stepping.is_alive()


# --- cancelling


def test_what_is_added_and_deleted_again_costs_nothing() -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add=chain(10))
    live = kb.live()
    for _ in range(50):
        live.submit(add=chain(5, first=20))
        live.submit(delete=chain(5, first=20))
        live.submit(delete=chain(5))
        live.submit(add=chain(5))
    settled = live.settle()
    assert not settled
    assert sum(settled.work.values()) == 0
    assert live.pending == 0


@pytest.mark.plain
def test_an_update_that_is_alone_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Netting sorts all facts, which would cost as much as a large load itself."""
    monkeypatch.setattr(tidelog.live.backlog, "_last_ones", None)
    kb = KnowledgeBase(PATHS)
    kb.update(add=chain(1))
    live = kb.live()
    live.submit(add=chain(3), delete={"edge": [(0, 1), (7, 8)]})
    assert live.settle().added["edge"] == {(1, 2), (2, 3)}
    assert set(kb.facts("edge")) == {(0, 1), (1, 2), (2, 3)}


def test_the_last_operation_on_a_fact_counts() -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live()
    live.submit(add=chain(3))
    live.submit(delete=chain(1), add=chain(1, first=7))
    live.submit(add=chain(1), delete=chain(1))
    live.submit(delete=chain(1, first=7))
    live.settle()
    assert set(kb.explicit("edge")) == {(0, 1), (1, 2), (2, 3)}


@pytest.mark.usefixtures("_tiny_slices")
@pytest.mark.parametrize("modules", [False, True])
def test_what_is_in_work_is_given_up_where_it_is_taken_back(modules: bool) -> None:
    kb = KnowledgeBase(PATHS + "far(X, Z) :- path(X, Y), path(Y, Z).", modules=modules)
    live = kb.live()
    live.submit(add=chain(12))
    in_the_middle(live)
    live.submit(delete=chain(12))
    settled = live.settle()
    assert not settled
    assert not settled.work
    assert len(kb) == 0


@pytest.mark.usefixtures("_tiny_slices")
def test_endless_deleting_and_adding_does_not_keep_others_from_being_done() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    live = kb.live()
    live.submit(add=chain(6))
    for number in range(400):
        live.submit(**{"delete" if number % 2 else "add": chain(2, first=100)})
        live.step()
    assert live.pending < 400
    assert (0, 6) in live.snapshot().facts("path")


def test_overlapping_updates_take_less_work_than_one_at_a_time() -> None:
    dice = random.Random(3)
    updates = [{"add": chain(30)}]
    for _ in range(30):
        taken = dice.randrange(25)
        updates += [{"delete": chain(5, first=taken)}, {"add": chain(5, first=taken)}]
    one_by_one, together = KnowledgeBase(PATHS, modules=False), KnowledgeBase(PATHS, modules=False)
    alone = sum(sum(one_by_one.update(**update).work.values()) for update in updates)
    live = together.live()
    for update in updates:
        live.submit(**update)
        live.step()
    assert sum(live.settle().work.values()) < alone
    assert materialisation(together) == materialisation(one_by_one)


# --- reading


@pytest.mark.plain
@pytest.mark.usefixtures("_tiny_slices")
def test_a_reader_never_sees_half_an_update() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    live = kb.live()
    live.submit(add=chain(12))
    live.submit(add=chain(1, first=50))
    in_the_middle(live)
    assert len(kb.facts("path")) == 12 * 13 // 2 + 1
    assert live.pending == 0


@pytest.mark.usefixtures("_tiny_slices")
def test_a_snapshot_says_which_updates_are_in_it_and_stays() -> None:
    kb = KnowledgeBase(PATHS + "deg(X, count(Y)) :- edge(X, Y).", modules=False)
    live = kb.live()
    first = live.snapshot()
    live.submit(add=chain(8))
    in_the_middle(live)
    live.submit(add={"edge": [(0, 7), ("a b", 2.5)]})
    snapshot = live.snapshot()
    live.settle()
    assert (first.updates, len(first), first.facts("path")) == (0, 0, set())
    assert snapshot.updates in (1, 2)
    assert len(snapshot.facts("path")) == (36 if snapshot.updates == 1 else 37)
    assert live.snapshot().updates == 2
    assert live.snapshot().query('edge("a b", X)').rows() == [(2.5,)]
    assert "deg(0, 2)" in live.snapshot()
    assert "deg(0, 2)" not in first


def test_settle_gives_the_net_change_since_the_last_time() -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live()
    live.submit(add=chain(2))
    live.step(50)
    live.submit(delete=chain(1))
    live.step(50)
    net = live.settle()
    assert net.added == {"edge": {(1, 2)}, "path": {(1, 2)}}
    assert net.removed == {}
    assert not live.settle()


# --- errors and room


@pytest.mark.plain
def test_a_bad_update_is_refused_and_the_others_are_not() -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live()
    live.submit(add=chain(1))
    live.submit(add={"edge": [(1, 2, 3)], "other": [(1,)]})
    live.submit(add_rules="p(X) :- not q(X).")
    live.submit(add=chain(1, first=1))
    with pytest.raises(ArityError) as refused:
        live.settle()
    assert any("update 2" in note for note in refused.value.__notes__)
    assert any("update 3" in note for note in refused.value.__notes__)
    assert live.settle().added["path"] == {(0, 1), (1, 2), (0, 2)}
    assert kb.predicates == ["edge", "path"]


def test_arities_are_those_of_what_is_in_work_as_well() -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live()
    live.submit(add={**chain(50), "other": [(1,)]})
    in_the_middle(live)
    live.submit(add={"other": [(1, 2)]})
    live.submit(add={"other": [(2,)]})
    with pytest.raises(ArityError, match="`other` has 1 argument") as refused:
        live.settle()
    assert any("update 2" in note for note in refused.value.__notes__)
    assert set(kb.facts("other")) == {(1,), (2,)}
    audit(kb)


def test_an_update_that_is_refused_leaves_no_arity() -> None:
    kb = KnowledgeBase(max_facts=5)
    live = kb.live()
    live.submit(add={"other": [(number,) for number in range(9)]})
    live.submit(add={"edge": [(1, 2)]})
    with pytest.raises(LimitError):
        live.settle()
    live.submit(add={"other": [(1, 2)]})
    live.settle()
    assert set(kb.facts("other")) == {(1, 2)}
    audit(kb)


@pytest.mark.parametrize("background", [False, True])
def test_a_function_that_leaves_the_program_refuses_its_update_alone(background: bool) -> None:
    kb = KnowledgeBase()
    kb.register("f", leave_at_13)
    kb.add_rules("q(Y) :- p(X), Y = f(X).")
    live = kb.live()
    for number in (1, 13, 2):
        live.submit(add={"p": [(number,)]})
    with pytest.raises(SystemExit) as refused, live if background else nullcontext():
        live.settle()
    assert any("update 2" in note for note in refused.value.__notes__)
    assert live.settle().added["q"] == {(1,), (2,)}


def leave_at_13(value: int) -> int:
    return sys.exit("no luck") if value == 13 else value


def test_rows_that_leave_the_program_refuse_their_update_alone() -> None:
    def rows() -> Iterator[tuple[int]]:
        yield (leave_at_13(13),)

    live = KnowledgeBase().live()
    live.submit(add={"p": rows()})
    live.submit(add={"p": [(1,)]})
    with pytest.raises(SystemExit):
        live.settle()
    assert live.settle().added["p"] == {(1,)}


def test_an_update_beyond_the_limits_is_refused_alone() -> None:
    kb = KnowledgeBase(PATHS, max_facts=30, modules=False)
    live = kb.live()
    live.submit(add=chain(2))
    live.submit(add=chain(20, first=10))
    live.submit(add=chain(1, first=100))
    with pytest.raises(LimitError):
        live.settle()
    assert set(live.settle().added["edge"]) == {(0, 1), (1, 2), (100, 101)}


def test_the_backlog_has_a_bound() -> None:
    live = KnowledgeBase(PATHS).live(backlog=2, when_full="raise")
    live.submit(add=chain(1))
    live.submit(add=chain(2))
    with pytest.raises(LimitError, match="backlog"):
        live.submit(add=chain(3))
    live.settle()
    live.submit(add=chain(3))
    assert live.pending == 1
    with pytest.raises(TidelogError, match="number of units"):
        KnowledgeBase().live().step(-5)
    with pytest.raises(TidelogError, match="when_full"):
        KnowledgeBase().live(when_full="drop")
    with pytest.raises(TidelogError, match=r"not 1\.5"):
        KnowledgeBase().live(backlog=1.5)  # type: ignore[arg-type]


def test_a_full_backlog_makes_submit_work_and_nothing_is_lost() -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live(backlog=2)
    for number in range(20):
        live.submit(add=chain(1, first=number))
        assert live.pending <= 2
    live.settle()
    assert len(kb.facts("edge")) == 20


# --- against the oracle


@pytest.mark.usefixtures("_tiny_slices")
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_random_interleavings(maintenance: str) -> None:
    """Programs with cycles, negation, aggregates and closures; updates of facts and rules; any steps between."""
    for seed in range(7000, 7040):
        case, stream = soak(seed, EVERYTHING, length=8)
        check_interleaving(case.state, stream, maintenance, random.Random(seed))


def check_interleaving(state: State, stream: list[Update], maintenance: str, dice: random.Random) -> None:
    kb = knowledge_base(state, maintenance, modules=dice.random() < 0.5)
    live = kb.live()
    states = [state]
    settled = state
    for update in stream:
        live.submit(**update.mapping())  # type: ignore[arg-type]
        states.append(states[-1].apply(update))
        live.step(dice.choice([0, 0, 1, 2, 3, 10]))
        if dice.random() < 0.2:
            snapshot = live.snapshot()
            expected = without_empty(states[snapshot.updates].materialise())
            assert facts_of({name: list(snapshot.facts(name)) for name in snapshot.predicates}) == expected
        if dice.random() < 0.3:
            check_settled(kb, live, settled, states[-1])
            settled = states[-1]
    check_settled(kb, live, settled, states[-1])


def check_settled(kb: KnowledgeBase, live: Live, before: State, after: State) -> None:
    net = live.settle()
    expected = without_empty(after.materialise())
    assert materialisation(kb) == expected
    assert explicit(kb) == without_empty(after.explicit)
    added, removed = change(without_empty(before.materialise()), expected)
    assert facts_of(net.added) == without_empty(added)
    assert facts_of(net.removed) == without_empty(removed)


# --- threads


def test_threads_that_submit_and_read_while_one_works() -> None:
    """Each writer has edges of its own; a reader sees whole updates only: both edges of a pair, or none."""
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
    """A function that blocks holds the work up, and nobody else."""
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
    """Updates of a random program from several threads: the end is that of the order in which they were taken in."""
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


def test_updates_are_taken_in_while_arrays_grow_and_closures_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growth cannot be left half done, but what comes meanwhile need not wait for its end."""
    monkeypatch.setattr(growth, "PIECE", 4)
    waiting: list[int] = []
    between_pieces = Worker.between_pieces

    def submit_and_go_on(worker: Worker) -> None:
        if not waiting:
            live.submit(add={"edge": [(1000, 0)]})
        between_pieces(worker)
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


# --- beside a kernel


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
        # Its kernels look at terms, so that nobody else may make new ones.
        (PATHS.replace("edge(X, Y).", "edge(X, Y), X < 100.", 1), False),
        (PATHS.replace("path(X, Y) :-", "path(X, abs(Y)) :-", 1), False),
    ],
    ids=["joins", "compares", "computes"],
)
def test_an_update_is_taken_in_while_a_kernel_runs(rules: str, beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, left = 0, []
    run_rounds = tidelog.engine.transaction.jobs.run_rounds

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
    monkeypatch.setattr(tidelog.engine.transaction.jobs, "run_rounds", submit_and_run)
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
    assert done == [2, 4, 5, 1, 7]
    assert "in update 3" in problem.value.__notes__[0]
    assert "update 5 is refused as well" in problem.value.__notes__[1]
    truth = KnowledgeBase(PATHS + "back(Y, X) :- edge(X, Y).")
    truth.update(add={"edge": [*chain(5)["edge"], *chain(3, 6)["edge"], *chain(1, 20)["edge"]], "other": [("one",)]})
    assert materialisation(kb) == materialisation(truth)
    audit(kb)


def test_small_updates_are_read_between_two_predicates_of_a_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []
    encode_rows, read = Knowledge._encode_rows, Intake.read

    def note_rows(self: Knowledge, name: str, rows: Any) -> Any:
        events.append(name)
        return encode_rows(self, name, rows)

    def note_read(self: Intake, submission: Submission, arities: dict[str, int]) -> Part:
        part = read(self, submission, arities)
        events.append(submission.number)
        return part

    monkeypatch.setattr(Knowledge, "_encode_rows", note_rows)
    monkeypatch.setattr(Intake, "read", note_read)
    live = KnowledgeBase(PATHS).live()
    live.submit(add={**chain(3), "other": [(1,)]})
    live.submit(delete=chain(1, 1))
    assert len(live.settle().added["path"]) == 2
    assert events == ["edge", "edge", 2, "other", 1]


def test_encoding_is_at_hand_before_anything_is_submitted() -> None:
    """A kernel that is loaded or compiled while an update is read keeps all others waiting."""
    program = """
    from tidelog import KnowledgeBase
    from tidelog.store import term_kernels

    KnowledgeBase().live()
    for kernel in (term_kernels.encode_numbers, term_kernels.encode_texts, term_kernels.rebuild_term_slots):
        print(kernel._compiled is not None)
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True"] * 3


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


def test_what_waits_may_go_while_somebody_looks_at_it() -> None:
    class Vanishing(deque[Any]):
        def __bool__(self) -> bool:
            return True

    live = KnowledgeBase(PATHS).live()
    live._intake.in_work, live._intake.waiting = Batch(), Vanishing()
    assert live.submit(add=chain(1)) == 1
    assert live.pending == 1


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


@pytest.mark.parametrize("modules", [False, True])
@pytest.mark.parametrize("rules", [PATHS, COMPUTES], ids=["joins", "computes"])
def test_threads_take_updates_in_beside_the_work(rules: str, modules: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread has its own edges with names of their own, so that terms are made, and grow, in every thread."""
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


def test_a_row_that_the_caller_changes_afterwards_is_as_it_was_submitted() -> None:
    kb = KnowledgeBase(PATHS)
    row = ["a", "b"]
    live = kb.live()
    live.submit(add={"edge": [row]})
    row[0] = "z"
    live.settle()
    assert set(kb.facts("edge")) == {("a", "b")}


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
    """Whether something comes to its end, and does not wait for ever."""
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
    live.__exit__(RuntimeError)  # with work undone
    left.set()
    waiting.join(30)
    assert not waiting.is_alive()
    live.settle()
    assert len(kb.facts("path")) == 210 + 3


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
