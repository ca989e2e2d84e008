"""Rules as people write them, against the oracle: alternatives, several heads, ranges, aggregates in bodies."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import clingo
import pytest

import naive
from engine_util import ALGORITHMS, materialisation
from soaking import seeds
from tidelog import KnowledgeBase
from tidelog.errors import ConstraintError, ParseError, TidelogError, UnsafeRuleError
from tidelog.language import parse_program, parse_rules
from tidelog.language.syntax import Atom
from tidelog.language.written.expansion import MOST_CHOICES
from written_rules import WrittenRules, accepted, check_printing, check_rules

PROGRAM = """
node(a). node(b). node(c). edge(a, b). edge(a, c). edge(b, c). limit(3).
degree(X, N) :- node(X), N = count { Y : edge(X, Y) }.
total(sum(N)) :- node(X), N = count { Y : edge(X, Y) }.
left(X), right(X) :- ( edge(X, _) ; edge(_, X), node(X) ).
even(X) :- limit(L), X in range(0, L * 2, 2).
down(X) :- X in range(3, 0, -1).
busy(X) :- node(X), count { Y : edge(X, Y) } >= 2.
widest(X, N) :- node(X), N = max { M : edge(X, Y), M = count { Z : edge(Y, Z), Z != X } }.
small(X) :- limit(X), X in range(1, 5).
either(count(X)) :- ( node(X) ; edge(_, X) ).
path(X, Y) :- ( edge(X, Y) ; edge(X, Z), path(Z, Y) ).
next(X, count { Y : path(X, Y) } + 1) :- node(X).
"""


def test_what_they_derive() -> None:
    kb = KnowledgeBase(PROGRAM)
    found = {name: sorted(kb.facts(name)) for name in ("degree", "total", "left", "right", "even", "down")}
    assert found == {
        "degree": [("a", 2), ("b", 1), ("c", 0)],
        "total": [(3,)],
        "left": [("a",), ("b",), ("c",)],
        "right": [("a",), ("b",), ("c",)],
        "even": [(0,), (2,), (4,)],
        "down": [(1,), (2,), (3,)],
    }
    found = {name: sorted(kb.facts(name)) for name in ("busy", "widest", "small", "either", "next")}
    assert found == {
        "busy": [("a",)],
        "widest": [("a", 1), ("b", 0)],
        "small": [(3,)],
        "either": [(3,)],
        "next": [("a", 3), ("b", 2), ("c", 1)],
    }


def test_clingo_agrees() -> None:
    """On what both can say: clingo counts different values, as these do."""
    control = clingo.Control(["--warn=none"])
    control.add(
        "base",
        [],
        """
        node(1..4). edge(1,2). edge(1,3). edge(2,3). edge(3,1).
        degree(X, N) :- node(X), N = #count { Y : edge(X, Y) }.
        most(X, N) :- node(X), N = #max { Y : edge(X, Y) }, edge(X, _).
        added(X, N) :- node(X), N = #sum { Y : edge(X, Y), Y > 1 }.
        """,
    )
    control.ground([("base", [])])
    wanted: set[tuple[str, tuple[int, ...]]] = set()
    control.solve(
        on_model=lambda model: wanted.update(
            (symbol.name, tuple(argument.number for argument in symbol.arguments))
            for symbol in model.symbols(atoms=True)
        )
    )
    kb = KnowledgeBase("""
        node(X) :- X in range(1, 5).
        edge(1, 2). edge(1, 3). edge(2, 3). edge(3, 1).
        degree(X, N) :- node(X), N = count { Y : edge(X, Y) }.
        most(X, N) :- node(X), N = max { Y : edge(X, Y) }.
        added(X, N) :- node(X), N = sum { Y : edge(X, Y), Y > 1 }.
    """)
    assert {(name, row) for name in kb.predicates for row in kb.facts(name)} == wanted


# ---- random programs, under every algorithm


@pytest.mark.filterwarnings("ignore::tidelog.errors.CrossProductWarning")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_oracle_agrees(algorithm: str) -> None:
    for seed in seeds(range(12), f"written {algorithm}"):
        maker = WrittenRules(seed)
        check_rules(maker, accepted(maker), algorithm, 8)


@pytest.mark.parametrize("seed", range(40))
def test_printing_and_parsing_again_is_the_same(seed: int) -> None:
    check_printing(WrittenRules(seed))


# ---- all parts of the system


def test_rules_are_listed_and_removed_as_they_are_written() -> None:
    kb = KnowledgeBase(PROGRAM)
    assert kb.rules == [str(rule) for rule in dict.fromkeys(rule.written for rule in parse_program(PROGRAM).rules)]
    assert kb.predicates == sorted({*kb.predicates})
    assert not any("tidelog:" in name for name in kb.predicates)
    assert len(kb) == sum(len(kb.facts(name)) for name in kb.predicates)
    change = kb.remove_rules("degree(Node, Count) :- node(Node), Count = count { To : edge(Node, To) }.")
    assert set(change.removed) == {"degree"}
    assert "degree" not in kb.predicates
    with pytest.raises(TidelogError, match="there is no rule"):
        kb.remove_rules("degree(X, N) :- node(X), N = sum { Y : edge(X, Y) }.")


def test_changes_show_no_parts() -> None:
    kb = KnowledgeBase(PROGRAM)
    change = kb.update(add={"edge": [("c", "a")]})
    assert all(name in kb.predicates for name in (*change.added, *change.removed))
    assert set(change.added["degree"]) == {("c", 1)}
    assert change.explain("degree(c, 1)").leaves == ("edge(c, a)",)  # type: ignore[union-attr]
    gone = kb.update(delete={"edge": [("c", "a")]}).explain("degree(c, 1)")
    assert gone is not None
    assert gone.leaves == ("edge(c, a)",)


def test_proofs_say_what_was_written() -> None:
    kb = KnowledgeBase(PROGRAM)
    assert str(kb.explain("degree(b, 1)")) == (
        "degree(b, 1)  by degree(X, N) :- node(X), N = count { Y : edge(X, Y) }.\n"
        "├── node(b)  explicit\n"
        "└── 1 = count { Y : edge(b, Y) }  within the rule\n"
        "    ├── edge(b, c)  explicit\n"
        "    └── count(Y) = 1 from 1 match: Y = c"
    )
    assert str(kb.explain("degree(c, 0)")).splitlines()[2] == "├── nothing gives _ = count { Y : edge(c, Y) }"
    assert str(kb.explain("even(4)")).splitlines()[2] == "├── 4 in range(0, 6, 2)"
    assert "✗ 1 >= 2  is not so" in kb.why_not("busy(b)")
    assert "tidelog:" not in str(kb.why_not("even(3)")) + str(kb.graph) + kb.graph.draw("dot")


def test_queries_have_all_forms() -> None:
    kb = KnowledgeBase(PROGRAM)
    before = kb.predicates, len(kb), kb.rules
    assert kb.query("( edge(a, X) ; limit(X) )").to_dicts() == [{"X": "b"}, {"X": "c"}, {"X": 3}]
    found = kb.query("node(X), N = count { Y : edge(X, Y), Y != $not }, N > 0", **{"not": "b"})
    assert {(each["X"], each["N"]) for each in found} == {("a", 1), ("b", 1)}
    assert sorted(each["X"] for each in kb.query("X in range(1, 4)")) == [1, 2, 3]
    assert (kb.predicates, len(kb), kb.rules) == before
    with pytest.raises(UnsafeRuleError, match="`X` is not bound in the query"):
        kb.query("N = count { Y : edge(X, Y) }, X > 1")
    with pytest.raises(ParseError, match=r"a query that is followed cannot have `.* in range"):
        kb.subscribe("X in range(1, 4)", print)


def test_conditions_inside_of_bodies() -> None:
    """A function is a condition wherever a body has it: in alternatives, aggregates, their heads and constraints."""
    rules = """
        kept(X) :- word(X), ( contains(X, "x") ; listed(X) ).
        number(N) :- N = count { X : word(X), not starts_with(X, "b") }.
        most(count { X : word(X), ( ends_with(X, "a") ; contains(X, "cd") ) }) :- word(_).
        one(X), two(X) :- word(X), contains(X, "bc").
        :- word(X), ends_with(X, "zz").
    """
    kb = KnowledgeBase(rules + "word(abc). word(bcd). word(xa). listed(bcd).")
    found = {name: sorted(kb.facts(name)) for name in ("kept", "number", "most", "one", "two")}
    both = [("abc",), ("bcd",)]
    assert found == {"kept": [("bcd",), ("xa",)], "number": [(2,)], "most": [(2,)], "one": both, "two": both}
    with pytest.raises(ConstraintError, match=r"ends_with\(zz, zz\) = true"):
        kb.update(add={"word": [("zz",)]})
    assert "kept(X) :- word(X), ( contains(X, x) = true ; listed(X) )." in map(str, kb.rules)
    assert [row["X"] for row in kb.query('word(X), ( contains(X, "x") ; listed(X) )')] == ["bcd", "xa"]
    assert [row["N"] for row in kb.query('N = count { X : word(X), contains(X, "b") }')] == [2]
    kb.update(remove_rules=rules)
    assert not kb.rules


def test_a_predicate_with_the_name_of_a_function_stays_one() -> None:
    program = parse_program("p(X) :- q(X), ( contains(X, Y), r(X) ; s(X) ).  contains(a, b).")
    assert {atom.predicate for rule in program.rules for atom in rule.body if isinstance(atom, Atom)} >= {"contains"}
    unbound = parse_program("p(X) :- q(X), ( contains(X, Y) ; s(X) ).").rules
    assert "contains" in {atom.predicate for rule in unbound for atom in rule.body if isinstance(atom, Atom)}


def test_streams_and_live_mode() -> None:
    texts = [{"add": {"edge": [("c", "a")]}}, {"delete": {"edge": [("a", "b")]}}, {"add": {"node": [("d",)]}}]
    streamed, live = KnowledgeBase(PROGRAM), KnowledgeBase(PROGRAM)
    list(streamed.stream(texts))
    with live.live() as work:
        for text in texts:
            work.submit(**text)
        work.settle()
    program = parse_program(PROGRAM)
    facts = naive.database(program.facts)
    facts = naive.union(naive.minus(facts, naive.database({"edge": [("a", "b")]})), naive.database({"node": [("d",)]}))
    wanted = naive.materialise(program.rules, naive.plain(naive.union(facts, naive.database({"edge": [("c", "a")]}))))
    assert materialisation(streamed) == wanted
    assert materialisation(live) == wanted


def test_saving_and_the_journal(tmp_path: Path) -> None:
    with KnowledgeBase(PROGRAM) as kb:
        kb.save(tmp_path / "kb")
        wanted, rules = materialisation(kb), kb.rules
    with KnowledgeBase.open(tmp_path / "kb", journal=True) as kb:
        assert (materialisation(kb), kb.rules) == (wanted, rules)
        kb.update(add_rules="lonely(X) :- node(X), count { Y : edge(X, Y) } = 0.", add={"node": [("z",)]})
        wanted, rules = materialisation(kb), kb.rules
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert (materialisation(kb), kb.rules) == (wanted, rules)
        assert sorted(kb.facts("lonely")) == [("c",), ("z",)]
        kb.remove_rules("lonely(A) :- node(A), count { B : edge(A, B) } = 0.")
        assert "lonely" not in kb.predicates


def test_numbers_that_are_known_are_tested_by_value() -> None:
    kb = KnowledgeBase("n(3). n(3.0). n(3.5). n(9). n(word). in(X) :- n(X), X in range(1, 5).")
    assert sorted(kb.facts("in")) == [(3,), (3.0,)]


ENDS = (-(2**63), -(2**63) + 1, -(2**62), -7, -1, 0, 1, 5, 2**62, 2**63 - 2, 2**63 - 1)
STEPS = (1, -1, 3, -2, 2**60, -(2**60), 2**62 + 1, 2**63 - 1, -(2**63 - 1))


@pytest.mark.parametrize("step", STEPS)
def test_ranges_may_have_any_ends(step: int) -> None:
    short = [range(low, high, step) for low, high in product(ENDS, ENDS) if -(-(high - low) // step) < 30]
    kb = KnowledgeBase(f"p(L, H, X) :- pair(L, H), X in range(L, H, {step}).")
    change = kb.update(add={"pair": [(numbers.start, numbers.stop) for numbers in short]})
    assert change.errors == 0
    assert set(kb.facts("p")) == {(numbers.start, numbers.stop, number) for numbers in short for number in numbers}


@pytest.mark.parametrize("step", STEPS)
def test_numbers_are_tested_between_any_ends(step: int) -> None:
    """Also in ranges that are too long to be listed."""
    pairs = list(product(ENDS, ENDS))
    kb = KnowledgeBase(f"p(L, H, X) :- pair(L, H), n(X), X in range(L, H, {step}).")
    numbers = [*ENDS, 3, 3.0, -2.0]
    change = kb.update(add={"pair": pairs, "n": [(number,) for number in numbers]})
    assert change.errors == 0
    wanted = {(low, high, number) for low, high in pairs for number in numbers if int(number) in range(low, high, step)}
    assert set(kb.facts("p")) == wanted


@pytest.mark.parametrize(
    "ends", ["-9223372036854775808, 9223372036854775807", "5, 0.5", "0.5, 3", '"a", "b"', '"b", "a"']
)
def test_ranges_that_cannot_be_listed_fail(ends: str) -> None:
    kb = KnowledgeBase(f"p(X) :- X in range({ends}).")
    assert (kb.errors, list(kb.facts("p"))) == (1, [])


def test_a_step_has_its_own_negative() -> None:
    with pytest.raises(ParseError, match="is no step of a range"):
        KnowledgeBase(f"p(X) :- X in range(0, 5, {-(2**63)}).")


def test_a_minimum_in_a_recursion_beside_alternatives_and_aggregates() -> None:
    program = """
        dist(X, min(0), min(0, X)) :- source(X).
        dist(Y, min(D + W), min(D + W, X)) :- dist(X, D, _), ( road(X, Y, W) ; road(Y, X, W), not closed(Y) ).
        far(X, min(0)) :- source(X).
        far(Y, min(D + W)) :- far(X, D), road(X, Y, _), W = count { Z : road(X, Z, _) }.
    """
    rules = parse_program(program).rules
    roads = [("a", "b", 4), ("b", "c", 1), ("c", "a", 1), ("d", "c", 1), ("b", "e", 0)]
    for algorithm in ALGORITHMS:
        kb = KnowledgeBase(program, maintenance=algorithm)
        facts: dict[str, list[tuple[object, ...]]] = {"source": [("a",)], "road": [*roads], "closed": [("e",)]}
        kb.update(add=facts)
        assert materialisation(kb) == naive.materialise(rules, facts)  # type: ignore[arg-type]
        kb.update(delete={"road": [roads[2]], "closed": [("e",)]})
        facts = {"source": [("a",)], "road": [*roads[:2], *roads[3:]]}
        assert materialisation(kb) == naive.materialise(rules, facts)  # type: ignore[arg-type]
        kb.remove_rules(
            "dist(B, min(E + W), min(E + W, A)) :- dist(A, E, _), ( road(A, B, W) ; road(B, A, W), not closed(B) )."
        )
        assert list(kb.facts("dist")) == [("a", 0, "a")]


def test_parentheses_around_one_part() -> None:
    text = """
        a(X) :- (e(X, _)), ((X > 1)), (not e(_, X) ).
        b(X) :- e(X, Y), ((X + 1) * 2 = Y), (contains("abc", "b")).
        c(N) :- N = count { X : (e(X, _)) }, (N + 1) * 2 > 3.
        d(X) :- ((e(X, 2)) ; (e(_, X)), (X in range(3, 9))).
        e(1, 2). e(1, 4). e(3, 8). e(9, 9).
    """
    kb = KnowledgeBase(text)
    found = [sorted(kb.facts(name)) for name in "abcd"]
    assert found == [[(3,)], [(1,), (3,)], [(4,)], [(1,), (4,), (8,)]]
    assert [kb.query("(e(X, 4)), (X < 3)").rows(), kb.query("(e(X, 4))").rows()] == [[(1,)], [(1,)]]
    assert parse_rules("\n".join(kb.rules), {}) == parse_program(text).rules
    kb.remove_rules("\n".join(kb.rules))
    assert not kb.rules


def test_parentheses_around_several_parts() -> None:
    kb = KnowledgeBase("a(1). b(1). c(2). p(X) :- ( ( a(X), b(X) ) ; c(X) ). q(X) :- a(X), (b(X), X > 0).")
    assert (sorted(kb.facts("p")), list(kb.facts("q"))) == ([(1,), (2,)], [(1,)])
    assert kb.rules[1] == "q(X) :- a(X), ( b(X), X > 0 )."
    assert KnowledgeBase("\n".join(kb.rules)).rules == kb.rules


def test_an_aggregate_over_everything_multiplies_nothing(recwarn: pytest.WarningsRecorder) -> None:
    kb = KnowledgeBase("n(1). n(5). p(X, A, B) :- n(X), A = max { Y : n(Y) }, B = avg { Y : n(Y) }.")
    assert sorted(kb.facts("p")) == [(1, 5, 3.0), (5, 5, 3.0)]
    assert not recwarn.list


def test_what_cannot_be_summed_is_not_nothing() -> None:
    text = """
        p(X) :- node(X), sum { Z : w(X, Z) } < 2.
        q(X) :- node(X), sum { Z * 2 : w(X, Z) } = 0.
        r(X) :- node(X), all { Z : w(X, Z) } = true.
    """
    facts = {"node": [("a",), ("b",), ("c",)], "w": [("a", "x"), ("b", 1)]}
    kb = KnowledgeBase(text)
    kb.update(add=facts)
    assert materialisation(kb) == naive.materialise(parse_rules(text, {}), facts)
    assert [sorted(kb.facts(name)) for name in "pqr"] == [[("b",), ("c",)], [("a",), ("c",)], [("c",)]]
    assert "nothing gives w(c, Z)" in str(kb.explain("r(c)"))


def test_too_many_alternatives() -> None:
    choice = "( a(X) ; b(X) )"
    with pytest.raises(ParseError, match=f"more than {MOST_CHOICES:,}"):
        KnowledgeBase(f"p(X) :- {', '.join([choice] * 11)}.")


def test_nesting_has_an_end() -> None:
    deep = "count { Y : a(Y), Y = " * 200 + "1" + " }" * 200
    with pytest.raises(ParseError, match="nested more than"):
        parse_program(f"p(X) :- X = {deep}.")
