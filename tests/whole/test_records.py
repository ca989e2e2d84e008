"""Records in facts and rules, against the oracle and through all parts of the system."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import naive
from engine_util import ALGORITHMS, materialisation
from soaking import seeds
from tidelog import IRI, KnowledgeBase, Record
from tidelog.errors import DataError, LimitError, ParseError
from tidelog.language import parse_program
from tidelog.records import MOST_CHARACTERS
from written_rules import accepted, check_printing, check_rules

POINTS = """
    at(a, [1, 2]). at(b, [3, [4, 5]]). at(c, nil). at(d, [1, 2, 3]). at(e, [7, 7]). at(f, []). n(1). n(7). n(7.0).
    x(N, X) :- at(N, [X, _]).
    nested(N, Y, Z) :- at(N, [_, [Y, Z]]).
    swapped(N, [Y, X]) :- at(N, P), P = [X, Y].
    same(N) :- at(N, [X, X]).
    one(N) :- at(N, [1, _]).
    joined(N, X) :- n(X), at(N, [X, _]).
    none(N) :- at(N, _), not at(N, [_, _]).
    known(N) :- at(N, _), n(X), not at(N, [X, X]).
    made(R) :- n(X), R = [X, [X, "q"]].
    counted(N, K) :- at(N, _), K = count { X : at(N, [X, _]) }.
    either(N, X) :- ( at(N, [X, _]) ; at(N, [X, _, _]) ).
    both(X, Y) :- n(X), [X, Y] = [7, b].
    empty(N) :- at(N, []).
"""

LISTS = """
    list([1, [2, [3, nil]]]).
    list(T) :- list([_, T]).
    size(nil, 0).
    size(L, N + 1) :- list(L), L = [_, T], size(T, N).
    reversed(L, nil, L) :- list(L), size(L, 3).
    reversed(W, [H, D], T) :- reversed(W, D, [H, T]).
"""


def test_patterns() -> None:
    kb = KnowledgeBase(POINTS)
    names = ("x", "nested", "same", "one", "joined", "none", "either", "both", "empty")
    assert {name: sorted(kb.facts(name)) for name in names} == {
        "x": [("a", 1), ("b", 3), ("e", 7)],
        "nested": [("b", 4, 5)],
        "same": [("e",)],
        "one": [("a",)],
        "joined": [("a", 1), ("e", 7)],  # 7.0 is another constant
        "none": [("c",), ("d",), ("f",)],
        "either": [("a", 1), ("b", 3), ("d", 1), ("e", 7)],
        "both": [(7, "b")],
        "empty": [("f",)],
    }
    assert kb.facts("swapped") == {("a", (2, 1)), ("b", ((4, 5), 3)), ("e", (7, 7))}
    assert kb.facts("made") == [((1, (1, "q")),), ((7, (7, "q")),), ((7.0, (7.0, "q")),)]
    assert kb.errors == 0


def test_lists() -> None:
    kb = KnowledgeBase(LISTS)
    assert {row[1] for row in kb.facts("size")} == {0, 1, 2, 3}
    assert ((1, (2, (3, "nil"))), (3, (2, (1, "nil"))), "nil") in kb.facts("reversed")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("text", [POINTS, LISTS])
def test_the_oracle_agrees_on_programs(text: str, algorithm: str) -> None:
    program = parse_program(text)
    kb = KnowledgeBase(text, maintenance=algorithm)
    assert materialisation(kb) == naive.materialise(program.rules, program.rows)
    rows = {name: rows[::2] for name, rows in program.rows.items()}
    kb.update(delete=rows)
    left = {name: rows[1::2] for name, rows in program.rows.items()}
    assert materialisation(kb) == naive.materialise(program.rules, left)
    kb.update(add=rows)
    assert materialisation(kb) == naive.materialise(program.rules, program.rows)


# ---- random programs, under every algorithm


class _Maker:
    """Makes facts with records, and rules with patterns. What is unsafe is left out by whoever asks."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def value(self, depth: int = 2) -> Any:
        if depth and self._random.random() < 0.6:
            return Record(*[self.value(depth - 1) for _ in range(self._random.randint(1, 2))])
        # To Python's sets, 1 and 1.0 are one outside of records.
        return self._random.choice((0, "1", "nil") if depth == 2 else (0, 1, 1.0, "1", "nil"))

    def fact(self) -> tuple[str, tuple[Any, ...]]:
        return self._random.choice((("a", (self.value(),)), ("e", (self._random.choice((0, 1, 2)), self.value()))))

    def _term(self, names: str, depth: int = 2) -> str:
        if depth and self._random.random() < 0.6:
            inner = (self._term(names, depth - 1) for _ in range(self._random.randint(1, 2)))
            return f"[{', '.join(inner)}]"
        return self._random.choice((*names, *names, "_", "0", "1.0", "nil"))

    def _atom(self, names: str) -> str:
        if self._random.random() < 0.5:
            return f"a({self._term(names)})"
        return f"e({self._random.choice((*names, '1'))}, {self._term(names)})"

    def _item(self, names: str) -> str:
        choice = self._random.randrange(5)
        if choice == 0:
            return f"not {self._atom(names)}"
        if choice == 1:
            return f"{self._random.choice(names)} = {self._term(names).replace('_', 'X')}"
        if choice == 2:
            return f"{self._term(names).replace('_', 'Y')} != {self._random.choice(names)}"
        if choice == 3:
            return f"( {self._atom(names)} ; {self._atom(names)} )"
        return f"{self._random.choice(names)} = count {{ Z : {self._atom(names + 'Z')} }}"

    def rule(self, name: str) -> str:
        items = [self._atom("XY") for _ in range(self._random.randint(1, 2))]
        items += [self._item("XY") for _ in range(self._random.randint(0, 2))]
        head = self._random.choice(("X, Y", "[X, Y]", "X, [Y, [X, 1]]"))
        return f"{name}({head}) :- {', '.join(items)}."


@pytest.mark.filterwarnings("ignore::tidelog.errors.CrossProductWarning")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_oracle_agrees(algorithm: str) -> None:
    for seed in seeds(range(8), f"records {algorithm}"):
        maker = _Maker(seed)
        check_rules(maker, accepted(maker, 4, lambda _: True), algorithm, 12)


@pytest.mark.parametrize("body", ["e(X, [_])", "e(X, _V), _V = [_]", "e(X, V), V != 0"])
def test_nothing_is_counted_beside_what_is(body: str) -> None:
    """Variables that the rule does not show used to have one name with the count that is missing."""
    kb = KnowledgeBase(f"p(X, N) :- {body}, N = count {{ Y : a(Y) }}.")
    kb.update(add={"e": [(1, (5,)), (2, (6,))], "a": [("b",)]})
    assert set(kb.facts("p")) == {(1, 1), (2, 1)}
    change = kb.update(delete={"a": [("b",)]})
    assert change.added["p"] == {(1, 0), (2, 0)}
    assert change.removed["p"] == {(1, 1), (2, 1)}


@pytest.mark.parametrize("seed", range(20))
def test_printing_and_parsing_again_is_the_same(seed: int) -> None:
    check_printing(_Maker(seed))


# ---- values

VALUES = (
    Record(),
    Record(1, 1.0, "1", True, -0.0, float("nan"), float("inf")),
    Record('a "b" \\ \n\t\x1f \u2028', "[", "]", ",", "nil"),
    Record(IRI("http://example.org/a>b c"), date(2024, 2, 29), (2**62, (("deep",),))),
)


@pytest.mark.parametrize("value", VALUES)
def test_values_come_back(value: Record) -> None:
    kb = KnowledgeBase("q(X) :- p(X).")
    kb.update(add={"p": [(value,)]})
    [(found,)] = kb.facts("q")
    assert found == value
    assert (value,) in kb.facts("p")
    assert f"q({value})" in kb
    assert parse_program(f"p({value}).").facts[0].row == (value,)


def test_fields_keep_their_types() -> None:
    assert len({Record(1), Record(1.0), Record("1"), Record(True), Record((1,))}) == 5
    assert Record(1, (2, "a"))[1] == Record(2, "a")
    assert [*Record(1, 2)] == [1, 2]
    assert Record(1, 2).value == (1, 2)
    kb = KnowledgeBase("p([1]). p([1.0]). p([true]).")
    assert kb.facts("p") == [((1,),), ((1.0,),), ((True,),)]
    assert kb.facts("p") != [((1,),), ((2.0,),), ((True,),)]


def test_what_is_no_value_is_refused() -> None:
    kb = KnowledgeBase()
    for value in ((1, None), (1, [2]), ({},)):
        with pytest.raises(DataError, match="a fact cannot hold"):
            kb.update(add={"p": [("a", value)]})
    with pytest.raises(ParseError, match="no text of a record"):
        kb.update(add='p("[1, "^^<urn:tidelog:record>).')
    assert not kb.predicates


# ---- sizes


def test_deep_records() -> None:
    """Depth costs no stack: neither given, nor read, nor built by rules."""
    deep: Any = "nil"
    for number in range(5000):
        deep = (number, deep)
    kb = KnowledgeBase("tail(H, T) :- list([H, T]). again([H, T]) :- tail(H, T).")
    kb.update(add={"list": [(deep,)]})
    assert kb.facts("again") == kb.facts("list")
    [(value,)] = kb.facts("list")
    assert f"list({value})" in kb
    assert parse_program(f"list({value}).").facts[0].row == (value,)


def test_records_that_grow_meet_limits() -> None:
    with pytest.raises(LimitError, match=r"busiest rule: list\(\[0, L\]\) :- list\(L\)\."):
        KnowledgeBase("list(nil). list([0, L]) :- list(L).", max_facts=50)
    kb = KnowledgeBase("twice(nil). twice([X, X]) :- twice(X).")
    assert len(kb.facts("twice")) < 30
    assert kb.errors == 1
    assert "a record of" in str(kb.errors.first[0])
    with pytest.raises(DataError, match=f"{MOST_CHARACTERS:,} at most"):
        kb.update(add={"p": [(("x" * MOST_CHARACTERS,),)]})


def test_patterns_have_a_depth() -> None:
    with pytest.raises(ParseError, match="nested more than"):
        parse_program(f"p(X) :- q({'[' * 200}X{']' * 200}).")


# ---- all parts of the system


def test_queries_and_proofs() -> None:
    kb = KnowledgeBase(POINTS)
    assert kb.query("at(N, [X, 2])").to_dicts() == [{"N": "a", "X": 1}]
    assert [row["N"] for row in kb.query("at(N, P), not at(N, [_, _]), P != nil")] == ["d", "f"]
    assert [row["N"] for row in kb.query("at(N, $p)", p=(1, 2))] == ["a"]
    assert [row["Y"] for row in kb.query("at(_, [$x, Y])", x=1)] == [2]
    proof = kb.explain("swapped(a, [2, 1])")
    assert proof is not None
    assert [premise.fact for premise in proof.premises] == ["at(a, [1, 2])"]
    assert str(proof).startswith("swapped(a, [2, 1])  by swapped(N, [Y, X]) :- at(N, P), P = [X, Y].")
    assert "swapped(N, [Y, X]) :- at(N, P), P = [X, Y]." in str(kb.why_not("swapped(d, [2, 1])"))
    assert "#" not in kb.graph.draw("dot").replace('="#', "")


def test_subscriptions_streams_and_live_mode() -> None:
    updates = [{"add": {"at": [("z", (8, 9))]}}, {"delete": {"at": [("a", (1, 2))]}}]
    streamed, live, told = KnowledgeBase(POINTS), KnowledgeBase(POINTS), []
    with streamed.subscribe("at(N, [X, _])", told.append):
        list(streamed.stream(updates))
    with live.live() as work:
        for update in updates:
            work.submit(**update)
        work.settle()
    program = parse_program(POINTS)
    rows = {name: [row for row in rows if row[0] != "a"] for name, rows in program.rows.items()}
    rows["at"].append(("z", Record(8, 9)))
    wanted = naive.materialise(program.rules, rows)
    assert materialisation(streamed) == wanted
    assert materialisation(live) == wanted
    assert told


def test_saving_and_the_journal(tmp_path: Path) -> None:
    with KnowledgeBase(POINTS) as kb:
        kb.save(tmp_path / "kb")
    with KnowledgeBase.open(tmp_path / "kb", journal=True) as kb:
        kb.update(add_rules="last(N, Z) :- at(N, [_, _, Z]).", add={"at": [("z", ("x", (1.5, IRI("i:1")), 3))]})
        wanted, rules = materialisation(kb), kb.rules
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert (materialisation(kb), kb.rules) == (wanted, rules)
        assert kb.facts("last") == {("d", 3), ("z", 3)}
        kb.remove_rules("last(A, B) :- at(A, [_, _, B]).")
        assert "last" not in kb.predicates


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "parquet", "dlog", "csv.gz"])
def test_files(tmp_path: Path, format: str) -> None:
    kb = KnowledgeBase()
    kb.update(add={"p": [(number, value) for number, value in enumerate(VALUES)] + [(9, "[1, 2]")]})
    kb.export(tmp_path, format=format)
    again = KnowledgeBase()
    again.load(tmp_path)
    assert again.facts("p") == kb.facts("p")


def test_json_lines_have_arrays(tmp_path: Path) -> None:
    kb = KnowledgeBase('p(a, [1, [2.0, "b"]]).')
    [path] = kb.export(tmp_path, format="jsonl")
    assert path.read_text() == '["a", [1, [2.0, "b"]]]\n'
    assert kb.facts("p").to_dicts() == [{"c0": "a", "c1": [1, [2.0, "b"]]}]


def test_tables() -> None:
    kb = KnowledgeBase("p(a, [1, 2]). p(b, [3, 4]).")
    for table in (kb.facts("p").to_arrow(), kb.facts("p").to_pandas()):
        again = KnowledgeBase()
        again.update(add={"p": table})
        assert again.facts("p") == kb.facts("p")
    assert kb.facts("p").to_pandas()["c1"].tolist() == [Record(1, 2), Record(3, 4)]
