"""Closures by connected components, shares of the sources and doubling, in every form, against the oracle."""

from __future__ import annotations

import random
from pathlib import Path

from pyspark.sql import SparkSession

from merged import Merged, Part
from naive import database
from tidelog.language import parse_program
from tidelog.spark import Options

FORMS = {
    "transitive": "r(X, Y) :- e(X, Y). r(X, Z) :- r(X, Y), r(Y, Z).",
    "transitive, apart": "r(X, Y) :- e(X, Y). r(X, Z) :- r(X, Y), r(Y, Z), X != Z.",
    "symmetric": "r(X, Y) :- e(X, Y). r(X, Y) :- r(Y, X). r(X, Z) :- r(X, Y), r(Y, Z).",
    "symmetric, apart": "r(X, Y) :- e(X, Y). r(X, Y) :- r(Y, X). r(X, Z) :- r(X, Y), r(Y, Z), X != Z.",
    "linear": "r(X, Y) :- e(X, Y). r(X, Z) :- e(X, Y), r(Y, Z).",
    "linear, apart": "r(X, Y) :- e(X, Y), X != Y. r(X, Z) :- r(X, Y), e(Y, Z), X != Z.",
    "inverse": "r(X, Y) :- e(Y, X). r(X, Z) :- e(Y, X), r(Y, Z).",
}

CYCLES = {(40, 40), (41, 42), (42, 43), (43, 41)}


def test_every_form_of_closure(spark: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(3)
    parts = [part_of(name, {(dice.randrange(24), dice.randrange(24)) for _ in range(16)} | CYCLES) for name in FORMS]
    how = check(spark, tmp_path, parts, Options(local_facts=0))
    assert how.count("connected components") == 2
    assert sum("share of the sources" in done for done in how) == 5


def test_closures_by_doubling(spark: SparkSession, tmp_path: Path) -> None:
    """A path with all kinds of cycles on it: large, small, nested, attached to each other."""
    path = {(node, node + 1) for node in range(100, 117)}
    turns = {(103, 102), (105, 105), (114, 106), (111, 110), (115, 116), (116, 115), (117, 116)}
    how = check(spark, tmp_path, [part_of("linear", path | turns | CYCLES)], Options(local_facts=0, closure_edges=0))
    assert sum(done.startswith("condensation and doubling") for done in how) == 1


def test_closures_by_components(spark: SparkSession, tmp_path: Path) -> None:
    """A graph that falls apart into components which fit into a task, and one that does not."""
    apart = {(10 * island + node, 10 * island + (node + 1) % 3) for island in range(3) for node in range(3)}
    together = {(node, node + 1) for node in range(4)}
    parts = [part_of("inverse", apart | {(77, 77)}), part_of("linear", together)]
    how = check(spark, tmp_path, parts, Options(local_facts=0, closure_edges=3))
    assert how.count("connected components, each inside a task") == 1
    assert "condensation and doubling, 3 rounds" in how, "4 is below 2 ** 3"


def part_of(name: str, pairs: set[tuple[int, int]]) -> Part:
    explicit = {"r": [(1, 2), (2, 2)]} if "linear" not in name and name != "inverse" else {}
    return Part(name, parse_program(FORMS[name]).rules, database({"e": pairs, **explicit}))


def check(spark: SparkSession, folder: Path, parts: list[Part], options: Options) -> list[str]:
    """How the closures were computed: none of them by rounds, and all of them correctly."""
    engine, results = Merged(parts).run(spark, folder, options)
    for part, found in zip(parts, results, strict=True):
        assert found == part.expected(), part.name
    how = [done.how for done in engine.statistics.rounds]
    assert not any(done.startswith("round") and done != "round 0" for done in how)
    return how
