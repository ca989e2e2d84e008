"""What facts take in memory: the room of records, tables and indexes, and that queues are given back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelog import KnowledgeBase

FACTS = 50_000


def edges(seed: int) -> pa.Table:
    pairs = np.unique(np.random.default_rng(seed).integers(0, FACTS // 5, (FACTS, 2)), axis=0)
    return pa.table({"from": pairs[:, 0], "to": pairs[:, 1]})


def test_a_pair_with_two_indexes_takes_at_most_forty_bytes() -> None:
    kb = KnowledgeBase("near(X, Z) :- seed(X), edge(X, Y), edge(Z, Y).")
    table = edges(0)
    kb.update(add={"edge": table, "seed": [(1,)]})
    relation = kb._engine.store.relation("edge", 2)
    assert len(relation.indexes) == 2
    assert len(relation) == len(table)
    # What does not grow with the facts is beside the point.
    assert relation.nbytes <= 40 * len(table) + 40_000


def test_queues_are_given_back_after_an_update() -> None:
    kb = KnowledgeBase("path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z).", modules=False)
    kb.update(add={"edge": [(number, number + 1) for number in range(300)]})
    relation = kb._engine.store.relation("path", 2)
    assert len(relation) == 300 * 301 // 2
    assert len(relation._queue) + len(relation._batch) <= 2 * 4096
