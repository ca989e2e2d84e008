"""Text files as facts, without a session: cells are typed as everywhere, and rows that do not fit have a reason."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tidelog import DataError
from tidelog.formats.batch import values_of
from tidelog.spark.data.fact_records import Rejected
from tidelog.spark.data.fact_sources import Source
from tidelog.spark.data.text_sources import TextSource, read_text


def records(path: Path, **options: object) -> tuple[list[tuple[object, ...]], list[str]]:
    """The facts of a file, and the reasons of the rows that are none."""
    rows: list[tuple[object, ...]] = []
    reasons: list[str] = []
    for found in read_text(str(path), TextSource(str(path), "p", **options)):  # type: ignore[arg-type]
        if isinstance(found, Rejected):
            reasons += found.reasons
        else:
            rows += zip(*map(values_of, found.batch.columns), strict=True)
    return rows, reasons


def test_cells_are_typed_as_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text('01234,1234,"5"\n+49,1.50,5\n')
    assert records(path) == ([("01234", 1234, "5"), ("+49", 1.5, 5)], [])
    assert records(path, types=("int", "float", "auto")) == ([(1234, 1234.0, "5"), (49, 1.5, 5)], [])
    assert records(path, types=("string", "string"), columns=(2, 0)) == ([("5", "01234"), ("5", "+49")], [])


def test_rows_that_do_not_fit_have_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("who,n\na,1\nb,x\nc,3\n")
    rows, reasons = records(path, header=True, types=("string", "int"))
    assert rows == [("a", 1), ("c", 3)]
    assert len(reasons) == 1
    assert "p.csv, line 3: column 2: 'x' is no int" in reasons[0]
    assert "column 7 is wanted" in records(path, columns=(0, 7))[1][0]
    assert "no column is named nobody; there are who, n" in records(path, header=True, columns=("nobody",))[1][0]


def test_sources_are_checked(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'number' is no type"):
        Source(str(tmp_path / "p.csv"), types=("number",))
    assert Source(str(tmp_path / "p.csv"), types=(str, int)).types == ("string", "int")  # type: ignore[arg-type]


def test_a_likely_header_is_told(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("from,to\na,b\n")
    with pytest.warns(UserWarning, match="looks like the names of the columns"):
        Source(str(path), "p").pieces(None)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Source(str(path), "p", header=True).pieces(None)  # type: ignore[arg-type]
