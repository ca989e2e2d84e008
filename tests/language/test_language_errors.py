"""Every message about a bad program, word for word: `golden/errors/NAME.dlog` or `.zodiac` and what is said about it,
`NAME.txt`.

`python tests/language/test_language_errors.py` writes the messages anew, to be read before they are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ParseError, TidelogError, UnsafeRuleError
from tidelog.language import SYNTAXES, ZODIAC, parse_atom, parse_program, parse_query, parse_rules, syntax_of_file
from tidelog.language.checks import check_arities, check_query, check_rule, suggest
from tidelog.language.records.types import check_declarations, check_types, merged

GOLDEN = Path(__file__).parent / "golden" / "errors"
CASES = sorted(path for syntax in SYNTAXES for path in GOLDEN.glob(f"*.{syntax}"))


def diagnosis(path: Path) -> str:
    """What the language has to say about a program: its first error, or else its warnings."""
    try:
        program = parse_program(path.read_text(encoding="utf-8"), path.name, syntax=syntax_of_file(path.name))
        prefixes = dict(program.prefixes)
        for rule in program.rules:
            check_rule(rule, frozenset(), prefixes)
        for query in program.queries:
            check_query(query, frozenset(), prefixes)
        check_arities([*program.predicates, *program.facts, *program.rules, *program.queries], {}, prefixes)
        check_declarations(program.predicates, {}, prefixes)
        statements = [*program.facts, *program.rules, *program.queries]
        check_types(statements, merged({}, program.predicates), prefixes)
    except TidelogError as error:
        return f"{type(error).__name__}: {error}\n"
    facts = {fact.predicate for fact in (*program.facts, *program.predicates)}
    warnings = suggest(program.rules, facts, prefixes)
    return "".join(f"warning: {warning}\n" for warning in warnings)


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_messages_are_as_written(path: Path) -> None:
    assert diagnosis(path) == path.with_suffix(".txt").read_text(encoding="utf-8")


def test_no_case_goes_without_a_message() -> None:
    assert len(CASES) > 60
    assert all(diagnosis(path) for path in CASES)
    assert {path.stem for path in CASES} == {path.stem for path in GOLDEN.glob("*.txt")}


def test_a_parse_error_knows_its_place() -> None:
    with pytest.raises(ParseError, match=r"^rules\.dlog:3:6: ") as caught:
        parse_program("edge(a, b).\n% fine\npath & .\n", "rules.dlog")
    assert (caught.value.line, caught.value.column) == (3, 6)


def test_rules_are_parsed_without_facts_and_queries() -> None:
    with pytest.raises(ParseError, match=r"(?s)^<rules>:2:1: a fact stands among rules.*hint: .*facts") as caught:
        parse_rules("p(X) :- q(X).\nq(a).", {})
    assert (caught.value.line, caught.value.column) == (2, 1)
    with pytest.raises(ParseError, match="a query stands among rules"):
        parse_rules("?- q(a).", {})


def test_a_single_atom_is_alone() -> None:
    with pytest.raises(ParseError):
        parse_atom("edge(a, b), edge(b, c)", {})
    with pytest.raises(ParseError):
        parse_atom("", {})
    with pytest.raises(ParseError, match="aggregate"):
        parse_atom("edge(a, count(X))", {})


def test_a_missing_dot_is_missed_after_the_last_token() -> None:
    with pytest.raises(ParseError) as caught:
        parse_query("p(X) \n:- q(X).", {})
    assert (caught.value.line, caught.value.column) == (1, 5)


def test_deep_input_does_not_exhaust_the_stack() -> None:
    depth = 100_000
    nested = "(" * depth + "X" + ")" * depth
    assert parse_program(f"p({nested}) :- q(X).") == parse_program("p(X) :- q(X).")
    for bottomless in (f"p(X) :- q(X), X = {'-' * depth}X.", f"p(X) :- q(X), X = X{' + 1' * depth}."):
        with pytest.raises(ParseError, match="nested more than"):
            parse_program(bottomless)


PIECES = """
p X _ ?x ?- :- . , ( ) [ ] not ! = < > <= % + - * / // # 1 2.5 1e9 " ' \\ a:b <http://e/> PREFIX count( distinct
^^ @en true é ² and ∧ comp( bind( aggregate( as on with r1:
"""
STATEMENTS = ["@prefix e: <u> .", "p(a).", "q(X) :- p(X).", " ", "\n", "\t", "not p(X)", "\0", "\ud800"]
TEXTS = st.lists(st.sampled_from([*PIECES.split(), *STATEMENTS]), max_size=30).map("".join) | st.text(max_size=40)


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("parse", [parse_rules, parse_atom, parse_query])
@given(text=TEXTS)
def test_any_text_is_parsed_or_refused_at_a_place_inside_it(
    parse: Callable[..., object], syntax: str, text: str
) -> None:
    place = (1, 1)
    try:
        parse(text, {}, syntax=syntax)
    except ParseError as error:
        place = (error.line, error.column)
    except UnsafeRuleError:
        assert syntax == ZODIAC, "the language checks safety later on"
    lines = text.removeprefix("\ufeff").split("\n")
    assert 1 <= place[0] <= len(lines)
    assert 1 <= place[1] <= len(lines[place[0] - 1]) + 1


if __name__ == "__main__":
    for case in CASES:
        case.with_suffix(".txt").write_text(diagnosis(case), encoding="utf-8")
