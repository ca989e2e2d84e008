"""Versions of a materialisation: commits, readers, failed updates, compaction, vacuum."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidelog.errors import ArityError, ParseError, StorageError, StratificationError, UnknownRuleError
from tidelog.spark import Materialisation, Options
from tidelog.spark.stored import layers
from tidelog.spark.stored.layers import FEW_ROWS, MOST_LAYERS
from tidelog.spark.stored.version_history import MANIFEST, History
from tidelog.storage.folder_lock import FolderLock
from tidelog.values import IRI, Literal

RULES = """
@prefix ex: <http://example.org/> .
path(X, Y) :- edge(X, Y).
path(X, Z) :- edge(X, Y), path(Y, Z).
ex:far(X) :- path(a, X), not edge(a, X).
edge(a, b).
"""


def rows(frame: DataFrame) -> set[tuple[object, ...]]:
    found = [tuple(row) for row in frame.collect()]
    assert len(set(found)) == len(found)
    return set(found)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Materialisation:
    """Three versions: two edges; a third edge, from a DataFrame; changes of facts and rules."""
    folder = tmp_path_factory.mktemp("made")
    first = Materialisation.create(spark, str(folder), RULES, {"edge": [("b", "c")]})
    first.update(add={"edge": spark.createDataFrame([("c", "d")], "x string, y string")}, commit={"batch": "17"})
    by_sets = Materialisation.open(spark, str(folder), Options(local_facts=0))
    by_sets.update(
        delete={"edge": [("b", "c"), ("no", "such")]},
        add_rules=["path(X, Y) :- link(Y, X).", "path(X, Y) :- link(Y, X)."],
        remove_rules="ex:far(Y) :- path(a, Y), not edge(a, Y).",
        add={"link": [("z", "a"), ("z", "a")]},
    )
    return by_sets


def test_the_change_of_an_update(made: Materialisation) -> None:
    change = made.change
    assert (change.version, dict(change.added_counts)) == (3, {"link": 1, "path": 1})
    assert {name: rows(frame) for name, frame in change.added.items()} == {"link": {("z", "a")}, "path": {("a", "z")}}
    removed = {name: rows(frame) for name, frame in change.removed.items()}
    assert removed["edge"] == {("b", "c")}
    assert removed["path"] == {("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")}
    assert removed["ex:far"] == {("c",), ("d",)}
    assert change.work["insertion"] > 0
    assert change.work["deletion"] > 0


def test_every_version_is_readable_and_says_what_was_committed_with_it(
    spark: SparkSession, made: Materialisation
) -> None:
    again = Materialisation.open(spark, str(made._history.folder))
    assert (again.versions, again.version, again.commit_info) == ([1, 2, 3], 3, {})
    assert again.at(2).commit_info == {"batch": "17"}
    assert rows(again.at(2).change.added["edge"]) == {("c", "d")}
    assert rows(again.at(1).facts("path")) == {("a", "b"), ("b", "c"), ("a", "c")}
    assert rows(again.facts("path")) == {("a", "b"), ("c", "d"), ("a", "z")}
    assert rows(again.explicit("edge")) == {("a", "b"), ("c", "d")}
    assert again.count("path") == 3
    assert again.count("ex:far") == 0
    assert again.rules == [
        "path(X, Y) :- edge(X, Y).",
        "path(X, Z) :- edge(X, Y), path(Y, Z).",
        "path(X, Y) :- link(Y, X).",
    ]
    with pytest.raises(StorageError, match=r"no version 9; there are \[1, 2, 3\]"):
        again.at(9)
    with pytest.raises(StorageError, match="here to be read"):
        again.at(1).update(add={"edge": [("q", "r")]})


def test_what_is_refused_changes_nothing(spark: SparkSession, made: Materialisation) -> None:
    with pytest.raises(ArityError, match="`edge` has 2 arguments, but a row has 1"):
        made.update(add={"edge": [("q",)]})
    with pytest.raises(UnknownRuleError, match="there is no rule `edge"):
        made.update(remove_rules="edge(X, Y) :- path(X, Y).")
    with pytest.raises(StratificationError):
        made.update(add_rules="edge(X, Y) :- link(X, Y), not path(X, Y).")
    with FolderLock.for_writing(made._history.folder), pytest.raises(StorageError, match="is in use by"):
        made.update(add={"edge": [("q", "r")]})
    with pytest.raises(StorageError, match="holds a materialisation already"):
        Materialisation.create(spark, str(made._history.folder))
    assert (made.version, made.count("edge"), len(made.rules)) == (3, 2, 3)


def test_only_what_is_touched_is_written(spark: SparkSession, tmp_path: Path) -> None:
    rules = "path(X, Y) :- edge(X, Y). hue(X) :- colour(X). lone(X) :- colour(X), not edge(X, X)."
    made = Materialisation.create(spark, str(tmp_path), rules, {"edge": [(1, 2)], "colour": [(1,), (2,)]})
    numbers = {name: stored["number"] for name, stored in _stored(tmp_path).items()}

    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in tmp_path.glob("data/*/*/p=*/*.parquet")}

    before = files()
    made.update(add={"edge": [(2, 3)]})
    new = {path: written for path, written in files().items() if path not in before}
    assert files() == before | new
    assert {path.parent.name for path in new} == {f"p={numbers[name]}" for name in ("edge", "path")}


def _stored(folder: Path) -> dict[str, dict[str, int]]:
    stored: dict[str, dict[str, int]] = json.loads((folder / MANIFEST).read_text())["stored"]
    return stored


def test_an_update_that_dies_leaves_the_version_before(
    spark: SparkSession, made: Materialisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made._history.folder

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(History, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            made.update(add={"edge": [("dead", "end")]})
    assert not (folder / "data" / "00000004").exists()
    # The next update makes this version, even if files of one that was never committed are in its place.
    (folder / "data" / "00000004").mkdir()
    (folder / "data" / "00000004" / "left").write_text("over")
    again = Materialisation.open(spark, str(folder))
    assert rows(again.facts("edge")) == {("a", "b"), ("c", "d")}
    again.update(add={"edge": [("live", "end")]})
    assert rows(again.facts("edge")) == {("a", "b"), ("c", "d"), ("live", "end")}
    assert again.version == 4
    with pytest.raises(StorageError, match="version 4 was committed by another writer"):
        made.update(add={"edge": [("q", "r")]})


@pytest.mark.parametrize("few_rows", [FEW_ROWS, 0], ids=["by the driver", "by a job"])
def test_layers_are_merged_compacted_and_vacuumed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_rows: int
) -> None:
    monkeypatch.setattr(layers, "FEW_ROWS", few_rows)
    monkeypatch.setattr(layers, "LARGE_SHARE", 10)
    made = Materialisation.create(spark, str(tmp_path), "", {"p": [(number,) for number in range(20)]})
    for number in range(MOST_LAYERS + 1):
        made.update(add={"p": [(100 + number,)]}, delete={"p": [(number,), (100 + number - 1,)]})
    expected = {(number,) for number in range(MOST_LAYERS + 1, 20)} | {(100 + MOST_LAYERS,)}
    assert rows(made.facts("p")) == expected
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert len(manifest["stored"]["p"]["layers"]) == 1
    before = made.version
    assert made.compact() == before + 1
    assert json.loads((tmp_path / MANIFEST).read_text())["stored"]["p"]["layers"] == []
    assert rows(made.facts("p")) == expected
    assert rows(made.at(1).facts("p")) == {(number,) for number in range(20)}
    assert made.vacuum(keep=2) == list(range(1, before))
    assert made.versions == [before, before + 1]
    assert rows(made.at(before).facts("p")) == expected
    assert made.vacuum(keep=1) == [before]
    assert rows(Materialisation.open(spark, str(tmp_path)).facts("p")) == expected
    assert len(list(tmp_path.glob("data/*/*/*"))) == 1


def test_values_are_looked_up_as_well(spark: SparkSession, tmp_path: Path) -> None:
    """A small update with aggregates, arithmetic, comparisons and a registered function runs no job at all."""
    rules = """
    middle(F, median(T)) :- temp(F, _, T).
    odd(F, X, D) :- temp(F, X, T), middle(F, M), D = twice(abs(T - M)), D > 5.
    worst(max(D)) :- odd(_, _, D).
    """
    functions = {"twice": lambda number: 2 * number}
    facts = [("f", 1, 10), ("f", 2, 11), ("f", 3, 12), ("g", 1, 40), ("g", 2, 40)]
    Materialisation.create(spark, str(tmp_path), rules, {"temp": facts}, functions=functions)
    told: list[str] = []
    made = Materialisation.open(spark, str(tmp_path), functions=functions, on_progress=told.append)
    spark.sparkContext.setJobGroup(str(tmp_path), "a small update")
    change = made.update(add={"temp": [("f", 4, 30.5), ("g", 3, 41)]}, delete={"temp": [("f", 1, 10)]})
    made.update(add_rules="calm(F) :- middle(F, M), M < 20.", remove_rules="worst(max(D)) :- odd(_, _, D).")
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup(str(tmp_path))) == []
    assert ["by lookups" in line for line in told] == [True, True]
    assert (rows(made.facts("calm")), rows(made.facts("worst"))) == ({("f",)}, set())
    assert rows(made.facts("middle")) == {("f", 12), ("g", 40)}
    assert rows(change.added["odd"]) == {("f", 4, 37.0)}
    assert rows(change.added["worst"]) == {(37.0,)}


def test_a_prefix_that_is_in_use_undeclared_cannot_be_declared(spark: SparkSession, tmp_path: Path) -> None:
    """As in the embedded engine: a name is in use while a predicate, a rule, a constant or a datatype has it."""
    program = 'ex:p(1). q(ex:a, 2). q("1"^^ex:t, 2). r(X) :- ex:p(X), X != ex:b. s(<http://ex:8080/x>).'
    made = Materialisation.create(spark, str(tmp_path), program)
    declared = "t(X) :- s(X).\n@prefix ex: <http://e/> . u(X) :- s(X)."
    steps = [
        ("ex:p", {"delete": {"ex:p": [(1,)]}}),
        ("ex:p", {"remove_rules": "r(X) :- ex:p(X), X != ex:b."}),
        ("ex:a", {"delete": {"q": [(IRI("ex:a"), 2)]}}),
        ("ex:t", {"delete": {"q": [(Literal("1", datatype="ex:t"), 2)]}}),
    ]
    for used, step in steps:
        before = made.version
        with pytest.raises(ParseError, match=f"declared after its use: .* `{used}`") as refused:
            made.update(add_rules=declared)
        assert (refused.value.line, made.version) == (2, before)
        made.update(**step)
    made.update(add={"ex:p": [(3,)]}, add_rules=declared)
    assert rows(made.facts("<http://e/p>")) == {(3,)}


def test_a_declared_predicate_stays_known(spark: SparkSession, tmp_path: Path) -> None:
    Materialisation.create(spark, str(tmp_path), "@predicate alarm/3.  p(1).")
    again = Materialisation.open(spark, str(tmp_path))
    again.update(add_rules="@predicate warning/1.")
    last = Materialisation.open(spark, str(tmp_path))
    for text in ("q(X) :- alarm(X).", "q(X) :- warning(X, X).", "@predicate alarm/1."):
        with pytest.raises(ArityError):
            last.update(add_rules=text)
    assert rows(last.facts("alarm")) == set()
