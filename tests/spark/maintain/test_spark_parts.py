"""Parts of bodies that are checked once, on Spark: materialised, maintained, proved, and in versions that an earlier
tidelog stored.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog.language import parser
from tidelog.language.written import expansion
from tidelog.spark import Materialisation

RULE = "q(X) :- i(X), a(_), c(Y), d(Y)."
FACTS = {"i": [("x",), ("y",)], "a": [("m",), ("n",)], "c": [("u",)], "d": [("u",), ("v",)]}


def test_they_are_maintained_and_proved(spark: SparkSession, tmp_path: Path) -> None:
    made = Materialisation.create(spark, str(tmp_path / "made"), RULE, add=FACTS)
    assert made.rules == [RULE]
    assert made.count("q") == 2
    assert made.update(delete={"a": [("m",)]}).removed_counts == {"a": 1}
    proof = made.explain("q(x)")
    assert proof is not None
    assert [premise.fact for premise in proof.premises] == ["i(x)", "a(n)", "c(u)", "d(u)"]
    assert made.update(delete={"c": [("u",)]}).removed_counts == {"c": 1, "q": 2}


def test_versions_that_have_them_enumerated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "made")
    with monkeypatch.context() as patch:
        patch.setattr(expansion, "independent_parts", lambda rule: [])
        parser._remembered.cache_clear()
        Materialisation.create(spark, folder, RULE, add=FACTS)
    parser._remembered.cache_clear()
    opened = Materialisation.open(spark, folder)
    assert opened.update(delete={"a": [("m",)]}).removed_counts == {"a": 1}
    assert opened.update(remove_rules=RULE).removed_counts == {"q": 2}
    assert opened.rules == []
