"""The examples of the docstrings on Spark do what they say. They run one after the other, in one folder."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from doc_examples import run_example
from public_names import SPARK, example_of, public_names


def test_examples_do_what_they_say(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, object] = {"spark": spark, "folder": tmp_path}
    for name, thing in public_names().items():
        if name.startswith(SPARK):
            run_example(example_of(thing), name, 1, names)
