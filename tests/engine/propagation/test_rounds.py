"""A round pauses wherever it goes through the facts of its batches: as they enter, are sorted, and leave."""

from __future__ import annotations

import pytest

import tidelog.engine.update.runner
from audit import audit
from engine_util import ALGORITHMS
from flux import visited
from tidelog import KnowledgeBase
from tidelog.engine.propagation.propagate import SORT_FROM

COPIES = "at(X, Y) :- starts(X, Y). at(X, Z) :- at(X, Y), step(Y, Z)."


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_large_batches_pause(maintenance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.engine.update.runner, "STRIDE", 500)
    count, length = SORT_FROM + 100, 3
    # Descending, so that sorting moves them.
    starts = [(1000 + count - place, 0) for place in range(count)]
    steps = [(place, place + 1) for place in range(length)]
    kb = KnowledgeBase(COPIES, modules=False, maintenance=maintenance)
    kb.update(add={"step": steps})
    seen: list[int] = []

    def at(reached: int) -> set[tuple[int, int]]:
        return {(start, place) for start, _ in starts for place in range(reached + 1)}

    def look(kb: KnowledgeBase) -> None:
        seen.append(len(kb.facts("at")))

    with visited(kb, look, every=5) as visitor:
        kb.update(add={"starts": starts})
    assert set(seen) == {0}
    assert visitor.pauses > 3 * length * count // 500
    assert set(kb.facts("at")) == at(length)
    seen.clear()
    with visited(kb, look, every=5):
        change = kb.update(delete={"step": steps[1:2]})
    assert set(seen) == {count * (length + 1)}
    assert set(kb.facts("at")) == at(1)
    assert len(change.removed["at"]) == count * (length - 1)
    with visited(kb, look):
        kb.update(add={"step": steps[1:2]}, delete={"starts": starts[::2]})
    assert set(kb.facts("at")) == {fact for fact in at(length) if fact[0] % 2 == starts[1][0] % 2}
    audit(kb, oracle=False)
