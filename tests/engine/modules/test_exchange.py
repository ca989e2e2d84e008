"""Closures beside other rules of one recursion: what they exchange changes nothing but the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import oracle_clingo
from audit import audit, check_refused, fingerprint
from engine_util import ALGORITHMS, check_stream, knowledge_base
from mixed_recursions import JOINED, RULES, recursions, with_equality
from naive import without_empty
from soaking import seeds
from tidelog import LimitError, TidelogError
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.closures.closure import Closure
from tidelog.closures.edges import Edges, Ints
from tidelog.engine.algorithms.maintenance import ComponentMaintenance
from tidelog.engine.modules import closure_module
from tidelog.engine.modules.closure_base import BASE
from tidelog.engine.modules.closure_module import ClosureModule
from tidelog.engine.modules.general_module import GeneralModule
from tidelog.engine.rules.compiled import Node
from tidelog.engine.transaction.transaction import Transaction
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells

every_algorithm = pytest.mark.parametrize("maintenance", ALGORITHMS)


@every_algorithm
def test_mixed_recursions_follow_facts_and_rules(maintenance: str) -> None:
    fed: set[str] = set()

    def check(kb: KnowledgeBase) -> None:
        audit(kb)
        fed.update(name for closure in kb._engine.closures.each() if closure.fed for name in closure.module.predicates)

    for seed in seeds((3, 4, 8, 10), f"mixed recursions, {maintenance}"):
        check_stream(*recursions(seed), maintenance, also=check)
    assert "p" in fed


def test_an_equality_is_one_of_the_modules() -> None:
    done, closures = 0, 0

    def check(kb: KnowledgeBase) -> None:
        nonlocal closures
        equality = kb._engine.closures.get("same")
        closures += equality is not None and bool(equality.fed)
        audit(kb, oracle=False)  # it would need the copies

    for seed in seeds(range(1, 17), "equality in mixed recursions"):
        state, stream = with_equality(seed)
        try:
            KnowledgeBase("\n".join(map(str, state.rules)))
        except TidelogError:
            continue
        possible = []
        after = state
        for update in stream:
            changed = after.apply(update)
            try:
                KnowledgeBase("\n".join(map(str, changed.rules)))
            except TidelogError:
                break
            possible.append(update)
            after = changed
        check_stream(state, possible, ALGORITHMS[seed % len(ALGORITHMS)], also=check)
        done += 1
    assert done > 3
    assert closures


def test_the_oracle_agrees_with_clingo_on_mixed_recursions() -> None:
    for seed in seeds((1, 2, 3, 5, 6, 7), "mixed recursions for clingo"):
        if seed % 4 == 0:
            continue  # floats, which clingo has not
        for rules_from in (RULES, JOINED):
            state, stream = recursions(seed, rules_from=rules_from)
            for update in stream:
                state = state.apply(update)
                assert without_empty(state.materialise()) == oracle_clingo.materialise(state.rules, state.explicit)


def test_pairs_that_match_nothing_need_no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FEW_CHANGED", 0), ("SMALLER", 0.01), ("FEW_PAIRS", 1_000)):
        monkeypatch.setattr(closure_module, name, value)
    ends: Counter[str] = Counter()
    deltas, list_rest = ClosureModule.deltas, ClosureModule._list_rest

    def noted(name: str, method: Callable[[ClosureModule], object]) -> Callable[[ClosureModule], object]:
        def run(module: ClosureModule) -> object:
            ends[name] += module._partly_listed is not None and not module._needs_no_records
            return method(module)

        return run

    monkeypatch.setattr(ClosureModule, "deltas", noted("told by the closure", deltas))
    monkeypatch.setattr(ClosureModule, "_list_rest", noted("listed later", list_rest))
    for seed in seeds((3, 5, 6, 9, 10, 11, 12, 13), "pairs without records"):
        check_stream(*recursions(seed, rules_from=JOINED), ALGORITHMS[seed % len(ALGORITHMS)], also=audit)
    assert ends["told by the closure"]
    assert ends["listed later"]


@pytest.mark.parametrize(
    ("rules", "facts", "changes"),
    [
        pytest.param(
            "p(X, Z) :- p(X, Y), p(Y, Z). q(X, Y) :- p(Y, X), f(X, _). p(X, Y) :- q(X, Y).",
            {"q": [(0, 2)]},
            [
                {"remove_rules": "q(X, Y) :- p(Y, X), f(X, _)."},
                {"add_rules": "q(X, Y) :- p(Y, X), f(X, _)."},
                {"delete": {"q": [(0, 2)]}},
            ],
            id="a recursion begins again, with new relations for fed edges",
        ),
        pytest.param(
            "p(X, Z) :- p(X, Y), p(Y, Z). p(X, Y) :- p(Y, X). s(X, Y) :- p(Y, X). s(X, Z) :- s(X, Y), s(Y, Z), X != Z."
            "l(X, Z) :- l(X, Y), q(Y, Z). p(X, Y) :- l(X, Y), f(Y, X).",
            {"p": [(3, 0)]},
            [
                {
                    "add_rules": "q(X, Y) :- s(X, Y), e(_, X).",
                    "remove_rules": "p(X, Z) :- p(X, Y), p(Y, Z).",
                }
            ],
            id="a closure ends whose pairs another closure of the new recursion began with",
        ),
    ],
)
@pytest.mark.parametrize("maintenance", ["auto", "recompute", "counting-trace"])
def test_rules_make_and_unmake_modules(
    rules: str, facts: dict[str, list[tuple[int, ...]]], changes: list[dict[str, object]], maintenance: str
) -> None:
    kb = KnowledgeBase(rules, maintenance=maintenance)
    kb.update(add=facts)
    for change in changes:
        kb.update(**change)  # type: ignore[arg-type]
        audit(kb)


@every_algorithm
def test_a_failed_update_leaves_modules_as_they_were(maintenance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds((3, 8), f"failed updates of mixed recursions, {maintenance}"):
        state, stream = recursions(seed, length=3)
        kb = knowledge_base(state, maintenance)
        for update in stream:
            check_refused(kb, update, monkeypatch)
            kb.update(**update.mapping())  # type: ignore[arg-type]
            audit(kb)


class Fault(Exception):
    """Raised in the middle of an exchange."""


def test_a_failure_at_any_step_of_an_exchange_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0
    for seed in seeds(range(7, 10), "failures in an exchange"):
        state, stream = recursions(seed, length=2)
        kb = knowledge_base(state, "auto")
        for update in stream:
            before = fingerprint(kb)
            for at in count():
                with monkeypatch.context() as patch:
                    _fail_at(patch, at)
                    try:
                        kb.update(**update.mapping())  # type: ignore[arg-type]
                        break
                    except Fault:
                        assert fingerprint(kb) == before, f"step {at} of seed {seed}"
                        most = max(most, at)
            audit(kb)
    assert most > 5


def _fail_at(patch: pytest.MonkeyPatch, at: int) -> None:
    """Let the step of this number of the modules fail, after it has been made."""
    steps = iter(range(at))
    for module in (ClosureModule, GeneralModule):
        for name in ("difference", "delete", "rederive", "add"):
            method = getattr(module, name)

            def step(self: object, *given: bool, method: object = method, **named: bool) -> bool:
                found: bool = method(self, *given, **named)  # type: ignore[operator]
                if next(steps, None) is None:
                    raise Fault
                return found

            patch.setattr(module, name, step)


# --- what it costs ----------------------------------------------------------------------------------------------------

AROUND = "q(X, Y) :- r(X, Y), s(X). r(X, Y) :- q(X, Y), t(Y)."
TRANSITIVE = "r(X, Z) :- r(X, Y), r(Y, Z). r(X, Y) :- e(X, Y)." + AROUND
SYMMETRIC = "r(X, Y) :- r(Y, X)." + TRANSITIVE


def chain(length: int, rules: str, modules: bool = True) -> KnowledgeBase:
    kb = KnowledgeBase(rules, modules=modules)
    kb.update(add={"e": [(node, node + 1) for node in range(length)], "s": [(0,)], "t": [(3,)]})
    return kb


def test_pairs_are_not_derived_one_by_one() -> None:
    rules = TRANSITIVE + "r(X, Y) :- r(X, Z), back(Z, Y)."
    counts = []
    for modules in (True, False):
        kb = KnowledgeBase(rules, modules=modules)
        change = kb.update(add={"e": [(node, node + 1) for node in range(60)], "back": [(60, 0)]})
        counts.append(sum(change.work.values()))
        assert len(kb.facts("r")) == 60 * 61
    assert counts[0] <= 0.05 * counts[1]


@pytest.mark.parametrize("rules", [TRANSITIVE, SYMMETRIC])
def test_a_deletion_that_takes_nothing_along_is_cheap(rules: str) -> None:
    nodes = range(60)
    kb = KnowledgeBase(rules)
    edges = [(x, y) for x in nodes for y in nodes if x != y]
    kb.update(add={"e": edges, "s": [(node,) for node in nodes[::7]], "t": [(node,) for node in nodes[::9]]})
    for edge in edges[::500]:
        change = kb.update(delete={"e": [edge]})
        assert sum(change.work.values()) < 20
        assert set(change.removed) == {"e"}
    audit(kb, oracle=False)


@pytest.mark.parametrize("rules", [TRANSITIVE, SYMMETRIC])
def test_pairs_that_no_rule_can_match_are_not_listed(rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = chain(80, rules)
    recorded: list[int] = []
    load = Relation.load

    def noted(relation: Relation, rows: Cells, flags: int) -> None:
        if relation.name == "r":
            recorded.append(len(rows))
        load(relation, rows, flags)

    monkeypatch.setattr(Relation, "load", noted)
    removed = kb.update(delete={"e": [(40, 41)]}).removed
    added = kb.update(add={"e": [(40, 41)]}).added
    assert len(removed["r"]) == len(added["r"]) >= 41 * 40
    assert sum(recorded) <= 200
    assert set(removed["r"]) == set(added["r"])
    audit(kb, oracle=False)


TWINS = """
r(X, Z) :- r(X, Y), r(Y, Z). v(Y, X) :- r(X, Y). r(Y, X) :- v(X, Y). r(X, Y) :- e(X, Y). v(X, Y) :- f(X, Y).
read(X) :- r(X, _). read(X) :- v(X, _).
"""


def test_changed_pairs_of_twins_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase(TWINS)
    kb.update(add={"e": [(0, 1)], "f": [(9, 8)]})
    listed = []
    list_pairs = Closure.changed_pairs

    def noted(closure: Closure, appeared: bool, size: int, sources: Ints | None = None) -> Iterator[Edges]:
        listed.append(appeared)
        return list_pairs(closure, appeared, size, sources)

    monkeypatch.setattr(Closure, "changed_pairs", noted)
    change = kb.update(add={"e": [(1, 2)]})
    assert change.added["r"] == {(1, 2), (0, 2)}
    assert change.added["v"] == {(2, 1), (2, 0)}
    assert listed == [True]
    assert kb.update(delete={"e": [(0, 1)]}).removed["v"] == {(1, 0), (2, 0)}
    assert listed == [True, False]
    audit(kb)


def test_bases_of_twins_for_which_nothing_changed_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase(TWINS)
    kb.update(add={"e": [(0, 1)], "f": [(9, 8)]})
    visited: list[str] = []
    maintain = ComponentMaintenance.maintain

    def noted(maintenance: ComponentMaintenance, transaction: Transaction, node: Node, *others: Any) -> None:
        visited.extend(node.predicates if node.relations[0].name.startswith(BASE) else ())
        maintain(maintenance, transaction, node, *others)

    monkeypatch.setattr(ComponentMaintenance, "maintain", noted)
    for name, bases in (("e", ["r"]), ("f", ["v", "r"]), ("r", ["r"]), ("v", ["v", "r"])):
        for part in ("add", "delete"):
            visited.clear()
            kb.update(**{part: {name: [(3, 4)]}})
            assert visited == bases
            audit(kb)


def test_a_recursion_that_goes_one_step_a_round_is_left_to_plain_rules() -> None:
    kb = KnowledgeBase("r(X, Z) :- r(X, Y), r(Y, Z). r(X, Y) :- e(X, Y). r(X, Y) :- r(X, Z), f(Z, Y).")
    kb.update(add={"e": [(0, 1)], "f": [(node, node + 1) for node in range(1, 10)]})
    assert list(kb._engine.closures.each())
    change = kb.update(add={"f": [(node, node + 1) for node in range(10, 60)]})
    assert not list(kb._engine.closures.each())
    assert len(change.added["r"]) == 50
    audit(kb)


def test_no_pair_keeps_itself_alive() -> None:
    """Edges that the recursion derives from the pairs that rest on them go with what these rested on."""
    kb = KnowledgeBase(TRANSITIVE)
    kb.update(add={"e": [(0, 1), (1, 2), (2, 3)], "s": [(0,), (1,)], "t": [(2,), (3,)]})
    assert {(0, 2), (0, 3), (1, 2), (1, 3)} <= set(kb.facts("q"))
    kb.update(delete={"e": [(1, 2)]})
    assert set(kb.facts("r")) == {(0, 1), (2, 3)}
    assert set(kb.facts("q")) == {(0, 1)}
    audit(kb)


def test_modules_off_means_none_in_recursions() -> None:
    kb = chain(5, SYMMETRIC, modules=False)
    assert not list(kb._engine.closures.each())


def test_limits_hold_within_an_exchange() -> None:
    kb = KnowledgeBase(TRANSITIVE + "r(X, Y) :- q(Y, X), back(X, Y).", max_facts=2_000)
    before = fingerprint(kb)
    with pytest.raises(LimitError, match="more than 2000 facts"):
        kb.update(add={"e": [(node, node + 1) for node in range(100)], "s": [(0,)], "back": [(100, 0)]})
    assert fingerprint(kb) == before
    audit(kb)


def test_a_module_of_a_recursion_is_saved_and_goes_on(tmp_path: Path) -> None:
    kb = chain(30, TRANSITIVE)
    kb.save(tmp_path / "saved")
    again = KnowledgeBase.open(tmp_path / "saved")
    assert [closure.fed for closure in again._engine.closures.each()] == [{"r"}]
    audit(again, may_be_opened=True)
    change = again.update(delete={"e": [(29, 30)]})
    assert len(change.removed["r"]) == 30
    assert sum(change.work.values()) < 20
    audit(again, may_be_opened=True)


def test_relations_of_modules_are_nothing_that_people_see() -> None:
    kb = chain(30, SYMMETRIC)
    assert set(kb.predicates) == {"e", "q", "r", "s", "t"}
    assert "#" not in str(kb.explain("r(3, 20)."))
    assert "#" not in str(kb.explain("q(0, 3)."))
    assert len(kb) == sum(len(kb.facts(name)) for name in kb.predicates)
