"""What readers see at every pause of an update: the state before it, by every question, under every algorithm."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

import tidelog.engine.update.runner
import tidelog.store.store
from audit import audit
from best_programs import best_case
from engine_util import ALGORITHMS, explicit, knowledge_base, materialisation
from flux import pause_at_every_step, visited
from generate import EVERYTHING, Dice, make_stream, soak
from mixed_recursions import recursions
from naive import Database, State, Update, without_empty
from soaking import seeds
from tidelog import KnowledgeBase
from tidelog.engine.transaction.transaction import Transaction
from tidelog.runtime.knowledge_lock import NotAtRest, NotSettled

SEEDS = range(4)


LOOKS: list[int] = []  # one for each look that found everything, and did not have to wait


def same_as(before: Database, given: Database, rules: list[str]) -> Callable[[KnowledgeBase], None]:
    """A look that finds everything as it was; where it would have to wait, it is content."""

    def look(kb: KnowledgeBase) -> None:
        with suppress(NotAtRest, NotSettled):
            assert materialisation(kb) == before
            assert explicit(kb) == given
            assert [str(rule) for rule in kb.rules] == rules
            assert len(kb) == sum(map(len, before.values()))
            LOOKS.append(1)

    return look


def update_visited(kb: KnowledgeBase, state: State, update: Update, also: Callable[[KnowledgeBase], None]) -> int:
    """Apply an update, and look at each of its pauses; how many there were."""
    before, given = without_empty(state.materialise()), without_empty(state.explicit)
    look = same_as(before, given, [str(rule) for rule in kb.rules])

    def both(kb: KnowledgeBase) -> None:
        look(kb)
        also(kb)

    # The first pauses of each update differ by where they are; later ones are much alike.
    with visited(kb, both, every=2) as visitor:
        kb.update(**update.mapping())  # type: ignore[arg-type]
    return visitor.pauses


@pytest.mark.plain
@pytest.mark.parametrize("modules", [False, True], ids=["records", "closures"])
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_everything_is_as_before(maintenance: str, modules: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.store.store, "INITIAL_CAPACITY", 2)
    pause_at_every_step(monkeypatch)
    pauses, looks = 0, len(LOOKS)
    for seed in seeds(SEEDS, f"readers at pauses, {maintenance}, modules {modules}"):
        case, stream = soak(seed, EVERYTHING, length=4)
        state = case.state
        kb = knowledge_base(state, maintenance, modules=modules)
        for update in stream:
            pauses += update_visited(kb, state, update, lambda kb: None)
            state = state.apply(update)
            assert materialisation(kb) == without_empty(state.materialise())
    assert pauses > 100
    assert len(LOOKS) - looks > pauses / 4  # Every second pause is looked at.


def test_recursions_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closures that begin and end beside other rules of one recursion, and best values."""
    pause_at_every_step(monkeypatch)
    looks = len(LOOKS)
    for seed in seeds((6, 9), "readers at pauses of recursions"):
        dice = Dice(seed)
        case = best_case(dice)
        for state, stream in (recursions(seed, 4), (case.state, make_stream(dice, case, 3))):
            kb = knowledge_base(state, ALGORITHMS[seed % len(ALGORITHMS)])
            for update in stream:
                update_visited(kb, state, update, lambda kb: None)
                state = state.apply(update)
                assert materialisation(kb) == without_empty(state.materialise()), seed
    assert len(LOOKS) - looks > 20


def test_questions_and_proofs_are_answered_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    pause_at_every_step(monkeypatch)
    rules = """
        reaches(X, Y) :- line(X, Y). reaches(X, Z) :- reaches(X, Y), line(Y, Z).
        lonely(X) :- stop(X), not reaches(hub, X).
        busy(X, count(Y)) :- line(X, Y).
        same(X, Y) :- stop(X), stop(Y), reaches(X, Y), reaches(Y, X).
    """
    lines = [(f"s{n}", f"s{n + 1}") for n in range(12)]
    asked = ["reaches(s1, X), not reaches(X, s5)", "lonely(X)", "busy(X, N), N > 1", "unheard(X)"]
    for modules in (False, True):
        kb = KnowledgeBase(rules, modules=modules)
        kb.update(add={"line": [("hub", "s0"), *lines, ("s5", "s2")], "stop": [(f"s{n}",) for n in range(14)]})
        for update in ({"delete": {"line": [lines[3], lines[9]]}}, {"add": {"line": [("s13", "s0"), ("s7", "s3")]}}):
            wanted = [sorted(map(repr, kb.query(text))) for text in asked]
            proofs = [str(kb.explain(fact)) for fact in ("reaches(s0, s11)", "busy(s5, 2)", "lonely(s13)")]
            why_not = str(kb.why_not("reaches(s13, hub)"))

            def look(kb: KnowledgeBase, wanted=wanted, proofs=proofs, why_not=why_not) -> None:  # type: ignore[no-untyped-def]
                with suppress(NotAtRest):
                    assert [sorted(map(repr, kb.query(text))) for text in asked] == wanted
                    found = [str(kb.explain(fact)) for fact in ("reaches(s0, s11)", "busy(s5, 2)", "lonely(s13)")]
                    assert found == proofs
                    assert str(kb.why_not("reaches(s13, hub)")) == why_not
                    assert (("reaches", "s0", "s11") in kb) is (proofs[0] != "None")

            with visited(kb, look, every=3) as visitor:
                kb.update(**update)
            assert visitor.pauses > 20
            audit(kb)


def test_nobody_waits_for_the_end_of_a_closure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers come in while a closure changes, be it the first time that anybody looks, or asks a question."""
    pause_at_every_step(monkeypatch)
    within_closure = Transaction._within_closure
    kb = KnowledgeBase("reaches(X, Y) :- line(X, Y). reaches(X, Z) :- reaches(X, Y), line(Y, Z). stop(a). sign(b, a).")
    lines = [(n, (7 * n + 3) % 40) for n in range(40)]
    found: list[int] = []

    def look(kb: KnowledgeBase) -> None:
        if inside:
            assert kb.query("stop(X), sign(Y, X), not reaches(Y, X)") == [{"X": "a", "Y": "b"}]
            found.append(len(kb.facts("reaches")))

    def note(transaction: Transaction) -> None:
        inside.append(True)
        within_closure(transaction)
        inside.clear()

    inside: list[bool] = []
    monkeypatch.setattr(Transaction, "_within_closure", note)
    sizes = [0]
    for update in ({"add": lines}, {"delete": lines[:30]}, {"add": lines[10:20], "delete": lines[35:]}):
        found.clear()
        with visited(kb, look):
            kb.update(**{side: {"line": rows} for side, rows in update.items()})
        assert len(found) > 3
        assert {*found} == {sizes[-1]}
        sizes.append(len(kb.facts("reaches")))
    assert len({*sizes}) == 4
    audit(kb)
