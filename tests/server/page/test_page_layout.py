"""The page is for everybody: from the keyboard, on narrow screens, in light and dark, and read aloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from page_util import Page, Served

pytestmark = pytest.mark.browser

VIEWS = {
    "facts": ("#/facts/may", ".rows"),
    "rules": ("#/rules", ".editor"),
    "queries": ("#/queries", ".empty"),
    "graph": ("#/graph/3", ".dag-box"),
    "proofs": ("#/proofs/sensitive(barbara%2C%20invoices)", "[role=tree]"),
    "updates": ("#/updates", "main .panel"),
}


def test_narrow_screens_scroll_in_one_direction(page: Page) -> None:
    page.size(360, 740)
    for view, (path, part) in VIEWS.items():
        page.go(path)
        page.one(part)
        assert page.browser.execute_script("return document.documentElement.scrollWidth") <= 360, view
        page.click(f".views a[href='#/{view}'][aria-current=page]")


def test_narrow_screens_leave_words_whole(page: Page) -> None:
    page.size(360, 740)
    page.go("#/facts/may")
    page.sees("firewall", ".rows")
    lines = "const range = document.createRange(); return [...document.querySelectorAll('.rows .cell')].map(cell => {"
    lines += "range.selectNodeContents(cell); return [cell.textContent, range.getClientRects().length]})"
    assert {text for text, count in page.browser.execute_script(lines) if count > 1} == set()


def test_narrow_screens_show_the_fact_of_a_proof(page: Page) -> None:
    from page_util import wait_until

    page.size(360, 740)
    page.go("#/proofs/sensitive(barbara%2C%20invoices)")
    page.press("Graph")
    page.one(".dag-box[data-id='0']")
    places = "const box = document.querySelector(`.dag-box[data-id='0']`).getBoundingClientRect();"
    places += "const frame = document.querySelector('.dag-frame').getBoundingClientRect();"
    places += "return [box.left - frame.left, frame.right - box.right]"
    wait_until(lambda: all(room >= 0 for room in page.browser.execute_script(places)), lambda: "it is out of sight")


def test_lit_rows_follow_the_colours(page: Page) -> None:
    page.sees("may", ".predicates")
    page.browser.execute_script("""
        document.body.insertAdjacentHTML("beforeend", "<table class=rows><tr class=came><tr class=went></table>");
        document.getAnimations().forEach(animation => animation.pause());
    """)
    ground = "return ['came', 'went'].map(kind => getComputedStyle(document.querySelector(`body > table .${kind}`))"
    ground += ".backgroundColor)"
    light = page.browser.execute_script(ground)
    page.colours("dark")
    dark = page.browser.execute_script(ground)
    page.colours("light")
    assert len({*light, *dark}) == 4


USED = {"button", "link", "textbox", "searchbox", "checkbox", "treeitem", "grid", "tree", "figure", "img"}


def test_everything_to_use_has_a_name(page: Page, served: Served) -> None:
    """What a screen reader would read of buttons, links, boxes and the like is never empty."""
    served.update(add={"named": [["chart"]]})
    views = {**VIEWS, "updates": ("#/updates", "figure.chart")}
    for path, part in views.values():
        page.go(path)
        page.one(part)
        nodes = page.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        used = [node for node in nodes if not node.get("ignored") and node["role"]["value"] in USED]
        assert used
        assert [node for node in used if not node.get("name", {}).get("value", "").strip()] == []


CONTRASTS = """
const light = colour => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(value => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = element => {
  for (let each = element; each; each = each.parentElement) {
    const colour = getComputedStyle(each).backgroundColor;
    if (!/^rgba\\(.*, 0\\)$|transparent/.test(colour)) return colour;
  }
  return "white";
};
const faint = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  if (!own || element.closest(":disabled, [aria-hidden=true], .hidden, .skip, noscript, svg")) continue;
  const [text, back] = [light(getComputedStyle(element).color), light(ground(element))];
  const contrast = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
  if (contrast < 4.5) faint.push(`${element.className} ${element.textContent.slice(0, 30)} ${contrast.toFixed(2)}`);
}
return [...new Set(faint)];
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(page: Page, scheme: str) -> None:
    """Text has the contrast that WCAG 2 asks for at level AA."""
    page.colours(scheme)
    grounds = set()
    for path, part in VIEWS.values():
        page.go(path)
        page.one(part)
        assert page.browser.execute_script(CONTRASTS) == []
        grounds.add(page.browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 1
    dark = sum(map(int, grounds.pop()[4:-1].split(","))) < 3 * 60
    assert dark == (scheme == "dark")


def test_colours_can_be_chosen(page: Page) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.browser.execute_script(ground)
    page.press("Colours: as the system")
    page.press("Colours: light")
    assert page.browser.execute_script(ground) != light
    page.open()
    page.button("Colours: dark")
    assert page.browser.execute_script(ground) != light
    page.press("Colours: dark")


def test_everything_from_the_keyboard(page: Page) -> None:
    from page_util import Keys

    page.one(".predicate")
    page.keys(Keys.TAB)
    assert page.focused() == "Skip to the content"
    page.keys(Keys.TAB, Keys.TAB, Keys.TAB)
    assert page.focused() == "Rules"
    page.keys(Keys.ENTER)
    page.in_editor("return 1")
    page.go("#/facts/may")
    page.sees("edsger", ".rows")
    page.browser.execute_script("document.querySelector('.rows .cell').focus()")
    page.keys(Keys.ARROW_DOWN)
    page.keys(Keys.ARROW_RIGHT)
    assert page.focused() == "read"
    page.keys(Keys.END)
    assert page.focused().startswith("Why may(")
    page.keys(Keys.ENTER)
    page.sees("holds", ".verdict")
    page.browser.execute_script("document.querySelector('[role=treeitem]').focus()")
    page.keys(Keys.ARROW_DOWN)
    page.keys(Keys.TAB)
    assert page.focused() == "from here"
    page.keys(Keys.ENTER)
    page.one("[aria-label^='Proof of belongs']")


def test_focus_can_be_seen(page: Page) -> None:
    from page_util import Keys

    page.one(".predicate")
    page.keys(Keys.TAB, Keys.TAB, Keys.TAB)
    script = "const style = getComputedStyle(document.activeElement); return [style.outlineStyle, style.outlineWidth]"
    assert page.browser.execute_script(script) == ["solid", "2px"]
