"""Stores that an earlier version saved, with Parquet files: they are read, and what is wrong with them is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit import fingerprint
from old_snapshots import make_old
from storage_util import file_of, rewrite, save_all_kinds
from tidelog import KnowledgeBase, StorageError


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_all_kinds(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.fixture
def old_home(saved: Path) -> Path:
    """The same as an earlier version saved it."""
    home = shutil.copytree(saved, saved.with_name("old"))
    make_old(home)
    return home


def change_table(home: Path, file: str, change: Callable[[pa.Table], pa.Table]) -> None:
    path = home / "snapshot-1" / file
    table = change(pq.read_table(path))
    pq.write_table(table, path)
    rewrite(home, lambda _: None)


def with_values(column: str, *values: Any, kind: pa.DataType | None = None) -> Callable[[pa.Table], pa.Table]:
    """Give the first rows of a column other values."""

    def change(table: pa.Table) -> pa.Table:
        changed = [*values, *table[column].to_pylist()[len(values) :]]
        place = table.column_names.index(column)
        return table.set_column(place, column, pa.array(changed, kind or table[column].type))

    return change


def not_utf8(table: pa.Table) -> pa.Table:
    texts = pa.array([text and b"\xff\xfe" for text in table["text"].to_pylist()], pa.large_binary())
    return table.set_column(2, "text", texts.view(pa.large_string()))


def literal_without_parts(table: pa.Table) -> pa.Table:
    columns = (table[column].to_pylist() for column in ("kind", "text"))
    texts = ["no parts" if kind == 5 else text for kind, text in zip(*columns, strict=True)]
    return table.set_column(2, "text", pa.array(texts, pa.large_string()))


def float_bits(bits: int) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        kinds, numbers = (table[column].to_pylist() for column in ("kind", "number"))
        changed = [bits if kind == 2 else number for kind, number in zip(kinds, numbers, strict=True)]
        return table.set_column(1, "number", pa.array(changed, pa.int64()))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_values("kind", 6), "unknown kind"),
        (with_values("kind", 255), "unknown kind"),
        (with_values("kind", None), "no kind"),
        (with_values("kind", 1), "row 0"),
        (with_values("number", 5), "row 0"),
        (with_values("text", None), "row 0"),
        (with_values("text", "b"), "a constant twice"),
        (with_values("kind", 0, kind=pa.int64()), "columns"),
        (lambda table: table.drop_columns(["number"]), "columns"),
        (lambda table: table.slice(0, 2), "dictionary does not have"),
        (lambda table: table.append_column("kind", table["kind"]), "columns"),
        (float_bits(-(2**63)), "a zero or NaN other than the canonical one"),
        (float_bits(-1), "a zero or NaN other than the canonical one"),
        (not_utf8, "UTF8"),
        (literal_without_parts, "no datatype"),
    ],
    ids=range(15),
)
def test_a_lie_in_an_old_dictionary(old_home: Path, change: Callable[[pa.Table], pa.Table], message: str) -> None:
    change_table(old_home, "terms.parquet", change)
    with pytest.raises(StorageError, match=message) as caught:
        KnowledgeBase.open(old_home)
    assert str(old_home) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_values("c0", 0), "dictionary does not have"),
        (with_values("c0", -1), "dictionary does not have"),
        (with_values("c1", 10**6), "dictionary does not have"),
        (with_values("c0", None), "empty cell"),
        (with_values("explicit", None), "empty cell"),
        (with_values("c0", 1, kind=pa.int64()), "columns"),
        (lambda table: table.drop_columns(["c1"]), "columns"),
        (lambda table: table.append_column("c2", table["c0"]), "columns"),
        (lambda table: table.append_column("recursive", table["c0"]), "columns"),
        (lambda table: pa.concat_tables([table, table]), "a fact twice"),
    ],
    ids=range(10),
)
def test_a_lie_in_an_old_relation(old_home: Path, change: Callable[[pa.Table], pa.Table], message: str) -> None:
    change_table(old_home, file_of(old_home, "edge"), change)
    with pytest.raises(StorageError, match=message):
        KnowledgeBase.open(old_home)


def test_columns_whose_names_are_no_text(old_home: Path) -> None:
    path = old_home / "snapshot-1" / file_of(old_home, "edge")
    path.write_bytes(path.read_bytes().replace(b"c0", b"\xc50"))
    rewrite(old_home, lambda _: None)
    with pytest.raises(StorageError, match=path.name):
        KnowledgeBase.open(old_home)


def test_what_an_earlier_version_saved_is_read_and_saved_anew(saved: Path, old_home: Path) -> None:
    assert fingerprint(KnowledgeBase.open(old_home)) == fingerprint(KnowledgeBase.open(saved))
    with KnowledgeBase.open(old_home, journal=True) as kb:
        kb.update(add={"edge": [("d", "e")]})
        kb.save(old_home)
    assert {path.suffix for path in (old_home / "snapshot-2").iterdir()} == {".json", ".arrays"}
    assert not (old_home / "snapshot-1").exists()
    assert fingerprint(KnowledgeBase.open(old_home)) == fingerprint(kb)
