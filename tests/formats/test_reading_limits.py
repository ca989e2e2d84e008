"""Limits hold while facts are read: files that unpack to far more than their size, endless lines, endless rows."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog import DataError, KnowledgeBase, LimitError
from tidelog.cli.command_line import main
from tidelog.facts import encoding
from tidelog.facts.encoding import LoadedRows, distinct_rows, in_time
from tidelog.formats import FactBatch, read_facts, read_file
from tidelog.formats.files import byte_files as files
from tidelog.formats.files import delimited, dlog, parquet, rdf, updates
from tidelog.formats.files.byte_files import MOST_COLUMNS

LINES: dict[str, Callable[[int], str]] = {
    "csv": "{},b\n".format,
    "tsv": "{}\tb\n".format,
    "facts": "{}\tb\n".format,
    "jsonl": '[{}, "b"]\n'.format,
    "nt": "<a:{}> <a:edge> <a:b> .\n".format,
    "ttl": "<a:{}> <a:edge> <a:b> .\n".format,
    "dlog": "edge({}, b).\n".format,
}
FORMS = [f"{name}{zipped}" for name in LINES for zipped in ("", ".gz")]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files in blocks of a few hundred rows."""
    for module, name in ((delimited, "BLOCK_BYTES"), (files, "SMALL_BLOCK_BYTES"), (dlog, "SMALL_BLOCK_BYTES")):
        monkeypatch.setattr(module, name, 4096)
    monkeypatch.setattr(rdf, "_TRIPLES_AT_ONCE", 300)
    monkeypatch.setattr(parquet, "BATCH_ROWS", 300)


def write(folder: Path, form: str, numbers: Any) -> Path:
    path = folder / f"edge.{form}"
    if form == "parquet":
        pq.write_table(pa.table({"a": pa.array(numbers), "b": ["b"] * len(numbers)}), path)
        return path
    line = LINES[form.removesuffix(".gz")]
    data = "".join(map(line, numbers)).encode()
    path.write_bytes(gzip.compress(data) if form.endswith(".gz") else data)
    return path


def counted(batches: Iterator[FactBatch], seen: list[int]) -> Iterator[FactBatch]:
    for batch in batches:
        seen.append(batch.rows)
        yield batch


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("form", [*FORMS, "parquet"])
def test_reading_ends_where_the_limit_does(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form, range(20_000))
    kb = KnowledgeBase(max_facts=1000)
    seen: list[int] = []
    with pytest.raises(LimitError, match=r"more than 1000 facts: .*edge\..* from line .* allow more, or load less"):
        kb.load(counted(read_file(path), seen))
    assert sum(seen) < 4000, "most of the file is never read"
    assert len(kb) == 0


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("form", [*FORMS, "parquet"])
def test_rows_that_repeat_are_one_fact(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form, [number % 90 for number in range(20_000)])
    kb = KnowledgeBase(max_facts=90)
    kb.load(read_file(path))
    assert len(kb) == 90


def test_exactly_as_many_as_are_allowed(tmp_path: Path) -> None:
    path = write(tmp_path, "csv", range(50))
    for limit in (50, 49):
        kb = KnowledgeBase(max_facts=limit)
        if limit == 50:
            kb.load(read_file(path))
            kb.load(read_file(path))  # facts that are already there do not count
            assert len(kb) == 50
        else:
            with pytest.raises(LimitError):
                kb.load(read_file(path))
            assert len(kb) == 0


def test_facts_that_are_there_already_count_too(tmp_path: Path) -> None:
    kb = KnowledgeBase("other(X) :- edge(X, _), X < 5.", max_facts=100)
    kb.update(add={"node": [(number,) for number in range(60)], "edge": [(0, "b"), (1, "b")]})
    with pytest.raises(LimitError):
        kb.load(read_file(write(tmp_path, "csv", range(50))))
    assert len(kb) == 64
    kb.load(read_file(write(tmp_path, "csv", range(5))))
    assert len(kb) == 70


@pytest.mark.parametrize("arity", [0, 1, 2, 3, 5])
def test_rows_are_told_apart(arity: int) -> None:
    rows = np.random.default_rng(arity).integers(-2, 3, (500, arity), np.int32)
    found = distinct_rows(rows)
    assert sorted(map(tuple, found.tolist())) == sorted(set(map(tuple, rows.tolist())))


def test_what_is_held_follows_the_limit() -> None:
    """However many rows come, no more are held than the limit, as many again uncounted, and the last batch."""
    kb = KnowledgeBase(max_facts=1000)
    rows = LoadedRows(kb._engine)
    for number in range(300):
        rows.take(f"p{number % 3}", np.random.default_rng(number).integers(0, 300, (700, 1), np.int32), "here")
        assert sum(len(part) for parts in rows._held.values() for part in parts) <= 2 * 1000 + 700
    assert sum(map(len, rows.all().values())) <= 2 * 1000 + 700


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by a second each time it is read."""
    monkeypatch.setattr(encoding, "working_time", count().__next__)


@pytest.mark.usefixtures("slow_clock")
def test_reading_takes_no_longer_than_it_may() -> None:
    column = pa.array([1])
    kb = KnowledgeBase(timeout=10)
    seen: list[int] = []
    endless = (FactBatch("p", [column], "somewhere", line) for line in count(1))
    with pytest.raises(LimitError, match="reading the facts took more than 10 s"):
        kb.load(counted(endless, seen))
    assert 5 < len(seen) < 20
    assert len(kb) == 0


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.parametrize("form", ["csv.gz", "jsonl.gz", "dlog.gz", "nt.gz"])
def test_files_with_much_to_read_and_no_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / f"edge.{form}").write_bytes(gzip.compress(b"\n" * (40 << 20), 1))
    (tmp_path / "p.dlog").write_text("p(a).")
    given = ["run", str(tmp_path / "p.dlog"), "--facts", str(tmp_path / "facts"), "--timeout", "3"]
    assert main(given) == 2
    assert "reading the facts took more than 3.0 s" in capsys.readouterr().err


EMPTY = {
    "csv.gz": b"\n",
    "jsonl.gz": b"\n",
    "nt.gz": b"#\n",
    "ttl.gz": b"@prefix a: <b:> .\n",
    "dlog.gz": b"@prefix a: <b:> .\n",
}


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.parametrize("form", EMPTY)
def test_a_program_that_loads_such_files_waits_no_longer(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"edge.{form}"
    path.write_bytes(gzip.compress(EMPTY[form] * ((40 << 20) // len(EMPTY[form])), 1))
    kb = KnowledgeBase(timeout=3)
    with pytest.raises(LimitError, match="reading the facts took more than 3 s"):
        kb.load(read_file(path))


@pytest.mark.usefixtures("slow_clock")
def test_without_a_limit_time_does_not_matter() -> None:
    assert list(in_time(range(100), None)) == list(range(100))


# ── rows without an end ──────────────────────────────────────────────────────────────────────────────────────────────


class Endless(io.RawIOBase):
    """A file of one line that never ends; reading too much of it fails."""

    def __init__(self, begin: bytes, piece: bytes) -> None:
        self._begin, self._piece, self._read = begin, piece, 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert size >= 0, "the whole of a file is read at once"
        data = self._begin or self._piece * (1 + size // len(self._piece))
        self._begin = b""
        self._read += len(data)
        assert self._read < 40 << 20, "far more is read than a row may have"
        return data[:size] if len(data) > size else data


ENDLESS = {
    "csv": b"a,b",
    "tsv": b"a",
    "facts": b'"',
    "jsonl": b'["',
    "nt": b"<a:",
    "ttl": b'<a:b> <a:c> """',
    "dlog": b'p("',
}


@pytest.mark.parametrize("form", ENDLESS)
def test_a_line_without_an_end_is_refused(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (files, rdf):
        monkeypatch.setattr(module, "LONGEST_ROW_BYTES", 1 << 20)
    with pytest.raises(DataError, match="MiB"):
        list(read_stream(Endless(ENDLESS[form], b"a" * 1000), form))


@pytest.mark.parametrize("form", ["nt", "ttl", "dlog"])
def test_lines_without_a_statement_are_refused(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments and blank lines have no end either."""
    for module in (files, rdf):
        monkeypatch.setattr(module, "LONGEST_ROW_BYTES", 1 << 20)
    with pytest.raises(DataError, match="MiB"):
        list(read_stream(Endless(b"", b"# a\n"), form))


def read_stream(stream: Any, form: str) -> Iterator[object]:
    if form in ("nt", "ttl"):
        return rdf.read_rdf(stream, Path(f"p.{form}"), turtle=form == "ttl")
    if form == "dlog":
        return dlog.read_dlog(stream, "p.dlog")
    from tidelog.formats.files.folder import _rows

    return iter(_rows(stream, f".{form}", f"p.{form}", header=False))


def test_standard_input_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_ROW_BYTES", 1 << 20)
    monkeypatch.setattr(updates, "_arrived", lambda: b"a" * (1 << 16))
    with pytest.raises(DataError, match="a row of more than 1 MiB"):
        list(updates.open_updates("-"))


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("p.csv", "1," * MOST_COLUMNS + "1"),
        ("p.csv", '"1",' * MOST_COLUMNS + "1"),
        ("p.csv", '"1"@en,' * MOST_COLUMNS + "1"),
        ("p.tsv", "1\t" * MOST_COLUMNS + "1"),
        ("p.jsonl", f"[{'1,' * MOST_COLUMNS}1]"),
    ],
)
def test_a_row_has_a_largest_number_of_cells(tmp_path: Path, name: str, row: str) -> None:
    (tmp_path / name).write_text(f"{row}\n")
    with pytest.raises(DataError, match=r"line 1: a row of more than 4,096 cells"):
        list(read_facts(tmp_path))


def test_lines_come_whole_whatever_the_blocks() -> None:
    data = b"a\n\nbc\n" + b"d" * 50 + b"\n\xc3\xa9"
    for size in range(1, 20):
        blocks = (data[start : start + size] for start in range(0, len(data), size))
        assert [line for lines in files.split_lines(blocks, "s") for line in lines] == data.split(b"\n")


# ── strings that are short in a file and long in memory ──────────────────────────────────────────────────────────────


def test_long_strings_of_a_dictionary_are_not_spelt_out(tmp_path: Path) -> None:
    """A hundred thousand rows with a string of one megabyte: a hundred gigabytes, in a file of a few kilobytes."""
    rows = 100_000
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["b" * (1 << 20)]))
    pq.write_table(pa.table({"a": column}), tmp_path / "p.parquet", store_schema=False)
    kb = KnowledgeBase(max_facts=10)
    kb.load(read_facts(tmp_path))
    assert len(kb) == 1


def test_long_rows_come_in_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 1 << 20)
    texts = [f"{number:06}" * 2000 for number in range(500)]
    pq.write_table(pa.table({"a": texts}), tmp_path / "p.parquet", use_dictionary=False)
    batches = list(read_facts(tmp_path))
    assert sum(batch.rows for batch in batches) == 500
    assert max(batch.columns[0].nbytes for batch in batches) < 2 << 20


# ── facts in the language, piece by piece ────────────────────────────────────────────────────────────────────────────


def rows_of(folder: Path) -> dict[str, list[Any]]:
    kb = KnowledgeBase()
    kb.load(read_facts(folder))
    return {name: sorted(kb.facts(name)) for name in kb.predicates}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 61, 1000])
def test_pieces_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(dlog, "SMALL_BLOCK_BYTES", size)
    text = """\
% a comment that ends with a dot.
@prefix ex: <http://e/> .\r
p(1.5, "a.b"). p(2, % inside.
  b).\r
q(ex:a,
  "%.").
q(<http://e/.>, 'x.'). # and one more.
r.
"""
    (tmp_path / "f.dlog").write_text(text, newline="")
    found = rows_of(tmp_path)
    monkeypatch.setattr(dlog, "SMALL_BLOCK_BYTES", 1 << 20)
    assert found == rows_of(tmp_path)
    assert {name: len(rows) for name, rows in found.items()} == {"p": 2, "q": 2, "r": 1}


@pytest.mark.parametrize("size", [5, 30, 1000])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("p(a).\np(b).\np(c.\n", r"f\.dlog:3:4: "),
        ("p(a).\n\np(b) :- q(b).\n", r"f\.dlog, line 3: a rule or query"),
        ("p(a).\n\n@predicate q/2.\n", r"f\.dlog, line 3: a declaration; those belong in the program"),
        ("p(a).\n" * 9 + "p(\ud800).".replace("\ud800", "'"), r"f\.dlog:10:"),
        ("p(a).\nq(ex:b).\n@prefix ex: <http://e/> .\n", r"prefix `ex:` is declared after its use|is used before"),
        ("p(a).\np(b)", r"f\.dlog:2:5: expected"),
    ],
)
def test_mistakes_have_their_line_whatever_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, text: str, reason: str
) -> None:
    monkeypatch.setattr(dlog, "SMALL_BLOCK_BYTES", size)
    (tmp_path / "f.dlog").write_text(text)
    with pytest.raises(DataError, match=reason):
        rows_of(tmp_path)


def test_a_byte_that_is_no_text_has_its_line_in_a_later_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dlog, "SMALL_BLOCK_BYTES", 8)
    (tmp_path / "f.dlog").write_bytes(b"p(a).\n" * 5 + b'p("\xff").\n')
    with pytest.raises(DataError, match=r"f\.dlog, line 6: byte 0xff"):
        rows_of(tmp_path)


def test_columns_of_one_name_are_two_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table([["a"], ["b" * 100_000]], names=["c", "c"]), tmp_path / "p.parquet")
    assert rows_of(tmp_path) == {"p": [("a", "b" * 100_000)]}
