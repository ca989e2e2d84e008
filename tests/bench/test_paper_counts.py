"""The counts of the B/F paper's Table 2, held against its procedures step by step (`trace="paper"`)."""

from __future__ import annotations

import pytest

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.cases import CASES, Tables, random_rows
from tidelog.bench.paper_counts import BackwardForwardProgram, DredCounts, DredProgram
from tidelog.bench.work import materialised, timed_materialise, without
from tidelog.papers.trace import Trace

SMALL = ("lubm-plain", "uobm", "places", "same-generation")


def small(case: str) -> tuple[str, Tables]:
    """The rules of a case and a few hundred of its facts."""
    return CASES[case].rules, random_rows(CASES[case].facts(1, 0.05 if case == "places" else 0.005), 600, 1)


def traced(rules: str, facts: Tables, deleted: Tables, maintenance: str) -> Trace:
    kb = KnowledgeBase(rules, maintenance=maintenance, modules=False, trace="paper")
    kb.update(add=facts)
    trace = kb.update(delete=deleted).trace
    assert trace is not None
    return trace


@pytest.mark.parametrize("case", SMALL)
def test_delete_rederive_as_datalog_counts_as_its_procedure(case: str) -> None:
    rules, facts = small(case)
    kb, made = timed_materialise(rules, facts, "dred", modules=False)
    program = DredProgram(rules, materialised(kb), made.work["insertion"])
    for count in (1, 40):
        deleted = random_rows(facts, count, 1)
        left = timed_materialise(rules, without(facts, deleted), "dred", modules=False)[1].work["insertion"]
        trace = traced(rules, facts, deleted, "dred")
        rederived = {each.instance.head for each in trace.applications if each.kind == "rederivation"}
        spread, inserted = (trace.work.get(kind, 0) for kind in ("deletion", "insertion"))
        expected = DredCounts(len(trace.sets["D"]), spread, len(rederived), inserted)
        assert program.delete(deleted, left) == expected


@pytest.mark.parametrize("case", SMALL)
def test_backward_forward_deletes_as_much_in_any_order(case: str) -> None:
    """What Theorem 1 determines is that of the step-by-step procedure, which finds its instances in another order."""
    rules, facts = small(case)
    kb, made = timed_materialise(rules, facts, "dred", modules=False)
    program = BackwardForwardProgram(rules, facts, materialised(kb))
    for count in (1, 40):
        deleted = random_rows(facts, count, 1)
        again = timed_materialise(rules, without(facts, deleted), "dred", modules=False)[1]
        found = program.delete(deleted)
        assert found is not None
        expected = traced(rules, facts, deleted, "backward-forward").work
        gone = made.added - again.added
        assert found.propagation == expected.get("deletion", 0) == made.work["insertion"] - again.work["insertion"]
        assert found.checked >= max(gone, count)
        assert expected["checked"] >= max(gone, count)
        assert found.propagation + found.saturation <= made.work["insertion"]


def test_a_procedure_that_takes_too_long_is_given_up() -> None:
    rules, facts = small("places")
    program = BackwardForwardProgram(rules, facts, materialised(timed_materialise(rules, facts, "dred", False)[0]))
    assert program.delete(facts, seconds=0.0) is None
