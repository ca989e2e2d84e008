"""Fact files that are malformed, damaged or hold something other than facts: refused, with file, line and reason."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats_util import XSD, read_text, rows_of, same, write
from tidelog import DataError
from tidelog.formats import columns_of, read_file, write_facts
from tidelog.formats.files import byte_files as files
from tidelog.formats.files import delimited


@pytest.mark.parametrize(
    ("name", "content", "line", "reason"),
    [
        ("p.csv", "a,b\nc,d,e\n", 2, "3 columns where the rows before have 2"),
        ("p.csv", 'a,b\n"c"\n', 2, "1 column where the rows before have 2"),
        ("p.csv", "a,b\n\n\nc,\n", 4, "an empty cell"),
        ("p.csv", 'a,"b"\n,"d"\n', 2, "an empty cell"),
        ("p.tsv", "a\t\n", 1, "an empty cell"),
        ("p.csv", "a\n\nb\n\n99999999999999999999\n", 5, "64 bits"),
        ("p.csv", '"a"\n' + "9" * 5000 + "\n", 2, "64 bits"),
        ("p.csv", b"a\nb\xff\n", 2, "0xff is not UTF-8"),
        ("p.csv", b'"a\n\n"\nb\xff\n', 4, "0xff is not UTF-8"),
        ("p.csv", b"a\n\nb\0c\n", 3, "NUL"),
        ("p.csv", "a,b\n".encode("utf-16"), 1, "UTF-8"),
        ("p.csv", 'a,"b\n\nc\n', 1, "never closed"),
        ("p.csv", 'x,y\na,"b" c\n', 2, "after a closing quote"),
        ("p.csv", "a\rb\n", 1, "carriage return"),
        ("p.csv", r"<http://x/\uD800>" + "\n", 1, "no character"),
        ("p.csv", 'a\n"x"^^<http://\\uD800>\n', 2, "no character"),
        ("p.csv", "()\n()\na\n", 3, "1 column where the rows before have 0"),
        ("p.jsonl", '["a"]\n\n["b", 1]\n', 3, "2 values where the rows before have 1"),
        ("p.jsonl", '["b", 1]\n["a"]\n', 2, "1 value where the rows before have 2"),
        ("p.jsonl", '["a"]\n{"a": 1}\n', 2, "a row is an array"),
        ("p.jsonl", '["a"]\n["a", null]\n', 2, "null"),
        ("p.jsonl", "[" * 60 + "]" * 60 + "\n", 1, "arrays nested more than 50 deep"),
        ("p.jsonl", '[{"url": "a"}]\n', 1, "no value"),
        ("p.jsonl", '[1]\n["a"\n', 2, "not JSON"),
        ("p.jsonl", "[1] [2]\n", 1, "not JSON"),
        ("p.jsonl", "[" * 100_000, 1, "nested too deeply"),
        ("p.jsonl", "[99999999999999999999]\n", 1, "64 bits"),
        ("p.jsonl", "[1.5]\n[-1e400]\n", 2, "-1e400 is too large"),
        ("p.csv", "1e300\ninf\n1e400\n", 3, "1e400 is too large"),
        ("p.csv", f'"5"^^<{XSD}integer>\n1e400\n"x"@en\n', 2, "1e400 is too large"),
        ("p.jsonl", "[" + "9" * 5000 + "]\n", 1, "does not fit in 64 bits"),
        ("p.jsonl", b'["a"]\n["\xff"]\n', 2, "not UTF-8"),
        ("p.jsonl", '["a"]\n["\\ud800"]\n', 2, "surrogate"),
        ("p.nt", "<http://a> <http://p> <http://b> .\n<http://a> <http://p> .\n", 2, "not RDF"),
        ("p.ttl", "@prefix ex: <http://e/> .\nex:a ex:b\n", 3, "not RDF"),
        ("p.dlog", "edge(a, b).\np(X) :- edge(X, X).\n", 2, "belong in the program"),
    ],
)
def test_malformed_rows_are_told_with_file_line_and_reason(
    tmp_path: Path, name: str, content: str | bytes, line: int, reason: str
) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(DataError) as told:
        list(read_file(path))
    assert str(path) in str(told.value)
    assert f"line {line}" in str(told.value)
    assert reason in str(told.value)


def test_facts_in_the_language_are_told_like_programs(tmp_path: Path) -> None:
    path = write(tmp_path, "p.dlog", "edge(a, b).\nedge(a, X).\n")
    with pytest.raises(DataError, match=r"p\.dlog:2:9: the fact has a variable"):
        list(read_file(path))


def test_errors_deep_in_a_large_file_name_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1000)
    path = write(tmp_path, "p.csv", "".join(f"{number},x\n" for number in range(2000)) + "1,2,3\n")
    with pytest.raises(DataError, match="line 2001: 3 columns"):
        list(read_file(path))


@pytest.mark.parametrize("content", [b"a" * 5000, b'"' + b"a\n" * 3000])
def test_a_row_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(files, "LONGEST_ROW_BYTES", 1000)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 500)
    monkeypatch.setattr(files, "BLOCK_BYTES", 500)
    for name in ("p.csv", "p.jsonl"):
        with pytest.raises(DataError, match=r"line 1: a row of more than|line 1: not JSON"):
            list(read_file(write(tmp_path, name, content)))


def test_a_huge_cell_is_read_whole(tmp_path: Path) -> None:
    cell = "x" * 9_000_000
    assert read_text(tmp_path, "p.csv", f"{cell},1\na,2\n") == [(cell, 1), ("a", 2)]
    assert read_text(tmp_path, "p.csv", f'"{cell}",1\na,2\n') == [(cell, 1), ("a", 2)]


def test_damaged_files_are_told(tmp_path: Path) -> None:
    zipped = gzip.compress(b"a,b\n" * 1000)
    good = write_facts(tmp_path, "p", [columns_of([(number,) for number in range(1000)], "p") or []], "parquet")
    for path, reason in (
        (write(tmp_path, "cut.csv.gz", zipped[:-10]), "gzip"),
        (write(tmp_path, "plain.csv.gz", b"a,b\n"), "gzip"),
        (write(tmp_path, "empty.csv.gz", b""), "empty.csv.gz: damaged gzip"),
        (write(tmp_path, "cut.parquet", good.read_bytes()[:-20]), "Parquet"),
        (write(tmp_path, "text.parquet", b"a,b\n"), "Parquet"),
        (write(tmp_path, "empty.parquet", b""), "Parquet"),
        (tmp_path / "missing.csv", "No such file"),
        (write(tmp_path, "p.xlsx", b""), "format is not known"),
        (write(tmp_path, "my data.csv", b"a\n"), "not the name of a predicate"),
    ):
        with pytest.raises(DataError, match=reason) as told:
            list(read_file(path))
        assert path.name in str(told.value)


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([1, None]), "row 2: a missing value"),
        (pa.array([None, None]), "row 1: a missing value"),
        (pa.array(["a", None]).dictionary_encode(), "row 2: a missing value"),
        (pa.array([2**63], pa.uint64()), "64 bits"),
        (pa.array([0, None], pa.timestamp("us")), "row 2"),
        (pa.array([1], pa.timestamp("ns")), "nanoseconds"),
        (pa.array([[1]]), "list"),
        (pa.array([b"a"]), "binary"),
    ],
)
def test_parquet_columns_that_are_no_facts(tmp_path: Path, column: pa.Array, reason: str) -> None:
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"x": column}), path)
    with pytest.raises(DataError, match=reason) as told:
        list(read_file(path))
    assert "column 'x'" in str(told.value)


def test_parquet_constants_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    for text in ("abc", '"', '"a', "99999999999999999999", '"\\q"', "", '"a"@', "<a b>"):
        field = pa.field("x", pa.string(), metadata={"tidelog:kind": "constant"})
        pq.write_table(pa.table([pa.array(['"fine"', text])], schema=pa.schema([field])), path)
        with pytest.raises(DataError, match="row 2"):
            list(read_file(path))


def test_native_parquet_types_keep_their_values(tmp_path: Path) -> None:
    table = pa.table(
        {
            "small": pa.array([1, -2], pa.int8()),
            "unsigned": pa.array([1, 2], pa.uint64()),
            "half": pa.array([0.5, 1.5], pa.float32()),
            "truth": pa.array([True, False]),
            "long": pa.array(["a", "b"], pa.large_string()),
            "repeated": pa.array(["x", "x"]).dictionary_encode(),
            "view": pa.array(["v", "w"], pa.string_view()),
        }
    )
    pq.write_table(table, tmp_path / "p.parquet")
    expected = [(1, 1, 0.5, True, "a", "x", "v"), (-2, 2, 1.5, False, "b", "x", "w")]
    assert same(rows_of(read_file(tmp_path / "p.parquet"))["p"], expected)
