"""How much memory facts take: records, tables and indexes; and queues are given back."""

from __future__ import annotations

import gc
import mmap
import weakref

import numpy as np
import pyarrow as pa
import pytest

from tidelog import KnowledgeBase
from tidelog.machine import array_memory as rooms
from tidelog.store.fact_table import FactTable
from tidelog.store.relation import COMPACT_FROM, Relation

FACTS = 50_000
PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."


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
    # What does not grow with the facts does not matter here.
    assert relation.nbytes <= 40 * len(table) + 40_000


def test_queues_are_given_back_after_an_update() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    kb.update(add={"edge": [(number, number + 1) for number in range(300)]})
    relation = kb._engine.store.relation("path", 2)
    assert len(relation) == 300 * 301 // 2
    assert relation.queues.nbytes <= 2 * 4 * 4096


def test_a_fact_that_comes_and_goes_does_not_have_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase("known(X) :- seen(X).")
    facts = [(number,) for number in range(2 * COMPACT_FROM)]
    kb.update(add={"seen": facts})
    # Half of the records are dead: just too few for the gaps to be closed.
    kb.update(delete={"seen": facts[:COMPACT_FROM]})
    counted = []
    monkeypatch.setattr(Relation, "__len__", lambda relation: counted.append(relation.name) or COMPACT_FROM)
    for _ in range(50):
        kb.update(add={"seen": facts[:1]})
        kb.update(delete={"seen": facts[:1]})
    assert len(counted) <= 4


def test_gaps_are_closed_where_more_than_half_is_gone() -> None:
    kb = KnowledgeBase("known(X) :- seen(X).")
    facts = [(number,) for number in range(4 * COMPACT_FROM)]
    kb.update(add={"seen": facts})
    for first in range(0, 3 * COMPACT_FROM, COMPACT_FROM // 4):
        kb.update(delete={"seen": facts[first : first + COMPACT_FROM // 4]})
        for predicate in ("seen", "known"):
            relation = kb._engine.store.relation(predicate, 1)
            assert relation.count <= 8 * max(COMPACT_FROM, len(relation)) // 3


@pytest.mark.parametrize("maintenance", ["auto", "recompute"])
def test_tables_do_not_grow_and_shrink_with_every_update(monkeypatch: pytest.MonkeyPatch, maintenance: str) -> None:
    kb = KnowledgeBase(PATHS, modules=False, maintenance=maintenance)
    pairs = np.unique(np.sort(np.random.default_rng(0).integers(0, 300, (1_500, 2)), axis=1), axis=0)
    rows = [(int(first), int(second)) for first, second in pairs if first != second]
    kb.update(add={"edge": rows})
    moved = []
    resize = FactTable.resize

    def noting(table: FactTable, groups: int) -> None:
        moved.append(table._relation.name)
        resize(table, groups)

    monkeypatch.setattr(FactTable, "resize", noting)
    for first in range(0, 500, 100):
        part = rows[first : first + 100]
        kb.update(delete={"edge": part})
        kb.update(add={"edge": part})
    assert moved.count("path") <= 1


def test_what_an_update_set_aside_is_free_when_it_is_over() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    chain = [(number, number + 1) for number in range(300)]
    kb.update(add={"edge": chain})
    former = weakref.ref(kb._engine.store.relation("path", 2).cells)
    gc.disable()  # The array must go without a collection.
    try:
        kb.update(delete={"edge": chain})
        assert former() is None
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system gives no large pages")
@pytest.mark.parametrize("maintenance", ["auto", "recompute", "dred"])
def test_facts_that_all_go_and_come_need_no_fresh_memory(monkeypatch: pytest.MonkeyPatch, maintenance: str) -> None:
    kb = KnowledgeBase(PATHS, modules=False, maintenance=maintenance)
    chain = [(number, number + 1) for number in range(500)]
    rows = {"edge": chain}
    for _ in range(3):
        kb.update(add=rows)
        kb.update(delete=rows)
    assert 0 < kb._engine.store.spare.nbytes <= rooms.KEPT
    fresh = []
    make = rooms._Room.__new__
    monkeypatch.setattr(rooms._Room, "__new__", lambda room: fresh.append(room) or make(room))
    for _ in range(3):
        kb.update(add=rows)
        kb.update(delete=rows)
    assert not fresh
