"""The examples run, show what they are there to show, and pass the tests that stand beside them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from places import ROOT
from tidelog.cli.command_line import main
from tidelog.testing.rule_tests import SUFFIX

FOLDER = ROOT / "examples"
ANSWERS = {
    "access": "U = ada, N = 3",
    "arrivals": "S = sea, T = 900, L = coast",
    "parts": "C = 243.0",
    "paths": "X = airport",
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
