"""Nothing on the page becomes markup, nobody enters uninvited, and the page never asks for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from page_util import Page, Served

pytestmark = pytest.mark.browser

HOSTILE = (
    '<img src=x onerror="window.entered=1">',
    "</script><script>window.entered=1</script>",
    "javascript:window.entered=1",
    '"><svg onload=window.entered=1>',
    "${window.entered=1}{{window.entered=1}}",
    "&lt;b&gt; &amp; ' \" ` \\ \n \u202e \u0000",
)


def test_hostile_names_stay_text(page: Page, served: Served) -> None:
    predicate = "<javascript:window.entered=1>"
    served.update(add={"bad": [[name] for name in HOSTILE], predicate: [[HOSTILE[0]]]})
    rule = f"{predicate}(X) :- bad(X), X != {HOSTILE[1]!r}."
    served.update(add_rules=rule)
    fact = f'{predicate}("<img src=x onerror=\\"window.entered=1\\">")'
    for path in ("#/facts/bad", f"#/facts/{quote(predicate, safe='')}", "#/graph", "#/updates", "#/rules"):
        page.go(path)
        page.sees("entered=1")
    page.go("#/queries")
    page.fill("input[aria-label=Query]", "bad(X)")
    page.press("Open")
    page.sees("onerror", ".query .rows")
    page.press("Close bad(X)")
    page.go(f"#/proofs/{quote(fact, safe='')}")
    page.sees("holds", ".verdict")
    page.press("Graph")
    page.one(".dag-box")
    page.go(f"#/proofs/{quote('bad(<b>)', safe='')}")
    page.one(".verdict.not")
    assert page.browser.execute_script("return window.entered") is None
    assert page.browser.execute_script("return document.querySelectorAll('img, main script, iframe').length") == 0
    links = page.browser.execute_script("return [...document.links].map(link => link.protocol)")
    assert set(links) <= {"http:"}
    served.update(remove_rules=rule, delete={"bad": [[name] for name in HOSTILE], predicate: [[HOSTILE[0]]]})


def test_drawn_graphs_have_their_style_and_nothing_else_inline(page: Page, served: Served) -> None:
    page.browser.get(f"{served.url}/graph?format=svg")
    colour = "return getComputedStyle(document.querySelector('.tidelog .arrow')).stroke"
    assert page.browser.execute_script(colour) == "rgb(87, 96, 106)", "the policy knows the style sheet"
    page.open()


SMUGGLED = """
for (const [name, text] of [["style", "body { outline: 9px solid red }"], ["script", "window.entered = 1"]]) {
  const element = document.createElement(name);
  element.textContent = text;
  document.head.append(element);
}
return [window.entered ?? null, getComputedStyle(document.body).outlineStyle];
"""


def test_page_forbids_itself_what_it_does_not_need(page: Page) -> None:
    """Even if something became markup, the policy of the page would stop it."""
    from page_util import wait_until

    page.one(".predicate")
    assert page.browser.execute_script(SMUGGLED) == [None, "none"]
    stopped = {"style-src-elem: inline", "script-src-elem: inline"}
    wait_until(lambda: set(page.faults()) == stopped, lambda: str(page.faults()))
    page.browser.execute_script("window.faults.length = 0")


def test_page_asks_its_own_server_alone(page: Page) -> None:
    page.requests()
    page.open("#/rules")
    page.in_editor("return 1")
    page.go("#/graph")
    page.one(".dag-box")
    assert {address.split("/")[1] for address in page.requests() if address.startswith("/")} >= {"assets", "rules"}
    assert all(address.startswith("/") or address == "about:blank" for address in page.requests())


# --- tokens ----------------------------------------------------------------------------------------------------------

READER, EDITOR, GUEST = "a-token-for-those-who-read", "a-token-for-those-who-edit", "a-token-for-guests-only"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from page_util import Served

    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens"
    tokens.write_text(f"{READER} read\n{EDITOR} read,write,rules\n{GUEST} read:member\n")
    demo = Path(__file__).parent / "demo.dlog"
    server = Served(folder / "store", "--program", str(demo), "--tokens", str(tokens), token=EDITOR)
    yield server
    server.stop()


@pytest.fixture
def guarded_page(browser: Chrome, guarded: Served) -> Iterator[Page]:
    from page_util import Page

    page = Page(browser, guarded.url)
    page.size(1280, 860)
    page.open()
    yield page
    assert page.faults() == []
    browser.delete_all_cookies()


def enter(page: Page, token: str) -> None:
    page.fill("input#token", token)
    page.press("Enter")


def test_token_is_asked_for(guarded_page: Page) -> None:
    page = guarded_page
    page.sees("This server asks for a token")
    assert not page.all(".views")
    enter(page, "a-token-that-nobody-has-given")
    page.one(".token .error")
    enter(page, READER)
    page.sees("belongs", ".predicate-list")
    kept = page.browser.execute_script("return JSON.stringify(localStorage) + document.cookie")
    assert READER not in kept
    page.open("#/rules")
    page.sees("You may read the rules, and not change them.")
    page.press("Sign out")
    page.sees("This server asks for a token")


def test_reader_sees_nothing_to_change_with(guarded_page: Page) -> None:
    enter(guarded_page, READER)
    guarded_page.go("#/facts/member")
    guarded_page.sees("ada", ".rows")
    assert not guarded_page.all(".change-facts")


def test_editor_changes_facts(guarded_page: Page) -> None:
    enter(guarded_page, EDITOR)
    guarded_page.go("#/facts/member")
    guarded_page.fill("input[aria-label='Facts to add or delete']", "member(guest, interns).")
    guarded_page.press("Add")
    guarded_page.sees("guest", "tr.came")


def test_guest_sees_what_he_may(guarded_page: Page) -> None:
    enter(guarded_page, GUEST)
    guarded_page.sees("member", ".predicate-list")
    guarded_page.sees("ada", ".rows")
    guarded_page.go("#/facts/granted")
    guarded_page.one(".error")


# --- size ------------------------------------------------------------------------------------------------------------


def test_page_never_asks_for_all(page: Page, served: Served) -> None:
    served.update(add={"wide": [[n, n % 7] for n in range(20_000)]})
    page.requests()
    page.open("#/facts/wide")
    page.sees("1–100 of 20,000", ".pages")
    served.update(add={"wide": [["late", "late"]]})
    page.sees("20,001", ".pages")
    page.go("#/queries")
    page.fill("input[aria-label=Query]", "wide(X, Y)")
    page.press("Open")
    page.sees("more than 5,000 answers", ".query")
    page.sees("not kept up to date", ".query")
    page.fill("input[aria-label=Query]", "wide(X, late)")
    page.press("Open")
    page.sees("1 answer ", "[aria-label='Query wide(X, late)']")
    asked = page.requests()
    assert all("limit=100" in address for address in asked if address.startswith("/facts/"))
    followed = [address for address in asked if address.startswith("/subscribe")]
    assert followed == ["/subscribe?query=wide%28X%2C+late%29"]
    assert page.received() < 1_000_000
    served.update(delete={"wide": [[n, n % 7] for n in range(20_000)] + [["late", "late"]]})
