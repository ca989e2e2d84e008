"""How a server starts, and what keeps it from starting: it is told before anything is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidelog import TidelogError
from tidelog.cli.command_line import main
from tidelog.server.running.start import functions_of

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, which Python does not look into for modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each not in ("", str(tmp_path))])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def refusal(capsys: Captured, *options: str) -> str:
    """What is said where a server does not start."""
    assert main(["serve", "store", "--listen", "127.0.0.1:0", *options]) == 2
    assert not Path("store").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        ("no.pem", "no.pem", "no.pem and no.pem are no certificate and its key, both in PEM"),
        ("no.pem", "missing.pem", "cannot read missing.pem: No such file or directory"),
        ("missing.pem", "no.pem", "cannot read missing.pem: No such file or directory"),
        ("one.pem", "other.pem", "one.pem and other.pem are no certificate and its key"),
    ],
)
def test_a_bad_certificate_is_told(folder: Path, capsys: Captured, certificate: str, key: str, said: str) -> None:
    Path("no.pem").write_text("no certificate")
    if certificate == "one.pem":
        for name in ("one", "other"):
            files = ["-keyout", f"{name}-key.pem", "-out", f"{name}.pem"]
            made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", *files]
            subprocess.run(made, check=True, capture_output=True)
        key = "other-key.pem"
        said = "one.pem and other-key.pem are no certificate and its key"
    assert said in refusal(capsys, "--tls-certificate", certificate, "--tls-key", key)


def test_a_module_of_functions_may_lie_in_the_present_folder(folder: Path) -> None:
    Path("functions_here.py").write_text("functions = {'twice': lambda x: 2 * x}")
    assert functions_of("functions_here")["twice"](2) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n1 / 0", "cannot import functions_here: ZeroDivisionError: division by zero ({path}, line 2)"),
        ("1 /", "cannot import functions_here: invalid syntax (functions_here.py, line 1)"),
        ("import no_such_module", "cannot import functions_here: No module named 'no_such_module'"),
        ("", "functions_here has no mapping `functions`"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told(folder: Path, capsys: Captured, text: str, said: str) -> None:
    path = folder / "functions_here.py"
    path.write_text(text)
    assert f"error: {said.format(path=path)}" in refusal(capsys, "--functions", "functions_here")
    with pytest.raises(TidelogError, match="No module named 'not_there'"):
        functions_of("not_there")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p(1) q(2).", "error: rules.dlog:1:5: expected"),
        ("p(1).\nq(X) :- p(Y).", "error: rules.dlog:2:3: variable `X` is not bound"),
        ("p(1).\np(1, 2).", "error: rules.dlog:2:1: `p` has 2 arguments here, but 1 argument in"),
    ],
)
def test_a_bad_program_is_told_by_its_name(folder: Path, capsys: Captured, text: str, said: str) -> None:
    Path("rules.dlog").write_text(text)
    assert said in refusal(capsys, "--program", "rules.dlog")
