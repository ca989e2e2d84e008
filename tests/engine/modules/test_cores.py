"""Closures inside a larger recursion: cores begin where deletions are expensive, and change nothing but the cost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from audit import audit, check_refused, fingerprint
from engine_util import ALGORITHMS, check_stream, knowledge_base
from naive import Database, State, Update, database
from tidelog import LimitError, StorageWarning
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.closures.closure import Closure
from tidelog.engine.modules.cores import Core
from tidelog.engine.update.runner import Runner
from tidelog.language import parse_rules

every_algorithm = pytest.mark.parametrize("maintenance", ALGORITHMS)

SYMMETRIC = "r(X, Y) :- r(Y, X). r(X, Z) :- r(X, Y), r(Y, Z). r(X, Y) :- e(X, Y)."
TRANSITIVE = "r(X, Z) :- r(X, Y), r(Y, Z). r(X, Y) :- e(X, Y)."
AROUND = "q(X, Y) :- r(X, Y), s(X). r(X, Y) :- q(X, Y), t(Y)."

# Closures whose edges come from what reads them; twins; rules by which these begin, end, and are fed otherwise.
RULES = parse_rules(
    """
    p(X, Z) :- p(X, Y), p(Y, Z).      p(X, Y) :- p(Y, X).               q(X, Y) :- p(Y, X), f(X, _).
    p(X, Y) :- q(X, Y).               p(X, Y) :- e(X, Y).               p(X, Y) :- s(Y, X).
    s(X, Y) :- p(Y, X).               s(X, Z) :- s(X, Y), s(Y, Z).      q(X, Y) :- s(X, Y), e(_, X).
    s(X, Y) :- g(X, Y).               p(X, Y) :- q(Y, X), p(X, X).      q(X, Y) :- e(X, Y), not f(X, Y).
    e(X, Y) :- g(Y, X).               far(Y) :- p(1, Y), not q(1, Y).   n(X, count(Y)) :- s(X, Y).
    """,
    {},
)


def recursions(seed: int, length: int = 5) -> tuple[State, list[Update]]:
    """A program with a closure in a larger recursion, and updates in which facts and rules come and go."""
    dice = random.Random(seed)
    values = [0, 1, 2, 3, 4] if seed % 3 else [0, 1, 2, 1.0, 2.5]

    def facts(chance: float) -> Database:
        chosen = [name for name in "efgpqs" if dice.random() < chance]
        return database({name: {(dice.choice(values), dice.choice(values)) for _ in range(3)} for name in chosen})

    rules = list(dict.fromkeys((RULES[0], *RULES[2:4], *dice.sample(RULES, dice.randint(1, 8)))))
    state, stream = State(tuple(rules), facts(0.6)), []
    for _ in range(length):
        gone = dice.sample(rules, dice.choice((0, 0, 1)))
        come = dice.sample([rule for rule in RULES if rule not in rules], dice.choice((0, 0, 1)))
        rules = [rule for rule in rules if rule not in gone] + come
        stream.append(Update(facts(0.4), facts(0.4), tuple(come), tuple(gone)))
    return state, stream


def want_cores(kb: KnowledgeBase) -> None:
    kb._engine.cores.want(kb._engine.graph.predicates)


@every_algorithm
def test_cores_follow_facts_and_rules(maintenance: str) -> None:
    begun: set[str] = set()

    def check(kb: KnowledgeBase) -> None:
        begun.update(kb._engine.cores.names)
        audit(kb)
        want_cores(kb)

    for seed in range(6):
        check_stream(*recursions(seed), maintenance, also=check)
    assert "#core p" in begun
    assert any(name.startswith("#core p ") for name in begun), "no twins"


@every_algorithm
def test_a_failed_update_leaves_cores_as_they_were(maintenance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        state, stream = recursions(seed, length=4)
        kb = knowledge_base(state, maintenance)
        for update in stream:
            want_cores(kb)
            kb.update()
            check_refused(kb, update, monkeypatch)
            kb.update(**update.mapping())  # type: ignore[arg-type]
            audit(kb)


def cyclic_graph(symmetric: bool, nodes: int = 20, modules: bool = True) -> tuple[KnowledgeBase, list[tuple[int, int]]]:
    """Mostly one component, in which each pair has many derivations; a few edges come from the recursion."""
    dice = random.Random(7)
    edges = [(dice.randrange(nodes), dice.randrange(nodes)) for _ in range(5 * nodes)]
    edges = list(dict.fromkeys(edge for edge in edges if edge[0] != edge[1]))
    kb = KnowledgeBase((SYMMETRIC if symmetric else TRANSITIVE) + AROUND, modules=modules)
    sources, targets = ([(node,) for node in range(0, nodes, step)] for step in (7, 9))
    kb.update(add={"e": edges, "s": sources, "t": targets})
    return kb, edges


def work(kb: KnowledgeBase, edge: tuple[int, int]) -> int:
    """Rule applications of deleting an edge that takes no pair with it."""
    before = len(kb)
    change = kb.update(delete={"e": [edge]})
    assert len(kb) == before - 1
    return sum(change.work.values())


@pytest.mark.parametrize("symmetric", [True, False])
def test_an_expensive_deletion_is_the_last_one(symmetric: bool) -> None:
    kb, edges = cyclic_graph(symmetric, nodes=200)
    plain, _ = cyclic_graph(symmetric, nodes=200, modules=False)
    gone = []
    while not kb._engine.cores.wanted:
        gone.append(edges.pop())
        last = work(kb, gone[-1])
    assert last > 5_000
    assert kb._engine.cores.names == ()
    kb.update(add={"t": [(5,)]})
    assert kb._engine.cores.names == ("#core r",)
    for _ in range(10):
        gone.append(edges.pop())
        assert work(kb, gone[-1]) < 20
    plain.update(delete={"e": gone}, add={"t": [(5,)]})
    audit(kb, oracle=False)
    assert {name: set(kb.facts(name)) for name in "qr"} == {name: set(plain.facts(name)) for name in "qr"}


def test_no_core_where_deletions_take_much_along() -> None:
    kb = KnowledgeBase(TRANSITIVE + AROUND)
    kb.update(add={"e": [(node, node + 1) for node in range(200)], "s": [(0,)], "t": [(3,)]})
    for node in (3, 100, 150):
        kb.update(delete={"e": [(node, node + 1)]})
        assert not kb._engine.cores.wanted


def test_modules_off_means_no_cores() -> None:
    kb = KnowledgeBase(SYMMETRIC + AROUND, modules=False)
    kb._engine.cores.want(["r"])
    kb.update(add={"e": [(1, 2)], "s": [(1,)], "t": [(2,)]})
    assert kb._engine.cores.names == ()


@pytest.mark.parametrize("problem", [MemoryError, "limit"])
def test_an_update_does_without_a_core_that_cannot_begin(problem: object, monkeypatch: pytest.MonkeyPatch) -> None:
    kb, edges = cyclic_graph(symmetric=True)
    want_cores(kb)

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        if problem is MemoryError:
            patch.setattr(Closure, "apply", fail)
        else:
            patch.setattr(Core, "maintain", lambda self, transaction: transaction.runner.check_limits())
            patch.setattr(Runner, "check_limits", _out_of_time)
        kb._engine._begin_cores()
    assert kb._engine.cores.names == ()
    audit(kb)
    kb.update(delete={"e": edges[:3]})
    audit(kb)


def test_a_core_that_finds_no_memory_for_another_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    kb, edges = cyclic_graph(symmetric=False)
    want_cores(kb)
    kb.update()
    before = fingerprint(kb)

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("tidelog.closures.closed_graph.Memory", fail)
        with pytest.raises(MemoryError):
            kb.add_rules("r(X, Y) :- r(Y, X).")
    assert fingerprint(kb) == before
    audit(kb)
    kb.update(delete={"e": edges[:3]})
    audit(kb)


CALLS = TRANSITIVE + AROUND + "r(X, Y) :- n(X), Y = inverse(X)."


def inverse(value: int) -> float:
    return 12 / value


def test_a_rule_that_feeds_a_core_fails_and_derives_once() -> None:
    counts = []
    for modules in (True, False):
        kb = KnowledgeBase(modules=modules)
        kb.register("inverse", inverse)
        kb.add_rules(CALLS)
        kb.update(add={"n": [(2,)], "s": [(2,)], "t": [(6.0,)]})
        want_cores(kb)
        change = kb.update(add={"n": [(0,), (3,)]})
        counts.append((change.errors, kb.errors, [rule.facts for rule in kb.rules if "inverse" in rule]))
    assert counts == [(1, 1, [2])] * 2


def test_an_update_does_without_a_core_whose_functions_are_missing(tmp_path: Path) -> None:
    kb = KnowledgeBase()
    kb.register("inverse", inverse)
    kb.add_rules(CALLS)
    kb.update(add={"n": [(2,)], "s": [(2,)], "t": [(6.0,)]})
    kb.save(tmp_path / "saved")
    with pytest.warns(StorageWarning, match="inverse"):
        again = KnowledgeBase.open(tmp_path / "saved")
    want_cores(again)
    again.update(add={"other": [(1,)]})
    assert again._engine.cores.names == ()
    assert not again._engine.cores.wanted


def _out_of_time(*_: object) -> None:
    raise LimitError("the time is over")


def test_a_core_is_saved_and_goes_on(tmp_path: Path) -> None:
    kb, edges = cyclic_graph(symmetric=False)
    want_cores(kb)
    kb.update()
    assert kb._engine.cores.names == ("#core r",)
    kb.save(tmp_path / "saved")
    again = KnowledgeBase.open(tmp_path / "saved")
    assert again._engine.cores.names == ("#core r",)
    audit(again)
    assert work(again, edges[-1]) < 20
    audit(again)


def test_a_core_is_nothing_that_people_see() -> None:
    kb, _ = cyclic_graph(symmetric=True)
    facts, predicates, rules = len(kb), list(kb.predicates), len(kb.rules)
    want_cores(kb)
    change = kb.update()
    assert not change.added
    assert not change.removed
    assert (len(kb), list(kb.predicates), len(kb.rules)) == (facts, predicates, rules)
    assert "#" not in str(kb.explain("r(3, 40)."))
