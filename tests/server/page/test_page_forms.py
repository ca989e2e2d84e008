"""Forms of the language that are more than plain rules and facts, on the page: records, time, equality, constraints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from page_util import Page, Served

pytestmark = pytest.mark.browser

PROGRAM = """
@expire reading 60 s.
@predicate at(name: string, place) "Where something is.".
@equality same on person.
busy(S) :- reading(S, V) in last 10 s, V > 5.
turned(N, [Y, X]) :- at(N, [X, Y]).
degree(X, N) :- edge(X, _), N = count { Y : edge(X, Y) }.
@constraint warn :- degree(X, N), N > 7.
at(house, [1, "Two"]).  at(tree, [3, 4]).  edge(a, b).
person(anne).  same(anne, annabella).
"""


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from page_util import Served

    folder = tmp_path_factory.mktemp("forms")
    (folder / "forms.dlog").write_text(PROGRAM)
    server = Served(folder / "store", "--program", str(folder / "forms.dlog"))
    yield server
    server.stop()


@pytest.fixture
def page(browser: Chrome, forms: Served) -> Iterator[Page]:
    from page_util import Page

    opened = Page(browser, forms.url)
    opened.size(1280, 860)
    opened.forget()
    opened.open()
    yield opened
    assert opened.faults() == []


def test_records_and_declared_columns(page: Page) -> None:
    page.go("#/facts/at")
    page.sees("Where something is.", "main")
    assert page.text_of(".rows thead").split()[:2] == ["name", "place"]
    page.sees('[1, "Two"]', ".rows")
    page.press("[3, 4]", ".rows")
    page.sees("place = [3, 4]", ".tools")
    page.sees_no("house", ".rows")
    page.click(".rows a.why")
    page.sees("at(tree, [3, 4])", "h2")
    page.sees("explicit")


def test_the_graph_of_constraints_and_of_parts_of_rules(page: Page) -> None:
    page.go("#/graph")
    page.click(".dag-box[aria-label^='constraint, 1 rule']")
    page.sees("N > 7", "[aria-label='Chosen component']")
    page.click(".dag-box[aria-label^='degree, 1 rule']")
    page.sees("count { Y : edge(X, Y) }", "[aria-label='Chosen component']")


def test_queries_that_have_no_stream_are_asked_again(page: Page, forms: Served) -> None:
    page.go("#/queries")
    for text in ("( edge(X, b) ; edge(b, X) )", "person(X)"):
        page.fill("input[aria-label=Query]", text)
        page.press("Open")
    page.sees("annabella", "[aria-label='Query person(X)']")
    page.sees("1 answer", "[aria-label='Query ( edge(X, b) ; edge(b, X) )']")
    forms.update(add={"edge": [["b", "zoe"]], "same": [["anne", "anna"]]})
    page.sees("zoe", "[aria-label='Query ( edge(X, b) ; edge(b, X) )'] tr.came")
    page.sees("anna", "[aria-label='Query person(X)'] tr.came")


def test_what_expires_is_among_the_rules_and_can_be_left_out(page: Page, forms: Served) -> None:
    page.go("#/rules")
    text = forms.get("/rules")["text"]
    assert "@expire reading 60 s." in text
    page.type_rules(text.replace("@expire reading 60 s.\n", "").replace("N > 7", "N > 8"))
    page.sees("@expire reading 60 s.", "[aria-label='Your edit'] .went")
    page.press("What would change?")
    page.press("Apply")
    page.sees("Applied as update")
    changed = forms.get("/rules")["text"]
    assert "@expire" not in changed
    assert "N > 8" in changed
    assert "N > 7" not in changed
