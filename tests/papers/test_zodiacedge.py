"""ZodiacEdge (Xu, Curé): its running example (Figures 1 to 3), Figure 5, Table 1, and the rule sets of its appendices
in its own syntax, with their graphs (Figures 11 and 12).
"""

from __future__ import annotations

import pytest

from engine_util import ALGORITHMS
from graph_util import FIGURE_1, R1, R2, R3, R4, R5, R6, R7, R8, RULE_8, hyper_edges, partition, rules
from tidelog import KnowledgeBase, UnsafeRuleError
from tidelog.language import ZODIAC, convert, parse_program
from tidelog.program.graph import RuleGraph

# A hyper-node is called after its least rule.
HN1, HN2, HN3, HN4 = R1, R2, R5, R7


def graph_of(text: str) -> RuleGraph:
    return RuleGraph(parse_program(text, syntax=ZODIAC).rules)


# ── the running example ──────────────────────────────────────────────────────────────────────────────────────────────

FIGURE_1_AS_PRINTED = """
r1: p1(X,Y) :- p0(X,Y).           r2: p2(X,Z):- p1(X,Y) ∧ p3(Y,Z).
r3: p3(X,Y) :- p4(X,Y).           r4: p4(X,Y) :- p2(X,Y).
r5: p5(X,Y) :- p6(Y,Z) ∧ not p2(X,Z).
r6: p6(X,Y) :- p5(X,Y).           r7: p7(X,Z) :- p3(X,Y) ∧ p5(Y,Z).
"""


def test_figure_1_has_a_rule_that_section_2_1_calls_unsafe() -> None:
    """The X of r5 is in its negated atom alone, and not even the head could be known."""
    with pytest.raises(
        UnsafeRuleError, match=r"^<program>:4:8: the rule is unsafe: the variable `X` is in no positive"
    ):
        KnowledgeBase(FIGURE_1_AS_PRINTED, syntax=ZODIAC)
    safe = FIGURE_1_AS_PRINTED.replace("p5(X,Y) :- p6(Y,Z)", "p5(X,Y) :- p6(Y,Z) ∧ p6(X,Y)")
    assert len(KnowledgeBase(safe, syntax=ZODIAC).rules) == 7


def test_figure_2_rule_dependency_graph() -> None:
    graph = RuleGraph(rules(FIGURE_1))
    edges: tuple[set[tuple[int, int]], set[tuple[int, int]]] = (set(), set())
    for number in graph.rules:
        for kind, read in zip(edges, (graph.reads(number).positive, graph.reads(number).strict), strict=True):
            kind.update((producer, number) for predicate in read for producer in graph.producers(predicate))
    positive, negative = edges
    assert positive == {(R1, R2), (R2, R4), (R3, R2), (R3, R7), (R4, R3), (R5, R6), (R5, R7), (R6, R5)}
    assert negative == {(R2, R5)}


def test_figure_3a_hyper_nodes_and_edges() -> None:
    graph = RuleGraph(rules(FIGURE_1))
    assert partition(graph) == [(R1,), (R2, R3, R4), (R5, R6), (R7,)]
    assert hyper_edges(graph) == ({(HN1, HN2), (HN2, HN4), (HN3, HN4)}, {(HN2, HN3)})
    assert [node.id for node in graph.hyper_nodes] == [HN1, HN2, HN3, HN4]
    assert [node.recursive for node in graph.hyper_nodes] == [False, True, True, False]
    assert graph.hyper_node(R3).predicates == ("p2", "p3", "p4")


def test_figure_3b_rule_8_joins_hyper_node_2() -> None:
    graph = RuleGraph(rules(FIGURE_1))
    impact = graph.update(rules(RULE_8))
    assert impact.added == (R8,)
    assert impact.merged == {HN2: (HN2,)}
    assert impact.direct == {HN2}
    assert (impact.new, impact.vanished, impact.split) == ((), (), {})
    assert partition(graph) == [(R1,), (R2, R3, R4, R8), (R5, R6), (R7,)]
    assert [node.id for node in graph.execution_plan(impact.direct)] == [HN2, HN3, HN4]


def test_figure_3c_rule_4_splits_hyper_node_2() -> None:
    graph = RuleGraph(rules(FIGURE_1 + RULE_8))
    impact = graph.update(remove=[R4])
    assert impact.split == {HN2: (R2, R3, R8)}
    # Its pieces, and those that read from what was one hyper-node.
    assert impact.direct == {R2, R3, R8, HN3, HN4}
    assert partition(graph) == [(R1,), (R2,), (R3,), (R5, R6), (R7,), (R8,)]
    assert [graph.recursive(number) for number in (R2, R3, R8)] == [False, False, True]
    assert impact.no_longer_recursive == {R2, R3}


def test_section_4_4_hyper_nodes_that_go_as_a_whole_need_no_reasoning() -> None:
    graph = RuleGraph(rules(FIGURE_1))
    impact = graph.update(remove=[R5, R6, R7])
    assert impact.vanished == (HN3, HN4)
    assert impact.direct == frozenset()
    assert graph.execution_plan(impact.direct) == []
    assert partition(graph) == [(R1,), (R2, R3, R4)]


def test_figure_5_a_hyper_node_that_holds_together_is_alone_in_its_impact() -> None:
    # Three hyper-nodes in a row; the second has two ways round, of which rule 7 is one.
    graph = RuleGraph(
        rules("""
            a(X, Y) :- e(X, Y).
            b(X, Y) :- a(X, Y), d(X, Y).
            c(X, Y) :- b(X, Y).
            d(X, Y) :- c(X, Y).
            f(X, Y) :- d(X, Y), f(X, Y).
            g(X, Y) :- e(X, Y).
            d(X, Y) :- b(Y, X).
        """)
    )
    impact = graph.update(remove=[7])
    assert impact.split == {2: (2,)}
    assert impact.direct == {2}
    assert [node.id for node in graph.execution_plan(impact.direct)] == [2, 5]


# ── the rule sets of the appendices, as printed ──────────────────────────────────────────────────────────────────────

RULE_SET_1 = """
r1: hasNeighbour(X, Y) :- hasNeighbour(Y, X) .
r2: hasNeighbour(X, Y) :- hasNeighbour(X, Z) ∧ hasNeighbour(Z, Y) ∧ COMP(X, !=, Y) .
r3: hasNeighbourAirTemperatureMeasurementNumber(X, Z) :- aggregate(hasNeighbour(X, Y) ∧
    hasAirTemperatureMeasurement(Y, T)) on X with count(T) as Z .
r4: hasMedianAirTemperatureMeasurementNearby(X, Z) :- aggregate(hasNeighbour(X, Y) ∧
    hasAirTemperatureMeasurement(Y, T)) on X with Med(T) as Z .
r5: MoreThan3Neighbours(X) :- hasNeighbourAirTemperatureMeasurementNumber(X, N) ∧ Comp(N, >=, 3) .
r6: SensorAnomalyWindTurbine(X) :- hasMedianAirTemperatureMeasurementNearby(X, M) ∧ MoreThan3Neighbours(X) ∧
    hasAirTemperatureMeasurement(X, T) and bind(abs(T-M) as D) ∧ Comp(D, >, 5).
"""
RULE_SET_2 = """
r1: p11(X, Y) :- p1(X, Y).
r2: p11(X, Y) :- p11(Y, X).
r3: p11(X, Y) :- p11(X, Z) ∧ p11(Z, Y) ∧ COMP(X, !=, Y).
r4: p12(X, Y) :- p2(X, Y).
r5: p12(X, Y) :- p12(X, Z) ∧ p12(Z, Y) ∧ COMP(X, !=, Y).
r6: p13(X, Y) :- p3(X, Y).
r7: p14(X, Y) :- p13(X, Y).
r8: p13(X, Y) :- p14(Y, X).
r9: p20(X, Y) :- p11(X, Y).
r10: p20(X, Y) :- p12(X, Y).
r11: p20(X, Y) :- p13(X, Y).
r12: p21(X, Y) :- p20(X, Y).
r13: p22(X, Y) :- p21(X, Y).
r14: p20(X, Y) :- p22(X, Y).
r15: p25(X, Z) :- p11(X, Y) ∧ p12(Y, Z) ∧ not p5(Y, Z).
r16: p26(X, Z) :- p12(X, Y) ∧ p13(Z, Y) ∧ not p5(Z, Y).
r17: p30(X, Z) :- p22(X, Y) ∧ p21(Y, Z).
r18: p31(X, Y) :- p25(X, Y) ∧ p26(Y, Z).
"""
R10, R10_NEW = "r10: p20(X, Y) :- p12(X, Y).", "r10new: p20(X, Y) :- p12(X, Y) ∧ not p13(Y, Z)."
RULE_SET_3 = RULE_SET_2.replace(R10, R10_NEW)

POSITIVE_EDGES = {
    *((1, 2), (1, 9), (1, 15), (2, 9), (2, 15)),
    *((4, 5), (4, 10), (4, 15), (4, 16), (5, 10), (5, 15), (5, 16)),
    *((6, 7), (6, 11), (6, 16), (7, 11), (7, 16)),
    *((9, 12), (10, 12), (11, 12), (12, 17), (15, 18), (16, 18)),
}


def test_rule_set_1_finds_the_turbine_whose_sensor_is_wrong() -> None:
    """The use case of section 3: five turbines in a row, of which one measures far from the median of the others."""
    kb = KnowledgeBase(RULE_SET_1, syntax=ZODIAC)
    kb.update(
        add={
            "hasNeighbour": [(f"t{i}", f"t{i + 1}") for i in range(1, 5)],
            "hasAirTemperatureMeasurement": [("t1", 11), ("t2", 12), ("t3", 30), ("t4", 12.5), ("t5", 13)],
        }
    )
    assert len(kb.facts("hasNeighbour")) == 5 * 4
    assert set(kb.facts("hasNeighbourAirTemperatureMeasurementNumber")) == {(f"t{i}", 4) for i in range(1, 6)}
    assert ("t3", 12.25) in kb.facts("hasMedianAirTemperatureMeasurementNearby")
    assert set(kb.facts("SensorAnomalyWindTurbine")) == {("t3",)}


def test_section_4_5_a_second_rule_for_the_head_of_an_aggregation() -> None:
    """Section 4.5 allows no second rule with the head of an aggregation; here it is one more rule."""
    kb = KnowledgeBase("p(X, Z) :- aggregate(q(X, Y)) on X with count(Y) as Z. q(a, 1). q(a, 2).", syntax=ZODIAC)
    kb.add_rules("p(X, Y) :- r(X, Y).")
    kb.update(add={"r": [("a", 7)]})
    assert set(kb.facts("p")) == {("a", 2), ("a", 7)}


def test_rule_set_2_loads_as_printed() -> None:
    kb = KnowledgeBase(RULE_SET_2, syntax=ZODIAC)
    kb.update(add={"p1": [(1, 2), (2, 3)], "p2": [(3, 4)], "p3": [(5, 4)], "p5": [(5, 4)]})
    assert set(kb.facts("p25")) == {(1, 4), (2, 4)}
    assert set(kb.facts("p26")) == set(), "p5(5, 4) stands against it"
    kb.update(delete={"p5": [(5, 4)]})
    assert set(kb.facts("p26")) == {(3, 5)}


def test_rule_set_3_has_one_unsafe_rule_and_loads_without_it() -> None:
    """The Z of r10new is in its negated atom alone, against section 2.1."""
    with pytest.raises(UnsafeRuleError) as refused:
        KnowledgeBase(RULE_SET_3, syntax=ZODIAC)
    assert str(refused.value) == (
        "<program>:11:45: the rule is unsafe: the variable `Z` is in no positive atom of its body\n"
        "  11 | r10new: p20(X, Y) :- p12(X, Y) ∧ not p13(Y, Z).\n"
        "     |                                             ^\n"
        "hint: ZodiacEdge requires every variable of a rule to be in a positive body atom, or to be given by BIND; "
        "in tidelog's own syntax, a variable of a negated atom alone means that there is none"
    )
    kb = KnowledgeBase(RULE_SET_3.replace(R10_NEW, ""), syntax=ZODIAC)
    assert len(kb.rules) == 17
    # In tidelog's own syntax it says what the paper means by it.
    kb.update(add={"p2": [(1, 2), (3, 4)], "p3": [(4, 5)]}, add_rules="p20(X, Y) :- p12(X, Y), not p13(Y, Z).")
    assert set(kb.facts("p12")) == {(1, 2), (3, 4)}
    assert set(kb.facts("p20")) == {(1, 2), (4, 5), (5, 4)}


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_rules_come_and_go_in_their_own_syntax(maintenance: str) -> None:
    kb = KnowledgeBase(RULE_SET_2.replace(R10, ""), maintenance=maintenance, syntax=ZODIAC)
    kb.update(add={"p2": [(1, 2), (2, 3)]})
    assert set(kb.add_rules(R10, syntax=ZODIAC).added["p22"]) == {(1, 2), (2, 3), (1, 3)}
    assert set(kb.remove_rules(R10, syntax=ZODIAC).removed["p22"]) == {(1, 2), (2, 3), (1, 3)}
    before = kb.rules
    with pytest.raises(UnsafeRuleError, match=r"^<rules>:1:45: the rule is unsafe"):
        kb.update(add={"p2": [(3, 4)]}, add_rules=R10_NEW, syntax=ZODIAC)
    assert (kb.rules, len(kb.facts("p2"))) == (before, 2)


def test_table_1_hyper_nodes_rules_and_predicates() -> None:
    found = []
    for text in (RULE_SET_1, RULE_SET_2):
        graph = graph_of(text)
        found.append((len(graph.hyper_nodes), len(graph.rules), len(list(graph.predicates))))
    assert found == [(5, 6, 6), (14, 18, 15)]
    assert hyper_edges(graph_of(RULE_SET_1)) == ({(3, 5), (4, 6), (5, 6)}, {(1, 3), (1, 4)})


def test_figure_11_graph_of_rule_set_2() -> None:
    graph = graph_of(RULE_SET_2)
    together = [node for node in partition(graph) if len(node) > 1]
    assert together == [(2, 3), (7, 8), (12, 13, 14)]
    assert hyper_edges(graph) == (POSITIVE_EDGES, set()), "p5 is derived by no rule"


def test_figure_12_graph_of_rule_set_3() -> None:
    """Rule set 2 with another rule 10, here number 19: the only one that depends on a negation."""
    graph = graph_of(RULE_SET_2)
    impact = graph.update(add=rules("p20(X, Y) :- p12(X, Y), not p13(Y, Z)."), remove=[10])
    assert (impact.new, impact.vanished, set(impact.direct)) == ((19,), (10,), {12, 19})
    assert len(graph.hyper_nodes) == 14
    renumbered = {(19 if a == 10 else a, 19 if b == 10 else b) for a, b in POSITIVE_EDGES}
    assert hyper_edges(graph) == (renumbered, {(6, 19), (7, 19)})


@pytest.mark.parametrize("text", [RULE_SET_1, RULE_SET_2], ids=["1", "2"])
def test_rule_sets_convert_there_and_back(text: str) -> None:
    program = parse_program(text, syntax=ZODIAC)
    assert parse_program(convert(program, "dlog")) == program
    assert parse_program(convert(program, ZODIAC), syntax=ZODIAC) == program
