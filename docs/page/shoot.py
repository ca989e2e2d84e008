"""The pictures of the page in the documentation: `make screenshots` takes them again, of a real server.

A server of the demo that the tests use gets a stream of updates; then each view is opened and photographed.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests/support/server"), str(ROOT / "tests/support"), str(ROOT / "src")]

from page_util import Keys, Page, Served, started_browser  # noqa: E402

COLOURS = 160
WIDTH, HEIGHT = 1280, 800


def stream(server: Served, count: int) -> None:
    """Updates as a busy day brings them."""
    chance = random.Random(7)
    for number in range(count):
        size = chance.choice([1, 1, 2, 4, 12])
        names = [f"service{chance.randrange(40)}" for _ in range(2 * size)]
        calls = [[one, other] for one, other in zip(names[::2], names[1::2], strict=True)]
        member = [[f"person{chance.randrange(60)}", chance.choice(["storage", "network", "billing", "compilers"])]]
        if number % 3:
            server.update(add={"calls": calls, "member": member})
        else:
            server.update(add={"calls": calls}, delete={"member": member})
        time.sleep(0.02)


def facts(page: Page, server: Served) -> None:
    page.go("#/facts/may")
    page.one(".rows")
    page.fill("input[aria-label='Filter facts']", "firewall")
    page.sees("1", ".pages")
    time.sleep(0.5)
    server.update(add={"member": [["margaret", "network"]]}, delete={"member": [["edsger", "network"]]})
    page.sees("edsger", "tr.went")
    page.sees("margaret", "tr.came")


def mistake(page: Page, _: Served) -> None:
    page.go("#/rules")
    page.in_editor("root.querySelector('.cm-content').focus()")
    page.keys(Keys.CONTROL, Keys.END)
    page.keys("idle(P) :- member(P, T), not writes(P N).")
    page.sees("Line", ".mistakes")


def what_if(page: Page, _: Served) -> None:
    page.keys(*[Keys.BACKSPACE] * 4, ", _).")
    page.press("What would change?")
    page.sees("idle", "[aria-label='What would change']")


def queries(page: Page, server: Served) -> None:
    page.go("#/queries")
    for text in ("belongs(P, platform), not may(P, write, source)", "sensitive(P, backups)", "writes(P, N), N > 1"):
        page.fill("input[aria-label=Query]", text)
        page.press("Open")
        page.sees("answer", f"[aria-label='Query {text}']")
    server.update(add={"suspended": [["grace"]], "granted": [["network", "write", "backups"]]})
    page.sees("grace", "tr.came")
    server.update(delete={"suspended": [["grace"]]})
    page.sees("grace", "tr.went")


def graph(page: Page, _: Served) -> None:
    page.go("#/graph")
    page.one(".dag-box[aria-label^='may']").click()
    page.sees("time spent", "[aria-label='Chosen component']")


def proof_tree(page: Page, _: Served) -> None:
    page.go("#/proofs/sensitive(barbara%2C%20invoices)")
    page.sees("holds", ".verdict")


def proof_graph(page: Page, _: Served) -> None:
    page.press("Graph")
    page.one(".dag-box[aria-label^='may']").click()
    page.sees("by may", ".step")


def why_not(page: Page, server: Served) -> None:
    server.update(delete={"member": [["barbara", "billing"]]})
    page.go("#/proofs/may(barbara%2C%20write%2C%20invoices)")
    page.sees("Why it vanished")


def updates(page: Page, _: Served) -> None:
    page.go("#/updates")
    page.one(".bar-group")
    page.all(".chart.latency .bar-group")[-9].click()
    page.one(".bar-group.selected")


def save(page: Page, name: str) -> None:
    """The picture with few colours, so that it is small."""
    page.browser.execute_script("document.activeElement?.blur()" if name != "rules-mistake" else "")
    time.sleep(0.4)
    path = HERE / f"{name}.png"
    page.browser.save_screenshot(str(path))
    Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


SCENES: tuple[tuple[str, Callable[[Page, Served], None]], ...] = (
    ("facts", facts),
    ("rules-mistake", mistake),
    ("rules-what-if", what_if),
    ("queries", queries),
    ("graph", graph),
    ("proof-tree", proof_tree),
    ("proof-graph", proof_graph),
    ("why-not", why_not),
    ("updates", updates),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, started_browser(Path(folder) / "profile") as browser:
        server = Served(Path(folder) / "store", "--program", str(ROOT / "tests/server/page/demo.dlog"))
        try:
            stream(server, 60)
            page = Page(browser, server.url)
            page.size(WIDTH, HEIGHT)
            page.colours("light")
            page.open()
            for name, scene in SCENES:
                scene(page, server)
                save(page, name)
            page.colours("dark")
            graph(page, server)
            save(page, "dark")
            page.size(400, HEIGHT)
            page.colours("light")
            page.go("#/proofs/may(ada%2C%20write%2C%20backups)")
            page.sees("holds", ".verdict")
            save(page, "narrow")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
