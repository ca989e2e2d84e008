"""How knowledge bases, changes, facts and answers show themselves, and what rules tell of their work."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from tidelog import CrossProductWarning, KnowledgeBase
from tidelog.api.knowledge_base import MOST_DRAWN
from tidelog.formats.display import MOST_ROWS

PROGRAM = """
path(X, Y) :- edge(X, Y).
path(X, Z) :- edge(X, Y), path(Y, Z).
degree(X, count(Y)) :- edge(X, Y).
"""


def printed(thing: Any) -> str:
    console = Console(width=120, color_system=None)
    with console.capture() as captured:
        console.print(thing)
    return captured.get()


@pytest.fixture
def kb() -> KnowledgeBase:
    made = KnowledgeBase(PROGRAM)
    made.update(add={"edge": [(number, number + 1) for number in range(40)]})
    return made


def test_a_knowledge_base_tells_its_size(kb: KnowledgeBase) -> None:
    assert repr(kb) == "<KnowledgeBase: 900 facts, 3 rules>"
    assert repr(KnowledgeBase("p(a).")) == "<KnowledgeBase: 1 fact, 0 rules>"
    assert [line.split("│")[1:4] for line in printed(kb).splitlines() if "edge " in line] == [
        [" edge      ", "       40 ", "    40 "]
    ]
    assert "<td" in kb._repr_html_()


def test_a_change_tells_how_many_facts_came_and_went(kb: KnowledgeBase) -> None:
    change = kb.update(delete={"edge": [(39, 40)]})
    assert repr(change) == "<Change: - edge: 1, - degree: 1, - path: 40>"
    assert "(39, 40)" in printed(change)
    assert repr(kb.update()) == "<Change: no change>"
    assert printed(kb.update()).strip() == kb.update()._repr_html_() == "no change"


def test_a_notebook_draws_what_came_and_went(kb: KnowledgeBase) -> None:
    html = kb.update(delete={"edge": [(39, 40)]}, add={"edge": [(40, 41), (41, 42)]})._repr_html_()
    drawn = ElementTree.fromstring(html[: html.index("</svg>") + len("</svg>")])
    texts = [element.text or "" for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "−1" in texts
    assert "+2" in texts
    counts = [text for text in texts if text.startswith(("+", "−"))]
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}rect"))) == len(counts)


def test_a_notebook_draws_the_rules_of_a_knowledge_base(kb: KnowledgeBase) -> None:
    assert "<svg" in kb._repr_html_()
    assert "<svg" not in KnowledgeBase("p(a).")._repr_html_()
    many = KnowledgeBase("".join(f"p{number}(X) :- q(X)." for number in range(MOST_DRAWN + 1)))
    assert "<svg" not in many._repr_html_()


@pytest.mark.parametrize("modules", [True, False])
def test_facts_show_the_first_rows(modules: bool) -> None:
    kb = KnowledgeBase(PROGRAM, modules=modules)
    kb.update(add={"edge": [(number, number + 1) for number in range(40)]})
    facts = kb.facts("path")
    assert repr(facts).count("(") == 10
    assert repr(facts).endswith(", …}")
    assert facts._repr_html_().count("<tr>") == 1 + MOST_ROWS
    assert "800 more of 820" in facts._repr_html_()
    assert "800 more of 820" in printed(facts)
    assert repr(kb.facts("nothing")) == "{}"


def test_answers_show_their_variables(kb: KnowledgeBase) -> None:
    answers = kb.query("path(X, Last), X > 37")
    assert repr(answers) == "[{'X': 38, 'Last': 39}, {'X': 38, 'Last': 40}, {'X': 39, 'Last': 40}]"
    assert "<th>X</th><th>Last</th>" in answers._repr_html_()
    assert "Last" in printed(answers)
    assert "1 row" in printed(kb.query("edge(0, 1)"))


def test_html_is_escaped() -> None:
    kb = KnowledgeBase()
    change = kb.update(add={"p": [("<b>&",)], "<http://e.org/?a&b>": [("x",)]})
    for shown in (kb, change, kb.facts("p"), kb.query("p(X)")):
        html = shown._repr_html_()
        assert "<b>&" not in html
        assert "a&b" not in html


def test_rich_markup_in_values_is_only_text() -> None:
    kb = KnowledgeBase()
    kb.update(add={"p": [("[bold]x[/bold]",)]})
    assert "[bold]x[/bold]" in printed(kb.facts("p"))


@pytest.mark.parametrize("modules", [True, False])
def test_rules_tell_what_they_did(modules: bool) -> None:
    kb = KnowledgeBase(PROGRAM + "near(X, Z) :- edge(X, Y), edge(Y, Z). near(X, Y) :- edge(X, Y).", modules=modules)
    kb.update(add={"edge": [(number, number + 1) for number in range(40)] + [(0, 2)]})
    by_rule = {item.rule: item for item in kb.rule_statistics()}
    assert list(by_rule) == kb.rules
    assert [(rule.facts, rule.applications) for rule in kb.rules] == [
        (item.facts, item.applications) for item in by_rule.values()
    ]
    assert all(rule.seconds > 0 for rule in kb.rules)
    assert all(item.seconds >= 0 for item in by_rule.values())
    two_steps = by_rule["near(X, Z) :- edge(X, Y), edge(Y, Z)."]
    one_step = by_rule["near(X, Y) :- edge(X, Y)."]
    # near(0, 2) and nothing else is derived by both.
    assert (two_steps.applications, one_step.applications) == (40, 41)
    assert two_steps.facts + one_step.facts == len(kb.facts("near")) == 80
    assert by_rule["degree(X, count(Y)) :- edge(X, Y)."].facts == 40
    path = [item for item in by_rule.values() if item.rule.startswith("path")]
    assert (path[0].facts, path[1].facts) == (41, len(kb.facts("path")) - 41)
    if not modules:
        assert path[0].applications == 41


def test_a_rule_that_looks_at_much_for_nothing_is_seen_to_be_slow() -> None:
    kb = KnowledgeBase("p(X, Y) :- n(X, Z), n(Y, Z), X + Y = -1. p(X, X) :- n(X, _).")
    kb.update(add={"n": [(number, number % 2) for number in range(600)]})
    joins, copies = kb.rule_statistics()
    assert (joins.applications, copies.applications) == (0, 600)
    assert joins.seconds > copies.seconds


def test_a_warning_names_the_line_that_called() -> None:
    with pytest.warns(CrossProductWarning, match="have no variable in common") as found:
        KnowledgeBase("pair(X, Y) :- left(X), right(Y).")
    assert found[0].filename == __file__
