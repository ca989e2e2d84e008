"""Questions with values: queries, facts and proofs; predicates that nothing mentions, and those that are declared."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog import (
    IRI,
    ArityError,
    DataError,
    KnowledgeBase,
    Literal,
    ParseError,
    TidelogError,
    UnknownPredicateWarning,
)
from tidelog.language import parse_atom, parse_query, parser
from tidelog.values import Value, identity

ACCESS = """
may(U, A) :- role(U, R), grants(R, A).
role(ada, admin). role(eve, reader). grants(admin, write). grants(reader, read).
"""


@pytest.fixture
def kb() -> KnowledgeBase:
    return KnowledgeBase(ACCESS)


@pytest.mark.parametrize("name", ["Mallory", "U", "_", "?u", "ada, write), role(ada", 'ada"', "$user"])
def test_no_name_can_ask_another_question(kb: KnowledgeBase, name: str) -> None:
    assert kb.query("may($user, write)", user=name) == []
    assert ("may", name, "write") not in kb
    assert kb.explain("may($user, write)", user=name) is None
    assert kb.explain(("may", name, "write")) is None
    assert list(kb.proofs("may($user, write)", user=name)) == []
    assert "does not hold" in kb.why_not("may($user, write)", user=name)
    kb.update(add={"role": [(name, "admin")]})
    assert kb.query("may($user, A)", user=name) == [{"A": "write"}]
    assert ("may", name, "write") in kb
    proof = kb.explain("may($user, write)", user=name)
    assert proof is not None
    assert proof.height == 1


def test_a_parameter_may_have_any_name(kb: KnowledgeBase) -> None:
    for name in ("limit", "fact", "text", "self", "values"):
        asked, value = f"may(ada, ${name})", {name: "write"}
        assert kb.query(asked, **value) == [{}]
        assert kb.explain(asked, **value) is not None
        assert "holds" in kb.why_not(asked, **value)


def test_facts_are_named_by_texts_tuples_and_atoms(kb: KnowledgeBase) -> None:
    for fact in ("may(ada, write)", ("may", "ada", "write"), parse_atom("may(ada, write)", {})):
        assert fact in kb
        proof = kb.explain(fact)  # type: ignore[arg-type]
        assert proof is not None
        assert proof.fact == "may(ada, write)"
        assert kb.why_not(fact) == "may(ada, write) holds; `explain` proves it."  # type: ignore[arg-type]
    assert kb.query(parse_query("may(ada, X)", {})) == [{"X": "write"}]
    assert 17 not in kb
    change = kb.update(add={"role": [("zoe", "admin")]})
    assert change.explain(("may", "zoe", "write")) is not None
    with pytest.raises(DataError, match="begins with its predicate"):
        assert () in kb
    with pytest.raises(DataError, match="`may`: a fact cannot hold None"):
        assert ("may", None, "write") in kb


def test_prefixed_names_work_in_tuples() -> None:
    kb = KnowledgeBase("@prefix ex: <http://e.org/> .  ex:Person(ex:ada).")
    assert ("ex:Person", IRI("http://e.org/ada")) in kb
    assert ("<http://e.org/Person>", IRI("http://e.org/ada")) in kb
    assert ("ex:Person", "ex:ada") not in kb


def test_snapshots_take_values_too(kb: KnowledgeBase) -> None:
    snapshot = kb.live().snapshot()
    kb.update(delete={"role": [("ada", "admin")]})
    assert snapshot.query("may($user, X)", user="ada") == [{"X": "write"}]
    assert ("may", "ada", "write") in snapshot
    assert ("may", "ada", "write") not in kb
    with pytest.warns(UnknownPredicateWarning, match="did you mean `may`"):
        assert len(snapshot.facts("maiy")) == 0
    with pytest.raises(ArityError):
        snapshot.query("may(X)")


def test_a_question_is_parsed_once_whatever_its_values(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kb.query("may($user, X), X != $other", user="nobody", other="x") == []

    def parse(*_: object) -> None:
        raise AssertionError("parsed again")

    monkeypatch.setattr(parser, "_parse", parse)
    for name, found in (("ada", [{"X": "write"}]), ("eve", [{"X": "read"}]), ("bob", [])):
        assert kb.query("may($user, X), X != $other", user=name, other="x") == found


VALUES = st.one_of(
    st.text(max_size=5).filter(lambda text: not any(0xD800 <= ord(letter) < 0xE000 for letter in text)),
    st.sampled_from(["X", "Mallory", "_", "?x", "), admin(", '"', "true", "1", "not"]),
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0.0, 1.0, -1.5, math.inf, 1e300]),
    st.booleans(),
    st.sampled_from([IRI("urn:x"), IRI("X"), Literal("x", language="en"), Literal("x", "urn:t")]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(VALUES, VALUES), max_size=8), VALUES)
def test_a_query_with_a_value_is_a_filter_of_the_facts(rows: list[tuple[Value, Value]], value: Value) -> None:
    kb = KnowledgeBase("p(X, Y) :- given(X, Y).  @predicate given/2.")
    kb.update(add={"given": rows})
    for asked in [value, *(row[0] for row in rows[:2])]:
        wanted = {(identity(second),) for first, second in kb.facts("p") if identity(first) == identity(asked)}
        answers = kb.query("p($v, X)", v=asked)
        assert {(identity(answer["X"]),) for answer in answers} == wanted
        assert len(answers) == len(wanted)
        held = [row for row in kb.facts("p") if identity(row[0]) == identity(asked)]
        assert all(("p", *row) in kb for row in held)
        assert (("p", asked, "no such value") in kb) is ((asked, "no such value") in kb.facts("p"))


# ---- predicates that are unknown, or have another arity


ASKING = {
    "in": lambda kb, fact: fact in kb,
    "in, as a tuple": lambda kb, fact: (fact.partition("(")[0], *fact.partition("(")[2][:-1].split(", ")) in kb,
    "query": lambda kb, fact: kb.query(fact),
    "explain": lambda kb, fact: kb.explain(fact),
    "proofs": lambda kb, fact: list(kb.proofs(fact)),
}


@pytest.mark.parametrize("way", ASKING)
def test_a_misspelt_predicate_is_warned_of_everywhere(kb: KnowledgeBase, way: str) -> None:
    with pytest.warns(
        UnknownPredicateWarning, match="`maiy` is used but never given or derived; did you mean `may`"
    ) as told:
        assert not ASKING[way](kb, "maiy(ada, write)")
    assert len(told) == 1
    assert told[0].filename == __file__
    with pytest.warns(UnknownPredicateWarning, match="`@predicate wholly_new/1.` declares one"):
        assert not ASKING[way](kb, "wholly_new(ada)")


@pytest.mark.parametrize("way", [*ASKING, "why_not"])
def test_another_arity_is_refused_everywhere(kb: KnowledgeBase, way: str) -> None:
    ask = ASKING.get(way, lambda kb, fact: kb.why_not(fact))
    with pytest.raises(ArityError, match="`may` has 1 argument here, but 2 arguments before"):
        ask(kb, "may(ada)")


def test_facts_of_a_misspelt_predicate_are_warned_of(kb: KnowledgeBase) -> None:
    for read in (kb.facts, kb.explicit):
        with pytest.warns(UnknownPredicateWarning, match="did you mean `grants`"):
            assert list(read("grant")) == []
    assert "did you mean `grants`?" in kb.why_not("grant(admin, write)")


def test_known_predicates_are_not_warned_of(kb: KnowledgeBase) -> None:
    kb.update(delete={"grants": [("admin", "write"), ("reader", "read")]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (len(kb.facts("grants")), kb.query("grants(X, Y)"), "may(x, y)" in kb) == (0, [], False)


# ---- declared predicates


def test_a_declared_predicate_is_empty_on_purpose(tmp_path: Path) -> None:
    kb = KnowledgeBase("@predicate alarm/2.", on_error="raise")
    kb.add_rules("@prefix ex: <http://e.org/> . @predicate ex:Room/1.")
    kb.save(tmp_path / "saved")
    with KnowledgeBase.open(tmp_path / "saved", journal=True) as open_kb:
        open_kb.add_rules("@predicate late/0.")
    again = KnowledgeBase.open(tmp_path / "saved")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for base in (kb, again):
            assert (len(base.facts("alarm")), base.query("alarm(X, Y)"), "ex:Room(a)" in base) == (0, [], False)
            assert base.explain("alarm(a, b)") is None
        assert again.query("late") == []
    assert kb.declared == {"alarm": 2, "ex:Room": 1}
    assert again.declared == {"alarm": 2, "ex:Room": 1, "late": 0}
    assert again.predicates == ["alarm", "ex:Room", "late"]
    for text in ("alarm(X) :- p(X).", "@predicate alarm/1."):
        with pytest.raises(ArityError, match=r"<rules>:1:\d+: `alarm` has 1 argument here"):
            again.add_rules(text)
        with pytest.raises(ArityError):
            again.graph.plan(add_rules=text)
    with pytest.raises(ArityError):
        again.update(add={"alarm": [(1,)]})
    assert again.declared["alarm"] == 2


def test_a_refused_update_declares_nothing(kb: KnowledgeBase) -> None:
    with pytest.raises(TidelogError):
        kb.update(add_rules="@predicate alarm/2.", add={"role": [("a",)]})
    kb.what_if(add_rules="@predicate alarm/2.")
    assert kb.declared == {}
    kb.update(add={"alarm": [(1,)]})


# ---- one style of error


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "p(X) :- q(Y).",
            "<program>:2:3: variable `X` is not bound in the rule\n   2 | p(X) :- q(Y).\n     |   ^\nhint: ",
        ),
        ("p(X) :- q(X), r(nope(X)).", "<program>:2:17: there is no function `nope`\n   2 | "),
        (
            "q(a, b).",
            "<program>:2:1: `q` has 2 arguments here, but 1 argument in line 1, column 1\n   2 | q(a, b).\n     | ^",
        ),
        ("p(X) :- q(X, X).", "<program>:2:9: `q` has 2 arguments here"),
    ],
)
def test_what_is_wrong_with_a_rule_is_told_like_what_is_wrong_with_a_text(text: str, place: str) -> None:
    with pytest.raises(TidelogError) as caught:
        KnowledgeBase(f"q(a).\n{text}")
    assert str(caught.value).startswith(place)
    kb = KnowledgeBase("q(a).")
    if ":-" in text:
        with pytest.raises(type(caught.value), match=r"^<rules>:1:\d+: "):
            kb.add_rules(text)


def test_queries_show_their_line() -> None:
    kb = KnowledgeBase("q(a).")
    with pytest.raises(TidelogError, match=r"(?s)^<query>:2:2: variable `Y` .*\n   2 \|  Y > 3\n     \|  \^\nhint: "):
        kb.query("q(X),\n Y > 3")
    with pytest.raises(ParseError, match=r"^<query>:1:9: there is no function `f`"):
        kb.query("q(X), Y=f(X)")
