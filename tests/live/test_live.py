"""The fully dynamic mode against the oracle: whatever arrives when, it ends as if updates came one at a time."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest

import tidelog.engine.transaction.task
import tidelog.facts.encoding
import tidelog.live.backlog
import tidelog.live.worker
import tidelog.store.store
from audit import audit
from engine_util import ALGORITHMS, facts_of, knowledge_base, materialisation
from generate import EVERYTHING, soak
from live_util import PATHS, chain, check_settled, in_the_middle
from naive import State, Update, without_empty
from tidelog import ArityError, KnowledgeBase, LimitError, TidelogError


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
    assert len(kb.facts("path")) == 0
    assert live.pending == 2
    live.settle()
    assert len(kb.facts("path")) == 12 * 13 // 2 + 1


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
    assert (snapshot.updates, len(snapshot)) == (0, 0)
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
    """Programs with cycles, negation, aggregates and closures; updates of facts and rules; any steps in between."""
    for seed in range(7000, 7020):
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


def test_a_row_that_the_caller_changes_afterwards_is_as_it_was_submitted() -> None:
    kb = KnowledgeBase(PATHS)
    row = ["a", "b"]
    live = kb.live()
    live.submit(add={"edge": [row]})
    row[0] = "z"
    live.settle()
    assert set(kb.facts("edge")) == {("a", "b")}
