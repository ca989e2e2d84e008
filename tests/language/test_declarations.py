"""Declared columns, types, keys and texts: printed back, checked, and used as names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog import IRI, KnowledgeBase
from tidelog.errors import ConstraintError, DataError, ParseError
from tidelog.language import parse_program
from tidelog.language.names import TYPES

PROGRAM = """
@type point = [x: int, y: int].
@type list = [head: int, tail: list].
@predicate edge(from: string, to: string, weight: float) "An edge of the map.".
@predicate at(name: string, place: point), path(nodes: list), flag/0.
@key edge(from, to).
edge(a, b, 1.5).
near(X, Y) :- edge(X, Y, W), W < 2.
"""


def test_they_are_printed_back() -> None:
    program = parse_program(PROGRAM)
    assert parse_program(str(program)) == program
    kb = KnowledgeBase(PROGRAM)
    assert kb.declarations[2] == '@predicate edge(from: string, to: string, weight: float) "An edge of the map.".'
    assert parse_program("\n".join(kb.declarations)).predicates == program.predicates
    assert kb.declared == {"edge": 3, "at": 2, "path": 1, "flag": 0}
    assert "#type point" not in kb.predicates
    assert kb.describe("edge") == {
        "name": "edge",
        "columns": [("from", "string"), ("to", "string"), ("weight", "float")],
        "text": "An edge of the map.",
    }


def test_columns_name_those_of_tables() -> None:
    kb = KnowledgeBase(PROGRAM)
    names = ["from", "to", "weight"]
    assert kb.facts("edge").to_arrow().column_names == names
    assert list(kb.facts("edge").to_pandas().columns) == names
    assert kb.explicit("edge").to_polars().columns == names
    assert kb.facts("edge").to_dicts() == [{"from": "a", "to": "b", "weight": 1.5}]
    assert kb.facts("near").to_arrow().column_names == ["c0", "c1"]
    assert kb.update(add={"edge": [("b", "c", 1.0)]}).added["edge"].to_arrow().column_names == names


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"edge": [("a", "c", 1.5), ("a", "d", 2)]}, "`edge`, row 2, column `weight`: 2 is no float"),
        ({"edge": [(IRI("i:a"), "c", 1.5)]}, "row 1, column `from`: <i:a> is no string"),
        ({"at": [("a", (1, 2)), ("b", (1, 2, 3))]}, r"row 2, column `place`: \[1, 2, 3\] is no point"),
        ({"at": [("a", (1, True))]}, r"\[1, true\] is no point"),
        (
            {"path": [((1, (2, "nil")),), ((1, (2, "end")),)]},
            r"row 2, column `nodes`: \[1, \[2, \"end\"\]\] is no list",
        ),
    ],
)
def test_rows_that_do_not_fit(rows: dict[str, list[tuple[object, ...]]], message: str) -> None:
    kb = KnowledgeBase(PROGRAM)
    with pytest.raises(DataError, match=message):
        kb.update(add=rows)
    with pytest.raises(DataError, match=message):
        kb.what_if(add=rows)
    with kb.live() as live:
        live.submit(add=rows)
        with pytest.raises(DataError, match=message):
            live.settle()
    assert len(kb) == 2
    kb.update(delete=rows)  # What is not there can be deleted.
    assert len(kb) == 2


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    kb = KnowledgeBase(PROGRAM)
    (tmp_path / "edge.csv").write_text("a,b,1.5\nb,c,far\n")
    with pytest.raises(DataError, match=r"edge\.csv, line 2: column 3: 'far' is no float"):
        kb.load(tmp_path)
    (tmp_path / "edge.csv").unlink()
    (tmp_path / "edge.jsonl").write_text('["a", "b", 1.5]\n["b", "c", "far"]\n')
    with pytest.raises(DataError, match=r"edge\.jsonl, from line 1 on, row 2, column `weight`: far is no float"):
        kb.load(tmp_path)


def test_cells_are_read_as_declared(tmp_path: Path) -> None:
    (tmp_path / "edge.csv").write_text("007,b,3\n")
    kb = KnowledgeBase(PROGRAM)
    kb.load(tmp_path)
    assert set(kb.explicit("edge")) == {("a", "b", 1.5), ("007", "b", 3.0)}
    with pytest.raises(DataError, match="column 3"):
        kb.load(tmp_path / "edge.csv", types=["string", "string", "bool"])


def test_constants_of_texts_that_do_not_fit() -> None:
    kb = KnowledgeBase(PROGRAM)
    with pytest.raises(ParseError, match=r"<rules>:1:17: 1 is no string, as the column `to` of `edge` is declared"):
        kb.add_rules("q(X) :- edge(X, 1, _).")
    with pytest.raises(ParseError, match=r"<add>:1:.*: far is no float"):
        kb.update(add="edge(a, b, far).")
    with pytest.raises(ParseError, match=r"<program>:11:.* is no float"):
        KnowledgeBase(PROGRAM + "\n\nedge(x, y, 7).")


def test_every_type_has_values_that_fit() -> None:
    values = {
        "any": "x",
        "string": "x",
        "int": "-3",
        "float": "1.0",
        "number": "7",
        "bool": "true",
        "iri": "<i:a>",
        "date": '"2024-02-29"^^xsd:date',
        "datetime": '"2024-02-29T10:00:00Z"^^xsd:dateTime',
        "time": '"10:00:00"^^xsd:time',
        "duration": '"PT1H"^^xsd:dayTimeDuration',
        "decimal": '"1.50"^^xsd:precisionDecimal',
    }
    assert values.keys() == set(TYPES)
    for type_ in TYPES:
        for other, value in values.items():
            text = f"@predicate p(x: {type_}). p({value})."
            if other == type_ or type_ == "any" or (type_, other) in _ALSO:
                assert len(KnowledgeBase(text)) == 1
            else:
                with pytest.raises(ParseError, match=f"is no {type_}"):
                    KnowledgeBase(text)


_ALSO = {("string", "any"), ("number", "int"), ("number", "float"), ("number", "decimal"), ("int", "number")}


def test_declarations_that_facts_do_not_fit() -> None:
    kb = KnowledgeBase("p(a, 1). p(b, x). q(X) :- p(X, _).")
    with pytest.raises(DataError, match="`p`, row 2, column `n`: x is no int"):
        kb.add_rules("@predicate p(name: string, n: int).")
    assert not kb.declarations
    kb.update(delete={"p": [("b", "x")]}, add_rules="@predicate p(name: string, n: int).")
    assert kb.declarations == ["@predicate p(name: string, n: int)."]
    kb.add_rules("@predicate p/2.")  # says less, and takes nothing back
    assert kb.declarations == ["@predicate p(name: string, n: int)."]


def test_keys() -> None:
    kb = KnowledgeBase(PROGRAM)
    constraint = ":- edge(From, To, Weight), edge(From, To, OtherWeight), Weight != OtherWeight."
    assert constraint in kb.rules
    with pytest.raises(ConstraintError, match="violates a constraint") as caught:
        kb.update(add={"edge": [("a", "b", 2.5)]})
    assert len(caught.value.violations) == 1, "and not once more the other way round"
    with pytest.raises(ConstraintError) as caught:
        kb.update(add={"edge": [("x", "y", float(weight)) for weight in range(3)]})
    assert len(caught.value.violations) == 3
    kb.update(add={"edge": [("a", "b", 2.5)]}, delete={"edge": [("a", "b", 1.5)]})
    kb.add_rules("edge(Y, X, W) :- edge(X, Y, W).")
    with pytest.raises(ConstraintError):
        kb.update(add={"edge": [("b", "a", 9.0)]})  # what is derived counts as well
    kb.remove_rules("@key edge(from, to).")
    kb.update(add={"edge": [("b", "a", 9.0)]})
    assert constraint not in kb.rules


def test_a_key_with_several_columns_besides() -> None:
    kb = KnowledgeBase("@predicate p(id: int, a, b).  @key p(id).  p(1, x, y).")
    for row in ((1, "x", "z"), (1, "z", "y")):
        with pytest.raises(ConstraintError):
            kb.update(add={"p": [row]})
    kb.update(add={"p": [(2, "x", "y")]})


def test_saving_and_the_journal(tmp_path: Path) -> None:
    with KnowledgeBase(PROGRAM) as kb:
        kb.save(tmp_path / "kb")
        wanted = kb.declarations, kb.rules
    with KnowledgeBase.open(tmp_path / "kb", journal=True) as kb:
        assert (kb.declarations, kb.rules) == wanted
        kb.add_rules("@type pair = [a: point, b: point]. @predicate pairs(p: pair).")
        kb.update(add={"pairs": [(((1, 2), (3, 4)),)]})
        declared = kb.declarations
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb.declarations == declared
        with pytest.raises(DataError, match="is no pair"):
            kb.update(add={"pairs": [((1, 2),)]})


def test_modules_declare_their_own() -> None:
    kb = KnowledgeBase("@module m. @predicate p(x: int). q(X) :- p(X).")
    assert kb.declarations == ["@predicate m:p(x: int)."]
