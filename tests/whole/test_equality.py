"""Equality against the oracle, which has it as plain rules: symmetric, transitive, and replacement in every place."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit import audit
from engine_util import ALGORITHMS, check_stream
from generate import Features, soak
from naive import State, Update, database, is_aggregate
from soaking import seeds, tell
from tidelog import KnowledgeBase
from tidelog.errors import ConstraintError, ParseError, StratificationError
from tidelog.language import parse_program, parse_rules
from tidelog.language.syntax import EQUALITY, Atom, Rule
from tidelog.program.graph import RuleGraph
from tidelog.spark.plan.refusals import check_fit

# Equality is made by facts, by rules below it, and by rules of one recursion with what it is for.
RULES = """
same(X, Y) :- alias(X, Y).
same(Y, Z) :- mother(X, Y), mother(X, Z).
same(X, Y) :- three(X, Z, Y), plain(Z, X).
knows(X, Y) :- knows(Y, X).
knows(X, Z) :- knows(X, Y), knows(Y, Z).
mother(X, Y) :- knows(X, Y), person(Y), mother(Y, _).
person(X) :- knows(X, _).
person(b) :- person(a).
knows(X, c) :- person(X), same(X, d).
plain(X, Y) :- knows(X, Y), X != Y.
plain(X, X) :- knows(X, X), alias(X, Y), plain(Y, _).
itself(X) :- knows(X, X).
three(X, Y, Z) :- knows(X, Y), mother(Y, Z).
three(X, X, Z) :- three(Z, X, _), itself(X).
lonely(X) :- alias(X, _), not knows(X, _), not person(X).
apart(X, Y) :- alias(X, Y), person(X), not three(X, Y, a).
many(X, count(Y)) :- knows(X, Y), person(Y).
fewest(min(N)) :- many(_, N).
"""
FREE = ("person", "knows", "mother", "three", "itself", "plain", "lonely", "apart", "alias")
PREDICATES = {"alias": 2, "same": 2, "person": 1, "knows": 2, "mother": 2, "three": 3, "plain": 2}
CONSTANTS = "abcd"

SMALL = Features(max_arity=2, functions=False, values=(1, 2, "a", "b"))


def facts(dice: random.Random, most: int) -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for _ in range(dice.randint(0, most)):
        name = dice.choice(list(PREDICATES))
        found.setdefault(name, []).append(tuple(dice.choices(CONSTANTS, k=PREDICATES[name])))
    return found


def equality(dice: random.Random) -> Rule:
    listed = dice.sample(FREE, dice.randint(1, len(FREE)))
    return Rule(Atom(EQUALITY), tuple(map(Atom, ("same", *listed))))


def course(seed: int) -> tuple[State, list[Update]]:
    """A program, and updates that change facts, rules and the equality."""
    dice = random.Random(seed)
    every = parse_rules(RULES, {})
    rules, declared = tuple(dice.sample(every, dice.randint(3, 9))), equality(dice)
    state = State((*rules, declared), database(facts(dice, 9)))
    updates = []
    for _ in range(5):
        change = Update(add=database(facts(dice, 3)), delete=database(facts(dice, 8)))
        if dice.random() < 0.3:
            other = equality(dice)
            gone, come = dice.choice((((declared,), ()), ((), (declared,)), ((declared,), (other,))))
            declared = other if other in come else declared
            change = Update(change.add, change.delete, come, gone)
        elif dice.random() < 0.4:
            change = Update(change.add, change.delete, tuple(dice.sample(every, 2)), ())
        updates.append(change)
    return state, updates


def possible(state: State, updates: list[Update]) -> Iterator[Update]:
    """The updates that remove rules which are there, and lead to what can be stratified and has one equality."""
    for update in updates:
        known = {str(rule) for rule in state.rules}
        if not all(str(rule) in known for rule in update.remove_rules):
            continue
        try:
            after = state.apply(update)
            after.materialise()
        except StratificationError:
            continue
        if sum(rule.is_equality for rule in after.rules) <= 1:
            state = after
            yield update


def test_agrees_with_the_plain_rules() -> None:
    done = 0
    for seed in seeds(range(36), "equality"):
        state, updates = course(seed)
        try:
            state.materialise()
        except StratificationError:
            continue
        algorithm = ALGORITHMS[seed % len(ALGORITHMS)]
        check_stream(state, list(possible(state, updates)), algorithm, modules=seed % 5 > 0)
        done += 1
    assert done > 30
    tell("equality", done)


def test_agrees_on_programs_of_all_forms() -> None:
    """Programs with all that the language has. The equality is one of their binary predicates."""
    done = 0
    for seed in seeds(range(12), "equality of all forms"):
        dice = random.Random(seed)
        case, stream = soak(seed, SMALL, length=3)
        names = {rule.head.predicate: rule.head.arity for rule in case.rules}
        pairs = sorted(name for name, arity in names.items() if arity == 2)
        aggregated = {rule.head.predicate for rule in case.rules if is_aggregate(rule)}
        others = sorted(set(names) - aggregated)
        if not pairs or not others:
            continue
        same = dice.choice(pairs)
        listed = sorted(set(dice.sample(others, dice.randint(1, len(others)))) - {same})
        if same in aggregated or not listed:
            continue
        state = State((*case.state.rules, Rule(Atom(EQUALITY), tuple(map(Atom, (same, *listed))))), case.state.explicit)
        try:
            check_stream(state, list(possible(state, stream)), dice.choice(ALGORITHMS), modules=seed % 3 > 0)
        except (ParseError, StratificationError):
            continue
        done += 1
    tell("equality of all forms", done)
    assert done > 2


PROGRAM = """
@equality same on knows, far, person.
same(ada, countess). same(bob, robert).
knows(ada, bob). knows(robert, cy). person(countess).
far(X, Z) :- knows(X, Y), knows(Y, Z).
out(X) :- far(X, _).
"""


def test_all_ways_to_read_have_the_copies(tmp_path: Path) -> None:
    kb = KnowledgeBase(PROGRAM)
    assert kb.facts("far") == {("ada", "cy"), ("countess", "cy")}
    assert kb.facts("out") == {("ada",), ("countess",)}
    assert len(kb.facts("knows")) == 6
    assert ("countess", "robert") in kb.facts("knows")
    assert "person(ada)" in kb
    assert "person(cy)" not in kb
    assert kb.explicit("person") == {("countess",)}
    assert kb.query("knows(countess, X), X != bob").rows() == [("robert",)]
    assert sorted(kb.query("knows(X, robert), not far(X, cy)").rows()) == []
    assert sorted(kb.query("person(X) ; knows(_, X)").rows()) == [
        (n,) for n in ("ada", "bob", "countess", "cy", "robert")
    ]
    assert kb.query("person(bob)").rows() == []
    assert len(kb) == sum(len(kb.facts(name)) for name in kb.predicates)
    kb.export(tmp_path / "facts")
    exported = KnowledgeBase()
    exported.load(tmp_path / "facts")
    assert {name: set(exported.facts(name)) for name in kb.predicates} == {n: set(kb.facts(n)) for n in kb.predicates}


def test_pages_have_every_copy_once() -> None:
    reader = KnowledgeBase(PROGRAM)._knowledge.reader
    place: tuple[int, int] | None = (0, 0)
    found = []
    while place is not None:
        page, place = reader.page("knows", False, place, 4)
        found += page.rows()
    assert len(found) == 6
    assert set(found) == set(reader.rows("knows").rows())
    assert set(reader.rows("knows", most=3).rows()) < set(found)


def test_a_division_takes_the_copies_back() -> None:
    kb = KnowledgeBase(PROGRAM)
    tried = kb.what_if(delete={"same": [("bob", "robert")]})
    change = kb.update(delete={"same": [("bob", "robert")]})
    assert change.removed["knows"] == {("ada", "robert"), ("countess", "robert"), ("bob", "cy")}
    assert change.removed["far"] == {("ada", "cy"), ("countess", "cy")}
    assert tried.removed == change.removed
    assert not change.added
    # What was given as it is stays, and what is equal to it is no news.
    assert not kb.update(add={"person": [("ada",)]}).added
    assert not kb.update(delete={"person": [("countess",)]}).removed
    assert kb.facts("person") == {("ada",), ("countess",)}
    assert kb.update(delete={"person": [("ada",)]}).removed == {"person": {("ada",), ("countess",)}}


def test_proofs_of_copies() -> None:
    kb = KnowledgeBase(PROGRAM)
    proof = kb.explain("far(countess, cy)")
    assert proof is not None
    assert proof.rule == "@equality same on knows, far, person."
    assert [premise.fact for premise in proof.premises] == ["far(ada, cy)", "same(ada, countess)"]
    assert "same(robert, bob)" in str(proof)
    assert str(kb.why_not("far(countess, cy)")).startswith("far(countess, cy) holds")
    assert len(list(kb.proofs("person(ada)"))) == 1
    assert kb.explain("far(cy, ada)") is None
    change = kb.update(delete={"same": [("ada", "countess")]})
    why = change.explain("out(countess)")
    assert why is not None
    assert "same(ada, countess)  explicit  ← gone" in str(why)


def test_all_proofs_of_what_reads_copies() -> None:
    """A rule that aggregates reads an auxiliary predicate with the copies, and each row is among its own."""
    kb = KnowledgeBase("""
        @equality same on knows.
        knows(ada, bob).  knows(ada, cy).  knows(cy, cy).  same(bob, robert).
        friends(X, count(Y)) :- knows(X, Y).
    """)
    for fact in ("friends(ada, 3)", "friends(cy, 1)"):
        assert list(map(str, kb.proofs(fact))) == [str(kb.explain(fact))]
    assert str(kb.explain("friends(cy, 1)")).splitlines()[1] == "├── knows(cy, cy)  explicit"


def test_saved_replayed_and_followed(tmp_path: Path) -> None:
    kb = KnowledgeBase(PROGRAM)
    kb.save(tmp_path)
    with KnowledgeBase.open(tmp_path, journal=True) as writer:
        follower = KnowledgeBase.open(tmp_path, read_only=True)
        writer.remove_rules("@equality same on knows, far, person.")
        assert follower.refresh().removed["far"] == {("ada", "cy"), ("countess", "cy")}
        writer.update(add_rules="@equality same on knows. lonely(X) :- person(X), not knows(X, _).")
        writer.update(add={"same": [("cy", "ada")]})
        follower.refresh()
        expected = {name: set(writer.facts(name)) for name in writer.predicates}
        assert {name: set(follower.facts(name)) for name in writer.predicates} == expected
    with KnowledgeBase.open(tmp_path, journal=True) as again:
        assert {name: set(again.facts(name)) for name in again.predicates} == expected
        again.save(tmp_path)
        assert again.rules == writer.rules
    opened = KnowledgeBase.open(tmp_path)
    assert {name: set(opened.facts(name)) for name in opened.predicates} == expected
    opened.remove_rules("lonely(X) :- person(X), not knows(X, _).")
    assert "lonely" not in opened.predicates


@pytest.mark.parametrize("overlap", ["batches", "operations"])
def test_streams_and_live_updates(overlap: str) -> None:
    kb = KnowledgeBase(PROGRAM)
    updates = [{"delete": {"same": [("bob", "robert")]}}, {"add": {"same": [("bob", "robert")]}}]
    changes = list(kb.stream(updates))
    assert changes[0].removed == changes[1].added
    with kb.live(overlap=overlap) as live:
        live.submit(delete={"same": [("ada", "countess")]})
        live.submit(add={"knows": [("cy", "ada")]})
        change = live.settle()
    assert change.removed["knows"] == {("countess", "bob"), ("countess", "robert")}
    assert change.added["far"] == {(b, "ada") for b in ("bob", "robert")} | {("cy", n) for n in ("bob", "robert")}


def test_an_update_that_fails_leaves_the_classes() -> None:
    kb = KnowledgeBase(PROGRAM + ":- person(X), far(X, Y), banned(Y).  @predicate banned/1.")
    before = set(kb.facts("knows"))
    with pytest.raises(ConstraintError):
        kb.update(delete={"same": [("bob", "robert")]}, add={"banned": [("dee",)], "far": [("ada", "dee")]})
    assert set(kb.facts("knows")) == before
    audit(kb, oracle=False)


REFUSED = [
    (
        "@equality same.\nmany(X, count(Y)) :- knows(X, Y).",
        "2:1: `many` has an aggregate in its head",
        "without `many`",
    ),
    ("@equality same.\n@equality other.", "2:11: a program has one equality", "is there already"),
    ("@equality same on p, same.", "1:22: `same` stands twice", "name the equality"),
    ("@equality same on p q.", "1:21: expected", ""),
    (
        "@equality same on p.\nq(X) :- " + ", ".join(f"p(X{n}, X{n + 1})" for n in range(12)) + ", r(X).",
        "2:1: `@equ",
        "own",
    ),
]


@pytest.mark.parametrize(("text", "message", "hint"), REFUSED)
def test_what_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(ParseError) as refused:
        KnowledgeBase(text)
    assert message in str(refused.value)
    assert hint in str(refused.value)


def test_what_is_refused_later() -> None:
    kb = KnowledgeBase("many(X, count(Y)) :- knows(X, Y).  knows(a, b).")
    with pytest.raises(ParseError, match="`many` has an aggregate in its head"):
        kb.add_rules("\n  @equality same.")
    kb.add_rules("@equality same on knows.")
    with pytest.raises(ParseError, match=r"a query that is followed cannot have `knows\(X, Y\)`"):
        kb.subscribe("knows(X, Y)", print)
    with pytest.raises(StratificationError, match=r"same needs not knows\(_, _\)"):
        kb.add_rules("same(X, Y) :- knows(X, Z), knows(Z, Y), not knows(X, Y).")
    told: list[object] = []
    with kb.subscribe("many(X, N)", told.append):
        kb.update(add={"same": [("b", "c")]})
        assert len(told) == 2
        with pytest.raises(ParseError, match="a subscription follows `many`"):
            kb.update(
                remove_rules="@equality same on knows. many(X, count(Y)) :- knows(X, Y).",
                add_rules="@equality same on many, knows.",
            )
    assert kb.facts("many") == {("a", 2)}


def test_it_is_not_for_spark() -> None:
    rules = parse_program("p(a).\n@equality same on p.").rules
    with pytest.raises(StratificationError, match=r"line 2, column 11: the Spark engine does not have an equality"):
        check_fit(RuleGraph(rules))


def test_a_part_of_a_program_has_its_own() -> None:
    kb = KnowledgeBase("@module who.\n@equality same on person, thing.\nsame(a, b). person(a). thing(c) :- same(_, _).")
    assert kb.facts("who:person") == {("a",), ("b",)}
    assert kb.rules[0] == "@equality who:same on who:person, who:thing."
