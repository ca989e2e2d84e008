"""The order in which many facts are loaded."""

from __future__ import annotations

import numpy as np
import pytest

from tidelog import KnowledgeBase
from tidelog.store import loading_order
from tidelog.store.loading_order import in_loading_order


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading_order, "ORDERED_FROM", 100)


def test_rows_without_an_order_come_by_their_first_column() -> None:
    dice = np.random.default_rng(1)
    rows = dice.integers(0, 1 << 30, (1000, 3)).astype(np.int32)
    rows[::2, 0] = 7
    ordered = in_loading_order(rows)
    assert (np.diff(ordered[:, 0]) >= 0).all()
    # Those with the same first argument stay in the order in which they came.
    assert (ordered[ordered[:, 0] == 7] == rows[rows[:, 0] == 7]).all()
    assert sorted(map(tuple, ordered.tolist())) == sorted(map(tuple, rows.tolist()))


def test_rows_with_an_order_keep_it() -> None:
    dice = np.random.default_rng(2)
    rows = dice.integers(0, 50, (1000, 2)).astype(np.int32)
    for ordered in (rows[np.argsort(rows[:, 1])], rows[np.argsort(-rows[:, 0])], rows[:99]):
        assert in_loading_order(ordered) is ordered
    assert in_loading_order(np.empty((1000, 0), np.int32)).shape == (1000, 0)


def test_a_knowledge_base_has_the_same_facts() -> None:
    dice = np.random.default_rng(3)
    edges = {(int(x), int(y)) for x, y in dice.integers(0, 60, (500, 2))}
    kb = KnowledgeBase("two(X, Z) :- edge(X, Y), edge(Y, Z).")
    change = kb.update(add={"edge": list(edges)})
    assert change.added["edge"] == edges
    assert set(kb.facts("two")) == {(x, z) for x, y in edges for other, z in edges if y == other}
