"""Folders of fact files: names of predicates and files, links, special files, and writing that fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats_util import rows_of, same, write
from tidelog import DataError, Literal
from tidelog.formats import columns_of, read_facts, total_bytes, write_facts, write_folder
from tidelog.formats.files.folder import file_of_predicate, predicate_of_file


@given(st.text(min_size=1, max_size=20).filter(lambda name: name.isprintable()))
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    file = file_of_predicate(name, "csv")
    assert os.sep not in file
    assert not file.startswith(".")
    assert Path(file).name == file


@pytest.mark.parametrize("name", ["edge", "<http://example.org/a/../b?c#d>", "ex:Person", "größe"])
def test_names_come_back_from_files(name: str) -> None:
    assert predicate_of_file(Path(file_of_predicate(name, "csv"))) == name
    assert predicate_of_file(Path(file_of_predicate(name, "csv") + ".gz")) == name


@pytest.mark.parametrize("predicate", ["../../evil", "/etc/evil", "..", "<file:///../x>"])
def test_output_stays_in_its_folder(tmp_path: Path, predicate: str) -> None:
    columns = columns_of([("a",)], "p")
    assert columns is not None
    path = write_facts(tmp_path / "out", predicate, [columns])
    assert path.resolve().parent == (tmp_path / "out").resolve()
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    secret = write(tmp_path, "secret.txt", "a,b\n")
    folder = tmp_path / "facts"
    folder.mkdir()
    (folder / "edge.csv").symlink_to(secret)
    with pytest.raises(DataError, match="leads out of the folder"):
        list(read_facts(folder))


@pytest.mark.parametrize(("target", "reason"), [("edge.csv", "symbolic links"), ("gone.csv", "No such file")])
@pytest.mark.parametrize("inner", ["", "edge.csv"])
def test_links_that_lead_to_no_file_are_told(tmp_path: Path, target: str, reason: str, inner: str) -> None:
    (tmp_path / inner).mkdir(exist_ok=True)
    (tmp_path / inner / "edge.csv").symlink_to(target)
    message = f"{tmp_path / inner / 'edge.csv'}: .*{reason}"
    with pytest.raises(DataError, match=message):
        list(read_facts(tmp_path))
    with pytest.raises(DataError, match=message):
        total_bytes(tmp_path)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "jsonl", "nt", "dlog", "parquet"])
def test_special_files_are_refused(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(tmp_path / f"edge.{suffix}")
    with pytest.raises(DataError, match="not a regular file"):
        list(read_facts(tmp_path))


def test_strange_files_in_a_folder_are_warned_about(tmp_path: Path) -> None:
    write(tmp_path, "edge.csv", "a,b\n")
    write(tmp_path, "edge.txt", "a,b\n")
    write(tmp_path, ".hidden", "a,b\n")
    with pytest.warns(UserWarning, match=r"edge\.txt: skipped") as warned:
        assert rows_of(read_facts(tmp_path)) == {"edge": [("a", "b")]}
    assert len(warned) == 1


def test_a_folder_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        list(read_facts(tmp_path / "none"))
    with pytest.raises(DataError, match="give the folder"):
        list(read_facts(write(tmp_path, "edge.csv", "a\n")))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    columns = columns_of([("a",)], "p")
    bad = columns_of([("b\0",)], "p")
    assert columns is not None
    assert bad is not None
    path = write_facts(tmp_path, "p", [columns])
    worse = columns_of([(Literal("b\0", "http://example.org/text"),)], "p")
    assert worse is not None
    for one in (bad, worse):
        with pytest.raises(DataError, match="NUL"):
            write_facts(tmp_path, "p", [one])
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.csv"]
    assert path.read_text() == "a\n"
    with pytest.raises(DataError, match="no format"):
        write_facts(tmp_path, "p", [columns], "xml")


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet"])
def test_a_string_that_begins_like_a_byte_order_mark_stays_whole(form: str, tmp_path: Path) -> None:
    rows = [("\ufeff",), ("\ufeffx",), ("a\ufeff",)]
    columns = columns_of(rows, "p")
    assert columns is not None
    write_facts(tmp_path, "p", [columns], form)
    assert same(rows_of(read_facts(tmp_path))["p"], rows)


# ---- whole folders


def columns(*rows: tuple[object, ...]) -> list[Any]:
    found = columns_of(list(rows), "p")
    assert found is not None
    return [found]


def test_zipped_files_come_back_and_are_the_same_every_time(tmp_path: Path) -> None:
    for format in ("csv.gz", "tsv.gz", "jsonl.gz", "dlog.gz"):
        [path] = write_folder(tmp_path / format, [("p", columns(("007", 7), ("x", 1.5)))], format)
        first = path.read_bytes()
        assert path.name == f"p.{format}"
        assert first.startswith(b"\x1f\x8b")
        assert same(rows_of(read_facts(tmp_path / format))["p"], [("007", 7), ("x", 1.5)])
        write_folder(tmp_path / format, [("p", columns(("007", 7), ("x", 1.5)))], format)
        assert path.read_bytes() == first


def test_names_that_differ_in_case_alone_get_files_of_their_own(tmp_path: Path) -> None:
    paths = write_folder(tmp_path, [("Edge", columns((1,))), ("edge", columns((2,))), ("EDGE", columns((3,)))])
    assert len({path.name.casefold() for path in paths}) == 3
    assert rows_of(read_facts(tmp_path)) == {"Edge": [(1,)], "edge": [(2,)], "EDGE": [(3,)]}


def test_names_too_long_for_a_file_are_kept_where_facts_name_their_predicates(tmp_path: Path) -> None:
    names = [f"<http://example.org/{letter * 300}>" for letter in "ab"]
    write_folder(tmp_path, [(name, columns(("x",))) for name in names], "dlog")
    assert sorted(batch.predicate for batch in read_facts(tmp_path)) == names
    with pytest.raises(DataError, match="too long for the name of a file; use the format dlog"):
        write_folder(tmp_path, [(names[0], columns(("x",)))], "csv")


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_folder(tmp_path / "out", [("<http://e.org/p>", columns((Literal("x", "d"),)))], "csv")
    before = sorted(entry.name for entry in (tmp_path / "out").iterdir())
    for format in ("nt", "no such"):
        with pytest.raises(DataError):
            write_folder(tmp_path / "out", [("<http://e.org/q>", []), ("edge", columns(("a",)))], format)
        assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == before
