"""Blocks of components in tasks by keys, without Spark: which components go together, and what tasks find of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from generate import WITHOUT_VALUES, Dice, make_case
from naive import Database, database, materialise, without_empty
from tidelog.language import parse_program
from tidelog.language.syntax import Constant, Rule
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.normal_form import normalise
from tidelog.spark.data.encoded_blocks import FactFile, told_from_text
from tidelog.spark.data.wide_frames import keys
from tidelog.spark.materialise.keyed_tasks import BEYOND, MOST_TASKS, TASK_FACTS, BlockProgram, number_of_tasks
from tidelog.spark.plan.key_blocks import Candidate, Input, KeyBlock, key_block, whole_block
from tidelog.spark.plan.rule_frames import needs_values
from tidelog.spark.plan.schedule import constants_of

MANY = 1_000


class Solver:
    """Facts as files of ids, which tasks add to, block by block."""

    def __init__(self, facts: Database, folder: Path) -> None:
        self._folder = folder
        self._ids: dict[Constant, int] = {}
        self._numbers: dict[str, tuple[int, int]] = {}
        self.files: dict[str, list[str]] = {}
        self.counts: dict[str, int] = {}
        names = count()
        for predicate, rows in facts.items():
            arity = len(next(iter(rows)))
            cells = [[self.id(cell) for cell in column] for column in zip(*rows, strict=True)] or [[0]]
            path = folder / f"given-{next(names)}.parquet"
            pq.write_table(pa.table(dict(zip(keys(max(1, arity)), cells, strict=True))), path)
            self._note(predicate, arity, str(path), len(rows))

    def id(self, constant: Constant) -> int:
        return self._ids.setdefault(constant, 1_000_003 * (len(self._ids) + 1))

    def count(self, predicate: str) -> int:
        return self.counts.get(predicate, 0)

    def _note(self, predicate: str, arity: int, path: str, rows: int) -> None:
        self._numbers.setdefault(predicate, (len(self._numbers), arity))
        self.files.setdefault(predicate, []).append(path)
        self.counts[predicate] = self.count(predicate) + rows

    def told(self, block: KeyBlock, arities: dict[str, int], tasks: int, limit: int = MANY) -> list[str]:
        for constant in constants_of(map(normalise, block.rules)):
            self.id(constant)
        for name in block.homes:
            self._numbers.setdefault(name, (len(self._numbers), arities[name]))
        files = {
            name: self.files.get(name, []) for name in {one.predicate for one in block.inputs} | block.homes.keys()
        }
        program = BlockProgram.of(block, self._ids, self._numbers, files, tasks, limit, str(self._folder))
        return [line for number in range(tasks) for line in program.told(number)]

    def solve(self, block: KeyBlock, arities: dict[str, int], tasks: int) -> None:
        for line in self.told(block, arities, tasks):
            file = told_from_text(line)
            assert isinstance(file, FactFile)
            self._note(file.predicate, file.arity, file.path, file.count)

    def facts(self) -> Database:
        terms = {id_: constant for constant, id_ in self._ids.items()}
        found: Database = {}
        for predicate, paths in self.files.items():
            columns = keys(self._numbers[predicate][1])
            tables = [pq.ParquetFile(path).read() for path in paths]
            rows = [tuple(terms[row[name]] for name in columns) for table in tables for row in table.to_pylist()]
            assert len(set(rows)) == len(rows), f"repeated facts of {predicate}"
            found[predicate] = set(rows)
        return without_empty(found)


def candidates_of(graph: RuleGraph, components: Iterable[Component]) -> list[Candidate]:
    return [(one.predicates, [graph.rule(number) for number in one.rules]) for one in components]


def solved(rules: Sequence[Rule], facts: Database, folder: Path, tasks: int) -> tuple[Database, int]:
    """All that follows, by keys wherever that goes; and of how many components."""
    solver = Solver(facts, folder)
    graph = RuleGraph(rules)
    arities = {
        atom.predicate: atom.arity for rule in rules for atom in (rule.head, *rule.body) if hasattr(atom, "arity")
    }
    left = candidates_of(graph, graph.components_in_order())
    by_keys = 0
    while left:
        block, chosen = key_block(left, solver.count, MANY)
        if not chosen:
            block, chosen = whole_block(left[:1], solver.count), [0]
            solver.solve(block, arities, 1)
        else:
            solver.solve(block, arities, tasks)
            by_keys += bool(block.rules) * len(chosen)
        left = [one for place, one in enumerate(left) if place not in chosen]
    return solver.facts(), by_keys


def test_random_programs_by_keys(tmp_path: Path) -> None:
    by_keys = 0
    for seed in range(40):
        state = make_case(Dice(seed), WITHOUT_VALUES).state
        folder = tmp_path / str(seed)
        folder.mkdir()
        rules = [rule for rule in state.rules if not needs_values(normalise(rule), by_identity=True)]
        facts = state.explicit
        found, components = solved(rules, facts, folder, tasks=1 + seed % 3)
        assert found == without_empty(materialise(rules, facts)), f"seed {seed}"
        by_keys += components
    assert by_keys > 40


LARGER = """
person(X) :- works(X, _).    place(Y) :- works(_, Y).   member(Y, X) :- works(X, Y).  works(X, Y) :- heads(X, Y).
chair(X) :- person(X), heads(X, Y), place(Y).           person(X) :- chair(X).        full :- place(Y), not closed(Y).
lonely(X) :- person(X), not heads(X, _), full.          twin(X) :- alike(X, X).       first(X) :- alike(X, b), X != c.
works(a, p). works(b, p). works(c, q). heads(a, p). heads(d, q). closed(q). alike(a, a). alike(a, b). alike(c, b).
"""


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_every_task_finds_what_follows_for_its_keys(tmp_path: Path, tasks: int) -> None:
    program = parse_program(LARGER)
    facts = database(program.facts)
    found, _ = solved(program.rules, facts, tmp_path, tasks)
    assert found == materialise(program.rules, facts)


def block_of(text: str, most: int = MANY, **counts: int) -> tuple[KeyBlock, list[tuple[str, ...]]]:
    graph = RuleGraph(parse_program(text).rules)
    candidates = candidates_of(graph, graph.components_in_order())
    block, chosen = key_block(candidates, lambda name: counts.get(name, 0), most)
    return block, [tuple(candidates[place][0]) for place in chosen]


def test_complete_predicates_are_dealt_out_by_any_column_and_only_as_far_as_rules_ask() -> None:
    block, _ = block_of("p(X) :- e(X, _). p(Y) :- e(_, Y). q(X) :- p(X), e(X, Y), f(Y).", e=5, f=2)
    assert set(block.inputs) == {
        Input("e", (0,), 0),
        Input("e", (1,), 1),
        Input("e", (0, 1), 0),
        Input("f", (0,), None),
    }
    assert block.homes == {"p": 0, "q": 0}
    assert block.shared == {"f"}


def test_a_predicate_of_the_block_has_one_key() -> None:
    text = "p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), e(Y, Z). q(Y) :- p(_, Y). r(X) :- p(X, _). s(X) :- q(X)."
    block, chosen = block_of(text, e=5)
    assert set(chosen) == {("p",), ("r",)}, "q needs p by its second argument, and s needs q"
    assert block.homes["p"] == 0


def test_a_recursion_across_keys_has_none() -> None:
    _, chosen = block_of(
        "p(X, Z) :- p(X, Y), p(Y, Z). r(X) :- p(X, _). t(a) :- e(a). u(X) :- f(X), e(X).", p=3, e=1, f=1
    )
    assert chosen == [("u",)], "t has no key that varies"


def test_no_more_facts_are_shared_than_may_be() -> None:
    text = "p(X) :- e(X, Y), f(Y). q(X) :- e(X, Y), g(Y)."
    assert len(block_of(text, most=10, e=99, f=6, g=6)[1]) == 1
    assert len(block_of(text, most=12, e=99, f=6, g=6)[1]) == 2


def test_rules_without_facts_are_no_work() -> None:
    text = "p(X) :- e(X), f(X). q(X) :- p(X)."
    block, chosen = block_of(text, e=5)
    assert (block.rules, len(chosen)) == ([], 2)
    graph = RuleGraph(parse_program(text).rules)
    whole = whole_block(candidates_of(graph, graph.components_in_order()), lambda name: 5 if name == "e" else 0)
    assert (whole.rules, whole.homes) == ([], {})


def test_a_key_is_preferred_that_shares_little() -> None:
    block, _ = block_of("p(X, Y) :- e(X, Y). p(X, Z) :- e(X, Y), p(Y, Z).", e=5)
    assert block.homes == {"p": 1}
    block, _ = block_of("p(X, Y) :- e(X, Y), big(X), small(Y).", e=5, big=100, small=1)
    assert block.homes == {"p": 0}


def test_a_task_stops_at_its_limit(tmp_path: Path) -> None:
    program = parse_program("p(X, Y) :- e(X), e(Y). e(a). e(b). e(c).")
    solver = Solver(database(program.facts), tmp_path)
    block, _ = key_block([(["p"], program.rules)], solver.count, MANY)
    assert solver.told(block, {"p": 2}, 1, limit=8) == [BEYOND]
    assert BEYOND not in solver.told(block, {"p": 2}, 1, limit=9)


def test_there_is_a_task_for_each_core_and_more_for_many_facts() -> None:
    assert number_of_tasks(10, 2) == 2
    assert number_of_tasks(3 * TASK_FACTS, 2) == 3
    assert number_of_tasks(TASK_FACTS * (MOST_TASKS + 1), 2) is None
