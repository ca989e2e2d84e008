"""The functions of the language that Python computes, and functions as conditions, against the oracle."""

from __future__ import annotations

from contextlib import suppress

import pytest

import tidelog
from naive_functions import AGGREGATES, Failure, aggregate, call
from tidelog.errors import DataError, MissingPackageError, ParseError
from tidelog.language import parse_program, parse_rules, render
from tidelog.language.functions import BUILT_IN, moments, regular
from tidelog.values import IRI, Value, identity

TEXTS: tuple[Value, ...] = ("", "a", "ab,c", " 12 ", "12", "-0.5", "ÄÖ", '{"a": [1, {"b": null}], "c": "d"}')
NUMBERS: tuple[Value, ...] = (0, 3, -7, 2**62, 0.125, -2.5, 1e300)
OTHERS: tuple[Value, ...] = (True, IRI("http://example.org/a"))
VALUES = (*TEXTS, *NUMBERS, *OTHERS)
SECOND: dict[str, tuple[Value, ...]] = {
    "matches": ("a.*", "[0-9]+", ".", "(x"),
    "extract": ("[a-z]", "(.),", "Z"),
    "json": ("$.a[0]", "$.a", "$.c", "$.a[1].b", "$.x"),
    "has_json": ("$.a[0]", "$.a[1]", "$.x"),
    "format": ("{}", "x"),
    "round_to": (0, 1, -1, "a"),
    "pow": (0, 2, -1, 0.5),
    "atan2": (1, -0.5),
}
FIXED = {"record_field": (0, 1), "split": (",", 1), "replace": ("a", "bb"), "substr": (1, 2)}


def calls() -> list[tuple[str, tuple[Value, ...]]]:
    found: list[tuple[str, tuple[Value, ...]]] = []
    for name in BUILT_IN.keys() - moments.FUNCTIONS.keys():  # which `test_moments.py` calls
        for first in VALUES:
            if name in FIXED:
                found.append((name, (first, *FIXED[name])))
            elif name in ("concat", "contains", "starts_with", "ends_with"):
                found += [(name, (first, second)) for second in ("a", ",", 1)]
            elif name in SECOND:
                pairs = [(first, second) for second in SECOND[name]]
                found += [(name, pair[::-1] if name == "format" else pair) for pair in pairs]
            else:
                found.append((name, (first,)))
    return found


def expected(name: str, arguments: tuple[Value, ...]) -> Value | None:
    if name in ("json", "has_json") and arguments[0] in ("", "a", "ab,c"):
        return False if name == "has_json" else None  # no JSON
    if name in ("json", "has_json") and arguments[0] in (" 12 ", "12", "-0.5"):
        return False if name == "has_json" else None
    if name == "matches" and arguments[1] == "(x":
        return None
    with suppress(Failure):
        return call(name, arguments, {})
    return None


def test_functions_give_what_the_oracle_says() -> None:
    wanted = [(name, arguments, expected(name, arguments)) for name, arguments in calls()]
    rules = []
    for name in BUILT_IN:
        for arity in {len(arguments) for other, arguments in calls() if other == name}:
            variables = ", ".join(f"X{place}" for place in range(arity))
            rules.append(f"p{arity}(N, {name}({variables}), {variables}) :- c{arity}(N, {variables}), N = {name}.")
    kb = tidelog.KnowledgeBase("\n".join(rules))
    for arity in (1, 2, 3):
        kb.update(add={f"c{arity}": [(name, *values) for name, values, _ in wanted if len(values) == arity]})
        found = {tuple(map(identity, row)) for row in kb.facts(f"p{arity}")}
        right = [(name, result, *values) for name, values, result in wanted if len(values) == arity]
        assert found == {tuple(map(identity, row)) for row in right if row[1] is not None}  # type: ignore[arg-type]


def test_calls_in_numbers_are_made_together_and_once() -> None:
    seen: list[int] = []
    kb = tidelog.KnowledgeBase()
    kb.register("f", lambda value: seen.append(value) or value % 10)
    rows = [(number,) for number in range(5000)]
    kb.update(add={"e": rows}, add_rules='p(X, T) :- e(X), T = concat(str(f(X)), upper("a")).')
    assert sorted(seen) == list(range(5000))
    assert set(kb.facts("p")) == {(number, f"{number % 10}A") for number in range(5000)}
    kb.update(delete={"e": rows[:4999]})
    assert list(kb.facts("p")) == [(4999, "9A")]


def test_a_first_answer_calls_no_more_functions_than_it_needs() -> None:
    seen: list[int] = []
    kb = tidelog.KnowledgeBase()
    kb.register("f", lambda value: seen.append(value) or value)
    kb.update(add={"e": [(number,) for number in range(100)]})
    assert "e(3)" in kb
    assert not seen
    assert len(list(kb.query("e(X), f(X) >= 0"))) == 100
    assert len(seen) == 100


# ---- conditions


def test_functions_stand_as_conditions() -> None:
    kb = tidelog.KnowledgeBase('p(W) :- w(W), matches(W, "a.*").  n(W) :- w(W), not contains(W, b).')
    kb.update(add={"w": [("abc",), ("xyz",), (7,)]})
    assert list(kb.facts("p")) == [("abc",)]
    assert list(kb.facts("n")) == [("xyz",)]
    assert set(kb.predicates) == {"n", "p", "w"}
    assert [row["W"] for row in kb.query("w(W), ends_with(W, z)")] == ["xyz"]
    assert len(kb.update(remove_rules='p(W) :- w(W), matches(W, "a.*").').removed["p"]) == 1


def test_registered_functions_stand_as_conditions() -> None:
    kb = tidelog.KnowledgeBase()
    kb.register("good", lambda value: value > 2)
    kb.update(add={"e": [(1,), (3,)]}, add_rules="p(X) :- e(X), good(X).  q(X) :- e(X), not good(X).")
    assert list(kb.facts("p")) == [(3,)]
    assert list(kb.facts("q")) == [(1,)]


@pytest.mark.parametrize(
    "text",
    [
        "@predicate contains/2.  p(X) :- e(X), contains(X, a).",
        "contains(b, a).  p(X) :- e(X), contains(X, a).",
        "contains(X, Y) :- f(X, Y).  p(X) :- e(X), contains(X, a).",
        "p(X) :- e(X), contains[X, a].",
        "p(X) :- contains(X, Y).",
        "p(X) :- e(X), contains(X).",
    ],
)
def test_a_predicate_keeps_its_name(text: str) -> None:
    program = parse_program(text)
    assert "contains" in {item.predicate for rule in program.rules for item in rule.body if hasattr(item, "predicate")}
    assert parse_rules("\n".join(map(render, program.rules)), {}) == program.rules


def test_known_predicates_are_no_functions() -> None:
    kb = tidelog.KnowledgeBase()
    kb.update(add={"contains": [("b", "a")], "e": [("b",), ("ca",)]})
    kb.add_rules("p(X) :- e(X), contains(X, a).")
    assert list(kb.facts("p")) == [("b",)]


def test_facts_of_a_function_are_refused() -> None:
    kb = tidelog.KnowledgeBase("p(X) :- e(X), contains(X, a).")
    with pytest.raises(DataError, match=r"`contains` is a function in .*declare `@predicate contains/2\.`"):
        kb.update(add={"contains": [("b", "a")]})


def test_conditions_survive_saving(tmp_path: object) -> None:
    kb = tidelog.KnowledgeBase("@predicate matches/2.  p(X) :- e(X), matches(X, a).  q(X) :- e(X), contains(X, a).")
    kb.update(add={"e": [("ba",)], "matches": [("ba", "a")]})
    kb.save(f"{tmp_path}/kb")
    again = tidelog.KnowledgeBase.open(f"{tmp_path}/kb")
    assert again.rules == kb.rules
    again.update(add={"e": [("a",), ("c",)]})
    assert set(again.facts("p")) == {("ba",)}
    assert set(again.facts("q")) == {("a",), ("ba",)}


# ---- regular expressions


def test_regular_expressions_cannot_hang() -> None:
    kb = tidelog.KnowledgeBase('p(W) :- w(W), matches(W, "(a*)*b").', timeout=5)
    kb.update(add={"w": [("a" * 5000,)]})
    assert not kb.facts("p")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    regular._compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "re2", None)
    kb = tidelog.KnowledgeBase('p(W) :- w(W), matches(W, "new.*").')
    with pytest.raises(MissingPackageError, match=r"tidelog\[regex\]"):
        kb.update(add={"w": [("newt",)]})
    assert not kb.facts("w")


# ---- aggregates


def test_aggregates_of_whole_groups() -> None:
    rows: list[tuple[str, Value]] = [
        *(("numbers", value) for value in (1, 2.5, 4, 9, 1.0, 2**60)),
        *(("one", value) for value in (3,)),
        *(("texts", value) for value in ("b", "a", "")),
        *(("mixed", value) for value in (IRI("http://e.org/"), "a", 2, True)),
    ]
    kb = tidelog.KnowledgeBase(
        "d(G, stddev(X)) :- r(G, X).  l(G, list(X)) :- r(G, X).  c(G, concat(X)) :- r(G, X)."
        "  q(G, quantile(X, 0.9)) :- r(G, X).  n(G, count_distinct(X)) :- r(G, X)."
        """  s(G, string_agg(X, ", \\"\\n")) :- r(G, X)."""
    )
    kb.update(add={"r": rows})
    for gone in ([], [("numbers", 4), ("texts", "a")]):
        kb.update(delete={"r": gone})
        left = [row for row in rows if row not in gone]
        for predicate, name in FOLDED.items():
            found = {group: identity(value) for group, value in kb.facts(predicate)}  # type: ignore[misc]
            assert found == {group: identity(value) for group, value in _folded(name, left).items()}
        assert ("numbers", len({identity(x) for group, x in left if group == "numbers"})) in kb.facts("n")
    assert any("quantile(X, 0.9)" in rule for rule in kb.rules)
    assert ("texts", ', "\nb') in kb.facts("s")
    kb.remove_rules(next(rule for rule in kb.rules if "string_agg" in rule))
    assert not kb.facts("s")


FOLDED = {"d": "stddev", "l": "list", "c": "concat", "q": "quantile 0.9", "s": 'string_agg ", \\"\\n"'}


def _folded(name: str, rows: list[tuple[str, Value]]) -> dict[str, Value]:
    found = {}
    for group in dict(rows):
        with suppress(Failure):
            found[group] = aggregate(name, [value for other, value in rows if other == group], False)
    return found


IN_FACTS = """
text(concat(a, "b", upper(c))).  text(format("{} of {}", [1, length(abc)], true)).
day("2026-02-28"^^xsd:date + duration("P1D")).  day(date("2026-03-01")).  span(-duration("PT1H") * 2).
number(min2(abs(-3), round_to(2.345, 2))).  number(int("7") + year(date("2026-01-01"))).
found(extract("abc", "b.")).  found(json("{\\"a\\": [1]}", "$.a[0]")).  is(contains(abc, "b")).
"""


def test_facts_call_functions() -> None:
    program = parse_program(IN_FACTS)
    kb = tidelog.KnowledgeBase(IN_FACTS)
    # A rule gives each argument the same value.
    rules = [line.strip()[:-2].split("(", 1) for line in IN_FACTS.replace(".  ", ".\n").strip().splitlines()]
    kb.add_rules("  ".join(f"same_{name}(X) :- X = {argument}." for name, argument in rules))
    assert len(program.facts) == len(rules) == 10
    for fact in program.facts:
        assert fact.row in kb.facts(fact.predicate)
        assert fact.row in kb.facts(f"same_{fact.predicate}")
        assert render(fact).startswith(f"{fact.predicate}(")
    assert ("abC",) in kb.facts("text")
    assert 'text(concat(ab, upper("c")))' in kb
    assert kb.explain('day(date("2026-02-28") + duration("P1D"))') is not None
    with pytest.raises(ParseError, match="the fact has no value"):
        kb.why_not("number(7 div 0)")
    with pytest.raises(tidelog.TidelogError, match="is no fact"):
        kb.explain("number(X + 1)")


def test_aggregates_are_named_by_their_heads_alone() -> None:
    assert {"stddev", "list", "concat"} <= AGGREGATES.keys()
    kb = tidelog.KnowledgeBase()
    kb.register("stddev", lambda value: value + 1)
    kb.update(add={"e": [(1,)]}, add_rules="p(X, Y) :- e(X), Y = stddev(X).")
    assert list(kb.facts("p")) == [(1, 2)]
    with pytest.raises(ParseError, match="a number from 0 to 1") as caught:
        parse_program("p(quantile(X, 2)) :- e(X).")
    assert (caught.value.line, caught.value.column) == (1, 15)
    for wrong in ("string_agg(X)", "string_agg(X, 1)", "string_agg(X, Y)"):
        with pytest.raises(ParseError, match="string_agg"):
            parse_program(f"p({wrong}) :- e(X, Y).")


def test_a_separator_in_a_body() -> None:
    kb = tidelog.KnowledgeBase('names(T, string_agg { N, ", " : in(N, T) }) :- team(T).  team(red).  in(b, red).')
    assert list(kb.update(add={"in": [("a", "red")]}).added["names"]) == [("red", "a, b")]
