"""Closures by connected components and by shares of the sources, in every form, against the oracle."""

from __future__ import annotations

import random
from pathlib import Path

from merged import Merged, Part
from pyspark.sql import SparkSession

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


def test_every_form_of_closure(spark: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(3)
    parts = []
    for name, text in FORMS.items():
        pairs = {(dice.randrange(24), dice.randrange(24)) for _ in range(16)} | {(40, 40), (41, 42), (42, 43), (43, 41)}
        explicit = {"r": [(1, 2), (2, 2)]} if "linear" not in name and name != "inverse" else {}
        parts.append(Part(name, parse_program(text).rules, database({"e": pairs, **explicit})))
    options = Options(local_facts=0)
    engine, results = Merged(parts).run(spark, tmp_path, options)
    for part, found in zip(parts, results, strict=True):
        assert found == part.expected(), part.name
    how = [done.how for done in engine.statistics.rounds]
    assert how.count("connected components") == 2
    assert sum("share of the sources" in done for done in how) == 5
    assert not any(done.startswith("round") and done != "round 0" for done in how)
