"""Folders of fact files: names of predicates and files, links, special files, and writing that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats_util import rows_of, same, write
from tidelog import DataError, Literal
from tidelog.formats import columns_of, read_facts, write_facts
from tidelog.formats.folder import file_of_predicate, predicate_of_file


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
