"""`kb.live(overlap="operations")` as a mode: what is seen when, and that nothing else is as in the other mode."""

from __future__ import annotations

import random
import sys
import threading
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import tidelog.engine.reclaiming
import tidelog.live.operations.mode
from audit import audit
from engine_util import knowledge_base, materialisation
from generate import EVERYTHING, soak
from live_util import PATHS, chain, check_settled
from naive import State, Update
from operations_util import decoded
from soaking import seeds
from tidelog import ArityError, EvaluationError, KnowledgeBase, LimitError, TidelogError
from tidelog.live.fully_dynamic import Live
from tidelog.live.operations.algorithm import FullyDynamic
from tidelog.live.operations.counting import Counting
from tidelog.live.operations.delete_rederive import DeleteRederive
from tidelog.live.operations.mode import OperationsWorker

FEATURES = replace(EVERYTHING, aggregates=False)


def operations_of(live: Live) -> FullyDynamic:
    assert isinstance(live._worker, OperationsWorker)
    assert live._worker.algorithm is not None
    return live._worker.algorithm


# --- what is seen when


def test_a_step_is_a_step_of_the_algorithm() -> None:
    live = KnowledgeBase(PATHS).live(overlap="operations")
    live.submit(add=chain(3))
    assert live.step(1) == 1
    algorithm = operations_of(live)
    assert (algorithm.executed, len(algorithm.facts)) == (1, 1)
    live.step(2)
    assert [name for name, rows in algorithm.facts.by_predicate().items() if rows] == ["edge"]
    assert len(algorithm.add) == 3, "one edge has determined a path by each rule that there is, the others wait"


def test_updates_are_entered_while_others_are_in_work() -> None:
    live = KnowledgeBase(PATHS).live(overlap="operations")
    live.submit(add=chain(20))
    live.step(30)
    executed = operations_of(live).executed
    assert executed
    live.submit(delete=chain(20))
    settled = live.settle()
    assert not settled
    assert operations_of(live).executed <= 2 * executed, "what had been done was undone, and nothing else was done"
    assert settled.work["deletion"] > 0
    assert live.settled == 2


def test_operations_that_undo_each_other_cost_nothing() -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add=chain(10))
    live = kb.live(overlap="operations")
    for _ in range(50):
        live.submit(add=chain(5, first=20))
        live.submit(delete=chain(5, first=20))
        live.submit(delete=chain(5))
        live.submit(add=chain(5))
    settled = live.settle()
    assert not settled
    assert not settled.work
    assert operations_of(live).executed == 0


@pytest.mark.parametrize("maintenance", ["auto", "counting"])
def test_readers_see_the_last_settled_state_and_do_not_wait(maintenance: str) -> None:
    kb = KnowledgeBase(PATHS, maintenance=maintenance)
    kb.update(add=chain(3))
    live = kb.live(overlap="operations")
    live.submit(add=chain(30, first=3))
    live.step(40)
    seen: list[object] = []

    def read() -> None:
        seen.append((len(kb.facts("path")), len(live.snapshot().facts("path")), live.snapshot().updates))
        seen.append(kb.query("edge(2, X)").rows())

    reader = threading.Thread(target=read)
    reader.start()
    reader.join(10)
    assert seen == [(6, 6, 0), [(3,)]]
    assert live.pending == 1
    live.settle()
    assert len(kb.facts("path")) == 33 * 34 // 2


def test_work_in_the_background() -> None:
    kb = KnowledgeBase(PATHS)
    with kb.live(overlap="operations") as live:
        for number in range(20):
            live.submit(add=chain(1, first=number))
            live.submit(delete=chain(1, first=number - 3))
    assert set(kb.facts("edge")) == {(number, number + 1) for number in range(17, 20)}
    assert len(kb.facts("path")) == 6


def test_endless_updates_do_not_keep_a_state_from_being_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.live.operations.mode, "MOST_OVERLAPPING", 10)
    kb = KnowledgeBase(PATHS)
    live = kb.live(overlap="operations")
    live.submit(add=chain(4))
    for number in range(60):
        live.submit(**{"delete" if number % 2 else "add": chain(2, first=100)})
        live.step(8)
    assert live.settled > 10
    assert (0, 4) in live.snapshot().facts("path")


# --- which algorithm


@pytest.mark.parametrize("maintenance", ["counting", "counting-trace", "dred-counting"])
def test_counting_counts(maintenance: str) -> None:
    live = KnowledgeBase(PATHS, maintenance=maintenance).live(overlap="operations")
    live.submit(add=chain(1))
    live.settle()
    assert isinstance(operations_of(live), Counting)


@pytest.mark.parametrize("maintenance", ["auto", "dred", "backward-forward", "recompute"])
def test_all_others_delete_and_rederive(maintenance: str) -> None:
    live = KnowledgeBase(PATHS, maintenance=maintenance).live(overlap="operations")
    live.submit(add=chain(1))
    live.settle()
    assert isinstance(operations_of(live), DeleteRederive)


def test_counting_deletes_no_fact_that_has_another_derivation() -> None:
    rules = "near(X, Y) :- road(X, Y). near(X, Y) :- rail(X, Y). far(X, Z) :- near(X, Y), near(Y, Z)."
    facts = {"road": [(1, 2), (2, 3)], "rail": [(1, 2)]}
    work = {}
    for maintenance in ("dred", "counting"):
        kb = KnowledgeBase(rules, maintenance=maintenance)
        kb.update(add=facts)
        live = kb.live(overlap="operations")
        live.submit(delete={"road": [(1, 2)]})
        work[maintenance] = live.settle().work
        assert (1, 3) in kb.facts("far")
    assert work["counting"]["deletion"] == 1
    assert work["dred"]["deletion"] == 2, "near(1, 2) and far(1, 3) are overdeleted"
    assert work["dred"]["rederivation"] > 0


# --- what is refused


def test_aggregates_are_refused_wherever_they_come_from() -> None:
    aggregate = "degree(X, count(Y)) :- edge(X, Y)."
    with pytest.raises(TidelogError, match=r"no aggregates.*degree"):
        KnowledgeBase(aggregate).live(overlap="operations")
    kb = KnowledgeBase(PATHS)
    live = kb.live(overlap="operations")
    live.submit(add=chain(2))
    live.submit(add_rules=aggregate)
    live.submit(add=chain(1, first=2))
    with pytest.raises(TidelogError, match="no aggregates") as refused:
        live.settle()
    assert any("update 2" in note for note in refused.value.__notes__)
    assert len(live.settle().added["path"]) == 6
    kb.add_rules(aggregate)
    live.submit(add=chain(1, first=3))
    with pytest.raises(TidelogError, match="no aggregates"):
        live.settle()
    assert (live.pending, len(kb.facts("edge"))) == (0, 3)


def test_the_name_of_the_mode_is_checked() -> None:
    with pytest.raises(TidelogError, match="`overlap` is"):
        KnowledgeBase().live(overlap="facts")


def test_a_wrong_update_is_refused_alone() -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live(overlap="operations")
    live.submit(add=chain(2))
    live.submit(add={"edge": [(1, 2, 3)], "other": [(1,)]})
    live.submit(add=chain(1, first=2))
    with pytest.raises(ArityError):
        live.settle()
    assert set(live.settle().added["path"]) == {(x, y) for x in range(3) for y in range(x + 1, 4)}
    assert "other" not in kb.predicates


@pytest.mark.parametrize("maintenance", ["dred", "counting"])
def test_an_update_beyond_the_limits_is_refused_alone(maintenance: str) -> None:
    kb = KnowledgeBase(PATHS, max_facts=30, maintenance=maintenance, modules=False)
    live = kb.live(overlap="operations")
    live.submit(add=chain(2))
    live.submit(add=chain(20, first=10))
    live.submit(add=chain(1, first=100))
    with pytest.raises(LimitError):
        live.settle()
    assert set(live.settle().added["edge"]) == {(0, 1), (1, 2), (100, 101)}
    live.submit(delete=chain(1))
    assert live.settle().removed["path"] == {(0, 1), (0, 2)}
    assert decoded(kb, operations_of(live)) == materialisation(kb)


@pytest.mark.parametrize("limits", [{"max_facts": 300}, {"timeout": 0.2}])
def test_rules_that_derive_without_end_reach_the_limits(limits: dict[str, float]) -> None:
    kb = KnowledgeBase("number(Y) :- number(X), Y = X + 1.", **limits)  # type: ignore[arg-type]
    live = kb.live(overlap="operations")
    live.submit(add={"number": [(1,)]})
    live.submit(add={"other": [(1,)]})
    with pytest.raises(LimitError):
        live.settle()
    assert live.settle().added["other"] == {(1,)}


@pytest.mark.parametrize("background", [False, True])
def test_a_function_that_leaves_the_program_refuses_its_update_alone(background: bool) -> None:
    kb = KnowledgeBase()
    kb.register("f", lambda value: sys.exit("no luck") if value == 13 else value)
    kb.add_rules("q(Y) :- p(X), Y = f(X).")
    live = kb.live(overlap="operations")
    for number in (1, 13, 2):
        live.submit(add={"p": [(number,)]})
    with pytest.raises(SystemExit) as refused, live if background else nullcontext():
        live.settle()
    assert any("update 2" in note for note in refused.value.__notes__)
    assert live.settle().added["q"] == {(1,), (2,)}


def test_expressions_without_value_are_counted_or_raised_as_ever() -> None:
    rules = "half(X, Y) :- given(X), Y = 1 / X."
    live = KnowledgeBase(rules).live(overlap="operations")
    live.submit(add={"given": [(0,), (2,)]})
    change = live.settle()
    assert (int(change.errors), len(change.added["half"])) == (1, 1)
    live = KnowledgeBase(rules, on_error="raise").live(overlap="operations")
    live.submit(add={"given": [(0,)]})
    live.submit(add={"given": [(2,)]})
    with pytest.raises(EvaluationError):
        live.settle()
    assert live.settle().added["given"] == {(2,)}


# --- together with the rest


def test_updates_of_rules_and_of_others_in_between() -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live(overlap="operations")
    live.submit(add=chain(3))
    live.step(5)
    kb.update(add=chain(1, first=3))
    live.submit(add_rules="back(Y, X) :- path(X, Y), not edge(X, Y).")
    live.submit(delete=chain(1, first=1))
    change = live.settle()
    assert set(kb.facts("back")) == {(4, 2)}
    assert change.added["back"] == {(4, 2)}
    assert decoded(kb, operations_of(live)) == materialisation(kb)


def test_the_journal_holds_what_was_settled(tmp_path: Path) -> None:
    KnowledgeBase(PATHS).save(tmp_path / "kb")
    with KnowledgeBase.open(tmp_path / "kb", journal=True) as kb:
        live = kb.live(overlap="operations")
        live.submit(add=chain(3))
        live.settle()
        live.submit(add=chain(1, first=3))
        live.step(2)
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert len(kb.facts("path")) == 6


def test_terms_that_only_operations_know_are_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions in between give back the terms that nobody holds; their numbers get another meaning."""
    monkeypatch.setattr(tidelog.engine.reclaiming, "WORTH_FROM", 1)
    monkeypatch.setattr(tidelog.engine.reclaiming, "WORTH_PER_TERM", 0)
    monkeypatch.setattr(tidelog.engine.reclaiming, "WORTH_PER_CELL", 0)
    rules = 'label(X, concat("n", str(X))) :- node(X). pair(concat(L, "+")) :- label(X, L).'
    for maintenance in ("dred", "counting"):
        kb = KnowledgeBase(rules, maintenance=maintenance)
        live = kb.live(overlap="operations")
        dice = random.Random(1)
        for number in range(25):
            live.submit(add={"node": [(number,)]}, delete={"node": [(number - 10,)]})
            live.step(dice.randrange(6))
            kb.query(f'X = "question {number}"')
        live.settle()
        assert set(kb.facts("pair")) == {(f"n{number}+",) for number in range(15, 25)}
        assert decoded(kb, operations_of(live)) == materialisation(kb)


@pytest.mark.parametrize("maintenance", ["dred", "counting"])
def test_random_interleavings(maintenance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates of facts and rules, some that others make, any schedule, and any steps in between."""
    dice = random.Random(0)
    begin = tidelog.live.operations.mode.begin

    def begin_with_dice(*arguments: object) -> FullyDynamic:
        algorithm: FullyDynamic = begin(*arguments)  # type: ignore[arg-type]
        algorithm.choose = lambda algorithm: dice.choice(algorithm.steps())
        return algorithm

    monkeypatch.setattr(tidelog.live.operations.mode, "begin", begin_with_dice)
    for seed in seeds(range(7100, 7112), f"operations mode {maintenance}"):
        dice.seed(seed)
        case, stream = soak(seed, FEATURES, length=8)
        check_interleaving(case.state, stream, maintenance, dice)


def check_interleaving(state: State, stream: list[Update], maintenance: str, dice: random.Random) -> None:
    kb = knowledge_base(state, maintenance, modules=dice.random() < 0.5)
    live = kb.live(overlap="operations")
    settled = state
    for update in stream:
        live.submit(**update.mapping())  # type: ignore[arg-type]
        state = state.apply(update)
        live.step(dice.choice([0, 0, 1, 5, 20, 100]))
        if dice.random() < 0.3:
            check_settled(kb, live, settled, state)
            settled = state
            if dice.random() < 0.5:
                other = Update(add=update.delete)
                kb.update(**other.mapping())  # type: ignore[arg-type]
                settled = state = state.apply(other)
    check_settled(kb, live, settled, state)
    live.submit(add={"another": [(1,)]})  # Operations may not have begun again since rules changed.
    live.settle()
    assert decoded(kb, operations_of(live)) == materialisation(kb)
    audit(kb)
