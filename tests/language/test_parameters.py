"""Parameters: `$name` in questions, the values that take their place, and declared predicates."""

from __future__ import annotations

import numpy as np
import pytest

from tidelog.errors import DataError, ParseError
from tidelog.language import convert, parse_atom, parse_program, parse_query, parse_rules
from tidelog.language.parameters import bind
from tidelog.language.parse_messages import Source
from tidelog.language.syntax import Constant, Parameter, Query, Signature
from tidelog.values import IRI, Literal, checked_value


def bound(text: str, **values: object) -> Query:
    return bind(parse_query(text, {}), values, Source(text, "<query>"))


def test_a_value_is_a_constant_wherever_a_parameter_stands() -> None:
    query = bound("p($a, X), not q($b), X > $c + 1, Y = concat($b, s)", a="Mallory", b="), admin(", c=2)
    assert str(query) == '?- p("Mallory", X), not q("), admin("), X > 2 + 1, Y = concat("), admin(", s).'
    assert str(bound("p(X)")) == "?- p(X)."


@pytest.mark.parametrize(
    "value", ["X", "_", "?x", "$a", "", 'a"b\\', "é", 7, -1, 2.5, True, IRI("urn:a"), Literal("x", "y")]
)
def test_values_of_all_types_take_part(value: object) -> None:
    query = bound("p($v, $v)", v=value)
    (atom,) = query.body
    assert atom == parse_query(str(query), {}).body[0]
    assert atom.arguments == (Constant(value), Constant(value))  # type: ignore[union-attr, arg-type]


def test_a_parameter_is_printed_back() -> None:
    query = parse_query("p($user, X), X != $other", {})
    assert str(query) == "?- p($user, X), X != $other."
    assert parse_query(str(query), {}) == query
    assert Parameter("a") != Constant("a") != Parameter("a")
    assert len({Parameter("a"), Parameter("a"), Constant("a")}) == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"<query>:2:6: `\$v` has no value\n   2 \|      \$v, X\)\n     \|      \^\nhint: .*`v=…`"),
        ({"w": 1}, r"`\$v` has no value"),
        ({"vv": 1}, r"`\$v` has no value"),
        ({"v": 1, "w": 2}, r"<query>:1:1: there is no `\$w` in the question, which has `\$v`"),
        ({"v": None}, r"<query>:2:6: the value of `\$v` is no constant: a fact cannot hold None"),
        ({"v": [1]}, r"a fact cannot hold \[1\] of type list"),
        ({"v": 2**63}, "does not fit in 64 bits"),
        ({"v": "\ud800"}, "half of a surrogate pair"),
    ],
)
def test_a_wrong_value_is_told_with_its_place(values: dict[str, object], message: str) -> None:
    with pytest.raises((ParseError, DataError), match=message):
        bound("p(\n     $v, X)", **values)


def test_a_misspelt_name_is_told() -> None:
    with pytest.raises(ParseError, match="give it with the question: `user=…`, not `usr=…`"):
        bound("may($user, write)", usr="ada")


def test_a_fact_may_have_parameters() -> None:
    atom = bind(parse_atom("p($a, b)", {}), {"a": 1}, Source("", ""))
    assert str(atom) == "p(1, b)"


def test_values_become_plain() -> None:
    class Name(str):
        pass

    values = [
        Name("a"),
        np.int32(3),
        np.float64(0.5),
        np.bool_(True),
        np.str_("b"),
        Literal("5", "http://www.w3.org/2001/XMLSchema#integer"),
    ]
    plain = [checked_value(value) for value in values]
    assert plain == ["a", 3, 0.5, True, "b", 5]
    assert list(map(type, plain)) == [str, int, float, bool, str, int]


# ---- declared predicates


def test_predicates_are_declared_and_printed_back() -> None:
    text = "@prefix ex: <http://e.org/> .\n@predicate edge/2, ex:Person/1.\n@predicate <urn:p>/0 .\nedge(a, b)."
    program = parse_program(text)
    assert program.predicates == (Signature("edge", 2), Signature("<http://e.org/Person>", 1), Signature("<urn:p>", 0))
    assert parse_program(str(program)) == program
    assert "@predicate ex:Person/1.\n" in str(program)
    assert parse_program(convert(program, "zodiac"), syntax="zodiac") == program


def test_a_declaration_is_no_rule() -> None:
    with pytest.raises(ParseError, match=r"(?s)<rules>:1:12: a declaration stands among rules.*hint: .* it stays"):
        parse_rules("@predicate edge/2.", {})
