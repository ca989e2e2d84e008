"""Queries that end when they have enough answers: different ones, all of them true, and no more work than that."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog import KnowledgeBase, LimitError
from tidelog.engine.update.match_rows import distinct
from tidelog.machine import registers as M

PROGRAM = """
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
triple(X, Y, Z) :- edge(X, Y), edge(Y, Z).
"""
QUERIES = ("path(X, Y)", "path(X, _)", "path(_, _)", "triple(_, Y, _)", "triple(X, Y, Z)", "edge(X, Y), path(Y, Z)")
PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=10, deadline=None)
@given(pairs=PAIRS, most=st.integers(1, 40))
def test_some_answers_are_different_and_true(query: str, pairs: list[tuple[int, int]], most: int) -> None:
    kb = KnowledgeBase(PROGRAM)
    kb.update(add={"edge": pairs})
    every = set(kb.query(query).rows())
    _, some = kb._knowledge.questions.query_at(query, {}, most)
    assert len(set(some.rows())) == len(some) == min(most, len(every))
    assert set(some.rows()) <= every


@pytest.mark.parametrize("query", ["X in range(0, 100000)", "p(A), N = count { X : X in range(0, 100000), p(A) }"])
def test_messages_show_the_query_and_no_rule_of_its_parts(query: str) -> None:
    with pytest.raises(LimitError) as found:
        KnowledgeBase("p(0).", max_facts=1000).query(query)
    assert str(found.value).endswith(f"busiest rule: ?- {query}.")
    failed = KnowledgeBase("p(0).").query("p(A), X in range(0, 2), Y = X / A").errors
    assert {failure.rule for failure in failed.first} == {"?- p(A), X in range(0, 2), Y = X / A."}


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.tuples(*[st.integers(-(1 << 31), (1 << 31) - 1)] * 2), min_size=65, max_size=80))
def test_pairs_are_sorted_like_rows(rows: list[tuple[int, int]]) -> None:
    import numpy as np

    found = distinct(np.array(rows + rows[:3], np.int32))
    assert list(map(tuple, found.tolist())) == sorted(set(rows))


def test_the_search_ends_with_the_last_answer_that_is_wanted() -> None:
    kb = KnowledgeBase("n(X) :- m(X).")
    kb.update(add={"m": [(number,) for number in range(300)]})
    machine = kb._knowledge.engine.store.machine
    _, some = kb._knowledge.questions.query_at("n(A), n(B), n(C)", {}, 100)
    assert len(some) == 100
    assert machine[M.ROWS_WRITTEN] < 200
