"""Fact files: what each format means, and that every constant survives a round trip."""

from __future__ import annotations

import gzip
import io
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from formats_util import XSD, read_text, rows_of, same, write
from tidelog import IRI, DataError, Literal
from tidelog.formats import columns_of, read_facts, read_file, values_of, write_facts
from tidelog.formats.files import byte_files as files
from tidelog.formats.files import delimited
from tidelog.formats.files.delimited import DelimitedReader
from tidelog.formats.files.rendering import json_format
from tidelog.language.names import bracketed
from tidelog.values import Row, Value, canonical, identity

# ---- what a cell is


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("abc", "abc"),
        ("42", 42),
        ("-7", -7),
        ("0", 0),
        ("-0", 0),
        ("+5", "+5"),
        ("007", "007"),
        ("-007", "-007"),
        ("00", "00"),
        ("01.5", "01.5"),
        ("0.50", 0.5),
        ("+1.5", "+1.5"),
        ("01e5", "01e5"),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775807", 2**63 - 1),
        ("3.5", 3.5),
        ("1e-3", 0.001),
        ("1E5", 100000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("inf", math.inf),
        ("nan", math.nan),
        ("NaN", "NaN"),
        ("true", True),
        ("false", False),
        ("True", "True"),
        ('"42"', "42"),
        ('"true"', "true"),
        ('""', ""),
        ('"say ""hi"""', 'say "hi"'),
        ('"two\nlines"', "two\nlines"),
        ("<http://example.org/a>", IRI("http://example.org/a")),
        (r"<http://example.org/a\u002Cb>", IRI("http://example.org/a,b")),
        ('"<http://example.org/a>"', "<http://example.org/a>"),
        ("< 3", "< 3"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        (" 1", " 1"),
        ("12a", "12a"),
        ('5" pipe', '5" pipe'),
        ("-", "-"),
        ("nano", "nano"),
        ('"chat"@fr', Literal("chat", language="fr")),
        (f'"2020-01-01"^^<{XSD}date>', Literal("2020-01-01", datatype=f"{XSD}date")),
    ],
)
@pytest.mark.parametrize("neighbour", ["x", '"x"'])
@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t"), ("facts", "\t")])
def test_a_cell_is_typed_by_its_text(
    tmp_path: Path, cell: str, value: Value, neighbour: str, suffix: str, separator: str
) -> None:
    rows = read_text(tmp_path, f"p.{suffix}", f"{neighbour}{separator}{cell}\n")
    assert same(rows, [("x", value)])


def test_a_column_may_mix_kinds(tmp_path: Path) -> None:
    rows = read_text(tmp_path, "p.csv", "a\n1\n1.0\ntrue\n<http://x>\n")
    assert same(rows, [("a",), (1,), (1.0,), (True,), (IRI("http://x"),)])


@pytest.mark.parametrize("text", ["a,b\r\nc,d\r\n", "a,b\nc,d", "\na,b\n\n\nc,d\n\n", "\ufeffa,b\nc,d\n"])
def test_line_ends_blank_lines_and_byte_order_marks(tmp_path: Path, text: str) -> None:
    assert read_text(tmp_path, "p.csv", text) == [("a", "b"), ("c", "d")]
    assert read_text(tmp_path, "p.csv", text.replace("a,b", '"a",b')) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("text", ["from,to\na,b\n", '"from","to"\na,b\n', "\n,\na,b\n"])
def test_a_header_is_skipped_when_marked(tmp_path: Path, text: str) -> None:
    assert read_text(tmp_path, "p.csv", text, header=True) == [("a", "b")]


def test_empty_files_hold_no_facts(tmp_path: Path) -> None:
    for name in ("p.csv", "p.tsv", "p.jsonl", "p.nt", "p.ttl", "p.dlog"):
        assert read_text(tmp_path, name, "") == []


@pytest.mark.parametrize("block", [1, 7, 64])
def test_blocks_may_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", block)
    monkeypatch.setattr(files, "BLOCK_BYTES", block)
    text = 'a,1\n"b\nb",2\r\né,"3"\n\n"x"@en,4\n"d""d",true\ne,5'
    expected = [
        ("a", 1), ("b\nb", 2), ("é", "3"), (Literal("x", language="en"), 4), ('d"d', True), ("e", 5),
    ]  # fmt: skip
    assert same(read_text(tmp_path, "p.csv", text), expected)
    assert read_text(tmp_path, "q.jsonl", '["é", 1]\n\n["b", 2]') == [("é", 1), ("b", 2)]


def outcome(text: str | bytes, block: int, careful: bool) -> object:
    """What a reader makes of a text: rows of constants, or an error."""

    class Reader(DelimitedReader):
        def _split(self, block: bytes) -> Any:
            if careful:
                raise delimited._NotPlainError
            return super()._split(block)

    data = text.encode() if isinstance(text, str) else text
    rows: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "BLOCK_BYTES", block)
        try:
            for _, columns in Reader(io.BytesIO(data), ",", "p.csv"):
                cells = [values_of(column) for column in columns]
                rows += [[identity(value) for value in row] for row in zip(*cells, strict=True)] if cells else [[]]
        except DataError as error:
            return str(error)
    return rows


pieces = [b"a", "é".encode(), b"1", b"-", b".", b"<", b">", b"()", b",", b'"', b"\n", b"\r", b"\0", b"\xff", b"9" * 20]


@settings(max_examples=150, deadline=None)
@example(b'\n1",\n1', 3)
@example(b'"a""\nb"\n', 3)
@given(st.lists(st.sampled_from(pieces), max_size=24).map(b"".join), st.integers(1, 30))
def test_both_ways_of_reading_agree(data: bytes, block: int) -> None:
    """They agree on the contents of a file and on its first mistake, wherever blocks end."""
    assert outcome(data, block, careful=False) == outcome(data, block, careful=True)
    assert outcome(data, block, careful=False) == outcome(data, 1000, careful=True)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from(["a", "1", '"a"', '"1"', '"a,b"', '"a""b"', '"\n"', '""', "<b>", "é"]),
            min_size=2,
            max_size=2,
        ),
        max_size=8,
    ),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.integers(1, 60),
)
def test_both_ways_of_reading_agree_on_good_files(rows: list[list[str]], line_end: str, block: int) -> None:
    text = "".join(",".join(row) + line_end for row in rows)
    plain = outcome(text, block, careful=False)
    assert isinstance(plain, list)
    assert len(plain) == len(rows)
    assert plain == outcome(text, block, careful=True)


# ---- round trips


def test_json_lines_hold_json_whatever_the_floats() -> None:
    column = pa.array([math.inf, -math.inf, math.nan, 1.5])
    for line in b"".join(json_format().lines([[column]])).splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8) | st.sampled_from(
    [
        "",
        "1",
        "-7",
        "1.5",
        "inf",
        "nan",
        "true",
        "<http://x>",
        "()",
        'a"b',
        "a,b",
        "a\tb",
        "a\nb",
        "a\r",
        "\\",
        "é",
        "\x85",
    ]
)


iris = st.builds(IRI, texts) | st.sampled_from([IRI("http://x/a,b"), IRI("_:b1"), IRI("a b<>")])


literals = st.builds(Literal, texts, language=st.sampled_from(["en", "pt-br"])) | st.builds(
    Literal, texts, datatype=st.sampled_from(["http://x/d,t", f"{XSD}date"])
)


integers = st.integers(-(2**63), 2**63 - 1)


scalars: dict[str, st.SearchStrategy[Value]] = {
    "str": texts, "int": integers, "float": st.floats(), "bool": st.booleans(), "iri": iris, "literal": literals,
}  # fmt: skip


columns = st.sampled_from(sorted(scalars)).map(scalars.__getitem__) | st.just(st.one_of(*scalars.values()))


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    kinds = draw(st.lists(columns, min_size=1, max_size=3))
    return draw(st.lists(st.tuples(*kinds), min_size=1, max_size=6))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "parquet", "dlog"])
@given(rows=tables(), cut=st.integers(0, 6))
def test_every_table_survives_a_round_trip(tmp_path: Path, format: str, rows: list[Row], cut: int) -> None:
    rows = [tuple(canonical(value) for value in row) for row in rows]
    batches = [columns_of(piece, "p") for piece in (rows[:cut], rows[cut:]) if piece]
    path = write_facts(tmp_path, "p", [batch for batch in batches if batch is not None], format)
    assert same(rows_of(read_file(path))["p"], rows)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.builds(IRI, st.just("http://x/") | iris.map(str)), st.one_of(*scalars.values())), min_size=1
    ),
    predicate=iris.map(lambda iri: "http://p/" + iri.value),
)
def test_triples_survive_a_round_trip(tmp_path: Path, rows: list[Row], predicate: str) -> None:
    def in_rdf(value: Value) -> bool:
        return not (isinstance(value, IRI) and value.value.startswith("_:"))

    rows = [tuple(canonical(value) for value in row) for row in rows if all(map(in_rdf, row))]
    columns = columns_of(rows, "p")
    if columns is None:
        return
    name = bracketed(predicate)
    path = write_facts(tmp_path, name, [columns], "nt")
    path = path.rename(tmp_path / "facts.nt")
    assert same(rows_of(read_file(path))[name], rows)


def test_the_fact_of_arity_0(tmp_path: Path) -> None:
    columns = columns_of([()], "rain")
    assert columns == []
    for format in ("csv", "tsv", "jsonl", "parquet", "dlog"):
        path = write_facts(tmp_path, "rain", [columns], format)
        assert rows_of(read_file(path)) == {"rain": [()]}
        assert rows_of(read_file(path, header=True)) == {"rain": [()]}


def test_a_large_column_that_turns_mixed_late(tmp_path: Path) -> None:
    rows: list[Row] = [(number, f"n{number}") for number in range(300_000)]
    rows.append(("last", 1.5))
    columns = columns_of(rows, "p")
    assert columns is not None
    for format in ("csv", "parquet", "jsonl"):
        assert same(rows_of(read_file(write_facts(tmp_path, "p", [columns], format)))["p"], rows)


def test_part_files_and_gzip_are_read(tmp_path: Path) -> None:
    write(tmp_path, "edge.csv/part-0.csv", "a,b\n")
    write(tmp_path, "edge.csv/part-1.csv.gz", gzip.compress(b"b,c\n"))
    write(tmp_path, "edge.csv/_SUCCESS", "")
    write(tmp_path, "edge.jsonl.gz", gzip.compress(b'["c", "d"]\n'))
    write(tmp_path, "t.ttl.gz", gzip.compress(b"<http://a> a <http://C> ."))
    seen: list[int] = []
    facts = rows_of(read_facts(tmp_path, on_bytes=seen.append))
    assert facts == {"edge": [("a", "b"), ("b", "c"), ("c", "d")], "<http://C>": [(IRI("http://a"),)]}
    assert sum(seen) == sum(path.stat().st_size for path in tmp_path.rglob("*.*") if path.is_file())


# ---- RDF


def test_triples_become_facts(tmp_path: Path) -> None:
    text = """
        @prefix ex: <http://e/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
        ex:a a ex:Person ; ex:age 30, "7"^^xsd:unsignedByte, "x"^^xsd:int ; ex:h 1.5, 2e0, "3"^^xsd:float ;
             ex:ok true ; ex:name "Ann", "Anna"@EN, "d"^^ex:t .
        _:b ex:knows [ ex:age 1 ], _:b .
    """
    facts = rows_of(read_file(write(tmp_path, "f.ttl", text)))
    a = IRI("http://e/a")
    assert facts["<http://e/Person>"] == [(a,)]
    blank, anonymous = facts["<http://e/age>"][-1][0], facts["<http://e/knows>"]
    assert same(facts["<http://e/age>"][:3], [(a, 30), (a, 7), (a, Literal("x", f"{XSD}int"))])
    assert same(facts["<http://e/h>"], [(a, 1.5), (a, 2.0), (a, 3.0)])
    assert same(facts["<http://e/ok>"], [(a, True)])
    assert facts["<http://e/name>"] == [
        (a, "Ann"), (a, Literal("Anna", language="en")), (a, Literal("d", "http://e/t")),
    ]  # fmt: skip
    assert {row[1] for row in anonymous} == {blank, anonymous[0][0]}
    assert str(blank).endswith("-1")
    assert str(anonymous[0][0]).endswith(".b")


def test_blank_nodes_are_the_same_every_time_and_differ_between_files(tmp_path: Path) -> None:
    text = "_:b <http://p> [] .\n"
    first, other = write(tmp_path, "1.ttl", text), write(tmp_path, "2.ttl", text)
    assert rows_of(read_file(first)) == rows_of(read_file(first))
    rows = rows_of(read_file(first))["<http://p>"] + rows_of(read_file(other))["<http://p>"]
    assert len({value for row in rows for value in row}) == 4


def test_what_is_no_triple_is_not_written_as_one(tmp_path: Path) -> None:
    for predicate, row in (("edge", (IRI("a"), 1)), ("<http://p>", ("a", 1)), ("<http://p>", (IRI("a"), 1, 2))):
        columns = columns_of([row], "p")
        assert columns is not None
        with pytest.raises(DataError, match="N-Triples"):
            write_facts(tmp_path, predicate, [columns], "nt")
    assert list(tmp_path.iterdir()) == []


def test_files_are_read_quietly(tmp_path: Path) -> None:
    write(tmp_path, "p.csv", "1\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(rows_of(read_facts(tmp_path))["p"], [(1,)])


def test_strings_that_look_like_numbers_are_quoted_on_the_way_out(tmp_path: Path) -> None:
    columns = columns_of([("1", 1, True, 0.1, IRI("http://x/a,b"), "plain text", "a,b")], "p")
    assert columns is not None
    path = write_facts(tmp_path, "p", [columns])
    assert path.read_text() == '"1",1,true,0.1,<http://x/a\\u002Cb>,plain text,"a,b"\n'


def test_numpy_sees_columns_without_python_values(tmp_path: Path) -> None:
    (batch,) = read_file(write(tmp_path, "p.csv", "1,a\n2,b\n"))
    assert batch.columns[0].type == pa.int64()
    assert batch.columns[1].type == pa.string()
    assert np.array_equal(batch.columns[0].to_numpy(), [1, 2])
    assert (batch.rows, batch.first_line, batch.source) == (2, 1, str(tmp_path / "p.csv"))
