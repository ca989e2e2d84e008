"""The bar of the compiler: on terminals and in notebooks, two lines elsewhere, nothing where nobody listens."""

from __future__ import annotations

import io
import sys
import time

import pytest

from tidelog.machine.kernels.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class NotebookStream(io.StringIO):
    """What notebooks put in place of the standard error."""

    __module__ = "ipykernel.iostream"


def shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("8 kernels", 40.0) as progress:
        progress.draw()
        time.sleep(0.01)
        progress.advance(10.0)
        progress.advance(30.0)
        progress.end("and kept them")
    return stream.getvalue()


@pytest.mark.parametrize("kind", [Terminal, NotebookStream])
def test_a_bar_shows_its_share_and_the_time_left(kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [line.rstrip() for line in shown(kind(), monkeypatch).split("\r") if line.strip()]
    assert drawn[0].endswith("  0%")
    assert drawn[1].endswith("━━━━━━──────────────────  25%, 0:00 left")
    assert drawn[2].endswith("━ 100%, 0:00 left")
    assert drawn[3] == "tidelog: compiled 8 kernels in 0 s, and kept them"


def test_elsewhere_there_are_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, end = shown(io.StringIO(), monkeypatch).splitlines()
    assert begin == "tidelog: compiling 8 kernels, once for this machine …"
    assert end == "tidelog: compiled 8 kernels in 0 s, and kept them"


def test_an_error_takes_the_bar_away(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress("8 kernels", 40.0)
    progress.advance(10.0)
    with pytest.raises(ValueError, match="stop"), progress:
        raise ValueError("stop")
    assert stream.getvalue().rpartition("\r")[2] == ""


def test_nothing_is_told_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with Progress("8 kernels", 40.0) as progress:
        progress.advance(10.0)
        progress.draw()
        progress.end("and kept them")
