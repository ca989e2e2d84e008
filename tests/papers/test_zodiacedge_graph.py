"""ZodiacEdge, Figures 1 and 3 and §4.4, asked from Python: hyper-nodes, edges, strata, DIHN and execution plans.

Rule 5 of Figure 1 is unsafe by the paper's own definition: its X occurs in the head and in a negated atom alone, and no
knowledge base takes it. Here it reads `p6(X, Z)`, which changes no edge.
"""

from __future__ import annotations

import pytest

from graph_util import FIGURE_1, RULE_8
from tidelog import KnowledgeBase
from tidelog.api.dependencies import DependencyGraph

SAFE = FIGURE_1.replace("p5(X, Y) :- p6(Y, Z)", "p5(X, Z) :- p6(X, Z)")
# Hyper-nodes are called after their first rules.
HN1, HN2, HN3, HN4 = 1, 2, 5, 7


@pytest.fixture
def graph() -> DependencyGraph:
    return KnowledgeBase(SAFE).graph


def test_figure_3a(graph: DependencyGraph) -> None:
    assert [(node.id, node.predicates) for node in graph.hyper_nodes] == [
        *((HN1, ("p1",)), (HN2, ("p2", "p3", "p4"))),
        *((HN3, ("p5", "p6")), (HN4, ("p7",))),
    ]
    positive = {(edge.source, edge.target) for edge in graph.edges if not edge.strict}
    assert positive == {(HN1, HN2), (HN2, HN4), (HN3, HN4)}
    assert [(edge.source, edge.target, edge.predicates) for edge in graph.edges if edge.strict] == [(HN2, HN3, ("p2",))]


def test_strata_of_section_2_1(graph: DependencyGraph) -> None:
    assert [[node.id for node in stratum] for stratum in graph.strata] == [[HN1, HN2], [HN3, HN4]]


def test_figure_3b_rule_8_is_inserted(graph: DependencyGraph) -> None:
    impact = graph.plan(add_rules=RULE_8)
    assert [node.id for node in impact.direct] == [HN2]
    assert [node.id for node in impact.plan] == [HN2, HN3, HN4]
    assert impact.direct[0].rules[-1] == RULE_8
    assert [(node.id, [each.id for each in origins]) for node, origins in impact.merged.items()] == [(HN2, [HN2])]


def test_figure_3c_rule_4_is_deleted(graph: DependencyGraph) -> None:
    after = graph.plan(add_rules=RULE_8).graph
    impact = after.plan(remove_rules="p4(X, Y) :- p2(X, Y).")
    # The paper's {hn2, hn3, hn4, hn5, hn6}, where hn5 and hn6 are pieces of hn2.
    assert sorted(node.id for node in impact.direct) == [2, 3, HN3, HN4, 8]
    assert [(node.id, [piece.id for piece in pieces]) for node, pieces in impact.split.items()] == [(HN2, [2, 3, 8])]
    assert {node.id for node in impact.plan} == {2, 3, HN3, HN4, 8}
