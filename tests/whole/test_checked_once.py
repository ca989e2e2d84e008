"""Parts of bodies that are checked once: the work of it, all algorithms against the oracle, proofs, and programs that
an earlier version saved.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from audit import audit
from engine_util import ALGORITHMS, check_stream
from naive import State, Update, database
from tidelog import KnowledgeBase
from tidelog.errors import CrossProductWarning, UnknownRuleError
from tidelog.language import parse_rules, parser
from tidelog.language.written import expansion

MANY = {name: [(number,) for number in range(60)] for name in ("a", "b", "c", "d", "i")}

RULES = """
q(X) :- a(_), b(Y), c(Y), not d(Y), i(X).
r(X) :- i(X), a(_).
r(Y) :- r(X), e(X, Y), r(Z), c(Z), q(_).
least(min(X)) :- i(X), a(_).
all(count(X)) :- i(X), a(_).
any(1), any(2) :- ( a(X), b(Y) ; c(X), d(Y) ).
"""


def test_they_are_not_enumerated() -> None:
    kb = KnowledgeBase("q(X) :- a(_), b(_), c(Y), d(Y), i(X).")
    work = kb.update(add=MANY).work
    assert work["insertion"] == 60 + 60 + 60 + 60
    assert kb.update(delete={"a": MANY["a"][1:]}).work["deletion"] == 59
    assert len(kb.update(delete={"a": MANY["a"]}).removed["q"]) == 60


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_the_oracle_agrees(maintenance: str) -> None:
    facts = {"a": [(1,), (2,)], "b": [(1,)], "c": [(1,), (2,)], "i": [(1,), (2,)], "e": [(1, 3), (3, 4), (4, 1)]}
    state = State(tuple(parse_rules(RULES, {})), database(facts))
    stream = [
        Update(add=database({"d": [(1,)], "b": [(3,)]})),
        Update(delete=database({"a": [(1,)], "d": [(1,)]})),
        Update(delete=database({"a": [(2,)]}), add=database({"c": [(3,)]})),
        Update(add=database({"a": [(5,)], "i": [(4,)]}), delete=database({"i": [(1,), (2,)]})),
        Update(delete=database({"c": [(1,), (2,)]})),
    ]
    check_stream(state, stream, maintenance, also=audit)


def test_they_are_proved_as_they_are_written() -> None:
    rule = "q(X) :- i(X), a(_), c(Y), d(Y), Y > 1, not z(Y)."
    kb = KnowledgeBase(f"{rule} i(1). a(7). c(1). c(2). d(2). @predicate z/1.")
    proof = kb.explain("q(1)")
    assert proof is not None
    assert proof.rule == rule
    assert [premise.fact for premise in proof.premises] == ["i(1)", "a(7)", "c(2)", "d(2)"]
    assert proof.conditions == ["2 > 1", "no fact matches z(2)"]
    assert proof.height == 1
    kb.update(delete={"c": [(2,)]})
    missing = kb.why_not("q(1)")
    assert missing.missing == ("c(2)",)
    assert str(missing).count(rule) == 1


def test_a_rule_with_parts_is_one_rule() -> None:
    kb = KnowledgeBase("q(X) :- i(X), a(_), c(Y), d(Y).")
    assert kb.rules == ["q(X) :- i(X), a(_), c(Y), d(Y)."]
    assert "1 rule>" in repr(kb)
    kb.update(add=MANY)
    assert kb.predicates == ["a", "b", "c", "d", "i", "q"]
    assert len(kb) == 360
    change = kb.remove_rules("q(A) :- i(A), a(_), c(B), d(B).")
    assert change.removed.keys() == {"q"}
    assert not kb.rules
    with pytest.raises(UnknownRuleError):
        kb.remove_rules("q(A) :- i(A), a(_), c(B), d(B).")


def test_products_that_are_asked_for_are_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KnowledgeBase("q(X) :- a(_), b(_), i(X). r(X) :- i(X), a(Y), b(Y).")
    for rule in ("pair(X, Y) :- a(X), b(Y).", "n(count(X)) :- a(X), b(_)."):
        with pytest.warns(CrossProductWarning):
            KnowledgeBase(rule)


def test_queries_check_them_once() -> None:
    kb = KnowledgeBase("@predicate z/1.")
    kb.update(add=MANY | {"i": [(number,) for number in range(3)]})
    assert len(kb.query("a(_), b(_), c(_), d(_), i(X)")) == 3
    assert len(kb.query("a(_), b(_), c(_), d(_)")) == 1
    assert len(kb.query("a(_), b(_), not z(_), i(X)")) == 3
    assert len(kb.query("a(_), z(_), i(X)")) == 0
    assert len(kb.query("i(X), ( a(_), z(_) ; b(_), c(_) )")) == 3


def test_programs_that_were_saved_with_them_enumerated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = "q(X) :- i(X), a(_), c(Y), d(Y)."
    with monkeypatch.context() as patch:
        patch.setattr(expansion, "independent_parts", lambda rule: [])
        parser._remembered.cache_clear()
        kb = KnowledgeBase(rule)
        kb.update(add={name: rows[:4] for name, rows in MANY.items()})
        kb.save(tmp_path / "saved")
    parser._remembered.cache_clear()
    for maintenance in ("remove", "keep"):
        kb = KnowledgeBase.open(tmp_path / "saved")
        assert kb.rules == [rule]
        kb.update(add={"i": [(9,)]}, add_rules=rule)
        assert (9,) in kb.facts("q")
        audit(kb)
        if maintenance == "remove":
            kb.remove_rules(rule)
            assert not kb.rules
        else:
            kb.update(delete={"a": MANY["a"]})
        assert not kb.facts("q")
    kb = KnowledgeBase(rule)
    kb.update(add=MANY)
    kb.save(tmp_path / "new")
    assert set(KnowledgeBase.open(tmp_path / "new").facts("q")) == set(MANY["i"])
