"""The examples run, show what they are there to show, and pass the tests that stand beside them."""

from __future__ import annotations

import random
import runpy
from pathlib import Path

import pytest

from places import ROOT
from tidelog import KnowledgeBase
from tidelog.cli.command_line import main
from tidelog.testing.rule_tests import SUFFIX

FOLDER = ROOT / "examples"
ANSWERS = {
    "access": "U = ada, N = 3",
    "arrivals": "S = sea, T = 900, L = coast",
    "parts": "C = 243.0",
    "paths": "X = airport",
    "routes": "P = hub",
    "taxonomy": "?x = ex:t1",
}


PROGRAMS = [path for path in FOLDER.rglob("*.dlog") if not path.name.endswith(SUFFIX)]


def test_no_program_is_without_an_expectation() -> None:
    assert {path.stem for path in PROGRAMS if path.parent == FOLDER} == set(ANSWERS)
    assert [path.name for path in PROGRAMS if not path.with_suffix(SUFFIX).exists()] == []


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_programs_pass_their_tests(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(path.with_suffix(SUFFIX))]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", ANSWERS)
def test_programs_answer(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(FOLDER / f"{name}.dlog")]) == 0
    assert ANSWERS[name] in capsys.readouterr().out.splitlines()


def test_the_wind_farm_finds_its_broken_sensors(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(FOLDER / "wind_farm.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "8,702 facts, 7,200 of them pairs of neighbours" in shown
    for line in ("− SensorAnomaly(t3_07)", "+ sendTechnician(row 9)", "− sendTechnician(row 9)"):
        assert f"  {line}\n" in shown


def test_the_module_of_a_tree_moves_branches(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(FOLDER / "tree_module.py"), run_name="__main__")
    shown = capsys.readouterr().out
    for line in ("above emil: ['ada', 'cleo', 'dan']", "plain rules do it: ['ada', 'ben', 'cleo', 'dan']"):
        assert f"{line}\n" in shown


def test_the_module_of_a_tree_finds_what_plain_rules_find() -> None:
    module = runpy.run_path(str(FOLDER / "tree_module.py"))["Above"]
    dice = random.Random(1)
    with_module, plain = KnowledgeBase(module.rules), KnowledgeBase(module.rules, modules=False)
    with_module.add_module(module())
    parents: dict[int, int] = {}
    for _ in range(25):
        moved = {node: dice.randrange(node) for node in dice.sample(range(1, 30), 4)}
        gone = [(parents[node], node) for node in moved if node in parents]
        parents |= moved
        come = [(parent, node) for node, parent in moved.items()]
        odd = {"above": [(dice.randrange(35), dice.randrange(35))]}
        for kb in (with_module, plain):
            kb.update(delete={"parent": gone}, add={"parent": come})
            kb.update(add=odd)
        assert set(with_module.facts("above")) == set(plain.facts("above"))
    assert not with_module._engine.plugins._unfit
