"""Prefixes declared after names that use them: refused, whether a fact, a rule or a constant has such a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog import KnowledgeBase, ParseError

DECLARED = "@prefix ex: <http://e/> ."


@pytest.mark.parametrize(
    ("program", "used"),
    [
        ("ex:p(1).", "ex:p"),
        ("p(X) :- ex:q(X).", "ex:q"),
        ("p(ex:a).", "ex:a"),
        ('p("1"^^ex:t).', "ex:t"),
        ("p(X) :- q(X), not r(X, ex:b).", "ex:b"),
        ("p(X) :- q(X), X != ex:c.", "ex:c"),
        ("path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z). edge(1, ex:d).", "ex:d"),
    ],
)
def test_a_prefix_that_is_in_use_undeclared_cannot_be_declared(program: str, used: str) -> None:
    kb = KnowledgeBase(program)
    before = (kb.predicates, list(kb.rules), len(kb))
    with pytest.raises(ParseError, match=f"declared after its use: the knowledge base holds `{used}`") as refused:
        kb.update(add={"s": [(1,)]}, add_rules=f"t(X) :- s(X).\n{DECLARED} u(X) :- s(X).")
    assert (refused.value.line, refused.value.column) == (2, 1)
    assert (kb.predicates, list(kb.rules), len(kb)) == before
    assert kb.prefixes == {}


@pytest.mark.parametrize(
    "program", ["p(1).", "p(<http://e/a>).", "exp:p(1). p(<ex:a/b>). q(ex).", "p(<http://ex:8080/x>)."]
)
def test_other_names_do_not_hinder(program: str) -> None:
    kb = KnowledgeBase(program)
    kb.add_rules(f"{DECLARED} q2(X) :- ex:p(X).")
    assert kb.prefixes == {"ex": "http://e/"}


def test_names_that_are_gone_or_only_asked_for_do_not_hinder() -> None:
    kb = KnowledgeBase("ex:p(1). p(ex:a). r(X) :- ex:p(X).")
    kb.update(delete={"ex:p": [(1,)], "p": list(kb.facts("p"))}, remove_rules="r(X) :- ex:p(X).")
    assert not kb.query("p(ex:b)")
    kb.update(add={"ex:p": [(2,)]}, add_rules=DECLARED)
    assert kb.predicates == ["ex:p"]
    assert list(kb.facts("<http://e/p>")) == [(2,)]


def test_a_prefix_may_be_declared_again_and_as_itself() -> None:
    kb = KnowledgeBase(f"{DECLARED} ex:p(ex:a). p(<urn:a>).")
    kb.add_rules("@prefix urn: <urn:> . @prefix ex: <http://f/> .")
    assert kb.prefixes == {"ex": "http://f/", "urn": "urn:"}
    assert "p(urn:a)" in kb


def test_a_journal_holds_no_refused_declaration(tmp_path: Path) -> None:
    KnowledgeBase("ex:p(1).").save(tmp_path)
    with KnowledgeBase.open(tmp_path, journal=True) as kb:
        with pytest.raises(ParseError):
            kb.add_rules(DECLARED)
        kb.update(add={"ex:p": [(2,)]})
    opened = KnowledgeBase.open(tmp_path)
    assert (sorted(opened.facts("ex:p")), opened.prefixes) == ([(1,), (2,)], {})
