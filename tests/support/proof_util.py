"""Shared by the tests of proofs: checking proofs against the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import HealthCheck, settings

from generate import Case
from naive import NO_FUNCTIONS, Database, Fact, State, database, derivations, materialise, plain, proof_heights
from naive_functions import Functions
from tidelog import KnowledgeBase
from tidelog.explain import backwards
from tidelog.language import parse_atom, parse_program
from tidelog.language.syntax import Atom, Constant
from tidelog.proofs.proof import Proof

Pairs = set[tuple[int, int]]
Depths = set[tuple[int, int, int]]

few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def fact_of(text: str) -> Fact:
    atom = parse_atom(text, {})
    assert all(isinstance(term, Constant) for term in atom.arguments)
    return atom.predicate, tuple(atom.arguments)  # type: ignore[return-value]


def text_of(fact: Fact) -> str:
    return str(Atom(*fact))


def knowledge_base(case: Case, modules: bool = True) -> KnowledgeBase:
    kb = KnowledgeBase("\n".join(map(str, case.state.rules)), modules=modules)
    kb.update(add=plain(case.state.explicit))
    return kb


def some(heights: dict[Fact, int], most: int) -> list[Fact]:
    """The facts with the highest proofs."""
    return sorted(heights, key=lambda fact: (-heights[fact], text_of(fact)))[:most]


class Checker:
    """Checks proofs against the oracle."""

    def __init__(self, case: Case, functions: Functions = NO_FUNCTIONS) -> None:
        self.explicit = {(name, row) for name, rows in case.state.explicit.items() for row in rows}
        self.facts: Database = materialise(case.state.rules, case.state.explicit, functions)
        self.instances = {
            (str(rule), found.head, found.premises)
            for rule in case.state.rules
            for found in derivations(rule, self.facts, functions)
            if found is not None
        }

    def check(self, proof: Proof, fact: Fact) -> None:
        assert fact_of(proof.fact) == fact
        for step in proof.steps():
            proved = fact_of(step.fact)
            if step.rule is None:
                assert proved in self.explicit
                assert not step.premises
            else:
                premises = frozenset(fact_of(premise.fact) for premise in step.premises)
                assert (step.rule, proved, premises) in self.instances
            assert step.height == (0 if step.rule is None else 1 + max((p.height for p in step.premises), default=0))
            assert all(premise.height < step.height for premise in step.premises)
        facts_below(proof, {})


def facts_below(proof: Proof, known: dict[int, frozenset[str]]) -> frozenset[str]:
    """The facts that a proof uses; the one that it proves is not among them."""
    if id(proof) not in known:
        below = frozenset().union(*(facts_below(premise, known) | {premise.fact} for premise in proof.premises))
        assert proof.fact not in below, f"{proof.fact} is proved by itself"
        known[id(proof)] = below
    return known[id(proof)]


def check_as_large(rules: str, facts: Mapping[str, Iterable[tuple[int, ...]]], most: int = 30) -> None:
    """Explain facts, those with the highest proofs, as if all closures were large."""
    state = State(parse_program(rules).rules, database(facts))
    case = Case(state, (), ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backwards, "SEARCHED_PAIRS", 0)
        kb, checker = knowledge_base(case), Checker(case)
        heights = proof_heights(state.rules, state.explicit)
        for fact in some(heights, most):
            proof = kb.explain(text_of(fact))
            assert proof is not None
            checker.check(proof, fact)
            assert proof.height == heights[fact]
        for fact in some(heights, 2):
            found = list(kb.proofs(text_of(fact), limit=3))
            assert found[0].height == heights[fact]
            for proof in found:
                checker.check(proof, fact)
