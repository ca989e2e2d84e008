"""Constraints: an update that violates one is refused with a proof, and nothing of it applied; or it is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

import naive
from engine_util import ALGORITHMS, materialisation
from soaking import seeds
from tidelog import ConstraintError, KnowledgeBase, StratificationError
from tidelog.cli.command_line import main
from tidelog.errors import ArityError, UnsafeRuleError
from tidelog.language import parse_program, parse_rules
from tidelog.program.graph import RuleGraph
from tidelog.spark.plan.refusals import check_fit
from written_rules import Fact, WrittenRules, accepted, rows_of

PROGRAM = """
may(X, A) :- role(X, R), grants(R, A).  grants(admin, write).  suspended(ann).
:- may(X, write), suspended(X).
"""


def test_a_violation_is_refused_with_its_proof() -> None:
    kb = KnowledgeBase(PROGRAM)
    before = materialisation(kb)
    with pytest.raises(ConstraintError) as caught:
        kb.update(add={"role": [("ann", "admin"), ("bob", "admin")]})
    assert str(caught.value).splitlines()[:4] == [
        "the update violates a constraint, and nothing of it has been applied:",
        ":- may(ann, write), suspended(ann)  within the rule",
        "├── may(ann, write)  by may(X, A) :- role(X, R), grants(R, A).",
        "│   ├── role(ann, admin)  explicit",
    ]
    assert [proof.fact for proof in caught.value.violations] == [":- may(ann, write), suspended(ann)"]
    assert materialisation(kb) == before
    with pytest.raises(ConstraintError):
        kb.what_if(add={"role": [("ann", "admin")]})
    assert set(kb.update(add={"role": [("bob", "admin")]}).added) == {"role", "may"}


def test_a_constraint_that_does_not_hold_already_is_refused() -> None:
    kb = KnowledgeBase(PROGRAM)
    with pytest.raises(ConstraintError):
        kb.add_rules(":- suspended(X).")
    assert kb.rules == [str(rule) for rule in parse_program(PROGRAM).rules]
    kb.remove_rules(":- may(Somebody, write), suspended(Somebody).")
    assert kb.update(add={"role": [("ann", "admin")]}).added["may"] == {("ann", "write")}


def test_violations_are_recorded_by_choice() -> None:
    kb = KnowledgeBase("@constraint warn :- on(X), broken(X).  broken(lamp).")
    assert kb.violations == []
    kb.update(add={"on": [("lamp",), ("fan",)]})
    assert [proof.fact for proof in kb.violations] == [":- on(lamp), broken(lamp)"]
    kb.update(delete={"broken": [("lamp",)]})
    assert kb.violations == []
    assert kb.predicates == ["broken", "on"]


def test_streams_and_live_mode_refuse_as_well() -> None:
    kb = KnowledgeBase(PROGRAM)
    with pytest.raises(ConstraintError):
        list(kb.stream([{"add": {"role": [("bob", "admin")]}}, {"add": {"role": [("ann", "admin")]}}]))
    assert kb.facts("role") == {("bob", "admin")}
    with kb.live() as live:
        live.submit(add={"role": [("ann", "admin")]})
        with pytest.raises(ConstraintError):
            live.settle()
    assert kb.facts("role") == {("bob", "admin")}


def test_constraints_are_saved(tmp_path: Path) -> None:
    with KnowledgeBase(PROGRAM) as kb:
        kb.save(tmp_path / "kb")
    with KnowledgeBase.open(tmp_path / "kb") as kb, pytest.raises(ConstraintError):
        kb.update(add={"role": [("ann", "admin")]})


def test_the_command_line_tells_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.dlog"
    program.write_text(PROGRAM + "role(ann, admin).", encoding="utf-8")
    assert main(["run", str(program)]) == 2
    assert ":- may(ann, write), suspended(ann)" in capsys.readouterr().err


def test_spark_refuses_them_by_name() -> None:
    with pytest.raises(StratificationError, match="does not have constraints, such as `:- on"):
        check_fit(RuleGraph(parse_rules(":- on(X), broken(X).", {})))


@pytest.mark.filterwarnings("ignore::tidelog.errors.CrossProductWarning")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_oracle_agrees_on_what_is_refused(algorithm: str) -> None:
    refused = 0
    for seed in seeds(range(6), f"constraints {algorithm}"):
        maker = WrittenRules(seed)
        texts, bodies = accepted(maker), []
        while not bodies:
            body = maker.rule("p9").partition(":- ")[2]
            try:
                KnowledgeBase("\n".join([*texts, f":- {body}"]))
                bodies.append(body)
            except (UnsafeRuleError, ArityError):
                continue
        rules = [rule for text in [*texts, f"violated :- {bodies[0]}"] for rule in parse_rules(text, {})]
        kb = KnowledgeBase("\n".join([*texts, f":- {bodies[0]}"]), maintenance=algorithm)
        facts: set[Fact] = set()
        for _ in range(4):
            come = {maker.fact() for _ in range(3)}
            wanted = naive.materialise(rules, rows_of(facts | come))
            try:
                kb.update(add=rows_of(come))
                facts |= come
                assert "violated" not in wanted, (seed, texts, bodies)
            except ConstraintError:
                refused += 1
                assert "violated" in wanted, (seed, texts, bodies)
            assert materialisation(kb) == naive.materialise(rules, rows_of(facts)), (seed, texts, bodies)
    assert refused
