"""Results compare as they print, and become plain data for JSON and pydantic."""

from __future__ import annotations

import json

import pytest

from tidelog import IRI, KnowledgeBase, Literal


@pytest.fixture
def kb() -> KnowledgeBase:
    return KnowledgeBase("edge(a, b). edge(b, c). n(1). n(1.0). flag. path(X, Y) :- edge(X, Y).")


def test_facts_equal_what_they_print(kb: KnowledgeBase) -> None:
    edges = kb.facts("edge")
    assert edges == eval(repr(edges)) == {("b", "c"), ("a", "b")}
    assert edges == [("b", "c"), ("a", "b")] == list(reversed(list(edges)))
    assert edges == kb.facts("path") == kb.explicit("edge")
    assert edges != {("a", "b")}
    assert edges != {("a", "b"), ("b", "d")}
    assert edges != [("a", "b"), ("a", "b")]
    assert edges != "edge"
    assert {("a", "b"), ("b", "c")} == edges
    assert kb.facts("flag") == {()}
    assert kb.facts("n") == [(1,), (1.0,)]
    assert kb.facts("n") != [(1,), (True,)]
    change = kb.update(add={"edge": [("c", "d")]})
    assert change.added["edge"] == [("c", "d")]
    assert edges != {("a", "b"), ("b", "c")}
    assert edges >= {("a", "b"), ("b", "c")}
    assert edges - {("a", "b"), ("b", "c")} == {("c", "d")}
    with pytest.raises(TypeError):
        hash(edges)


def test_answers_equal_what_they_print(kb: KnowledgeBase) -> None:
    answers = kb.query("edge(X, Y)")
    assert answers == eval(repr(answers)) == list(answers)
    assert answers == kb.query("edge(X, Y)")
    assert answers != list(answers)[::-1]
    assert answers != []
    assert answers != [("a", "b"), ("b", "c")]
    assert kb.query("edge(a, b)") == [{}]
    assert kb.query("edge(a, a)") == []
    assert kb.query("n(X), X < $two", two=2)[:1] != [{"X": True}]
    with pytest.raises(TypeError):
        hash(answers)


def test_results_become_plain_data(kb: KnowledgeBase) -> None:
    kb.update(add={"label": [(IRI("urn:a"), Literal("é", language="fr"))]})
    assert kb.query("edge(a, X)").to_dicts() == [{"X": "b"}]
    assert kb.facts("edge").to_dicts() == [{"c0": "a", "c1": "b"}, {"c0": "b", "c1": "c"}]
    assert kb.facts("flag").to_dicts() == [{}]
    label = kb.facts("label").to_dicts()
    assert label == [{"c0": {"iri": "urn:a"}, "c1": {"text": "é", "language": "fr", "datatype": ""}}]
    change = kb.update(add={"edge": [("x", "y")]}).to_dict()
    assert change["added"] == {"edge": [["x", "y"]], "path": [["x", "y"]]}
    assert (change["removed"], change["errors"], change["failures"]) == ({}, 0, [])
    assert json.loads(json.dumps([label, change])) == [label, change]


def test_rows_are_not_taken_for_a_mapping(kb: KnowledgeBase) -> None:
    change = kb.update(add={"edge": [("x", "y")]})
    for rows in (kb.facts("edge"), kb.query("edge(X, Y)"), change.added["edge"]):
        with pytest.raises(TypeError, match=r"rows and no mapping; use `.to_dicts\(\)`"):
            dict(rows)  # type: ignore[call-overload]
        with pytest.raises(TypeError):
            vars(rows)


def test_pydantic_writes_results_as_plain_data(kb: KnowledgeBase) -> None:
    pydantic = pytest.importorskip("pydantic")
    proof = kb.explain("path(a, b)")
    change = kb.update(add={"edge": [("x", "y")]})
    for result, plain in (
        (kb.query("edge(X, Y)"), kb.query("edge(X, Y)").to_dicts()),
        (kb.facts("edge"), kb.facts("edge").to_dicts()),
        (change, change.to_dict()),
        (proof, proof.to_dict()),
    ):
        adapter = pydantic.TypeAdapter(type(result))
        assert json.loads(adapter.dump_json(adapter.validate_python(result))) == plain
        assert adapter.json_schema(mode="serialization")["type"] in ("array", "object")
