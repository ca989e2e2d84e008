"""Drawings of the hyper rule dependency graph: what they say, and that nothing in them overlaps."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_util import FIGURE_1, rules
from tidelog.errors import StratificationError
from tidelog.language import parse_program
from tidelog.program.drawing.layering import lay_out
from tidelog.program.drawing.picture import Fate, Picture, Touch, picture_of_graph, picture_of_impact
from tidelog.program.drawing.svg import to_svg
from tidelog.program.drawing.text import to_dot, to_mermaid
from tidelog.program.graph import RuleGraph

SVG = "{http://www.w3.org/2000/svg}"


def graph_of(text: str) -> RuleGraph:
    return RuleGraph(rules(text))


def picture_of_update(graph: RuleGraph, add: str, remove: Iterable[int] = ()) -> Picture:
    after = graph.copy()
    return picture_of_impact(graph, after, after.update(parse_program(add).rules, remove), {})


def test_mermaid_of_a_small_program() -> None:
    graph = graph_of('b(X) :- a(X), X != "<i>". c(X) :- d(X), not b(X).')
    chart = to_mermaid(picture_of_graph(graph, {}))
    assert chart.splitlines()[:8] == [
        "flowchart LR",
        '  subgraph hn1["hn1"]',
        '    hn1_r1["r1  b(X) :- a(X), X != #34;#60;i#62;#34;."]',
        "  end",
        '  subgraph hn2["hn2"]',
        '    hn2_r2["r2  c(X) :- d(X), not b(X)."]',
        "  end",
        '  hn1 -.->|"b"| hn2',
    ]


def test_dot_of_figure_3a() -> None:
    dot = to_dot(picture_of_graph(graph_of(FIGURE_1), {}))
    arrows = {line.split(" [")[0].strip(): "dashed" in line for line in dot.splitlines() if "->" in line}
    assert arrows == {
        "hn1_r1 -> hn2_r2": False,
        "hn2_r2 -> hn5_r5": True,
        "hn2_r2 -> hn7_r7": False,
        "hn5_r5 -> hn7_r7": False,
    }
    assert 'label="hn2 · recursive"' in dot
    assert dot.count("{") == dot.count("}") == 5


def test_dot_escapes_text() -> None:
    dot = to_dot(picture_of_graph(graph_of(r'b(X) :- a(X, "say \"no\"").'), {}))
    assert r"a(X, \"say \\\"no\\\"\")." in dot


def test_predicates_are_named_with_their_prefixes() -> None:
    program = parse_program("@prefix ex: <http://example.org/> . ex:b(X) :- ex:a(X). ex:c(X) :- ex:b(X).")
    (arrow,) = picture_of_graph(RuleGraph(program.rules), dict(program.prefixes)).arrows
    assert arrow.predicates == ("ex:b",)


def test_svg_of_figure_3a_shows_every_rule_and_arrow() -> None:
    graph = graph_of(FIGURE_1)
    root = ElementTree.fromstring(to_svg(picture_of_graph(graph, {})))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert [f"r{number}  {rule}" in texts for number, rule in graph.rules.items()] == [True] * 7
    arrows = [path.get("class") for path in root.iter(f"{SVG}path") if path.find(f"{SVG}title") is not None]
    assert sorted(filter(None, arrows)) == ["arrow", "arrow", "arrow", "arrow dashed"]


def test_svg_of_no_rules_is_an_image_too() -> None:
    assert ElementTree.fromstring(to_svg(picture_of_graph(RuleGraph(), {}))).tag == f"{SVG}svg"


def test_svg_shortens_long_rules_and_keeps_them_in_full_as_a_hint() -> None:
    long = "goal(X) :- " + ", ".join(f"condition_number_{number}(X)" for number in range(20)) + "."
    root = ElementTree.fromstring(to_svg(picture_of_graph(graph_of(long), {})))
    assert long in [title.text for title in root.iter(f"{SVG}title")]
    assert any((text.text or "").endswith("…") for text in root.iter(f"{SVG}text"))


def test_picture_of_an_update_that_splits() -> None:
    graph = graph_of(FIGURE_1)
    picture = picture_of_update(graph, "p8(X) :- p7(X, Y).", [4])
    touches = {box.name: (box.touch, box.note) for box in picture.boxes}
    assert touches == {
        "gone2": (Touch.GONE, "removed from hn2"),
        "hn1": (Touch.NONE, ""),
        "hn2": (Touch.DIRECT, "split from hn2"),
        "hn3": (Touch.DIRECT, "split from hn2"),
        "hn5": (Touch.DIRECT, ""),
        "hn7": (Touch.DIRECT, ""),
        "hn8": (Touch.DIRECT, "new"),
    }
    fates = {line.number: line.fate for box in picture.boxes for line in box.lines}
    assert fates == dict.fromkeys((1, 2, 3, 5, 6, 7), Fate.KEPT) | {4: Fate.REMOVED, 8: Fate.ADDED}
    assert list(graph.rules) == [1, 2, 3, 4, 5, 6, 7], "the update itself is not done"


def test_picture_of_an_update_that_merges() -> None:
    graph = graph_of("b(X) :- a(X). c(X) :- b(X). d(X) :- c(X). e(X) :- e(X), f(X). g(X) :- f(X).")
    picture = picture_of_update(graph, "a(X) :- c(X). e(X) :- e(X), h(X).", [5])
    assert {box.name: (box.touch, box.note) for box in picture.boxes} == {
        "gone5": (Touch.GONE, "vanishes"),
        "hn1": (Touch.DIRECT, "merged from hn1, hn2"),
        "hn3": (Touch.REACHED, ""),
        "hn4": (Touch.DIRECT, "gained rules"),
    }


def test_picture_of_an_update_that_cannot_be() -> None:
    with pytest.raises(StratificationError):
        picture_of_update(graph_of("b(X) :- a(X)."), "a(X) :- c(X), not b(X).")


@st.composite
def some_graphs(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    lengths = st.floats(10, 200)
    sizes = draw(st.lists(st.tuples(lengths, lengths), min_size=1, max_size=14))
    pairs = list(combinations(range(len(sizes)), 2))
    return sizes, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=25)) if pairs else []


@given(some_graphs())
def test_nothing_lies_on_something_else(example: tuple[list[tuple[float, float]], list[tuple[int, int]]]) -> None:
    sizes, edges = example
    layout = lay_out(sizes, edges)
    areas = []
    for box, (width, height) in enumerate(sizes):
        x, y = layout.centres[box]
        areas.append((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
        assert min(areas[-1][:2]) > -0.01
        assert areas[-1][2] <= layout.exits[box] + 0.01 <= layout.width + 0.02
        assert areas[-1][3] <= layout.height + 0.01
    for one, other in combinations(areas, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    for source, target in edges:
        way = layout.crossings[source, target]
        across = [layout.exits[source], *(x for x, _ in way), areas[target][0]]
        assert across == sorted(across), "edges lead from left to right"
        for (start, y), (end, _) in zip(way[::2], way[1::2], strict=True):
            for left, top, right, bottom in areas:
                assert not (left < end and start < right and top < y < bottom), "no box is in the way"
