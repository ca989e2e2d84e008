"""Rule instances that fail because an expression has no value: told with rule, values and reason, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidelog import EvaluationError, KnowledgeBase, TidelogError
from tidelog.engine.algorithms.names import MAINTENANCE
from tidelog.engine.update.failures import MOST_TOLD, Failures

pytestmark = pytest.mark.plain

RULES = """
share(X, Y) :- n(X), Y = 10 / X.
big(X) :- m(X), X > 3.
risk(X, Y) :- n(X), Y = rated(X).
total(sum(X)) :- m(X).
"""


def rated(number: int) -> Any:
    if number == 0:
        raise ValueError("no such rating")
    return None if number == 1 else number


@pytest.fixture
def kb() -> KnowledgeBase:
    made = KnowledgeBase()
    made.register("rated", rated)
    made.add_rules(RULES)
    return made


def test_the_first_failures_are_told_in_full(kb: KnowledgeBase) -> None:
    change = kb.update(add={"n": [(0,), (1,), (2,)], "m": [("abc",), (7,)]})
    assert change.added["risk"] == {(2, 2)}
    assert change.errors == 5
    assert change.errors.kinds == {"arithmetic": 1, "comparison": 1, "function": 2, "aggregate": 1}
    told = {failure.rule.partition("(")[0]: failure for failure in change.errors.first if failure.values.get("X") != 1}
    assert told["share"].values == {"X": 0}
    assert told["share"].reason == "10 / 0 is a division by zero"
    assert told["share"].rule == "share(X, Y) :- n(X), Y = 10 / X."
    assert told["big"].kind == "comparison"
    assert told["big"].reason == "abc > 3 compares values of different types, string and number"
    assert (told["risk"].kind, told["risk"].reason) == ("function", "rated(0) raised ValueError: no such rating")
    assert told["total"].kind == "aggregate"
    (returned,) = (failure for failure in change.errors.first if failure.values.get("X") == 1)
    assert returned.reason == "rated(1) returned None, which no fact can hold"
    assert kb.errors == 5
    assert str(told["share"]) == "share(X, Y) :- n(X), Y = 10 / X.\n    with X = 0: 10 / 0 is a division by zero"


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("r(Y) :- v(X), Y = X + 1", "text + 1 needs numbers, and text is a string"),
        ("r(Y) :- v(X), Y = sqrt(0 - 4)", "sqrt(-4) has no value"),
        ("r(Y) :- v(X), Y = 9223372036854775807 + 1", "9223372036854775807 + 1 does not fit into 64 bits"),
        ("r(Y) :- v(X), Y = 1e300 * 1e300", "1e+300 * 1e+300 is no finite number"),
        ("r(X) :- v(X), 1 % 0 = 1", "1 % 0 is a division by zero"),
        ("r(Y) :- v(X), Y = int(X)", "int(text) has no value"),
        ("r(X) :- v(X), X < true", "text < true compares values of different types, string and boolean"),
        ("r(X) :- v(X), Z = 2, X < Z * (Z - 2) / (Z - 2)", "0 / 0 is a division by zero"),
    ],
)
def test_each_reason_is_told_apart(rule: str, reason: str) -> None:
    kb = KnowledgeBase()
    kb.update(add={"v": [("text",)]})
    change = kb.add_rules(rule + ".")
    (failure,) = change.errors.first
    assert failure.reason == reason
    assert failure.values.get("X", "text") == "text"
    assert ("X" in failure.values) or "text" not in reason


def test_failures_of_deletions_and_queries_are_told(kb: KnowledgeBase) -> None:
    kb.update(add={"n": [(0,), (2,)]})
    change = kb.update(delete={"n": [(0,)]})
    assert all(failure.values == {"X": 0} for failure in change.errors.first)
    answers = kb.query("n(X), 1 / (X - $two) > 0", two=2)
    assert (answers, answers.errors) == ([], 1)
    assert answers.errors.first[0].reason == "1 / 0 is a division by zero"
    assert answers.errors.first[0].values == {"X": 2}
    assert answers.errors.first[0].rule == "?- n(X), 1 / (X - 2) > 0."


def test_only_some_are_told_and_all_are_counted() -> None:
    kb = KnowledgeBase("share(X, Z) :- n(X, Y), Z = X / Y.")
    change = kb.update(add={"n": [(number, 0) for number in range(500)]})
    assert (change.errors, change.errors.kinds) == (500, {"arithmetic": 500})
    assert len(change.errors.first) == MOST_TOLD
    assert len({failure.values["X"] for failure in change.errors.first}) == MOST_TOLD
    assert change.to_dict()["errors"] == 500
    assert change.to_dict()["failures"][0]["reason"].endswith("/ 0 is a division by zero")


def test_a_failure_is_told_again_when_another_fact_meets_it(kb: KnowledgeBase) -> None:
    kb.update(add={"n": [(0,)]})
    kb.add_rules("again(X, Y) :- n(X), Y = rated(X).")  # the call is remembered
    assert kb.errors.first[-1].reason == "rated(0) raised ValueError: no such rating"
    kb.register("rated", lambda number: 1 / number)
    change = kb.add_rules("third(X, Y) :- n(X), Y = rated(X).")
    assert change.errors.first[0].reason == "rated(0) raised ZeroDivisionError: division by zero"


def test_an_exception_that_cannot_be_printed_is_told() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fails(_: object) -> None:
        raise Silent

    kb = KnowledgeBase("n(1).")
    kb.register("fails", fails)
    change = kb.add_rules("p(Y) :- n(X), Y = fails(X).")
    assert change.errors.first[0].reason == "fails(1) raised Silent: a Silent"


# ---- refusing


def test_an_update_with_failures_is_refused_as_a_whole(tmp_path: Path) -> None:
    kb = KnowledgeBase("share(X, Y) :- n(X), Y = 10 / X.  n(5).", on_error="raise")
    before = (len(kb), list(kb.facts("share")), list(kb.rules))
    with pytest.raises(
        EvaluationError, match=r"(?s)1 rule instance failed.*X = 0: 10 / 0 is a division by zero"
    ) as told:
        kb.update(add={"n": [(0,), (1,)]})
    assert isinstance(told.value, TidelogError)
    assert isinstance(told.value.failures, Failures)
    assert told.value.failures.first[0].values == {"X": 0}
    with pytest.raises(EvaluationError):
        kb.what_if(add={"n": [(0,)]})
    with pytest.raises(EvaluationError):
        kb.add_rules("bad(X) :- n(X), X > abc.")
    with pytest.raises(EvaluationError):
        kb.query("n(X), Y = 1 / (X - X)")
    assert (len(kb), list(kb.facts("share")), list(kb.rules)) == before
    assert kb.update(add={"n": [(2,)]}).added["share"] == {(2, 5.0)}

    stream = kb.stream([{"add": {"n": [(0,)]}}, {"add": {"n": [(4,)]}}])
    with pytest.raises(EvaluationError):
        next(stream)
    assert next(stream).added["n"] == {(4,)}

    live = kb.live()
    live.submit(add={"n": [(0,)]})
    live.submit(add={"n": [(1,)]})
    with pytest.raises(EvaluationError):
        live.settle()
    assert kb.facts("n") == {(5,), (2,), (4,), (1,)}

    kb.save(tmp_path / "saved")
    again = KnowledgeBase.open(tmp_path / "saved")
    with pytest.raises(EvaluationError):
        again.update(add={"n": [(0,)]})


def test_a_first_program_with_failures_is_refused() -> None:
    with pytest.raises(EvaluationError):
        KnowledgeBase("p(Y) :- n(X), Y = 1 / X.  n(0).", on_error="raise")
    with pytest.raises(TidelogError, match='`on_error` is "count" or "raise"'):
        KnowledgeBase(on_error="ignore")


def test_a_journal_of_before_is_replayed_whatever_failed(tmp_path: Path) -> None:
    kb = KnowledgeBase("p(Y) :- n(X), Y = rated(X).  n(7).".replace("rated(X)", "1 / X"))
    kb.save(tmp_path)
    with KnowledgeBase.open(tmp_path, journal=True) as writer:
        assert writer.update(add={"n": [(0,)]}).errors == 1
    again = KnowledgeBase.open(tmp_path)
    assert again.facts("n") == {(7,), (0,)}


# ---- counting


def test_failures_add_up() -> None:
    kb = KnowledgeBase("p(Y) :- n(X), Y = 1 / X.")
    live = kb.live()
    live.submit(add={"n": [(0,)]})
    live.submit(add_rules="q(X) :- n(X), X > abc.")
    change = live.settle()
    assert change.errors == 2
    assert change.errors.kinds == {"arithmetic": 1, "comparison": 1}
    assert len(change.errors.first) == 2
    assert kb.errors.summary() == (
        "2 rule instances failed: 1 expression without a value, such as a division by zero, "
        "1 comparison of values that have no order"
    )
    assert Failures(3).summary() == "3 rule instances failed because an expression had no value"
    assert sum([Failures(1), Failures(2)]) == 3


@pytest.mark.parametrize("maintenance", MAINTENANCE)
def test_conditions_keep_expressions_from_failing(maintenance: str) -> None:
    kb = KnowledgeBase(
        """
        part(X, Z) :- n(X), Z = 8 / X, X != 0.
        read(T, int(T)) :- text(T), is_int(T).
        next(T, N) :- text(T), N = int(T) + 1, is_int(T).
        """,
        maintenance=maintenance,
        on_error="raise",
    )
    kb.update(add={"n": [(0,), (4,)], "text": [("x",), ("7",)]})
    assert [set(kb.facts(name)) for name in ("part", "read", "next")] == [{(4, 2.0)}, {("7", 7)}, {("7", 8)}]
    kb.update(delete={"n": [(0,), (4,)], "text": [("x",)]})
    assert not kb.errors
