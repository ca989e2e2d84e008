"""A server and a browser for the tests of the page. Where there is no browser, they are left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from page_util import Page, Served

DEMO = Path(__file__).parent / "demo.dlog"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    from page_util import browser_paths, started_browser

    if browser_paths() is None:
        pytest.skip("there is no chromium with chromedriver")
    with started_browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of the demo, for all tests: each uses names of its own, or leaves things as they were."""
    from page_util import Served

    server = Served(tmp_path_factory.mktemp("served") / "store", "--program", str(DEMO))
    yield server
    server.stop()


@pytest.fixture
def page(browser: Chrome, served: Served) -> Iterator[Page]:
    """The page, of a usual size, in light colours, loaded anew. In the end, nothing has gone wrong unseen."""
    from page_util import Page

    opened = Page(browser, served.url)
    opened.size(1280, 860)
    opened.colours("light")
    opened.forget()
    opened.open()
    yield opened
    assert opened.faults() == []
