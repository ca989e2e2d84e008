"""The oracle against clingo, against expectations written by hand and against the examples; and the generator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle_clingo
from generate import ALL_TYPES, EVERYTHING, INTEGERS, STRINGS, Case, Features, programs, soak, splits, streams
from naive import (
    Database,
    State,
    Update,
    answers,
    change,
    constant,
    database,
    derivations,
    errors,
    is_aggregate,
    materialise,
    normal,
    plain,
    proof_heights,
)
from naive_functions import Failure, aggregate, call, compare
from programs_util import Example, examples, read_csv, write_csv
from tidelog.errors import StratificationError, UnknownRuleError, UnsafeRuleError
from tidelog.language import parse_program, parse_query
from tidelog.language.syntax import Aggregate, Atom, Call, Comparison, Negation, Rule, Variable
from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Literal, Value

quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

EXAMPLES = examples()
CLINGO = Features(functions=False, values=INTEGERS + STRINGS)


def rows(text: str, predicate: str) -> set[tuple[Value, ...]]:
    """What a program derives for a predicate, if Python can tell the values apart."""
    return set(plain(run(text)).get(predicate, []))


def run(text: str) -> Database:
    program = parse_program(text)
    return materialise(program.rules, program.facts)


def error_count(text: str) -> int:
    return errors([rule.written for rule in parse_program(text).rules if rule.part == 0], run(text))


# Against clingo


@quick
@given(programs(CLINGO))
def test_agrees_with_clingo(case: Case) -> None:
    state = case.state
    assert state.materialise() == oracle_clingo.materialise(state.rules, state.explicit)


@pytest.mark.parametrize("values", [INTEGERS, STRINGS, INTEGERS + STRINGS])
def test_agrees_with_clingo_on_seeds(values: tuple[Value, ...]) -> None:
    for seed in range(150):
        state = soak(seed, Features(functions=False, values=values))[0].state
        assert state.materialise() == oracle_clingo.materialise(state.rules, state.explicit), seed


def _translatable(example: Example) -> bool:
    try:
        oracle_clingo.Translation(example.rules, example.facts)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("example", [e for e in EXAMPLES if _translatable(e)], ids=lambda example: example.name)
def test_examples_agree_with_clingo(example: Example) -> None:
    assert materialise(example.rules, example.facts) == oracle_clingo.materialise(example.rules, example.facts)


# Values

BIG = INTEGER_MAX
CALLS: list[tuple[str, list[Value], Value]] = [
    ("+", [1, 2], 3),
    ("+", [1, 2.0], 3.0),
    ("-", [1, 3], -2),
    ("*", [3, -2], -6),
    ("*", [0.5, 4], 2.0),
    ("/", [4, 2], 2.0),
    ("/", [BIG, BIG - 1], 1.0),
    ("%", [7, 3], 1),
    ("%", [-7, 3], 2),
    ("%", [7, -3], -2),
    ("%", [-0.5, 3], 2.5),
    ("div", [7, 2], 3),
    ("div", [-7, 2], -4),
    ("div", [7, -2], -4),
    ("div", [BIG, -1], -BIG),
    ("mod", [-7, 3], 2),
    ("mod", [-0.5, 3], 2.5),
    ("band", [12, 10], 8),
    ("bor", [12, 10], 14),
    ("bxor", [12, -10], -6),
    ("shl", [3, 4], 48),
    ("shl", [-1, 63], INTEGER_MIN),
    ("shl", [0, 63], 0),
    ("shr", [-5, 1], -3),
    ("shr", [BIG, 62], 1),
    ("**", [2, 10], 1024),
    ("**", [-3, 3], -27),
    ("**", [0, 0], 1),
    ("**", [-1, 1001], -1),
    ("**", [-2, 63], INTEGER_MIN),
    ("**", [2, -1], 0.5),
    ("**", [2.0, 3], 8.0),
    ("**", [4, 0.5], 2.0),
    ("neg", [5], -5),
    ("abs", [-5], 5),
    ("abs", [-5.0], 5.0),
    ("abs", [-math.inf], math.inf),
    ("min2", [1, 1.0], 1),
    ("min2", [1.0, 1], 1.0),
    ("min2", [2.5, 2], 2),
    ("max2", [1, 1.0], 1),
    ("max2", [2.5, 2], 2.5),
    ("floor", [-2.5], -3),
    ("ceil", [-2.5], -2),
    ("round", [2.5], 2),
    ("round", [3.5], 4),
    ("round", [-2.5], -2),
    ("round", [7], 7),
    ("sqrt", [9], 3.0),
    ("log", [1], 0.0),
    ("exp", [0], 1.0),
    ("concat", ["a", "b"], "ab"),
    ("concat", ["a", "", "c", "d"], "acd"),
    ("lower", ["ÀB"], "àb"),
    ("upper", ["àb"], "ÀB"),
    ("length", ["a😀é"], 3),
    ("substr", ["hello", 1, 3], "ell"),
    ("substr", ["hello", 3, 10], "lo"),
    ("substr", ["hello", 9, 1], ""),
    ("str", [1], "1"),
    ("str", [1.0], "1.0"),
    ("str", [True], "true"),
    ("str", ["x"], "x"),
    ("str", [IRI("http://e.org/a")], "http://e.org/a"),
    ("int", ["42"], 42),
    ("int", ["-7"], -7),
    ("int", [3.7], 3),
    ("int", [-3.7], -3),
    ("float", [3], 3.0),
    ("float", ["2.5e1"], 25.0),
    ("float", ["3"], 3.0),
]
FAILURES: list[tuple[str, list[Value]]] = [
    ("+", [BIG, 1]),
    ("-", [INTEGER_MIN, 1]),
    ("*", [BIG, 2]),
    ("neg", [INTEGER_MIN]),
    ("abs", [INTEGER_MIN]),
    ("*", [1e308, 10]),
    ("+", [math.inf, 1]),
    ("+", ["a", "b"]),
    ("+", [True, 1]),
    ("/", [1, 0]),
    ("/", [1, 0.0]),
    ("%", [1, 0]),
    ("div", [1, 0]),
    ("div", [1.0, 1]),
    ("div", [INTEGER_MIN, -1]),
    ("mod", [1, 0]),
    ("band", [1, 1.0]),
    ("bor", [1, "a"]),
    ("shl", [1, 63]),
    ("shl", [1, 64]),
    ("shl", [1, -1]),
    ("shr", [1, 64]),
    ("**", [2, 63]),
    ("**", [0, -1]),
    ("**", [-1, 0.5]),
    ("**", [10.0, 400]),
    ("min2", [math.nan, 1]),
    ("min2", ["a", "b"]),
    ("floor", [1e300]),
    ("floor", [math.nan]),
    ("round", ["1"]),
    ("sqrt", [-1]),
    ("log", [0]),
    ("exp", [1000]),
    ("concat", ["a", 1]),
    ("concat", ["a", IRI("http://e.org/a")]),
    ("lower", [1]),
    ("length", [12]),
    ("substr", ["abc", -1, 1]),
    ("substr", ["abc", 0, -1]),
    ("substr", ["abc", 0, 1.0]),
    ("int", ["4.5"]),
    ("int", ["four"]),
    ("int", [True]),
    ("int", ["99999999999999999999"]),
    ("float", ["x"]),
    ("float", ["nan"]),
    ("float", ["1e999"]),
]


@pytest.mark.parametrize(("name", "arguments", "value"), CALLS)
def test_functions(name: str, arguments: list[Value], value: Value) -> None:
    assert constant(call(name, arguments, {})) == constant(value)


@pytest.mark.parametrize(("name", "arguments"), FAILURES)
def test_functions_without_a_value(name: str, arguments: list[Value]) -> None:
    with pytest.raises(Failure):
        call(name, arguments, {})


def test_registered_functions() -> None:
    assert call("twice", ["ab"], {"twice": lambda value: value * 2}) == "abab"
    assert call("far", [1], {"far": lambda value: math.inf}) == math.inf
    failing: list[Callable[..., Any]] = [lambda value: None, lambda value: value / 0, lambda value: 2**63]
    for bad in failing:
        with pytest.raises(Failure):
            call("bad", [1], {"bad": bad})


def test_equality_is_by_value_among_numbers_only() -> None:
    different: list[Value] = [1, "1", True, IRI("1"), Literal("1", language="en")]
    for i, left in enumerate(different):
        for j, right in enumerate(different):
            assert compare("=", left, right) == (i == j)
            assert compare("!=", left, right) == (i != j)
    assert compare("=", 1, 1.0)
    assert not compare("=", BIG, float(BIG))
    assert not compare("=", math.nan, math.nan)


def test_order() -> None:
    assert compare("<", 1, 1.5)
    assert compare("<", BIG, float(BIG))
    assert compare("<=", 1.0, 1)
    assert compare(">", "b", "a")
    assert compare("<", "Z", "a")
    assert compare("<", IRI("http://a"), IRI("http://b"))
    assert compare("<", False, True)
    mixed: list[tuple[Value, Value]] = [(1, "1"), (True, 0), ("a", IRI("a")), (Literal("1"), Literal("2"))]
    for left, right in mixed:
        with pytest.raises(Failure):
            compare("<", left, right)


GROUPS: list[tuple[str, list[Value], Value]] = [
    ("count", [5, 5, "a"], 3),
    ("sum", [1, 2, 3], 6),
    ("sum", [1, 2.5], 3.5),
    ("sum", [0.1] * 10, 1.0),
    ("sum", [1e308, 1e308, -1e308], 1e308),
    ("sum", [1e16, 1.0, -1e16], 1.0),
    ("avg", [1, 2], 1.5),
    ("avg", [2, 2], 2.0),
    ("median", [3, 1, 2], 2),
    ("median", [3, 1.0, 2.5], 2.5),
    ("median", [4, 1, 2, 3], 2.5),
    ("median", [2, 2], 2.0),
    ("min", [2, 1.0, 1], 1),
    ("max", [1.0, 1, 0], 1),
    ("max", [2.0, 1], 2.0),
    ("min", ["b", "a"], "a"),
    ("max", [IRI("http://a"), IRI("http://b")], IRI("http://b")),
    ("max", [False, True], True),
]


@pytest.mark.parametrize(("name", "values", "value"), GROUPS)
def test_aggregates(name: str, values: list[Value], value: Value) -> None:
    assert constant(aggregate(name, values, distinct=False)) == constant(value)
    assert constant(aggregate(name, values[::-1], distinct=False)) == constant(value)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sum", [BIG, 1]),
        ("sum", ["a"]),
        ("sum", [True]),
        ("sum", [math.inf]),
        ("sum", [1e308, 1e308]),
        ("avg", [1, "a"]),
        ("median", ["a"]),
        ("min", [1, "a"]),
        ("max", [True, 1]),
        ("min", [math.nan, 1.0]),
    ],
)
def test_groups_without_a_value(name: str, values: list[Value]) -> None:
    with pytest.raises(Failure):
        aggregate(name, values, distinct=False)


def test_distinct_tells_types_apart() -> None:
    assert aggregate("count", [1, 1.0, "1", True, 1], distinct=True) == 4


# Programs


def test_constants_of_different_types_do_not_join() -> None:
    found = run("p(1). p(1.0). p(true). q(1.0). r(X) :- p(X), q(X). s(X) :- p(X), q(Y), X = Y.")
    assert found["r"] == {(constant(1.0),)}
    assert found["s"] == {(constant(1),), (constant(1.0),)}


def test_equals_binds_only_what_no_atom_binds() -> None:
    assert run("p(1). q(1.0). r(X) :- X = Y, q(Y), p(X).")["r"] == {(constant(1),)}
    assert run("q(2). r(Z) :- Z = Y * 2, Y = X + 1, q(X).")["r"] == {(constant(6),)}


def test_variables_found_only_under_not() -> None:
    text = "n(1). n(2). e(1, 2). t(2, 3, 4). "
    assert rows(text + "p(X) :- n(X), not e(X, _).", "p") == {(2,)}
    assert rows(text + "p(X) :- n(X), not t(X, Y, Y).", "p") == {(1,), (2,)}
    assert rows(text + "t(1, 5, 5). p(X) :- n(X), not t(X, Y, Y).", "p") == {(2,)}
    assert rows(text + "p :- not e(X, X).", "p") == {()}


def test_each_match_of_the_whole_body_counts_once() -> None:
    text = "e(a, 1). e(a, 2). e(b, 1). f(1, x). f(1, y). f(2, x). "
    assert rows(text + "c(X, count(Y)) :- e(X, Y).", "c") == {("a", 2), ("b", 1)}
    assert rows(text + "c(X, count(Y)) :- e(X, Y), f(Y, _).", "c") == {("a", 3), ("b", 2)}
    assert rows(text + "c(X, count(distinct Y)) :- e(X, Y), f(Y, _).", "c") == {("a", 2), ("b", 1)}
    assert rows(text + "c(X, count(Y)) :- e(X, Y), not f(_, z).", "c") == {("a", 2), ("b", 1)}
    assert rows(text + "c(count(Y), X, sum(Y)) :- e(X, Y).", "c") == {(2, "a", 3), (1, "b", 1)}
    assert rows(text + "c(count(X)) :- nothing(X).", "c") == set()


def test_expressions_in_atoms_ask_for_the_same_constant() -> None:
    assert run("n(1). m(2). m(2.0). p(Y, X) :- n(X), m(X + 1), m(Y).")["p"] == {
        (constant(2), constant(1)),
        (constant(2.0), constant(1)),
    }
    assert rows("n(1). n(2). p(X) :- n(X), not n(X + 1).", "p") == {(2,)}
    assert rows("n(1). p(X + 1, X * 2.0) :- n(X).", "p") == {(2, 2.0)}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("n(0). n(2). p(Y) :- n(X), Y = 1 / X.", 1),
        ("n(0). n(2). p(Y) :- n(X), Y = 1 / X, X != 0.", 0),
        ("n(0). n(a). p(1 / X) :- n(X).", 2),
        ("n(1). n(a). p(X) :- n(X), X < 5.", 1),
        ("n(1). n(a). p(sum(X)) :- n(X).", 1),
        ("n(0). n(1). p(sum(1 / X)) :- n(X).", 1),
        ("n(0). n(1). p(X) :- n(X), not n(1 / X).", 1),
        ("n(0). m(1). m(2). p(X) :- n(X), m(_), Y = 1 / X.", 2),
    ],
)
def test_errors_are_counted_by_instance(text: str, count: int) -> None:
    assert error_count(text) == count


def test_refusals() -> None:
    with pytest.raises(StratificationError):
        run("p(X) :- q(X), not r(X). r(X) :- p(X). q(1).")
    with pytest.raises(StratificationError):
        run("p(X, count(Y)) :- p(Y, X). p(1, 2).")
    rule = Rule(Atom("p"), (Comparison("<", Variable("X"), Variable("Y")),))
    with pytest.raises(UnsafeRuleError):
        materialise([rule], {})


def test_answers() -> None:
    facts = database({"e": [("a", 1), ("b", 1), ("a", 2)]})

    def ask(query: str) -> list[dict[str, Value]]:
        found = answers(parse_query(query, {}), facts)
        return [{name: value.value for name, value in answer.items()} for answer in found]

    assert sorted(answer["X"] for answer in ask("e(X, _)")) == ["a", "b"]
    assert ask("e(a, 2)") == [{}]
    assert ask("e(c, _)") == []
    assert ask("e(X, 2), not e(X, N), N = 3") == [{"X": "a", "N": 3}]


def test_proof_heights_are_least() -> None:
    text = "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), p(Y, Z). n(count(Y)) :- p(1, Y). top :- not e(7, _)."
    program = parse_program(text)
    chain: Mapping[str, list[tuple[Value, ...]]] = {"e": [(i, i + 1) for i in range(1, 5)], "p": [(4, 5)]}
    heights = proof_heights(program.rules, chain)
    found = {(name, tuple(cell.value for cell in row)): height for (name, row), height in heights.items()}
    assert found["p", (4, 5)] == 0
    assert found["p", (1, 2)] == 1
    assert found["p", (1, 3)] == 2
    assert found["p", (1, 5)] == 3
    assert found["n", (4,)] == 4
    assert found["top", ()] == 1
    assert set(heights) == {(name, row) for name, rows in materialise(program.rules, chain).items() for row in rows}


def test_derivations_name_their_premises() -> None:
    [rule] = parse_program("p(X) :- e(X, Y), f(Y), X < Y, not g(X).").rules
    facts = database(parse_program("e(1, 2). e(1, 3). e(5, 2). f(2). f(3).").facts)
    found = {derivation for derivation in derivations(rule, facts) if derivation}
    assert {derivation.head for derivation in found} == {("p", (constant(1),))}
    assert {len(derivation.premises) for derivation in found} == {2}
    assert len(found) == 2


# Updates


def test_updates_delete_before_they_add() -> None:
    [rule, other] = parse_program("p(X) :- e(X, _). q(X) :- p(X).").rules
    [renamed] = parse_program("p(Z) :- e(Z, Y).").rules
    start = State((rule,), database({"e": [(1, 2)]}))
    both = start.apply(Update(add=database({"e": [(1, 2)]}), delete=database({"e": [(1, 2), (8, 8)]})))
    assert both == start
    assert start.apply(Update(remove_rules=(renamed,))).rules == ()
    assert start.apply(Update(add_rules=(renamed,))) == start
    assert start.apply(Update(remove_rules=(renamed,), add_rules=(rule,))) == start
    with pytest.raises(UnknownRuleError):
        start.apply(Update(remove_rules=(other,)))
    after = start.apply(Update(add=database({"e": [(3, 3)]}), delete=database({"e": [(1, 2)]}), add_rules=(other,)))
    added, removed = change(start.materialise(), after.materialise())
    assert plain(added) == {"e": [(3, 3)], "p": [(3,)], "q": [(3,)]}
    assert plain(removed) == {"e": [(1, 2)], "p": [(1,)]}


@quick
@given(streams(), st.data())
def test_streams_end_the_same_however_they_are_cut(drawn: tuple[Case, list[Update]], data: st.DataObject) -> None:
    case, stream = drawn
    assert _end(case.state, data.draw(splits(case.state, stream))) == _end(case.state, stream)


def _end(state: State, stream: list[Update]) -> tuple[set[Rule], Database]:
    for update in stream:
        state = state.apply(update)
    return {normal(rule) for rule in state.rules}, state.explicit


# The generator


@quick
@given(programs())
def test_random_programs_are_text_and_have_a_meaning(case: Case) -> None:
    program = parse_program(repr(case))
    assert tuple(dict.fromkeys(rule.written for rule in program.rules)) == case.state.rules
    assert database(program.facts) == case.state.explicit
    assert materialise(case.rules, case.facts_as_atoms()) == materialise(reversed(case.rules), case.facts_as_atoms())


def test_random_programs_are_diverse() -> None:
    seen: Counter[str] = Counter()
    for seed in range(150):
        case, stream = soak(seed)
        seen.update(set(_traits(case, stream)))
    rare = {trait: seen[trait] for trait in TRAITS if seen[trait] < 5}
    assert not rare


TRAITS = (
    *("recursion", "transitive", "symmetric", "linear", "apart", "negation", "existential", "aggregate", "distinct"),
    *("comparison", "binding", "call", "head constant", "repeated variable", "error", "several derivations", "deep"),
    *("given and derived", "delete absent", "add present", "delete and add", "add rules", "remove rules", "no atoms"),
    *(f"arity {arity}" for arity in range(5)),
    *(f"type {kind.__name__}" for kind in (str, int, float, bool, IRI)),
)


def _traits(case: Case, stream: list[Update]) -> Iterator[str]:
    state = case.state
    facts = state.materialise()
    for rule in state.rules:
        yield from _rule_traits(rule)
    for rows_ in facts.values():
        for row in rows_:
            yield f"arity {len(row)}"
            yield from (f"type {type(cell.value).__name__}" for cell in row)
    heads = Counter(found.head for rule in state.rules for found in derivations(rule, facts) if found)
    if max(heads.values(), default=0) > 1:
        yield "several derivations"
    if any(row in state.explicit.get(name, ()) for name, row in heads):
        yield "given and derived"
    if max(proof_heights(state.rules, state.explicit).values(), default=0) >= 3:
        yield "deep"
    if errors(state.rules, facts):
        yield "error"
    for update in stream:
        yield from _update_traits(state, update)
        state = state.apply(update)


def _rule_traits(rule: Rule) -> Iterator[str]:
    head, atoms = rule.head, [item for item in rule.body if isinstance(item, Atom)]
    own = [atom for atom in atoms if atom.predicate == head.predicate]
    if own:
        yield "recursion"
        shape = (head.arity, len(atoms), len(own), len(rule.body))
        yield from {(2, 2, 2, 2): ["transitive"], (2, 2, 1, 2): ["linear"], (2, 1, 1, 1): ["symmetric"]}.get(shape, [])
        if shape == (2, 2, 2, 3) and any(isinstance(item, Comparison) for item in rule.body):
            yield "apart"
    if not atoms:
        yield "no atoms"
    if is_aggregate(rule):
        yield "aggregate"
    for term in head.arguments:
        if isinstance(term, Aggregate) and term.distinct:
            yield "distinct"
        if not isinstance(term, Aggregate | Variable):
            yield "head constant"
    for atom in atoms:
        if len(set(atom.arguments)) < atom.arity:
            yield "repeated variable"
    for item in rule.body:
        if isinstance(item, Negation):
            yield "negation"
            if any(isinstance(term, Variable) and (term.anonymous or term.name == "N") for term in item.atom.arguments):
                yield "existential"
        elif isinstance(item, Comparison):
            yield "binding" if item.left == Variable("V") and item.operator == "=" else "comparison"
            if isinstance(item.right, Call):
                yield "call"


def _update_traits(state: State, update: Update) -> Iterator[str]:
    def touches(facts: Database, other: Database) -> bool:
        return any(row in other.get(name, ()) for name, rows_ in facts.items() for row in rows_)

    absent = {name: rows_ - state.explicit.get(name, set()) for name, rows_ in update.delete.items()}
    if any(absent.values()):
        yield "delete absent"
    if touches(update.add, state.explicit):
        yield "add present"
    if touches(update.add, update.delete):
        yield "delete and add"
    if update.add_rules:
        yield "add rules"
    if update.remove_rules:
        yield "remove rules"


@pytest.mark.parametrize(
    ("features", "absent"),
    [
        (Features(recursion=False), {"recursion"}),
        (Features(negation=False), {"negation"}),
        (Features(comparisons=False, arithmetic=False), {"comparison", "binding"}),
        (Features(arithmetic=False), {"binding", "call"}),
        (Features(aggregates=False), {"aggregate"}),
        (Features(repeated_variables=False, constants=False), {"repeated variable"}),
        (Features(max_arity=2), {"arity 3", "arity 4"}),
        (Features(values=INTEGERS, functions=False), {"type str", "type float"}),
    ],
)
def test_features_can_be_switched_off(features: Features, absent: set[str]) -> None:
    for seed in range(40):
        case, stream = soak(seed, features)
        assert not absent & set(_traits(case, stream)), seed


def test_nothing_uses_the_last_level() -> None:
    """Its values are unbounded, so a rule that used them might never end."""
    for seed in range(300):
        for rule in soak(seed)[0].rules:
            assert all(item.predicate != "last" for item in rule.body if isinstance(item, Atom))


def test_soaks_repeat() -> None:
    assert soak(7, EVERYTHING) == soak(7, EVERYTHING)
    assert soak(7)[0] != soak(8)[0]


# The examples


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_come_out_as_written_down(example: Example) -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in (example.folder / "expected").iterdir()}
    assert example.oracle_files() == files


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_expected_files_read_back(example: Example) -> None:
    found = materialise(example.rules, example.facts)
    assert example.expected == {name: found[name] for name in example.derived if name in found}


@given(st.lists(st.tuples(st.sampled_from([*ALL_TYPES, "", "()", "a,b", 'say "no"', "1.0", "true", "<a>", "x\ny"]))))
def test_cells_read_back(given_rows: list[tuple[Value]]) -> None:
    [*written] = database({"p": given_rows}).get("p", set())
    assert database({"p": read_csv(write_csv(written))}).get("p", set()) == set(written)
