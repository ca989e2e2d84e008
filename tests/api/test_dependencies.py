"""`kb.graph`: plain objects that agree with the graph of the engine, and plans that agree with the update."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest

from audit import audit, fingerprint
from engine_util import knowledge_base
from generate import soak
from tidelog import KnowledgeBase, ParseError, StratificationError, TidelogError, UnknownRuleError, UnsafeRuleError
from tidelog.language import parse_program, render

RULES = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z). far(X) :- path(a, X), not edge(a, X)."


def test_plans_are_what_updates_do() -> None:
    for seed in range(25):
        case, stream = soak(seed)
        kb = knowledge_base(case.state, "auto")
        for update in stream:
            before, graph = fingerprint(kb), kb.graph
            rules = {key: text for key, text in update.mapping().items() if key.endswith("_rules")}
            impact = graph.plan(**rules)  # type: ignore[arg-type]
            assert fingerprint(kb) == before
            assert kb.graph == graph
            kb.update(**rules)  # type: ignore[arg-type]
            assert impact.graph == kb.graph
            assert (len(impact.direct) == 0) <= (len(impact.plan) == 0)
            assert set(impact.direct) <= set(impact.plan) <= set(impact.graph.hyper_nodes)
            assert set(impact.vanished) <= set(graph.hyper_nodes)
        audit(kb)


def test_strata_keep_the_definition() -> None:
    """f of ZodiacEdge, §2.1: what is read strictly lies lower, what is read otherwise lies no higher."""
    for seed in range(25):
        graph = knowledge_base(soak(seed)[0].state, "auto").graph
        strata = {node.id: node.stratum for node in graph.hyper_nodes}
        assert all(strata[edge.source] + edge.strict <= strata[edge.target] for edge in graph.edges)
        least = {node.id: 0 for node in graph.hyper_nodes}
        for _ in least:
            for edge in graph.edges:
                least[edge.target] = max(least[edge.target], least[edge.source] + edge.strict)
        assert strata == least
        assert [node for stratum in graph.strata for node in stratum] == sorted(
            graph.hyper_nodes, key=lambda node: node.stratum
        )


def test_a_graph_does_not_follow_the_knowledge_base() -> None:
    kb = KnowledgeBase(RULES)
    graph = kb.graph
    kb.add_rules("near(X) :- edge(a, X).")
    assert [len(each.hyper_nodes) for each in (graph, kb.graph)] == [3, 4]
    assert [node.id for node in graph.plan(add_rules="near(X) :- edge(a, X).").new] == [4]
    with pytest.raises(FrozenInstanceError):
        graph.edges = ()  # type: ignore[misc]


def test_names_are_displayed() -> None:
    text = "@prefix ex: <http://example.org/> . ex:p(X) :- ex:q(X)."
    kb = KnowledgeBase(text)
    (node,) = kb.graph.hyper_nodes
    assert (node.rules, node.predicates) == (("ex:p(X) :- ex:q(X).",), ("ex:p",))
    impact = kb.graph.plan(add_rules="@prefix f: <http://f.org/> . f:r(X) :- ex:p(X), not ex:q(X).")
    assert impact.added == ("f:r(X) :- ex:p(X), not ex:q(X).",)
    assert [edge.predicates for edge in impact.graph.edges] == [("ex:p",)]
    assert dict(kb.prefixes) == {"ex": "http://example.org/"}


def test_drawings() -> None:
    graph = KnowledgeBase(RULES).graph
    assert [graph.draw(each)[:4] for each in ("dot", "svg", "mermaid")] == ["digr", "<svg", "flow"]
    assert json.loads(graph.draw("json")) == graph.to_dict()
    impact = graph.plan(remove_rules="far(X) :- path(a, X), not edge(a, X).")
    assert impact._repr_svg_().count("vanishes") == 1
    assert str(impact).splitlines()[0] == "- far(X) :- path(a, X), not edge(a, X)."
    assert json.loads(impact.draw("json"))["vanished"] == [3]
    assert (str(KnowledgeBase().graph), str(graph.plan())) == ("no rules", "nothing is impacted")
    with pytest.raises(TidelogError, match="'svg'"):
        graph.draw("png")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"add_rules": "edge(X, Y) :- path(X, Y), not far(X)."}, StratificationError),
        ({"add_rules": "p(X) :- q(Y)."}, UnsafeRuleError),
        ({"add_rules": "p(X) :- q(X"}, ParseError),
        ({"remove_rules": "p(X) :- q(X)."}, UnknownRuleError),
        ({"add_rules": 3}, TidelogError),
    ],
)
def test_plans_are_refused_as_updates_are(change: dict[str, str], error: type[TidelogError]) -> None:
    kb = KnowledgeBase(RULES)
    with pytest.raises(error) as planned:
        kb.graph.plan(**change)
    with pytest.raises(error) as refused:
        kb.update(**change)  # type: ignore[arg-type]
    assert str(planned.value) == str(refused.value)


def test_rules_that_are_there_and_functions() -> None:
    kb = KnowledgeBase(RULES)
    kb.register("twice", lambda value: 2 * value)
    assert kb.graph.plan(add_rules="path(A, B) :- edge(A, B).").plan == ()
    (new,) = kb.graph.plan(add_rules="p(Y) :- edge(X, _), Y = twice(X).").new
    assert new.rules == tuple(render(rule, {}) for rule in parse_program("p(Y) :- edge(X, _), Y = twice(X).").rules)
