"""The examples run, and show what they are there to show."""

from __future__ import annotations

import runpy

import pytest

from places import ROOT
from tidelog.cli.command_line import main

FOLDER = ROOT / "examples"
ANSWERS = {
    "access": "U = ada, N = 3",
    "parts": "C = 245.0",
    "paths": "X = airport",
    "taxonomy": "?x = ex:t1",
}


def test_no_program_is_without_an_expectation() -> None:
    assert {path.stem for path in FOLDER.glob("*.dlog")} == set(ANSWERS)


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
