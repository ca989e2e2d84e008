"""Safety, functions, arities, misspelt names, and when two rules are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ArityError, ParseError, UnsafeRuleError
from tidelog.language import parse_atom, parse_program, parse_query, parse_rules
from tidelog.language.checks import (
    BUILTIN_FUNCTIONS,
    bound_variables,
    check_arities,
    check_query,
    check_rule,
    suggest,
)
from tidelog.language.syntax import Rule, rule_key


def rule(text: str) -> Rule:
    (parsed,) = {each.written for each in parse_rules(text, {})}
    return parsed


@pytest.mark.parametrize(
    "text",
    [
        "p(X) :- q(X).",
        "p(a) :- q(X).",
        "p :- not q(X).",
        "p(X) :- q(X), not r(X, Y, Y).",
        "p(X) :- q(X), not r(X, _), not s(_).",
        "p(X) :- X = 3.",
        "p(X) :- 3 = X.",
        "p(X) :- X = Y + 1, Y = Z, q(Z).",
        "p(X) :- Y = X, q(Y).",
        "p(X, Y) :- q(X), X = Y, Y < 5.",
        "p(X) :- q(X), X = X.",
        "p(X + 1, abs(Y)) :- q(X, Y).",
        "p(X) :- q(X), r(X + 1).",
        "p(X) :- q(X), not r(X + 1).",
        "p(X, count(Y)) :- q(X, Y).",
        "p(X, sum(Y * Z)) :- q(X, Y), Z = Y + 1.",
    ],
)
def test_safe_rules(text: str) -> None:
    check_rule(rule(text))


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ("p(X) :- q(Y).", "X"),
        ("p(X) :- not q(X).", "X"),
        ("p(X + Y) :- q(X).", "Y"),
        ("p(X, sum(Z)) :- q(X, Y).", "Z"),
        ("p(X) :- q(X), Y < 3.", "Y"),
        ("p(X) :- q(X), Y = Z.", "Y"),
        ("p(X) :- q(X), Y + 1 = X.", "Y"),
        ("p(X) :- X = Y + 1, Y = X - 1.", "X"),
        ("p(X) :- X = X.", "X"),
        ("p :- q(X + 1).", "X"),
        ("p(X) :- q(X), not r(Y + 1).", "Y"),
        ("p(X) :- q(X), not r(Y), Y > 3.", "Y"),
        ("p(X) :- q(X), not r(Y), not s(Y).", "Y"),
        ("p(X) :- q(X), X != _.", "_"),
    ],
)
def test_unsafe_rules_name_their_variable(text: str, variable: str) -> None:
    with pytest.raises(UnsafeRuleError, match=f"variable `{variable}` ") as caught:
        check_rule(rule(text))
    assert text.removesuffix(".") in str(caught.value)


def test_queries_are_checked_likewise() -> None:
    check_query(parse_query("p(X), not q(X, _), Y = X + 1", {}))
    with pytest.raises(UnsafeRuleError, match="in the query"):
        check_query(parse_query("not q(X), X < 1", {}))
    with pytest.raises(ParseError, match="there is no function `f`"):
        check_query(parse_query("p(X), X = f(1)", {}))


def test_bound_variables_come_in_any_order() -> None:
    chain = ", ".join(f"X{number} = X{number + 1} + 1" for number in range(50))
    query = parse_query(f"{chain}, p(X50), Y = Z", {})
    assert bound_variables(query.body) == {f"X{number}" for number in range(51)}


def test_functions_must_be_known() -> None:
    for name, arity in BUILTIN_FUNCTIONS.items():
        check_rule(rule(f"p({name}({', '.join(['X'] * arity)})) :- q(X)."))
        with pytest.raises(ParseError, match=f"`{name}` takes"):
            check_rule(rule(f"p({name}()) :- q(X)."))
    with pytest.raises(ParseError, match="did you mean `lower`") as caught:
        check_rule(rule("p(X) :- q(X),\n r(abs(lowre(X)))."))
    assert (caught.value.line, caught.value.column) == (2, 8)
    check_rule(rule("p(X) :- q(X), r(abs(lowre(X)))."), frozenset({"lowre"}))
    with pytest.raises(ParseError, match="did you mean `distance`"):
        check_rule(rule("p(X) :- q(X), distanse(X) < 2."), frozenset({"distance"}))


def test_a_registered_function_may_replace_one_of_the_language() -> None:
    check_rule(rule("p(abs(X, X)) :- q(X)."), frozenset({"abs"}))


def test_arities_are_collected_and_kept() -> None:
    program = parse_program("edge(a, b). flag. path(X, Y) :- edge(X, Y), not blocked(X). ?- path(a, X), size(X, 1, 2).")
    known = {"edge": 2, "other": 7}
    found = check_arities([*program.facts, *program.rules, *program.queries], known)
    assert found == {"edge": 2, "other": 7, "flag": 0, "path": 2, "blocked": 1, "size": 3}
    assert known == {"edge": 2, "other": 7}


def test_a_second_arity_is_refused() -> None:
    with pytest.raises(ArityError, match="line 2, column 7: `p` has 2 arguments here, but 1 argument in line 1"):
        check_arities(parse_rules("p(X) :- q(X).\nr :- !p(X, X), q(X).", {}), {})
    with pytest.raises(ArityError, match="no arguments here, but 3 arguments before"):
        check_arities([parse_atom("p", {})], {"p": 3})


def test_a_function_may_be_meant_by_a_predicate_without_facts() -> None:
    rules = parse_rules('p(W) :- w(W), contain(W, "a").', {})
    (warning,) = suggest(rules, ["w"])
    assert "did you mean `contains`?" in warning


def test_misspelt_predicates_are_suggested() -> None:
    program = parse_program(
        "p(X) :- Edge(X), egde(X), edg(X), edgge(X), adge(X), edge1(X), wholly_other(X), not nod(X). r :- qq(X), pp(X)."
    )
    warnings = suggest(program.rules, ["edge", "node", "q", "edge2"])
    assert [warning.split("`")[1::2] for warning in warnings] == [
        ["Edge", "edge"],
        ["egde", "edge"],
        ["edg", "edge"],
        ["edgge", "edge"],
        ["adge", "edge"],
        ["nod", "node"],
    ]
    assert warnings[1].startswith("line 1, column 18: ")


def test_no_suggestion_for_what_is_given_or_derived() -> None:
    program = parse_program("path(X) :- paths(X). paths(X) :- pathz(X).")
    assert suggest(program.rules, ["pathz"]) == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("p(X, Y) :- q(X, Y).", "p(A, ?b) :- q(A, ?b).", True),
        ("p(X, Y) :- q(X, Y).", "p(Y, X) :- q(Y, X).", True),
        ("p(X, Y) :- q(X, Y).", "p(X, Y) :- q(Y, X).", False),
        ("p(X) :- q(X, Y).", "p(X) :- q(X, X).", False),
        ("p(X) :- q(X, _), r(_).", "p(X) :- q(X, Y), r(Z).", True),
        ("p(X) :- q(X, _), r(_).", "p(X) :- q(X, Y), r(Y).", False),
        ("p(X) :- q(X), r(X).", "p(X) :- r(X), q(X).", False),
        ("p(X) :- q(X), not r(X).", "p(X) :- q(X), r(X).", False),
        ("p(X) :- q(X, 1).", "p(X) :- q(X, 1.0).", False),
        ("p(X) :- q(X, 1).", "p(X) :- q(X, true).", False),
        ('p(X) :- q(X, "a").', "p(X) :- q(X, a).", True),
        ("p(X) :- q(X), X < 1 + X.", "p(Z) :- q(Z), Z < 1 + Z.", True),
        ("p(X) :- q(X), X < 1 + X.", "p(X) :- q(X), X <= 1 + X.", False),
        ("p(X) :- q(X), r(f(X)).", "p(X) :- q(X), r(g(X)).", False),
        ("p(count(X)) :- q(X).", "p(count(distinct X)) :- q(X).", False),
        ("p(count(X)) :- q(X).", "p(sum(X)) :- q(X).", False),
        ("p(count(X)) :- q(X).", "p(count(Y)) :- q(Y).", True),
        ("p :- q.", "p :- q, q.", False),
    ],
)
def test_rules_are_the_same_up_to_names(one: str, other: str, same: bool) -> None:
    assert (rule_key(rule(one)) == rule_key(rule(other))) is same
    if same:
        assert hash(rule_key(rule(one))) == hash(rule_key(rule(other)))


@given(st.lists(st.sampled_from("ABCD"), min_size=6, max_size=6), st.permutations("ABCD"), st.data())
def test_a_renaming_keeps_the_key_exactly_when_it_is_one_to_one(
    names: list[str], image: list[str], data: st.DataObject
) -> None:
    def key(letters: list[str]) -> object:
        a, b, c, d, e, f = letters
        return rule_key(rule(f"p({a}, {b}) :- q({c}, g({d})), not r({e}), {f} = 1."))

    renaming = dict(zip("ABCD", image, strict=True))
    assert key([renaming[name] for name in names]) == key(names)
    kept, lost = data.draw(st.sampled_from("ABCD")), data.draw(st.sampled_from("ABCD"))
    merged = [kept if name == lost else name for name in names]
    assert (key(merged) == key(names)) is (len(set(merged)) == len(set(names)))
