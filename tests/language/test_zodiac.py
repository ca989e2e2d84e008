"""ZodiacEdge's syntax: what each form is in the language, and that translated programs mean the same."""

from __future__ import annotations

import pytest
from hypothesis import given

from engine_util import materialisation
from generate import Case, programs, soak
from naive import State, database, without_empty
from tidelog import KnowledgeBase, TidelogError
from tidelog.errors import ConversionError, ParseError
from tidelog.language import DLOG, ZODIAC, convert, parse_atom, parse_program, parse_query, parse_rules, render_in
from tidelog.language.syntax import Program, Rule

FORMS = [
    ("p(X) :- q(X) and r(X) ∧ s(X) AND not t(X).", "p(X) :- q(X), r(X), s(X), not t(X)."),
    (
        "p(X) :- q(X, Y) and comp(X, <=, Y) and Comp(5, !=, ?z) and q(?z, _).",
        "p(X) :- q(X, Y), X <= Y, 5 != ?z, q(?z, _).",
    ),
    ("p(D) :- q(X, Y) and BIND(abs(X - Y) / 2 AS D) and bind(D as E).", "p(D) :- q(X, Y), D = abs(X - Y) / 2, E = D."),
    ("p(X, Z) :- aggregate(q(X, Y)) on X with max(Y) as Z.", "p(X, max(Y)) :- q(X, Y)."),
    (
        "p(Z, a, X) :- AGGREGATE(q(X, Y) and not r(Y)) ON X WITH MED(Y) AS Z.",
        "p(median(Y), a, X) :- q(X, Y), not r(Y).",
    ),
    ("p(X) :- aggregate(q(X, Y)) on X with sum(Y) as Z.", "p(X) :- q(X, Y)."),
    ("r1: p(X) :- q(X). r_2: p(a).", "p(X) :- q(X). p(a)."),
    ("r1:p(X) :- r1:q(X).", "r1:p(X) :- r1:q(X)."),
    ("@prefix ex: <http://e.org/> . ex:p(ex:a, 'x y', -1.5, true). flag.", None),
    ("p(D) :- q(X) and bind(X % 2 as D) and flag.", "p(D) :- q(X), D = X % 2, flag."),
    ("p(D) :- q(as, X, on) and bind(concat(as, and) as D).", 'p(D) :- q("as", X, on), D = concat(as, and).'),
    ("?- p(X) and comp(X, >, 5).", "?- p(X), X > 5."),
    ("p(X) :- q(X) % a comment\n  and r(X). # another\n// and one more", "p(X) :- q(X), r(X)."),
]


@pytest.mark.parametrize(("text", "meaning"), FORMS)
def test_each_form_says_what_the_language_says(text: str, meaning: str | None) -> None:
    program = parse_program(text, syntax=ZODIAC)
    assert program == parse_program(meaning or text)
    assert parse_program(render_in(ZODIAC, program), syntax=ZODIAC) == program


def test_parts_of_programs() -> None:
    assert parse_rules("p(X) :- q(X) and r(X).", {}, syntax=ZODIAC) == parse_rules("p(X) :- q(X), r(X).", {})
    assert parse_query("p(X) and comp(X, =, 1)", {}, syntax=ZODIAC) == parse_query("p(X), X = 1", {})
    assert parse_atom("p(a, 1)", {}, syntax=ZODIAC) == parse_atom("p(a, 1)", {})
    with pytest.raises(ParseError, match="a fact stands among rules"):
        parse_rules("p(a).", {}, syntax=ZODIAC)


@pytest.mark.parametrize("syntax", ["prolog", "", None, ["zodiac"]])
def test_an_unknown_syntax_is_refused_before_anything_happens(syntax: object) -> None:
    with pytest.raises(TidelogError, match="`syntax` is one of dlog, zodiac, not"):
        KnowledgeBase(syntax=syntax)  # type: ignore[arg-type]
    kb = KnowledgeBase()
    with pytest.raises(TidelogError, match="`syntax` is one of dlog, zodiac, not"):
        kb.update(add={"p": [(1,)]}, syntax=syntax)  # type: ignore[arg-type]
    assert len(kb) == 0


# ── conversion ───────────────────────────────────────────────────────────────────────────────────────────────────────

CONVERTED = [
    ("p(X + 1) :- q(X).", "p(V) :- q(X) and BIND(X + 1 AS V)."),
    ("p(V) :- q(V), V * 2 < V - 1.", "p(V) :- q(V) and BIND(V * 2 AS V1) and BIND(V - 1 AS V2) and COMP(V1, <, V2)."),
    ("p(X, Y) :- q(X), X + 1 = Y.", "p(X, Y) :- q(X) and BIND(X + 1 AS Y)."),
    ("p(X, Y) :- q(X), X = Y.", "p(X, Y) :- q(X) and BIND(X AS Y)."),
    ("p(X) :- q(X, Y), Y = X + 1.", "p(X) :- q(X, Y) and BIND(X + 1 AS V) and COMP(Y, =, V)."),
    ("p(X) :- q(X, Y), Y = X.", "p(X) :- q(X, Y) and COMP(Y, =, X)."),
    ("p(A) :- q(X), A = B, A = X.", "p(A) :- q(X) and BIND(A AS B) and BIND(X AS A)."),
    ("p(D) :- q(X), D = X, D = 1.", "p(D) :- q(X) and BIND(X AS D) and COMP(D, =, 1)."),
    ("p(X) :- q(X), not r(X - 1).", "p(X) :- q(X) and BIND(X - 1 AS V) and not r(V)."),
    ("p(X, sum(Y * 2)) :- q(X, Y).", "p(X, Z) :- AGGREGATE(q(X, Y) and BIND(Y * 2 AS V)) ON X WITH SUM(V) AS Z."),
    ("p(Z, count(Y)) :- q(Z, Y).", "p(Z, Z1) :- AGGREGATE(q(Z, Y)) ON Z WITH COUNT(Y) AS Z1."),
    ("?- q(X), X + 1 > 2.", "?- q(X) and BIND(X + 1 AS _V) and COMP(_V, >, 2)."),
]


@pytest.mark.parametrize(("text", "expected"), CONVERTED)
def test_expressions_get_names(text: str, expected: str) -> None:
    assert convert(parse_program(text), ZODIAC) == expected
    assert convert(parse_program(expected, syntax=ZODIAC), ZODIAC) == expected


REFUSED = [
    ("p(X) :- q(X),\n  not r(X, Z).", "line 2, column 12: {} a rule whose variable `Z` is in no positive atom"),
    ("p(X) :- q(X), not r(_).", "line 1, column 21: {} a rule whose variable `_` is in no positive atom"),
    ("p(X) :- r(X + 1), q(X).", "line 1, column 13: {} the expression `X \\+ 1` outside BIND"),
    ("p(count(X)) :- q(X).", "line 1, column 3: {} an aggregate with 0 variables beside it"),
    ("p(X, Y, count(Z)) :- q(X, Y, Z).", "line 1, column 9: {} an aggregate with 2 variables beside it"),
    ("p(X, min(Y), max(Y)) :- q(X, Y).", "line 1, column 14: {} a second aggregate in one head"),
    ("p(X, count(distinct Y)) :- q(X, Y).", "line 1, column 6: {} `count\\(distinct …\\)`"),
    ("p(X) :- comp(X).", "line 1, column 9: {} a predicate called `comp`"),
    ("Bind(a).", "line 1, column 1: {} a predicate called `Bind`"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_cannot_be_said_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConversionError, match="^" + message.format("ZodiacEdge's syntax cannot say")):
        convert(parse_program(text), ZODIAC)


def sayable(rule: Rule) -> bool:
    try:
        convert(Program(rules=(rule,)), ZODIAC)
    except ConversionError:
        return False
    return True


def test_most_rules_can_be_said() -> None:
    rules = [rule for seed in range(100) for rule in soak(seed)[0].rules]
    assert sum(map(sayable, rules)) > len(rules) * 0.7


@given(programs())
def test_what_is_printed_parses_to_itself(case: Case) -> None:
    for rule in case.rules:
        try:
            text = render_in(ZODIAC, rule)
        except ConversionError:
            continue
        assert {each.written for each in parse_rules(text, {}, syntax=ZODIAC)} == {rule}


@given(programs())
def test_converted_programs_mean_the_same(case: Case) -> None:
    """To the oracle, there and back again."""
    state = State(tuple(filter(sayable, case.rules)), case.state.explicit)
    there = parse_program(convert(Program(rules=state.rules), ZODIAC), syntax=ZODIAC)
    back = parse_program(convert(there, DLOG))
    assert back == there
    assert State(there.rules, state.explicit).materialise() == state.materialise()


@pytest.mark.parametrize("seed", range(20))
def test_converted_programs_have_the_same_materialisation(seed: int) -> None:
    """In the engine, facts and all, against the oracle."""
    case, _ = soak(seed)
    rules, facts = tuple(filter(sayable, case.rules)), case.facts_as_atoms()
    kb = KnowledgeBase(convert(Program(facts=tuple(facts), rules=rules), ZODIAC), syntax=ZODIAC)
    assert materialisation(kb) == without_empty(State(rules, database(facts)).materialise())
