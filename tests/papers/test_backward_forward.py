"""Backward/Forward (Motik, Nenov, Piro, Horrocks): its introduction's example, Table 1, and Theorem 1."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from generate import POSITIVE, Features, soak
from tidelog import KnowledgeBase
from tidelog.papers.trace import Trace

TABLE_1 = """
ta(X) :- person(X), tutor(X, Y), course(Y).
person(X) :- ta(X).
person(X) :- tutor(X, Y).
course(Y) :- tutor(X, Y).
tutor(john, math). tutor(peter, math). tutor(john, phys).
"""
E1 = "tutor(john, math)"
I1, I2, I3 = "person(peter)", "ta(peter)", "course(math)"
I4, I5, I6 = "person(john)", "ta(john)", "course(phys)"
TRANSITIVE = "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z)."
DELETE_E1 = {"tutor": [("john", "math")]}


def traced(kb: KnowledgeBase, **update: object) -> Trace:
    trace = kb.update(**update).trace  # type: ignore[arg-type]
    assert trace is not None
    return trace


def letters(trace: Trace, letter: str) -> set[str]:
    return set(map(str, trace.sets[letter]))


# Section 1


@pytest.mark.parametrize("length", [2, 10])
def test_introduction_a_second_derivation_of_the_first_fact(length: int) -> None:
    """DRed overdeletes every Cᵢ(a); B/F proves C₁(a) and considers no other."""
    rules = "c1(X) :- a(X). c1(X) :- b(X)." + "".join(f"c{i}(X) :- c{i - 1}(X)." for i in range(2, length + 1))
    text = rules + "a(a). b(a)."
    deleted = {"a": [("a",)]}
    overdeleted = traced(KnowledgeBase(text, maintenance="dred", trace="paper"), delete=deleted)
    assert letters(overdeleted, "D") == {"a(a)", *(f"c{i}(a)" for i in range(1, length + 1))}
    proved = traced(KnowledgeBase(text, maintenance="backward-forward", trace="paper"), delete=deleted)
    assert letters(proved, "D") == {"a(a)", "c1(a)"}
    assert letters(proved, "C") == {"a(a)", "c1(a)", "b(a)"}
    assert letters(proved, "P") == {"b(a)", "c1(a)"}
    assert letters(proved, "Y") == ({"c2(a)"} if length > 1 else set())


# Section 3, Table 1


def test_table_1_materialisation() -> None:
    kb = KnowledgeBase(TABLE_1)
    derived = {"person", "ta", "course"}
    assert {f"{name}({row[0]})" for name in derived for row in kb.facts(name)} == {I1, I2, I3, I4, I5, I6}


def test_table_1_delete_rederive_overdeletes_all_but_one() -> None:
    """ "All implicit facts apart from (I6) get deleted in step DR3, only to be rederived in steps DR4 and DR5." """
    trace = traced(KnowledgeBase(TABLE_1, maintenance="dred", trace="paper"), delete=DELETE_E1)
    assert letters(trace, "D") == {E1, I1, I2, I3, I4, I5}
    spread = [str(each.instance.head) for each in trace.applications if each.kind == "deletion"]
    # From (E1): (I4), (I3) and (I5); from (I3): (I2); from (I2): (I1). The others follow from overdeleted facts, too.
    assert set(spread[:3]) == {I3, I4, I5}
    assert I2 in spread
    assert I1 in spread
    assert letters_rederived(trace) == {I1, I2, I3, I4, I5}


def letters_rederived(trace: Trace) -> set[str]:
    return {str(each.instance.head) for each in trace.applications if each.kind in ("rederivation", "insertion")}


def test_table_1_backward_forward_proves_what_it_reaches() -> None:
    """ "Step DR2 derives (I3)–(I5). If we can now show that these facts have a proof, no further overdeletion is
    needed."
    """
    kb = KnowledgeBase(TABLE_1, maintenance="backward-forward", trace="paper")
    trace = traced(kb, delete=DELETE_E1)
    assert letters(trace, "D") == {E1, I3, I4, I5}
    assert letters(trace, "P") >= {I3, I4, I5}
    assert letters(trace, "O") == letters(trace, "S") == {E1}
    assert len(kb) == 8


# Theorem 1


@pytest.mark.parametrize("seed", range(30))
def test_theorem_1_no_instance_twice(seed: int) -> None:
    """Each combination of r and τ is considered at most once, in line 9 or 27, but not both: at most as many as the
    materialisation has.
    """
    case, updates = soak(seed, POSITIVE)
    kb = KnowledgeBase(str(case.state), maintenance="backward-forward", trace="paper")
    for update in updates:
        deletion = {**update.mapping(), "add": {}, "add_rules": "", "remove_rules": ""}
        before = kb._knowledge.tracer.begin()  # type: ignore[union-attr]
        instances = sum(map(len, before.instances.values()))
        trace = traced(kb, **deletion)
        considered = Counter(id(each.instance) for each in trace.applications if each.kind in ("deletion", "forward"))
        assert not considered or max(considered.values()) == 1
        assert considered.total() <= instances
        kb.update(**{**update.mapping(), "delete": {}})  # type: ignore[arg-type]


# The procedures against the engine, which a trace is held against


@pytest.mark.parametrize("maintenance", ["dred", "backward-forward"])
@pytest.mark.parametrize("seed", range(20))
def test_random_programs_end_where_the_engine_ends(maintenance: str, seed: int) -> None:
    case, updates = soak(seed, Features(aggregates=False))
    kb = KnowledgeBase(str(case.state), maintenance=maintenance, trace="paper")
    for update in updates:
        change = kb.update(**update.mapping())  # type: ignore[arg-type]
        assert change.trace is not None
        assert change.work["deletion"] == change.trace.work.get("deletion", 0)


# Theorem 1 of the engine's own search, which looks at other instances


@pytest.mark.plain
def test_two_awaited_facts_that_are_proved_together_find_an_instance_once() -> None:
    kb = KnowledgeBase(TRANSITIVE, maintenance="backward-forward", modules=False)
    kb.update(add={"e": [(0, 2), (1, 0), (2, 1)]})
    work = kb.update(delete={"e": [(2, 1)]}).work
    assert work["deletion"] + work["forward"] <= 36


@pytest.mark.parametrize("seed", range(40))
def test_theorem_1_bounds_the_engine(seed: int) -> None:
    """No more instances in deletion and forward chaining together than the materialisation has."""
    dice = random.Random(seed)
    nodes = dice.randint(3, 7)
    edges = {(dice.randrange(nodes), dice.randrange(nodes)) for _ in range(dice.randint(nodes, 3 * nodes))}
    for rules in (TRANSITIVE, TRANSITIVE + "p(X, Y) :- p(Y, X).", TRANSITIVE + "p(X, X) :- p(X, Y), p(Y, X)."):
        kb = KnowledgeBase(rules, maintenance="backward-forward", modules=False)
        instances = kb.update(add={"e": sorted(edges)}).work["insertion_instances"]
        deleted = dice.sample(sorted(edges), dice.randint(1, 2))
        work = kb.update(delete={"e": deleted}).work
        assert work["deletion"] + work["forward"] <= instances, (rules, sorted(edges), deleted)
