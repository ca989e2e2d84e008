"""Every public name has a docstring with an example, and the examples do what they say.

Those on Spark are run by `tests/spark/sessions/test_spark_docstrings.py`.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import tidelog
from doc_examples import run_example
from public_names import SPARK, example_of, public_names, with_members

NAMES = public_names()


def test_all_that_can_be_imported_is_documented() -> None:
    documented = list(NAMES.values())
    assert [name for name in tidelog.__all__ if getattr(tidelog, name) not in documented] == []
    pytest.importorskip("pyspark")
    spark = importlib.import_module("tidelog.spark")
    assert [name for name in spark.__all__ if getattr(spark, name) not in documented] == []


def test_everything_has_a_docstring() -> None:
    everything = [each for top, thing in NAMES.items() for each in with_members(top, thing)]
    assert [name for name, member in everything if not example_of(member)] == []


def test_every_name_has_an_example() -> None:
    assert [name for name, thing in NAMES.items() if ">>>" not in example_of(thing)] == []


def test_every_method_of_a_knowledge_base_has_an_example() -> None:
    members = with_members("KnowledgeBase", tidelog.KnowledgeBase)
    assert [name for name, member in members if ">>>" not in example_of(member)] == []


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(SPARK)])
def test_examples_do_what_they_say(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for member, thing in with_members(name, NAMES[name]):
        if ">>>" in example_of(thing):
            run_example(example_of(thing), member, 1, {"tidelog": tidelog})
