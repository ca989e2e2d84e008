"""Small updates by lookups, without Spark: random programs and updates on Parquet files against the oracle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from generate import EVERYTHING, WITHOUT_VALUES, Features, soak
from naive import Database, State, Update, database, derivations, minus, normal, plain, without_empty
from tidelog.formats.batch import FactBatch
from tidelog.formats.columns.tables import columns_of
from tidelog.language.checks import check_arities
from tidelog.language.parser import parse_rules
from tidelog.language.syntax import Constant, Rule
from tidelog.program.graph import Component, RuleGraph
from tidelog.spark.data.dictionary import Dictionary, Fields, Term, fields_of, key_of, value_of
from tidelog.spark.data.term_lookup import encode_few, ids_of_constants, meet
from tidelog.spark.data.wide_frames import read_together
from tidelog.spark.plan.rule_changes import RuleChanges, changed_rules
from tidelog.spark.plan.schedule import constants_of
from tidelog.spark.small.marks import Marked, Marks, deleted_next
from tidelog.spark.small.pending_facts import Row, rows_table
from tidelog.spark.small.small_update import Outcome, carry_out
from tidelog.spark.stored.keyed_files import ColumnCache, Files, TooManyFacts
from tidelog.spark.stored.layers import Layer, Stored
from tidelog.values import IRI, Literal, Value


class Folder:
    """A materialisation in files that no Spark session ever sees."""

    def __init__(self, root: Path, rules: Iterable[Rule], arities: Mapping[str, int], uncounted: set[str]) -> None:
        self._root = root
        self._columns = ColumnCache(most=1_000)  # Room for a few columns only, so that others are read again and again.
        self._graph = RuleGraph(rules)
        self.stored = {
            name: Stored(number, arity, counted=name not in uncounted)
            for number, (name, arity) in enumerate(arities.items())
        }
        self._dictionary = Dictionary(None, str(root / "terms"))  # type: ignore[arg-type]
        self._terms: dict[int, Fields] = {}
        self._ids: dict[Constant, int] = {}
        self._versions = 0
        self._marked = Marked()

    def _extend(self, terms: list[Term]) -> None:
        self._dictionary.append(terms)
        self._terms |= dict(terms)

    def _changed(self, update: Update) -> RuleChanges:
        """The rules after an update; their constants get ids."""
        known = {normal(rule): number for number, rule in self._graph.rules.items()}
        removed = {known[normal(rule)] for rule in update.remove_rules}
        added = {normal(rule): rule for rule in update.add_rules if known.get(normal(rule)) in (None, *removed)}
        rules = changed_rules(self._graph, added.values(), sorted(removed))
        constants = list(constants_of([*rules.normal.values(), *rules.removed.values()]))
        self._ids |= ids_of_constants(self._dictionary, constants)
        self._terms |= {self._ids[constant]: fields_of(constant.value) for constant in constants}
        return rules

    def update(self, update: Update, most: int = 1_000_000, ahead: Update | None = None) -> Outcome:
        """Apply an update; with `ahead`, as one of a stream whose next update is known."""
        rules = self._changed(update)
        ruled = {name for component in self._graph.components_in_order() for name in component.predicates}
        plain_ones = [Component((name,), (), ()) for name in self.stored if name not in ruled]
        components = [*plain_ones, *self._graph.components_in_order()]
        asked = encode_few(self._dictionary, _batches(update.add), _batches(update.delete))
        files, marks = (self._root, self._columns, self.stored), None
        if ahead is not None and not rules.heads:
            next_taken = _batches(ahead.delete)
            marks = Marks(self._marked, lambda: deleted_next(self._dictionary, asked, next_taken))
        outcome = carry_out(*files, self._dictionary, self._ids, rules, components, asked, most, None, marks)
        self._marked = outcome.marked
        self._extend(outcome.terms)
        for component in components:
            counted = all(self.stored[name].counted for name in component.predicates)
            for name in component.predicates:
                self._write(name, outcome.rows.get(name, []), counted)
        self._versions += 1
        return outcome

    def _write(self, name: str, rows: list[Row], counted: bool) -> None:
        stored = self.stored[name] = replace(self.stored[name], counted=counted)
        if not rows:
            return
        path = f"{self._versions}/p={stored.number}"
        (self._root / path).mkdir(parents=True)
        pq.write_table(rows_table(stored, rows), self._root / path / "part.parquet")
        facts = stored.facts + sum(row.h for row in rows) - sum(row.h0 for row in rows)
        layer = Layer(path, len(rows))
        placed = {"layers": (*stored.layers, layer)} if stored.base else {"base": layer}
        self.stored[name] = replace(stored, facts=facts, **placed)

    def check(self, state: State) -> None:
        """The files hold what the oracle says: the facts, which of them are explicit, and their derivations."""
        expected = without_empty(state.materialise())
        files = Files(self._root, self._columns, self.stored, 1_000_000)
        for name, stored in self.stored.items():
            found = files.matching(name, (), {()})
            assert stored.facts == len(found)
            held = {self._fact(ids): known for ids, known in found.items()}
            assert held.keys() == expected.get(name, set()), f"{name}{state}"
            assert {fact for fact, known in held.items() if known.explicit} == state.explicit.get(name, set())
            if stored.counted:
                counts = self._derivations(name, expected)
                assert {fact: known.derivations for fact, known in held.items() if known.derivations} == counts

    def _fact(self, ids: tuple[int, ...]) -> tuple[Constant, ...]:
        return tuple(Constant(value_of(self._terms[id_])) for id_ in ids)

    def _derivations(self, name: str, held: Database) -> Counter[tuple[Constant, ...]]:
        return Counter(
            found.head[1]
            for number, rule in self._graph.rules.items()
            if rule.head.predicate == name and not self._graph.recursive(number)
            for found in derivations(rule, held)
            if found is not None
        )

    def changed(self, outcome: Outcome) -> tuple[Database, Database]:
        """What came and what went."""
        return tuple(  # type: ignore[return-value]
            without_empty(
                {name: {self._fact(row.ids) for row in rows if test(row)} for name, rows in outcome.rows.items()}
            )
            for test in (lambda row: row.h and not row.h0, lambda row: row.h0 and not row.h)
        )


def _batches(facts: Database) -> list[FactBatch]:
    return [
        FactBatch(name, columns, name, 1)
        for name, rows in plain(facts).items()
        if (columns := columns_of(rows, name)) is not None
    ]


@pytest.mark.parametrize("features", [WITHOUT_VALUES, EVERYTHING], ids=["ids", "values"])
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_and_updates(tmp_path: Path, seed: int, features: Features) -> None:
    """Every other seed is a stream that looks ahead, and so marks what the next update deletes."""
    case, stream = soak(seed, features)
    arities = check_arities((*case.facts_as_atoms(), *case.rules), {})
    uncounted = {name for name in arities if random.Random(f"{seed} {name}").random() < 0.2}
    folder = Folder(tmp_path, (), arities, uncounted)
    state = State()
    updates = [Update(add=case.state.explicit, add_rules=case.state.rules), *stream, Update()]
    for update, ahead in pairwise(updates):
        before, state = without_empty(state.materialise()), state.apply(update)
        outcome = folder.update(update, ahead=ahead if seed % 2 and not ahead.add_rules + ahead.remove_rules else None)
        folder.check(state)
        after = without_empty(state.materialise())
        assert folder.changed(outcome) == (without_empty(minus(after, before)), without_empty(minus(before, after)))


@pytest.mark.parametrize("uncounted", [set(), {"path"}], ids=["counted", "not counted"])
def test_marks_spare_rule_applications(tmp_path: Path, uncounted: set[str]) -> None:
    """Edges come and go again in a stream: what marks have found need not be found by the deletion."""
    rules = parse_rules("path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z).", {})
    fixed = database({"edge": [(n, n + 1) for n in range(5)]})
    moving = database({"edge": [(9, 0), (8, 9)]})
    spent = {}
    for marking in (False, True):
        folder = Folder(tmp_path / str(marking), rules, {"edge": 2, "path": 2}, uncounted)
        folder.update(Update(add=fixed))
        added = folder.update(Update(add=moving), ahead=Update(delete=moving) if marking else Update())
        gone = folder.update(Update(delete=moving), ahead=Update())
        assert sum(len(rows) for rows in gone.rows.values()) == 2 + 6 + 7
        marked = added.work.get("marked_explicit", 0), added.work.get("marked_implicit", 0)
        assert (min(marked) > 0) == marking
        spent[marking] = gone.work["deletion"]
    assert spent[True] < spent[False]


@pytest.mark.parametrize("uncounted", [set(), {"hop"}, {"path", "hop"}], ids=["counted", "one not", "none"])
def test_rules_come_into_a_recursion_and_out_of_it(tmp_path: Path, uncounted: set[str]) -> None:
    """`hop` is counted, except while `path` depends on it."""
    first = parse_rules("path(X, Y) :- edge(X, Y). hop(X, Z) :- path(X, Y), edge(Y, Z). hop(X, Y) :- edge(Y, X).", {})
    back = parse_rules("path(X, Y) :- hop(X, Y), wide(X).", {})
    edges = database({"edge": [(1, 2), (2, 3), (3, 1), (3, 4)], "wide": [(1,), (2,)]})
    fewer = database({"edge": [(3, 1)], "wide": [(2,)]})
    folder = Folder(tmp_path, (), {"edge": 2, "path": 2, "hop": 2, "wide": 1}, uncounted)
    state = State()
    for update in (
        Update(add=edges, add_rules=first),
        Update(add_rules=back),
        Update(delete=fewer),
        Update(remove_rules=back, add=fewer),
        Update(add_rules=back, delete=fewer, remove_rules=first[:1]),
    ):
        state = state.apply(update)
        folder.update(update)
        folder.check(state)


def test_an_update_that_needs_too_much_settles_what_it_can(tmp_path: Path) -> None:
    rules = parse_rules("twin(X, Y) :- edge(A, X), edge(A, Y).", {})
    folder = Folder(tmp_path, rules, {"edge": 2, "twin": 2}, set())
    folder.update(Update(add=database({"edge": [("hub", number) for number in range(40)]})))
    outcome = folder.update(Update(add=database({"edge": [("hub", 40)]})), most=30)
    assert outcome.settled == 1
    assert set(outcome.rows) == {"edge"}


def test_constants_of_all_kinds_are_found(tmp_path: Path) -> None:
    values: list[Value] = [
        "1",
        1,
        1.0,
        True,
        IRI("1"),
        Literal("1", language="en"),
        0,
        0.0,
        False,
        "",
        float("nan"),
        -7,
    ]
    dictionary = Dictionary(None, str(tmp_path))  # type: ignore[arg-type]
    for value in values:
        ids_of_constants(dictionary, [Constant(value)])
    found = meet(dictionary, [fields_of(value) for value in (*values, 2, "2", 2.0)])
    assert len(found.known) == len(set(found.known.values())) == len(values) == dictionary.size
    assert {repr(found.known[key_of(fields_of(value))]) for value in values} == set(map(repr, found.known.values()))
    assert len(found.new) == 3


def test_a_lookup_stops_at_its_limit(tmp_path: Path) -> None:
    folder = Folder(tmp_path, (), {"edge": 2}, set())
    folder.update(Update(add=database({"edge": [(number, 0) for number in range(20)]})))
    files = Files(tmp_path, ColumnCache(), folder.stored, 10)
    with pytest.raises(TooManyFacts):
        files.matching("edge", (), {()})


@pytest.mark.parametrize("columns", [(0,), (1,), (2, 0), (0, 1, 2), ()], ids=str)
def test_one_fact_of_each_key_is_found(tmp_path: Path, columns: tuple[int, ...]) -> None:
    """Whatever layers say about the first fact in the base, and whatever is to be left out."""
    dice = random.Random(str(columns))
    every = [(a, b, c) for a in range(5) for b in range(5) for c in range(3)]
    folder = Folder(tmp_path, (), {"fact": 3}, set())
    for _ in range(4):
        add, delete = (database({"fact": dice.sample(every, 20)}) for _ in range(2))
        folder.update(Update(add=add, delete=delete))
        files = Files(tmp_path, ColumnCache(), folder.stored, 10_000)
        held = set(files.matching("fact", (), {()}))
        without = set(dice.sample(sorted(held), 5))
        ids = [*sorted({id_ for fact in held for id_ in fact}), 5]  # The last one is in no fact.
        keys = {tuple(dice.choice(ids) for _ in columns) for _ in range(12)}
        expected = {fact for fact in held - without if tuple(fact[column] for column in columns) in keys}
        found = set(files.some("fact", columns, keys, without))
        assert found <= expected
        assert _keys(found, columns) == _keys(expected, columns)


def _keys(facts: Iterable[tuple[int, ...]], columns: tuple[int, ...]) -> set[tuple[int, ...]]:
    return {tuple(fact[column] for column in columns) for fact in facts}


def test_columns_are_read_once_while_there_is_room(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        pq.write_table(pa.table({"c0": [number] * 10, "c1": [7] * 10}), folder / "part.parquet")
    columns = ColumnCache(most=2 * 10 * 8)
    [one], [two] = map(columns.pieces, folders)
    [first] = columns.read(one, ["c0"])
    [second] = columns.read(two, ["c0"])
    assert (first.tolist(), second.tolist()) == ([0] * 10, [1] * 10)
    assert columns.read(one, ["c0"])[0] is first
    columns.read(two, ["c1"])  # The least recently used column, one of the second folder, has to go.
    assert columns.read(one, ["c0"])[0] is first
    assert columns.read(two, ["c0"])[0] is not second


def test_columns_of_files_that_no_version_has_are_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "layer"
    folder.mkdir()
    pq.write_table(pa.table({"c0": [1]}), folder / "part.parquet")
    columns = ColumnCache()
    [piece] = columns.pieces(folder)
    [kept] = columns.read(piece, ["c0"])
    columns.keep({folder})
    assert columns.read(piece, ["c0"])[0] is kept
    columns.keep(set())
    pq.write_table(pa.table({"c0": [2]}), folder / "part.parquet")
    assert columns.read(piece, ["c0"])[0].tolist() == [2]


def test_files_of_spark_and_of_the_driver_are_read_together(tmp_path: Path) -> None:
    """They differ in whether a column may hold nulls."""
    for number, nullable in enumerate((True, False)):
        schema = pa.schema([pa.field("c0", pa.int64(), nullable), pa.field("h", pa.bool_())])
        pq.write_table(pa.table({"c0": [number], "h": [True]}, schema), tmp_path / f"part-{number}.parquet")
    paths = sorted(tmp_path.glob("*.parquet"))
    assert read_together(paths).column("c0").to_pylist() == [0, 1]
    assert read_together(paths[::-1], ["c0"]).to_pylist() == [{"c0": 1}, {"c0": 0}]
