"""Best values in recursions: beside the oracle and beside SciPy, under updates of facts and of rules."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from audit import audit, check_refused
from best_programs import best_case
from engine_util import ALGORITHMS, check_stream, knowledge_base, materialisation
from generate import Dice, make_stream
from naive import Update, database, proof_heights, without_empty
from tidelog import KnowledgeBase, LimitError, TidelogError
from tidelog.engine.algorithms import best_values
from tidelog.values import XSD, Literal, literal_of

PATHS = "dist(X, min(0)) :- source(X). dist(Y, min(D + W)) :- dist(X, D), edge(X, Y, W)."


# --- beside the oracle ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(14))
def test_streams_agree_with_the_oracle(seed: int) -> None:
    dice = Dice(seed)
    case = best_case(dice)
    check_stream(case.state, make_stream(dice, case, 8), "auto", audit)


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_every_name_of_maintenance_gives_the_same(maintenance: str) -> None:
    for seed in range(100, 102):
        dice = Dice(seed)
        case = best_case(dice)
        check_stream(case.state, make_stream(dice, case, 5), maintenance)


@pytest.mark.plain
def test_streams_without_the_compiler() -> None:
    for seed in range(200, 201):
        dice = Dice(seed)
        case = best_case(dice)
        check_stream(case.state, make_stream(dice, case, 4), "auto", audit)


@pytest.mark.parametrize("seed", range(300, 303))
def test_a_refused_update_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = Dice(seed)
    case = best_case(dice)
    kb = knowledge_base(case.state, "auto")
    state = case.state
    for update in make_stream(dice, case, 5):
        check_refused(kb, update, monkeypatch)
        kb.update(**update.mapping())  # type: ignore[arg-type]
        state = state.apply(update)
        assert materialisation(kb) == without_empty(state.materialise())


@pytest.mark.parametrize("seed", range(400, 403))
def test_opened_knowledge_bases_go_on(seed: int, tmp_path: Path) -> None:
    dice = Dice(seed)
    case = best_case(dice)
    state, kb = case.state, knowledge_base(case.state, "auto")
    for number, update in enumerate(make_stream(dice, case, 4)):
        kb.save(tmp_path / str(number))
        kb = KnowledgeBase.open(tmp_path / str(number))
        kb.update(**update.mapping())  # type: ignore[arg-type]
        state = state.apply(update)
        assert materialisation(kb) == without_empty(state.materialise())
        assert without_empty(database({name: list(kb.explicit(name)) for name in kb.predicates})) == state.explicit
        audit(kb, may_be_opened=True)


@pytest.mark.parametrize("seed", range(500, 502))
def test_streams_with_marks_and_the_live_mode(seed: int) -> None:
    dice = Dice(seed)
    case = best_case(dice)
    stream = make_stream(dice, case, 6)
    state = case.state
    for update in stream:
        state = state.apply(update)
    expected = without_empty(state.materialise())
    streamed = knowledge_base(case.state, "auto")
    for _ in streamed.stream([update.mapping() for update in stream], marking=3):
        pass
    assert materialisation(streamed) == expected
    with knowledge_base(case.state, "auto").live() as live:
        for update in stream:
            live.submit(**update.mapping())
            live.step(2)
        live.settle()
        snapshot = live.snapshot()
        found = {name: list(snapshot.facts(name)) for name in snapshot.predicates}
        assert without_empty(database(found)) == expected


@pytest.mark.parametrize("seed", range(600, 602))
def test_proofs_have_least_height(seed: int) -> None:
    state = best_case(Dice(seed)).state
    kb = knowledge_base(state, "auto")
    for (predicate, row), height in proof_heights(state.rules, state.explicit).items():
        proof = kb.explain(f"{predicate}({', '.join(map(str, row))})" if row else predicate)
        assert proof is not None
        assert proof.height == height


def test_a_value_that_improves_itself_has_no_proof() -> None:
    """What it started from has been replaced; the search for a proof used to go round for ever."""
    kb = KnowledgeBase("p(Y, min(min2(D, W))) :- p(X, D), e(X, Y, W). p(a, 3). e(a, a, 0).")
    assert list(kb.facts("p")) == [("a", 0)]
    for ask in (lambda: kb.explain("p(a, 0)"), lambda: list(kb.proofs("p(a, 0)", 2))):
        with pytest.raises(TidelogError, match="better ones have replaced"):
            ask()


# --- beside SciPy ---------------------------------------------------------------------------------------------------


def distances(weights: dict[tuple[int, int], float], nodes: int, source: int) -> dict[int, float]:
    """By SciPy: what can be reached from a source, and how far it is."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import bellman_ford

    ends = np.array(list(weights), np.int64).reshape(-1, 2)
    graph = csr_matrix((list(weights.values()), (ends[:, 0], ends[:, 1])), shape=(nodes, nodes))
    found = bellman_ford(graph, indices=source)
    return {node: float(found[node]) for node in range(nodes) if np.isfinite(found[node])}


@pytest.mark.parametrize("floats", [False, True])
def test_shortest_paths_agree_with_scipy(floats: bool) -> None:
    dice, nodes = random.Random(7), 60
    weights: dict[tuple[int, int], float] = {}

    def draw() -> float:
        return dice.random() + 0.1 if floats else dice.randint(1, 9)

    kb = KnowledgeBase(PATHS)
    kb.update(add={"source": [(0,)]})
    for _ in range(150):
        gone, come = [], []
        for _ in range(dice.randint(1, 3)):
            pair = dice.randrange(nodes), dice.randrange(nodes)
            if pair[0] == pair[1]:
                continue
            if pair in weights:
                gone.append((*pair, weights.pop(pair)))
            if dice.random() < 0.75:
                weights[pair] = draw()
                come.append((*pair, weights[pair]))
        kb.update(add={"edge": come}, delete={"edge": gone})
        assert dict(iter(kb.facts("dist"))) == pytest.approx(distances(weights, nodes, 0))


def test_many_nodes_are_settled_best_first() -> None:
    dice, nodes = np.random.default_rng(3), 3000
    ends, costs = dice.integers(0, nodes, (15_000, 2)), dice.integers(1, 100, 15_000)
    weights = {(int(x), int(y)): float(w) for (x, y), w in zip(ends, costs, strict=True) if x != y}
    kb = KnowledgeBase(PATHS)
    rows = [(x, y, int(w)) for (x, y), w in weights.items()]
    change = kb.update(add={"edge": rows, "source": [(0,)]})
    found = distances(weights, nodes, 0)
    assert dict(iter(kb.facts("dist"))) == found
    # Almost every node is settled once, and each of its edges is looked at once.
    instances = 1 + sum(x in found for x, _ in weights)
    assert instances <= change.work["insertion"] <= 1.05 * instances
    # An edge that nothing depends on costs nothing.
    x, y, w = next((x, y, w) for x, y, w in rows if x in found and y in found and found[x] + w > found[y] + 5)
    assert kb.update(delete={"edge": [(x, y, w)]}).work["overdeleted"] == 0
    audit(kb, oracle=False)


def test_all_pairs_are_settled_key_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_values, "ASIDE_FROM", 10)
    dice, nodes = random.Random(8), 40
    weights = {(dice.randrange(nodes), dice.randrange(nodes)): float(dice.randint(1, 9)) for _ in range(120)}
    kb = KnowledgeBase(
        """
        dist(X, X, min(0)) :- edge(X, _, _).
        dist(X, Z, min(D + W)) :- dist(X, Y, D), edge(Y, Z, W).
        """
    )
    for _ in range(4):
        kb.update(add={"edge": [(x, y, int(w)) for (x, y), w in weights.items()]})
        expected = {
            (source, node): distance
            for source in {x for x, _ in weights}
            for node, distance in distances(weights, nodes, source).items()
        }
        assert {(x, y): d for x, y, d in kb.facts("dist")} == expected
        audit(kb, oracle=False)
        gone = dice.choice(sorted(weights))
        kb.update(delete={"edge": [(*gone, int(weights.pop(gone)))]})


@pytest.mark.parametrize("seed", range(700, 704))
def test_streams_agree_with_the_oracle_key_by_key(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_values, "ASIDE_FROM", 1)
    dice = Dice(seed)
    case = best_case(dice)
    check_stream(case.state, make_stream(dice, case, 5), "auto", audit)


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_values_that_texts_do_not_order_fail(maintenance: str) -> None:
    """Of 9.5 and 10.0 the text of the latter is less."""
    kb = KnowledgeBase(f"{PATHS}  least(X, min(W)) :- edge(X, _, W).", maintenance=maintenance)
    weights: list[object] = [Decimal("9.5"), Decimal("10.0"), timedelta(hours=9), timedelta(hours=10)]
    weights += [Literal(text, f"{XSD}integer") for text in ("99999999999999999999", "100000000000000000000")]
    kb.update(add={"edge": [("a", "b", 4), ("b", "c", 1)]})
    for weight in weights:
        # `dist` is added to the literal in one rule, and given in another way.
        change = kb.update(add={"dist": [("x", weight), ("b", weight)]})
        assert change.errors == 2
        assert not change.added.get("dist")
        kb.update(delete={"dist": [("x", weight), ("b", weight)]})
    day, text = datetime(2026, 1, 1, tzinfo=UTC), "least"
    kb.update(add={"dist": [("x", day), ("x", day + timedelta(1)), ("y", text)]})
    assert set(kb.facts("dist")) == {("x", literal_of(day)), ("y", text)}
    kb.update(add={"edge": [("m", "n", weights[0]), ("m", "o", weights[1])]})
    assert set(kb.facts("least")) == {("b", 1), ("a", 4), ("m", literal_of(weights[0]))}


# --- special cases --------------------------------------------------------------------------------------------------


def test_a_change_has_the_former_value_and_the_new_one() -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add={"source": [("a",)], "edge": [("a", "b", 4), ("b", "c", 1)]})
    change = kb.update(add={"edge": [("a", "b", 2)]})
    assert change.added["dist"] == {("b", 2), ("c", 3)}
    assert change.removed["dist"] == {("b", 4), ("c", 5)}
    change = kb.update(delete={"edge": [("a", "b", 2)]})
    assert change.added["dist"] == {("b", 4), ("c", 5)}


def test_explicit_values_are_candidates_and_stay_explicit() -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add={"source": [("a",)], "edge": [("a", "b", 4)], "dist": [("b", 9), ("b", 6), ("z", 1)]})
    assert set(kb.facts("dist")) == {("a", 0), ("b", 4), ("z", 1)}
    assert set(kb.explicit("dist")) == {("b", 9), ("b", 6), ("z", 1)}
    kb.update(delete={"edge": [("a", "b", 4)]})
    assert set(kb.facts("dist")) == {("a", 0), ("b", 6), ("z", 1)}
    kb.update(delete={"dist": [("b", 6)]})
    assert ("b", 9) in kb.facts("dist")


def test_explicit_values_outlive_compaction() -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add={"source": [(0,)], "dist": [(n, 50_000) for n in range(1, 50)]})
    for low in range(6):
        edges = [(0, n, 100 + n + 5000 * (6 - low)) for n in range(1, 3000)]
        kb.update(add={"edge": edges})
    assert kb._engine.store.relation("dist", 2).count < 12_000
    audit(kb, oracle=False)
    kb.update(delete={"source": [(0,)]})
    assert set(kb.facts("dist")) == {(n, 50_000) for n in range(1, 50)}


def test_values_that_get_better_along_rules_are_settled_in_rounds() -> None:
    """Best first, the longest paths of a ladder would be settled over and over: their number grows exponentially."""
    rules = "long(X, max(0)) :- start(X). long(Y, max(D + W)) :- long(X, D), edge(X, Y, W)."
    kb = KnowledgeBase(rules)
    steps = [(n, n + 1, 1) for n in range(150)] + [(n, n + 2, 3) for n in range(149)]
    change = kb.update(add={"start": [(0,)], "edge": steps})
    best = [0] * 151
    for x, y, w in sorted(steps):
        best[y] = max(best[y], best[x] + w)
    assert dict(iter(kb.facts("long"))) == dict(enumerate(best))
    assert change.work["insertion"] < 150 * len(steps)
    audit(kb)
    # Local changes stay local.
    assert kb.update(delete={"edge": [(140, 142, 3)]}).work["deletion"] < 100
    audit(kb)


def test_labels_of_a_component_survive_the_loss_of_an_edge() -> None:
    rules = "label(X, min(X)) :- edge(X, _). label(Y, min(L)) :- label(X, L), edge(X, Y)."
    nodes = 200
    ring = [(n, (n + step) % nodes) for n in range(nodes) for step in (1, 2, nodes - 1, nodes - 2)]
    kb = KnowledgeBase(rules)
    kb.update(add={"edge": ring})
    assert {label for _, label in kb.facts("label")} == {0}
    change = kb.update(delete={"edge": [(100, 101), (101, 100)]})
    assert "label" not in change.added
    assert change.work["overdeleted"] <= 5


def test_a_negative_cycle_meets_a_limit_that_names_the_rule() -> None:
    kb = KnowledgeBase(PATHS, max_facts=1000)
    kb.update(add={"source": [("a",)], "edge": [("a", "b", 1), ("b", "c", 1)]})
    with pytest.raises(LimitError, match=r"again and again.*busiest rule: dist\(Y, min\(D \+ W\)\)"):
        kb.update(add={"edge": [("c", "a", -3)]})
    assert set(kb.facts("dist")) == {("a", 0), ("b", 1), ("c", 2)}
    audit(kb)
    with pytest.raises(LimitError, match="took more than"):
        KnowledgeBase(f"{PATHS} source(a). edge(a, a, -1).", timeout=0.2)


def test_ties_go_to_the_first_witness_in_one_order() -> None:
    rules = "hop(X, min(0), min(0, X)) :- source(X). hop(Y, min(D + 1), min(D + 1, X)) :- hop(X, D, _), edge(X, Y)."
    kb = KnowledgeBase(rules)
    kb.update(add={"source": [("s",)], "edge": [("s", via) for via in ("b", 2, 1.5, "a")]})
    kb.update(add={"edge": [(via, "t") for via in ("b", "a", 2, 1.5)]})
    assert ("t", 2, 1.5) in kb.facts("hop")
    for gone, left in ((1.5, 2), (2, "a"), ("a", "b")):
        assert ("t", 2, left) in kb.update(delete={"edge": [(gone, "t")]}).added["hop"]


def test_first_hops_are_passed_on() -> None:
    rules = """
        route(Y, min(W), min(W, Y)) :- me(X), link(X, Y, W).
        route(Z, min(D + W), min(D + W, H)) :- route(Y, D, H), link(Y, Z, W).
    """
    kb = KnowledgeBase(rules)
    kb.update(add={"me": [("m",)], "link": [("m", "a", 1), ("m", "b", 5), ("a", "c", 9), ("b", "c", 1)]})
    assert ("c", 6, "b") in kb.facts("route")
    assert kb.update(add={"link": [("a", "b", 1)]}).added["route"] == {("b", 2, "a"), ("c", 3, "a")}


def test_any_and_all_of_booleans() -> None:
    kb = KnowledgeBase("""
        reached(X, any(B)) :- given(X, B).
        reached(Y, any(B)) :- reached(X, B), edge(X, Y).
        safe(X, all(B)) :- given(X, B).
        safe(X, all(B)) :- edge(X, Y), safe(Y, B).
        some(any(B)) :- given(_, B).
        every(all(B)) :- given(_, B).
    """)
    kb.update(add={"edge": [("a", "b"), ("b", "c")], "given": [("a", True), ("b", False), ("c", True)]})
    assert set(kb.facts("reached")) == {("a", True), ("b", True), ("c", True)}
    assert set(kb.facts("safe")) == {("a", False), ("b", False), ("c", True)}
    assert set(kb.facts("some")) == {(True,)}
    assert set(kb.facts("every")) == {(False,)}
    kb.update(delete={"given": [("a", True)]})
    assert set(kb.facts("reached")) == {("b", False), ("c", True)}
    change = kb.update(add={"given": [("b", 3)]})
    assert change.errors
    assert set(kb.facts("reached")) == {("b", False), ("c", True)}


def test_rules_enter_and_leave_the_recursion() -> None:
    kb = KnowledgeBase("p(X, min(V)) :- s(X, V). p(Y, V) :- p(X, V), e(X, Y).")
    kb.update(add={"s": [("a", 2), ("a", 1), ("b", 3)], "e": [("a", "b"), ("b", "c")]})
    assert set(kb.facts("p")) == {("a", 1), ("b", 1), ("b", 3), ("c", 1), ("c", 3)}
    change = kb.update(add_rules="p(Y, min(V + 1)) :- p(X, V), e(X, Y).")
    assert change.removed["p"] == {("b", 3), ("c", 3)}
    audit(kb)
    kb.update(remove_rules="p(Y, V) :- p(X, V), e(X, Y).")
    assert set(kb.facts("p")) == {("a", 1), ("b", 2), ("c", 3)}
    kb.update(remove_rules="p(Y, min(V + 1)) :- p(X, V), e(X, Y).")
    assert set(kb.facts("p")) == {("a", 1), ("b", 3)}
    audit(kb)


def test_why_not_names_the_better_value() -> None:
    kb = KnowledgeBase(f"{PATHS} source(a). edge(a, b, 4). edge(a, c, 1). edge(c, b, 2).")
    assert "dist(b, 3) is better" in kb.why_not("dist(b, 4)")
    assert "its group gives dist(b, 3)" in kb.why_not("dist(b, 2)")
    assert "no rule gives less" in str(kb.explain("dist(b, 3)"))


def test_what_if_leaves_values_as_they_are() -> None:
    kb = KnowledgeBase(f"{PATHS} source(a). edge(a, b, 4).")
    assert kb.what_if(add={"edge": [("a", "b", 1)]}).added["dist"] == {("b", 1)}
    assert ("b", 4) in kb.facts("dist")
    audit(kb)


def test_an_update_of_everything_starts_over() -> None:
    kb = KnowledgeBase(PATHS)
    edges = [(n, n + 1, 1) for n in range(500)]
    kb.update(add={"source": [(0,)], "edge": edges})
    kb.update(**Update(delete=database({"edge": edges[100:]})).mapping())  # type: ignore[arg-type]
    assert len(kb.facts("dist")) == 101
    audit(kb)


# --- drafts ---------------------------------------------------------------------------------------------------------


def fan(nodes: int) -> list[tuple[int, int, int]]:
    """Edges by which each node gets better values one after the other."""
    return [(x, y, 3 * (y - x) ** 2) for x in range(nodes) for y in range(x + 1, nodes)]


def test_values_that_are_replaced_before_their_turn_leave_no_record() -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add={"source": [(0,)], "edge": fan(40)})
    assert dict(iter(kb.facts("dist"))) == {node: 3 * node for node in range(40)}
    assert kb._engine.store.relation("dist", 2).count == 40
    audit(kb)


def test_values_by_which_an_index_is_read_are_replaced_too() -> None:
    """Such an index would have a record by a value that it no longer has."""
    kb = KnowledgeBase(f"{PATHS} at(X, D) :- wanted(D), dist(X, D).")
    kb.update(add={"wanted": [(0,)], "source": [(0,)], "edge": [(0, 1, 5)]})
    kb.update(delete={"source": [(0,)]})
    kb._engine.store.relation("dist", 2).compact()
    kb.update(add={"source": [(0,)], "edge": fan(40)})
    kb.update(add={"wanted": [(3 * node,) for node in range(40)]})
    assert set(kb.facts("at")) == set(kb.facts("dist")) == {(node, 3 * node) for node in range(40)}
    audit(kb)


def test_an_update_that_fails_leaves_no_draft() -> None:
    kb = KnowledgeBase(PATHS, max_facts=60)
    with pytest.raises(LimitError):
        kb.update(add={"source": [(0,)], "edge": [*fan(8), *((0, node, 900) for node in range(100, 200))]})
    assert not kb.facts("dist")
    audit(kb)
    kb.update(add={"source": [(0,)], "edge": fan(8)})
    assert dict(iter(kb.facts("dist"))) == {node: 3 * node for node in range(8)}
    audit(kb)


def test_a_predicate_that_leaves_a_recursion_shows_all_of_its_explicit_facts() -> None:
    """Even where nothing that it reads has changed."""
    back = "p(X, max(D)) :- m(X, D), on(X)."
    kb = KnowledgeBase(f"m(X, max(D)) :- p(X, D). {back} p(a, 5). m(a, 1). m(a, 5). on(a).")
    assert list(kb.facts("m")) == [("a", 5)]
    kb.remove_rules(back)
    assert set(kb.facts("m")) == {("a", 1), ("a", 5)}
