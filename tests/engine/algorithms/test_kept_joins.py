"""Lattices of the user's own in recursions: beside the oracle, under updates of facts and of rules."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest

from audit import audit, check_refused
from engine_util import ALGORITHMS, check_stream, facts_of, knowledge_base, materialisation
from generate import Dice, make_stream
from joined_programs import FUNCTIONS, hull, joined_case
from naive import change, database, without_empty
from tidelog import KnowledgeBase, Lattice, LatticeError, LimitError, Monotone, Proof, Record, TidelogError
from tidelog.language import parse_atom

# --- beside the oracle ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_streams_agree_with_the_oracle(seed: int) -> None:
    dice = Dice(seed)
    case = joined_case(dice)
    check_stream(case.state, make_stream(dice, case, 8), "auto", audit, FUNCTIONS)


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_every_name_of_maintenance_gives_the_same(maintenance: str) -> None:
    for seed in range(100, 102):
        dice = Dice(seed)
        case = joined_case(dice)
        check_stream(case.state, make_stream(dice, case, 5), maintenance, functions=FUNCTIONS)


@pytest.mark.plain
def test_streams_without_the_compiler() -> None:
    dice = Dice(200)
    case = joined_case(dice)
    check_stream(case.state, make_stream(dice, case, 4), "auto", audit, FUNCTIONS)


@pytest.mark.parametrize("seed", range(300, 302))
def test_a_refused_update_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = Dice(seed)
    case = joined_case(dice)
    kb, state = knowledge_base(case.state, "auto", FUNCTIONS), case.state
    for update in make_stream(dice, case, 4):
        check_refused(kb, update, monkeypatch)
        kb.update(**update.mapping())  # type: ignore[arg-type]
        state = state.apply(update)
        assert materialisation(kb) == without_empty(state.materialise(FUNCTIONS))


@pytest.mark.parametrize("seed", range(400, 403))
def test_what_if_says_what_an_update_does(seed: int) -> None:
    dice = Dice(seed)
    case = joined_case(dice)
    kb, state = knowledge_base(case.state, "auto", FUNCTIONS), case.state
    before = without_empty(state.materialise(FUNCTIONS))
    for update in make_stream(dice, case, 4):
        supposed = kb.what_if(**update.mapping())  # type: ignore[arg-type]
        assert materialisation(kb) == before
        state = state.apply(update)
        after = without_empty(state.materialise(FUNCTIONS))
        added, removed = change(before, after)
        assert (facts_of(supposed.added), facts_of(supposed.removed)) == (without_empty(added), without_empty(removed))
        kb.update(**update.mapping())  # type: ignore[arg-type]
        before = after


@pytest.mark.parametrize("journal", [False, True])
def test_opened_knowledge_bases_go_on(journal: bool, tmp_path: Path) -> None:
    dice = Dice(500)
    case = joined_case(dice)
    state, kb = case.state, knowledge_base(case.state, "auto", FUNCTIONS)
    kb.save(tmp_path / "0")
    for number, update in enumerate(make_stream(dice, case, 4), start=1):
        with KnowledgeBase.open(tmp_path / f"{number - 1}", journal=journal, functions=FUNCTIONS) as kb:
            kb.update(**update.mapping())  # type: ignore[arg-type]
            state = state.apply(update)
            assert materialisation(kb) == without_empty(state.materialise(FUNCTIONS))
            assert without_empty(database({name: list(kb.explicit(name)) for name in kb.predicates})) == state.explicit
            audit(kb, may_be_opened=True)
            kb.save(tmp_path / f"{number}")
    if journal:
        again = KnowledgeBase.open(tmp_path / "3", read_only=True, functions=FUNCTIONS)
        assert materialisation(again) == without_empty(state.materialise(FUNCTIONS))
        assert again.rules == kb.rules


@pytest.mark.parametrize("seed", range(600, 602))
def test_streams_with_marks_and_the_live_mode(seed: int) -> None:
    dice = Dice(seed)
    case = joined_case(dice)
    stream = make_stream(dice, case, 6)
    expected = without_empty(
        reduce(lambda state, update: state.apply(update), stream, case.state).materialise(FUNCTIONS)
    )
    streamed = knowledge_base(case.state, "auto", FUNCTIONS)
    for _ in streamed.stream([update.mapping() for update in stream], marking=3):
        pass
    assert materialisation(streamed) == expected
    with knowledge_base(case.state, "auto", FUNCTIONS).live() as live:
        for update in stream:
            live.submit(**update.mapping())
            live.step(2)
        live.settle()
        snapshot = live.snapshot()
        assert without_empty(database({name: list(snapshot.facts(name)) for name in snapshot.predicates})) == expected


# --- beside what is built in ----------------------------------------------------------------------------------------


def test_a_lattice_of_least_values_is_min() -> None:
    rules = "dist(X, {0}(0)) :- source(X). dist(Y, {0}(further(D, W))) :- dist(X, D), edge(X, Y, W)."
    dice = Dice(7)
    kbs = [KnowledgeBase(), KnowledgeBase(rules.format("min").replace("further(D, W)", "D + W"))]
    kbs[0].register("further", lambda value, weight: value + weight, monotone=True)
    kbs[0].register_lattice("least", min, lambda one, other: other <= one)
    kbs[0].add_rules(rules.format("least"))
    edges = [(dice.below(12), dice.below(12), 1 + dice.below(5)) for _ in range(40)]
    for kb in kbs:
        kb.update(add={"source": [(0,)], "edge": edges})
    assert set(kbs[0].facts("dist")) == set(kbs[1].facts("dist"))
    for gone in edges[::3]:
        found = [kb.update(delete={"edge": [gone]}) for kb in kbs]
        assert found[0].added.get("dist") == found[1].added.get("dist")
        assert found[0].removed.get("dist") == found[1].removed.get("dist")


# --- cost and limits ------------------------------------------------------------------------------------------------


def _chains(count: int, length: int) -> KnowledgeBase:
    kb = KnowledgeBase()
    kb.register_lattice("hull", hull)
    kb.add_rules("b(Y, hull(V)) :- b(X, V), next(X, Y).  b(X, hull(V)) :- start(X, V).")
    links = [(f"{chain}.{step}", f"{chain}.{step + 1}") for chain in range(count) for step in range(length)]
    kb.update(add={"next": links, "start": [(f"{chain}.0", Record(0, chain)) for chain in range(count)]})
    return kb


def test_only_what_lies_downstream_is_touched() -> None:
    kb = _chains(20, 10)
    found = kb.update(delete={"next": [("3.6", "3.7")]})
    assert found.work["overdeleted"] == 4
    assert sum(found.work.values()) < 30
    assert {row[0] for row in found.removed["b"]} == {"3.7", "3.8", "3.9", "3.10"}
    assert sum(kb.update(add={"next": [("3.6", "3.7")]}).work.values()) < 30


def test_groups_do_not_keep_each_other_alive() -> None:
    kb = KnowledgeBase()
    kb.register_lattice("hull", hull)
    kb.add_rules("b(Y, hull(V)) :- b(X, V), next(X, Y).  b(X, V) :- start(X, V).")
    kb.update(add={"next": [(1, 2), (2, 1)], "start": [(1, (0, 1)), (2, (5, 6))]})
    assert set(kb.facts("b")) == {(1, Record(0, 6)), (2, Record(0, 6))}
    kb.update(delete={"start": [(2, (5, 6))]})
    assert set(kb.facts("b")) == {(1, Record(0, 1)), (2, Record(0, 1))}
    kb.update(delete={"start": [(1, (0, 1))]})
    assert len(kb.facts("b")) == 0


def test_growth_without_end_meets_a_limit() -> None:
    kb = KnowledgeBase(max_facts=200)
    kb.register_lattice("hull", hull)
    kb.register("wider", lambda value: Record(value[0], value[1] + 1), monotone=True)
    kb.add_rules("b(X, hull(wider(V))) :- b(X, V).  b(X, hull(V)) :- start(X, V).")
    with pytest.raises(LimitError, match=r"replaced.*busiest rule: b\(X, hull\(wider\(V\)\)\)"):
        kb.update(add={"start": [("a", (0, 1))]})
    assert len(kb) == 0


# --- joins that are none --------------------------------------------------------------------------------------------

READ = "b(X, {0}(V)) :- start(X, V)."
RECURSIVE = f"{READ} b(Y, {{0}}(V)) :- b(X, V), next(X, Y)."


@pytest.mark.parametrize("rules", [READ, RECURSIVE])
@pytest.mark.parametrize("order", [None, lambda one, other: one <= other])
def test_a_join_must_be_above_what_it_joins(rules: str, order: object) -> None:
    kb = KnowledgeBase()
    kb.register_lattice("wrong", lambda one, other: one + other if order is None else min(one, other), order)  # type: ignore[arg-type]
    kb.add_rules(rules.format("wrong"))
    kb.update(add={"start": [("a", 1)]})
    with pytest.raises(LatticeError, match="the join of the lattice `wrong` is not above what it joins: that of"):
        kb.update(add={"start": [("a", 2), ("b", 3)]})
    assert set(kb.facts("b")) == {("a", 1)}
    assert ("b", 3) not in kb.facts("start")


def test_a_join_that_raises_fails_its_group_or_within_a_recursion_the_update() -> None:
    for rules in (READ, RECURSIVE):
        kb = KnowledgeBase()
        kb.register_lattice("hull", hull)
        kb.add_rules(rules.format("hull"))
        change = {"start": [("a", (0, 1)), ("a", "text"), ("b", (2, 3))]}
        if rules == READ:
            assert kb.update(add=change).errors.kinds == {"aggregate": 1}
            assert "hull([0, 1], text) raised TypeError" in kb.errors.first[0].reason
            assert set(kb.facts("b")) == {("b", Record(2, 3))}
        else:
            with pytest.raises(LatticeError, match=r"gives no value to `b` for \(a\): .* raised TypeError"):
                kb.update(add=change)
            assert len(kb) == 0


def test_a_join_may_return_what_no_fact_can_hold() -> None:
    kb = KnowledgeBase()
    kb.register_lattice("odd", lambda one, other: {one, other})
    kb.add_rules(READ.format("odd"))
    kb.update(add={"start": [("a", 1), ("a", 2)]})
    assert "which no fact can hold" in kb.errors.first[0].reason


# --- proofs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(700, 704))
def test_proofs_rest_on_what_holds(seed: int) -> None:
    """A join node has premises whose values give its own, and none of them is needless; leaves are explicit."""
    state = joined_case(Dice(seed)).state
    kb = knowledge_base(state, "auto", FUNCTIONS)
    for predicate, rows in materialisation(kb).items():
        for row in rows:
            proof = kb.explain(f"{predicate}({', '.join(map(str, row))})")
            assert proof is not None
            for step in proof.steps():
                _check_step(kb, step)


def _check_step(kb: KnowledgeBase, step: Proof) -> None:
    if step.rule is None:
        atom = parse_atom(step.fact, {})
        assert atom.row in kb.explicit(atom.predicate)
    elif step.rule.startswith("the join of"):
        join = FUNCTIONS[step.rule.split("`")[1]]
        values = [parse_atom(premise.fact, {}).row[-1] for premise in step.premises]
        own = parse_atom(step.fact, {}).row[-1]
        assert len(values) > 1
        assert reduce(join, values) == own
        for place in range(len(values)):
            assert reduce(join, values[:place] + values[place + 1 :]) != own


def test_a_proof_may_go_through_values_on_the_way() -> None:
    kb = KnowledgeBase()
    kb.register_lattice("hull", hull)
    kb.add_rules("b(Y, hull(V)) :- b(X, V), next(X, Y).  b(X, V) :- start(X, V).  far(X) :- b(X, V), V = [_, 6].")
    kb.update(add={"next": [(1, 2), (2, 1)], "start": [(1, (0, 1)), (2, (5, 6))]})
    assert str(kb.explain("b(1, [0, 6])")).splitlines() == [
        "b(1, [0, 6])  by the join of 2 values in `hull`",
        "├── b(1, [0, 1])  by b(X, V) :- start(X, V).",
        "│   └── start(1, [0, 1])  explicit",
        "└── b(1, [5, 6])  by b(Y, hull(V)) :- b(X, V), next(X, Y).",
        "    ├── b(2, [5, 6])  by b(X, V) :- start(X, V).",
        "    │   └── start(2, [5, 6])  explicit",
        "    ├── next(2, 1)  explicit",
        "    └── hull(V) = [5, 6]",
    ]
    assert kb.explain("far(2)").height == 4  # type: ignore[union-attr]
    assert len(list(kb.proofs("far(2)", 3))) == 1
    assert "`b` joins the values of each group, which gives b(1, [0, 6])." in str(kb.why_not("b(1, [0, 1])"))


def test_parts_that_are_checked_once_are_no_steps_of_proofs() -> None:
    kb = KnowledgeBase()
    kb.register_lattice("most", max)
    kb.add_rules("""
        at(X, most(V)) :- start(X, V).
        at(Y, most(V)) :- seen(Y), start(_, V).
        seen(Y) :- edge(X, Y), at(X, _), at(Z, _), first(Z).
        seen(Y) :- bridge(X, Y), at(X, _), at(Z, _), second(Z).
        goal(X) :- at(X, _).
        goal(X) :- c6(X).
        c6(X) :- c5(X).  c5(X) :- c4(X).  c4(X) :- c3(X).  c3(X) :- c2(X).  c2(X) :- c1(X).  c1(X) :- c0(X).
    """)
    kb.update(add="start(a, 1). edge(a, b). bridge(b, d). c0(d). first(a). second(b).")
    assert [proof.height for proof in kb.proofs("goal(d)")] == [6, 7]


# --- registering ----------------------------------------------------------------------------------------------------


def test_lattices_are_registered_and_listed() -> None:
    kb = KnowledgeBase()
    kb.register_lattice("hull", hull)
    kb.add_rules("b(X, hull(V)) :- start(X, V).  c(hull(V, [0, 9])) :- start(_, V).")
    assert kb.rules == ["b(X, hull(V)) :- start(X, V).", "c(hull(V, [0, 9])) :- start(_, V)."]
    kb.update(add={"start": [("a", (3, 4)), ("a", (8, 12))]})
    assert set(kb.facts("c")) == {(Record(0, 9),), (Record(0, 12),)}
    kb.remove_rules("b(A, hull(B)) :- start(A, B).")
    with pytest.raises(TidelogError, match="`hull` is a lattice already, and cannot be a function"):
        kb.register("hull", hull)
    with pytest.raises(TidelogError, match="`any` is an aggregate"):
        kb.register_lattice("any", hull)
    with pytest.raises(TidelogError, match="the `order` of the lattice `other` cannot be called"):
        kb.register_lattice("other", hull, "less")  # type: ignore[arg-type]
    with pytest.raises(TidelogError, match=r"`hull\(V\)` cannot stand here"):
        kb.add_rules("d(X, size(hull(V))) :- start(X, V).")


def test_an_opened_knowledge_base_says_what_is_missing(tmp_path: Path) -> None:
    kb = KnowledgeBase()
    kb.register_lattice("hull", hull)
    kb.add_rules("b(X, hull(V)) :- ( start(X, V) ; end(X, V) ).")
    kb.update(add={"start": [("a", (3, 4))]})
    kb.save(tmp_path / "saved")
    with pytest.warns(UserWarning, match="rules call `hull`"):
        opened = KnowledgeBase.open(tmp_path / "saved")
    assert opened.missing_functions == ["hull"]
    with pytest.raises(TidelogError, match="the lattice `hull` is not registered"):
        opened.update(add={"end": [("a", (6, 7))]})
    opened.register_lattice("hull", hull)
    opened.update(add={"end": [("a", (6, 7))]})
    assert set(opened.facts("b")) == {("a", Record(3, 7))}


def test_functions_of_open_may_be_lattices(tmp_path: Path) -> None:
    functions = {"hull": Lattice(hull), "same": Monotone(lambda value: value)}
    kb = knowledge_base(joined_case(Dice(1)).state, "auto", FUNCTIONS)
    kb.save(tmp_path / "saved")
    kb = KnowledgeBase.open(tmp_path / "saved", functions={**FUNCTIONS, **functions})
    kb.add_rules("w(Y, hull(same(V))) :- w(X, V), e(X, Y, _).  w(X, hull(V)) :- ws(X, V).")
    kb.update(add={"ws": [("a", (1, 2))]})
    assert ("a", Record(1, 2)) in kb.facts("w")
