"""How notebooks show proofs: as pictures, in which whatever constants hold is text."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tidelog import KnowledgeBase
from tidelog.formats.display import row_text
from tidelog.proofs.drawing import HIGHEST, MOST_STEPS, proof_svg

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</text><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "&amp;&lt;",
    "]]>",
    "a\x00b\x1bc",
    "<!--",
]
PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_proof_is_drawn_from_explicit_facts_to_the_conclusion() -> None:
    kb = KnowledgeBase(PATHS + "edge(a, b). edge(b, c).")
    root = ElementTree.fromstring(proof_svg(kb.explain("path(a, c)")))
    places = {
        element.text: float(element.get("x", ""))
        for element in root.iter(f"{SVG}text")
        if element.get("class") == "title"
    }
    assert places.keys() == {"edge(a, b)", "edge(b, c)", "path(b, c)", "path(a, c)"}
    assert places["edge(b, c)"] < places["path(b, c)"] < places["path(a, c)"]
    arrows = [path for path in root.iter(f"{SVG}path") if path.get("class") == "arrow" and path.get("d", "").count("C")]
    assert len(arrows) == 3


def test_rules_and_conditions_are_in_the_frames() -> None:
    kb = KnowledgeBase("hot(X) :- temp(X, T), T > 30, not off(X). temp(oven, 90).")
    shown = texts(proof_svg(kb.explain("hot(oven)")))
    assert {"hot(X) :- temp(X, T), T > 30, not off(X).", "90 > 30", "no fact matches off(oven)"} <= set(shown)


def test_a_fact_that_is_used_twice_is_drawn_once() -> None:
    kb = KnowledgeBase("both(X) :- left(X), right(X). left(X) :- base(X). right(X) :- base(X). base(a).")
    shown = texts(proof_svg(kb.explain("both(a)")))
    assert shown.count("base(a)") == 1


def test_a_change_is_marked() -> None:
    kb = KnowledgeBase(PATHS + "edge(a, b).")
    change = kb.update(add={"edge": [("b", "c")]})
    html = change.explain("path(a, c)")._repr_html_()
    assert "path(a, c)  ← new" in html
    assert "edge(b, c)  ← new" in html
    assert "edge(a, b)  ← new" not in html
    gone = kb.update(delete={"edge": [("b", "c")]}).explain("path(a, c)")._repr_html_()
    assert "path(a, c)  ← gone" in gone
    assert "does not hold" in gone


@pytest.mark.parametrize("constant", HOSTILE)
def test_constants_never_become_markup(constant: str) -> None:
    kb = KnowledgeBase("p(X) :- q(X), X != nothing, not r(X).")
    change = kb.update(add={"q": [(constant,)]})
    (fact,) = (f"p{row_text(row)}" for row in kb.facts("p"))
    proof = kb.explain(fact)
    for html in (proof._repr_html_(), change.explain(fact)._repr_html_(), change._repr_html_(), kb._repr_html_()):
        assert not re.search(r"<(script|img|!--)", html)
    svg = proof_svg(proof)
    assert ElementTree.fromstring(svg) is not None, "well-formed"
    assert any(fact in text for text in texts(svg))


def test_hostile_predicates_and_rules_are_text_too() -> None:
    kb = KnowledgeBase('@prefix ex: <http://e.org/> . ex:p(X) :- q(X, "<script>&").')
    kb.update(add={"q": [("a", "<script>&")]})
    for html in (kb._repr_html_(), kb.graph._repr_svg_(), kb.explain("ex:p(a)")._repr_html_()):
        assert "<script>" not in html
        assert "&lt;script&gt;&amp;" in html


def test_large_proofs_are_text() -> None:
    kb = KnowledgeBase("reached(Y) :- reached(X), edge(X, Y). reached(0).")
    kb.update(add={"edge": [(number, number + 1) for number in range(HIGHEST + 1)]})
    assert "<svg" in kb.explain(f"reached({HIGHEST})")._repr_html_()
    assert "<svg" not in kb.explain(f"reached({HIGHEST + 1})")._repr_html_()
    wide = KnowledgeBase("total(count(X)) :- item(X).")
    wide.update(add={"item": [(number,) for number in range(MOST_STEPS)]})
    assert "<svg" not in wide.explain(f"total({MOST_STEPS})")._repr_html_()
