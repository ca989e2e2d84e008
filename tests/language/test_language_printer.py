"""Text to tree and back: whatever is printed parses to an equal tree, and both ways to read an atom agree."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import DataError
from tidelog.language import (
    ZODIAC,
    literal_text,
    parse_atom,
    parse_literal,
    parse_program,
    parse_query,
    parse_rules,
    render,
    render_in,
)
from tidelog.language.names import bracketed
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    BodyItem,
    Call,
    Comparison,
    Constant,
    Expression,
    Negation,
    Program,
    Query,
    Rule,
    Term,
    Variable,
    variables,
)
from tidelog.values import IRI, SEPARATOR, Literal

PREFIXES = {"ex": "http://example.org/", "exa": "http://example.org/a", "": "http://other.org#", "x-y": "urn:x:"}

words = st.from_regex(r"[a-zA-Z_é日][a-zA-Z0-9_é日]{0,4}", fullmatch=True)
predicate_words = words.filter(lambda word: word not in ("not", "true", "false"))
iri_texts = (
    st.builds(str.__add__, st.sampled_from([*PREFIXES.values(), "", "ex:"]), words)
    | st.text(max_size=8)
    | st.sampled_from(["http://example.org/a-b", "http://example.org/", "http://example.org/a.b", "urn:x:1"])
)
predicates = predicate_words | iri_texts.map(bracketed) | words.map(lambda word: f"undeclared:{word}")
integers = st.integers(-(2**63), 2**63 - 1)
values = (
    st.text(max_size=6)
    | words
    | st.sampled_from(["not", "true", "distinct", "prefix", "count", "a-b", "1", "_", "X", "²"])
    | integers
    | st.floats()
    | st.booleans()
    | iri_texts.map(IRI)
    | st.builds(Literal, st.text(max_size=4), language=st.sampled_from(["en", "de-at"]))
    | st.builds(Literal, st.text(max_size=4), datatype=st.sampled_from(["http://example.org/t", "u v"]))
)
names = st.sampled_from(["X", "Y", "Name", "?x", "?Y", "_hidden", "_1", "_2", "_3", "Ä"])
leaves: st.SearchStrategy[Expression] = st.builds(Variable, names) | st.builds(Constant, values)
functions = words.filter(lambda word: word not in ("count", "sum", "min", "max", "avg", "median", "concat"))


def compound(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    pairs = st.tuples(inner, inner)
    return (
        st.builds(Call, st.sampled_from(["+", "-", "*", "/", "%", "div", "mod", "band", "shl", "**"]), pairs)
        | st.builds(Call, st.just("neg"), st.tuples(inner))
        | st.builds(Call, functions, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Call, st.just("concat"), pairs)
    )


expressions = st.recursive(leaves, compound, max_leaves=6)
aggregates = st.builds(
    Aggregate, st.sampled_from(["count", "sum", "min", "max", "avg", "median"]), expressions
) | st.builds(Aggregate, st.just("count"), expressions, st.just(True))


def atoms(terms: st.SearchStrategy[Term]) -> st.SearchStrategy[Atom]:
    return st.builds(Atom, predicates, st.lists(terms, max_size=4).map(tuple))


facts = atoms(st.builds(Constant, values))
body_atoms = atoms(leaves) | atoms(expressions)
items: st.SearchStrategy[BodyItem] = (
    body_atoms
    | st.builds(Negation, body_atoms)
    | st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), expressions, expressions)
)
bodies = st.lists(items, min_size=1, max_size=4).map(tuple)
rules = st.builds(Rule, atoms(leaves | aggregates | expressions), bodies)
queries = st.builds(Query, bodies)


programs = st.builds(
    Program,
    st.just(tuple(PREFIXES.items())) | st.just(()),
    st.lists(facts, max_size=4).map(tuple),
    st.lists(rules, max_size=4).map(tuple),
    st.lists(queries, max_size=2).map(tuple),
)


def test_the_negation_of_a_power_is_no_power_of_a_number() -> None:
    program = Program(
        queries=(Query((Comparison("=", Variable("X"), Call("neg", (Call("**", (Constant(2), Constant(2))),))),)),)
    )
    assert parse_program(str(program)) == program


@given(programs)
def test_a_printed_program_parses_to_itself(program: Program) -> None:
    parsed = parse_program(str(program))
    assert {rule.written for rule in parsed.rules} == set(program.rules)
    assert replace(parsed, rules=()) == replace(program, rules=())


zodiac_items: st.SearchStrategy[BodyItem] = (
    atoms(leaves)
    | st.builds(Negation, atoms(leaves))
    | st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), leaves, leaves)
    | st.builds(Comparison, st.just("="), st.builds(Variable, names), expressions)
)


@st.composite
def zodiac_rules(draw: st.DrawFn) -> Rule:
    """A rule in the forms of ZodiacEdge, with an atom that makes it safe."""
    head, body = draw(atoms(leaves)), draw(st.lists(zodiac_items, max_size=3))
    found = dict.fromkeys(variable for part in (head, *body) for variable in variables(part))
    return Rule(head, (*body, Atom("safe", tuple(found))))


@given(zodiac_rules(), st.lists(facts, max_size=2).map(tuple), st.sampled_from([(), tuple(PREFIXES.items())]))
def test_a_program_printed_for_zodiacedge_parses_to_itself(
    rule: Rule, facts: tuple[Atom, ...], prefixes: tuple[tuple[str, str], ...]
) -> None:
    program = Program(prefixes, facts, (rule,), (Query(rule.body),))
    parsed = parse_program(render_in(ZODIAC, program), syntax=ZODIAC)
    assert {each.written for each in parsed.rules} == {rule}
    assert replace(parsed, rules=()) == replace(program, rules=())


@given(rules)
def test_a_printed_rule_parses_to_itself(rule: Rule) -> None:
    assert {each.written for each in parse_rules(str(rule), {})} == {rule}
    assert {each.written for each in parse_rules(render(rule, PREFIXES), PREFIXES)} == {rule}


@given(queries)
def test_a_printed_query_parses_to_itself(query: Query) -> None:
    assert parse_query(str(query), {}) == query
    assert parse_query(render(query, PREFIXES).removeprefix("?- ").removesuffix("."), PREFIXES) == query


@given(body_atoms)
def test_a_printed_atom_parses_to_itself(atom: Atom) -> None:
    assert parse_atom(str(atom), {}) == atom


@given(expressions)
def test_a_printed_expression_parses_to_itself(expression: Expression) -> None:
    assert parse_atom(f"p({expression})", {}).arguments == (expression,)


@given(
    st.builds(Literal, st.text(), st.text().filter(lambda datatype: SEPARATOR not in datatype))
    | st.builds(Literal, st.text(), language=st.sampled_from(["en", "pt-BR"]))
)
def test_the_text_of_a_literal_says_all_of_it(literal: Literal) -> None:
    assert parse_literal(literal_text(literal)) == literal


@pytest.mark.parametrize("text", ['"plain"', "word", '"x"@', '"x"^^y', '"x"@en y', '"a" "b"@en'])
def test_other_texts_are_no_literals(text: str) -> None:
    with pytest.raises(DataError, match="is no literal"):
        parse_literal(text)


@pytest.mark.parametrize(
    "text",
    [
        "alone(X) :- node(X), not edge(X, _).",
        "p(_hidden, X) :- q(X, _, _hidden), r(_).",
        "p(X) :- q(X, _1), r(_1, _2).",
        "hot(X, D) :- temp(X, T), median(X, M), D = abs(T - M), D > 5.",
        "p(X - (Y - 1), (X + Y) * 2, -(X * Y), -X * Y, X - -1, -(5)) :- q(X, Y).",
        "p(X / (Y * 2), X / Y * 2, X % Y, X % 2, X %(Y + 1), X %(abs(Y))) :- q(X, Y).",
        "degree(X, count(Y), count(distinct Y)) :- edge(X, Y).",
        'p(abc, "Abc", "a b", "not", "\\"", 1, 1.0, 1e+300, true) :- q.',
        "ex:Person(?x) :- ex:Student(?x), <http://example.org/x>(?x), ?x != <http://example.org/a>.",
        "?- path(a, X), X != b.",
    ],
)
def test_text_in_its_usual_form_is_printed_as_written(text: str) -> None:
    program = parse_program(text)
    assert {str(statement) for statement in (*program.rules, *program.queries)} == {text}


def test_prefixes_shorten_what_they_fit() -> None:
    (rule,) = parse_rules("<http://example.org/P>(X, <http://example.org/a-b>) :- <http://example.org/a.b>(X).", {})
    assert render(rule, {"ex": "http://example.org/"}) == "ex:P(X, ex:a-b) :- <http://example.org/a.b>(X)."
    assert render(rule, {"e": "http://example.org", "ex": "http://example.org/"}).startswith("ex:P(")
    assert str(rule) == "<http://example.org/P>(X, <http://example.org/a-b>) :- <http://example.org/a.b>(X)."


def test_a_program_prints_its_prefixes() -> None:
    text = "@prefix ex: <http://example.org/> .\nex:p(ex:a).\nex:q(X) :- ex:p(X).\n?- ex:q(X)."
    assert str(parse_program(text)) == text


plain_terms = st.sampled_from(
    ["X", "?x", "_", "a", "ex:b", ":c", "7", "-7", "2.5", "1e5", '"s, ("', "'[t]'", "<http://e/>"]
)
blanks = st.sampled_from(["", " ", "\n ", "\t", "\r\n"])


AtomText = tuple[str, list[str], str, str]


@st.composite
def plain_atoms(draw: st.DrawFn) -> AtomText:
    """The parts of an atom's text: name, arguments, and the blanks before and after each."""
    name = draw(st.sampled_from(["p", "Q", "ex:r-s", ":t", "<http://e/u>"]))
    return name, draw(st.lists(plain_terms, min_size=1, max_size=4)), draw(blanks), draw(blanks)


def text_of(atom: AtomText, wrap: Callable[[str], str]) -> str:
    name, arguments, before, after = atom
    return f"{name}({','.join(before + wrap(argument) + after for argument in arguments)})"


@given(st.lists(plain_atoms(), min_size=1, max_size=4), st.lists(st.booleans(), min_size=4, max_size=4), blanks)
def test_plain_atoms_are_read_as_all_others(body: list[AtomText], negated: list[bool], blank: str) -> None:
    def rule(wrap: Callable[[str], str]) -> str:
        signs = ["not " if sign else "" for sign in negated]
        parts = [sign + text_of(atom, wrap) for sign, atom in zip(signs, body, strict=False)]
        return f"{text_of(body[0], wrap)} :- {f'{blank},'.join(parts)}."

    plain, wrapped = rule(str), rule(lambda term: f"({term})")
    assert parse_program(plain) == parse_program(wrapped)
    for text in (plain, wrapped):
        lines = text.split("\n")
        for variable in variables(parse_program(text).rules[0]):
            assert variable.place is not None
            name = "_" if re.fullmatch(r"_\d+", variable.name) else variable.name
            assert lines[variable.place.line - 1].startswith(name, variable.place.column - 1)


@given(st.lists(plain_atoms(), min_size=1, max_size=5), blanks)
def test_plain_facts_are_read_as_all_others(atoms: list[AtomText], blank: str) -> None:
    ground = [
        (name, [argument for argument in arguments if argument[0] not in "X?_"] or ["a"], before, after)
        for name, arguments, before, after in atoms
    ]
    text = blank.join(f"{text_of(atom, str)}." for atom in ground)
    plain = parse_program(text).facts
    assert plain == parse_program(blank.join(f"{text_of(atom, lambda term: f'({term})')}." for atom in ground)).facts
    lines = text.split("\n")
    for fact, (name, *_) in zip(plain, ground, strict=True):
        assert fact.place is not None
        assert lines[fact.place.line - 1].startswith(name, fact.place.column - 1)
