"""The counts of the B/F paper's Table 2, held against its procedures step by step (`trace="paper"`)."""

from __future__ import annotations

import pytest

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.cases import CASES, Tables, random_rows
from tidelog.bench.paper_counts import BackwardForwardProgram, DredProgram
from tidelog.bench.work import materialised, timed_materialise, without

SMALL = {"lubm-plain": 0.002, "places": 0.1, "same-generation": 0.004}


def traced(rules: str, facts: Tables, deleted: Tables, maintenance: str) -> dict[str, int]:
    kb = KnowledgeBase(rules, maintenance=maintenance, modules=False, trace="paper")
    kb.update(add=facts)
    return dict(kb.update(delete=deleted).work)


@pytest.mark.parametrize("case", SMALL)
def test_delete_rederive_as_datalog_counts_as_its_procedure(case: str) -> None:
    rules, facts = CASES[case].rules, CASES[case].facts(1, SMALL[case])
    kb, made = timed_materialise(rules, facts, "dred", modules=False)
    program = DredProgram(rules, materialised(kb), made.work["insertion"])
    for count in (1, 40):
        deleted = random_rows(facts, count, 1)
        left = timed_materialise(rules, without(facts, deleted), "dred", modules=False)[1].work["insertion"]
        found = program.delete(deleted, left)
        expected = traced(rules, facts, deleted, "dred")
        assert found.overdeleted == expected["overdeleted"]
        assert (found.dr2, found.dr4) == (expected["deletion"], expected["rederivation"])
        assert found.dr5 == expected["insertion"]


@pytest.mark.parametrize("case", SMALL)
def test_backward_forward_deletes_as_much_in_any_order(case: str) -> None:
    """What Theorem 1 determines is that of the step-by-step procedure, which finds its instances in another order."""
    rules, facts = CASES[case].rules, CASES[case].facts(1, SMALL[case])
    kb, made = timed_materialise(rules, facts, "dred", modules=False)
    program = BackwardForwardProgram(rules, facts, materialised(kb))
    for count in (1, 40):
        deleted = random_rows(facts, count, 1)
        again = timed_materialise(rules, without(facts, deleted), "dred", modules=False)[1]
        found = program.delete(deleted)
        expected = traced(rules, facts, deleted, "backward-forward")
        gone = made.added - again.added
        assert found.propagation == expected["deletion"] == made.work["insertion"] - again.work["insertion"]
        assert found.checked >= max(gone, count)
        assert expected["checked"] >= max(gone, count)
        assert found.propagation + found.saturation <= made.work["insertion"]
