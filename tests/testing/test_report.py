"""`tidelog test`, and the same files in pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.cli.command_line import main

GOOD = '@test "passes".\np(a).\n@holds p(a).\n@test "passes too".\n@fails p(a).\n'
BAD = 'p(a).\n@test "goes wrong".\n@expect p(X): (b).\n@holds q(a).\n@test "is well".\n@holds p(a).\n'
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "good.test.dlog").write_text(GOOD)
    (tmp_path / "deeper" / "bad.test.dlog").write_text(BAD)
    (tmp_path / "rules.dlog").write_text("p(X) :- q(X).")
    return tmp_path


def test_all_tests_of_a_folder_run(folder: Path, capsys: Captured) -> None:
    assert main(["test", str(folder)]) == 1
    out = capsys.readouterr().out
    bad = folder / "deeper" / "bad.test.dlog"
    assert f"{bad} F.\n{folder / 'good.test.dlog'} ..\n" in out
    assert f"\n── goes wrong\n{bad}:3: @expect p(X): (b).\n    - (b)  is expected\n    + (a)  is not expected\n" in out
    assert f"{bad}:4: @holds q(a).\n    it does not hold" in out
    assert "\n3 passed, 1 failed in " in out


def test_tests_are_chosen_by_file_and_name(folder: Path, capsys: Captured) -> None:
    assert main(["test", str(folder / "good.test.dlog"), "-v"]) == 0
    assert f"{folder / 'good.test.dlog'}:4: passes too passed\n" in capsys.readouterr().out
    assert main(["test", str(folder), "-k", "well", "-v"]) == 0
    assert "\n1 passed in" in capsys.readouterr().out


def test_the_present_folder_is_tested(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.chdir(folder)
    assert main(["test"]) == 1
    assert "good.test.dlog .." in capsys.readouterr().out


def test_what_cannot_be_tested_is_told(folder: Path, capsys: Captured) -> None:
    for arguments, message in (
        ([str(folder / "rules.dlog")], "tests are in files named *.test.dlog"),
        ([str(folder / "nowhere")], "no such file or folder"),
        ([str(folder), "-k", "no such test"], "there is no test whose name contains 'no such test'"),
    ):
        assert main(["test", *arguments]) == 2
        assert message in capsys.readouterr().err
    (folder / "broken.test.dlog").write_text("@holds p(a")
    (folder / "empty.test.dlog").write_text("")
    assert main(["test", str(folder)]) == 2
    captured = capsys.readouterr()
    assert f"error: {folder / 'empty.test.dlog'}: there is no test in it" in captured.err
    assert "broken.test.dlog:1:" in captured.err
    assert "3 passed, 1 failed, 2 files cannot be read in" in captured.out


def test_pytest_collects_the_same_files(folder: Path) -> None:
    (folder / "broken.test.dlog").write_text("@holds p(a")
    (folder / "empty.test.dlog").write_text("% nothing yet")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tidelog.testing.pytest_plugin", "-v"]
    done = subprocess.run(
        [*command, "--continue-on-collection-errors", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "good.test.dlog::passes too PASSED" in done.stdout
    assert "deeper/bad.test.dlog::goes wrong FAILED" in done.stdout
    assert f"{folder / 'deeper' / 'bad.test.dlog'}:3: @expect p(X): (b)." in done.stdout
    assert "+ (a)  is not expected" in done.stdout
    assert "broken.test.dlog:1:11: expected" in done.stdout
    assert "empty.test.dlog: there is no test in it" in done.stdout
    assert "Traceback" not in done.stdout
    assert "3 passed" in done.stdout


def test_the_plugin_is_declared_and_light() -> None:
    import tomllib

    from places import ROOT

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    [module] = declared.values()
    code = f"import {module}, sys; sys.exit(any(name in sys.modules for name in ('numba', 'pyarrow', 'lark')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
