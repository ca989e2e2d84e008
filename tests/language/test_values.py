"""A constant is the same one whichever way it comes in: from a program, from files, from tables and from Python."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest

from tidelog import KnowledgeBase, Literal
from tidelog.formats import read_facts
from tidelog.values import XSD, Value, canonical, identity

# Per constant: its text in programs, CSV files and N-Triples, what Python passes, and what it is.
WAYS: list[tuple[str, Literal, Value]] = [
    ('"chat"@FR', Literal("chat", language="FR"), Literal("chat", language="fr")),
    (f'"5"^^<{XSD}integer>', Literal("5", f"{XSD}integer"), 5),
    (f'"1.50"^^<{XSD}decimal>', Literal("1.50", f"{XSD}decimal"), 1.5),
    (f'"-INF"^^<{XSD}double>', Literal("-INF", f"{XSD}double"), -math.inf),
    (f'"1"^^<{XSD}boolean>', Literal("1", f"{XSD}boolean"), True),
    (f'"a b"^^<{XSD}string>', Literal("a b", f"{XSD}string"), "a b"),
    (f'"five"^^<{XSD}integer>', Literal("five", f"{XSD}integer"), Literal("five", f"{XSD}integer")),
]


def loaded(folder: Path, name: str, text: str) -> KnowledgeBase:
    (folder / name).write_text(text)
    kb = KnowledgeBase()
    kb.load(read_facts(folder))
    (folder / name).unlink()
    return kb


@pytest.mark.parametrize(("text", "passed", "value"), WAYS)
def test_a_literal_is_one_constant_whatever_its_way_in(
    tmp_path: Path, text: str, passed: Literal, value: Value
) -> None:
    language, datatype = ("FR", "") if passed.language else ("", passed.datatype)
    json = f'[{{"text": "{passed.text}", "language": "{language}", "datatype": "{datatype}"}}]'
    kb = loaded(tmp_path, "p.csv", f"{text}\n")
    union = kb.facts("p").to_arrow()
    for way in (
        kb,
        loaded(tmp_path, "p.jsonl", json),
        loaded(tmp_path, "p.nt", f"<http://e/s> <p:p> {text} ."),
        KnowledgeBase(f"p({text})."),
    ):
        stored = [row[-1] for name in way.predicates for row in way.facts(name)]
        assert list(map(identity, stored)) == [identity(value)]
    for rows in ([(passed,)], ((passed,) for _ in range(1)), union, kb.facts("p").to_pandas()):
        assert not kb.update(add={"p": rows}), "the constant is another one"
    assert (passed,) in kb.facts("p")
    assert kb.update(delete={"p": [(passed,)]}).removed == {"p": {(passed,)}}


def test_mixed_columns_of_literals_keep_their_places() -> None:
    kb = KnowledgeBase()
    kb.update(add={"p": [(0, Literal("5", f"{XSD}integer")), (1, Literal("x", language="EN")), (2, "y")]})
    assert sorted(kb.facts("p")) == [(0, 5), (1, Literal("x", language="en")), (2, "y")]


def test_literals_of_an_arrow_union_are_read_as_others_are() -> None:
    child = pa.array([f'"5"^^<{XSD}integer>', '"chat"@FR'])
    column = pa.UnionArray.from_dense(pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [child], ["literal"])
    kb = KnowledgeBase()
    kb.update(add={"p": pa.table([column], names=["c0"])})
    assert set(kb.facts("p")) == {(5,), (Literal("chat", language="fr"),)}


def test_a_literal_with_a_language_stays_one_whatever_its_datatype() -> None:
    literal = Literal("5", f"{XSD}integer", "en")
    assert canonical(literal) is literal
