"""Progress in notebooks: shown for long updates, gone afterwards, and nowhere else."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog import KnowledgeBase
from tidelog.api import notebook
from tidelog.runtime import progress

PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."
EDGES = [(number, number + 1) for number in range(300)]


class Page:
    """A notebook that notes what is displayed."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, html: str, display_id: bool) -> Page:
        assert display_id
        self.update(html)
        return self

    def update(self, html: str) -> None:
        self.shown.append(html)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    """The kernel of a notebook, in which every pause of a kernel is worth a look."""
    made = Page()
    shell = SimpleNamespace(kernel=object())
    package: Any = SimpleNamespace(get_ipython=lambda: shell)
    display = SimpleNamespace(HTML=str, display=made.display)
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)  # type: ignore[arg-type]
    monkeypatch.setattr(notebook, "PATIENCE", 0)
    monkeypatch.setattr(notebook, "INTERVAL", 0)
    monkeypatch.setattr("tidelog.engine.update.runner.BUDGET", 1000)
    return made


def test_a_long_update_shows_its_facts_and_then_nothing(page: Page) -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    kb.update(add={"edge": EDGES})
    *during, last = page.shown
    counts = [int(html.split()[-2].replace(",", "")) for html in during]
    assert len(counts) > 3
    assert counts == sorted(counts)
    assert 300 <= counts[-1] <= len(kb)
    assert last == ""


def test_an_update_that_fails_leaves_nothing_on_the_page(page: Page) -> None:
    kb = KnowledgeBase(PATHS, modules=False, max_facts=10_000)
    with pytest.raises(Exception, match="more than 10000 facts"):
        kb.update(add={"edge": EDGES})
    assert page.shown[-1] == ""


def test_a_short_update_shows_nothing(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "PATIENCE", 60)
    KnowledgeBase(PATHS, modules=False).update(add={"edge": EDGES})
    assert page.shown == []


@pytest.mark.parametrize("shell", [None, SimpleNamespace()], ids=["no shell", "a terminal"])
def test_nothing_is_shown_outside_of_notebooks(page: Page, shell: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    KnowledgeBase(PATHS, modules=False).update(add={"edge": EDGES})
    assert page.shown == []


def test_each_thread_has_its_own() -> None:
    seen: list[int] = []
    with progress.shown_by(lambda count: seen.append(count())):
        thread = threading.Thread(target=lambda: progress.report(lambda: 1))
        thread.start()
        thread.join()
        progress.report(lambda: 2)
    progress.report(lambda: 3)
    assert seen == [2]
