"""Columns of CSV and TSV files: types that are given for them, and first lines that look like their names."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from formats_util import rows_of, same, write
from tidelog import IRI, DataError
from tidelog.formats import read_facts, read_file
from tidelog.formats.files.folder import likely_header_of


def read(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    return next(iter(rows_of(read_file(path, **options)).values()), [])


def test_codes_with_zeros_in_front_are_not_merged(tmp_path: Path) -> None:
    path = write(tmp_path, "zip.csv", "01234,1234\n1234,01234\n")
    assert read(path) == [("01234", 1234), (1234, "01234")]


@pytest.mark.parametrize("quoted", [False, True])
def test_types_decide_what_a_cell_is(tmp_path: Path, quoted: bool) -> None:
    cells = ["007", "007", "+5", "3", "true", "true", "http://e.org/a", "<http://e.org/b>", "8"]
    types = ["int", "string", "int", "float", "bool", "string", "iri", "iri", "auto"]
    line = ",".join(f'"{cell}"' if quoted else cell for cell in cells)
    expected = (7, "007", 5, 3.0, True, "true", IRI("http://e.org/a"), IRI("http://e.org/b"), "8" if quoted else 8)
    assert same(read(write(tmp_path, "p.csv", line + "\n"), types=types), [expected])


def test_types_may_be_those_of_python(tmp_path: Path) -> None:
    path = write(tmp_path, "p.tsv", "1\t2\t3\ttrue\ta\n")
    assert same(read(path, types=[str, int, float, bool, IRI]), [("1", 2, 3.0, True, IRI("a"))])


def test_an_empty_cell_is_a_string_where_strings_are_given(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", "a,\n")
    assert read(path, types=["string", "string"]) == [("a", "")]
    with pytest.raises(DataError, match="line 1: column 2: '' is no iri"):
        read(path, types=["string", "iri"])


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (["int", "int"], "p.csv, line 3: column 1: 'c' is no int"),
        (["string", "bool"], "p.csv, line 2: column 2: '1' is no bool"),
        (["string"], "2 columns, but 1 type given"),
        (["string", "number"], "'number' is no type; use auto, string, int, float, bool, iri"),
        ("string,int", "types are a list"),
        ([3, "int"], "3 is no type"),
    ],
)
def test_what_does_not_fit_a_type_is_told(tmp_path: Path, types: Any, message: str) -> None:
    path = write(tmp_path, "p.csv", "who,n\n1,1\nc,2\n")
    with pytest.raises(DataError) as caught:
        read(path, header=True, types=types)
    assert message in str(caught.value)


def test_a_number_beyond_its_type_is_told_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", "1,1\n99999999999999999999,1\n")
    with pytest.raises(DataError, match=r"line 2: column 1: .*64 bits"):
        read(path, types=["int", "int"])
    with pytest.raises(DataError, match=r"line 1: column 1: .*too large for a float"):
        read(write(tmp_path, "q.csv", "1e999\n"), types=["float"])


def test_literals_have_their_own_type(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", '"chat"@fr\n')
    with pytest.raises(DataError, match="an RDF literal is no string"):
        read(path, types=["string"])


def test_types_of_a_folder_are_given_by_predicate(tmp_path: Path) -> None:
    write(tmp_path, "p.csv", "1\n")
    write(tmp_path, "q.csv", "1\n")
    write(tmp_path, "r.jsonl", "[1]\n")
    found = rows_of(read_facts(tmp_path, types={"p": ["string"]}))
    assert found == {"p": [("1",)], "q": [(1,)], "r": [(1,)]}
    for name in ("pp", "r"):
        with pytest.raises(DataError, match=f"types are given for `{name}`, and no CSV or TSV file"):
            list(read_facts(tmp_path, types={name: ["string"]}))
    with pytest.raises(DataError, match="types are given for CSV and TSV files"):
        read(tmp_path / "r.jsonl", types=["string"])


# ---- headers


@pytest.mark.parametrize(
    "text",
    [
        "from,to\na,b\nb,c\n",
        "name,kg\nx,3\ny,4.5\n",
        "a,b\nx,true\n",
        '"from","to"\na,b\n',
        "userId,follows\nu1,u2\n",
        "station id\ns1\ns2\n",
        "source,target\n",
    ],
)
def test_a_first_line_that_looks_like_a_header_is_told(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, "p.csv", text)
    rows = text.count("\n")
    with pytest.warns(UserWarning, match=r"p\.csv, line 1: .* looks like the names of the columns.*--no-header"):
        assert len(read(path)) == rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read(path, header=True)) == rows - 1
        assert len(read(path, header=False)) == rows


@pytest.mark.parametrize(
    "text",
    [
        "",
        "()\n",
        "a,b\nb,c\n",
        "1,2\n3,4\n",
        "x,1\ny,2\n",
        "from,to\nto,from\nfrom,x\n",
        '"",?\nx,1\n',
        "a,a\nb,3\nc,x\n",
        "<http://e.org/a>,3\n<http://e.org/b>,4\n",
        'left open,"\n',
    ],
)
def test_a_first_line_of_facts_is_not(tmp_path: Path, text: str) -> None:
    assert likely_header_of(write(tmp_path, "p.csv", text)) is None


def test_long_files_are_judged_by_their_beginning(tmp_path: Path) -> None:
    path = write(tmp_path, "p.tsv", "node\tdegree\n" + "n\t1\n" * 50_000)
    assert likely_header_of(path) == "node\tdegree"


def test_part_files_are_judged_by_the_first(tmp_path: Path) -> None:
    (tmp_path / "p.csv").mkdir()
    for part in ("part-0", "part-1"):
        write(tmp_path / "p.csv", part, "from,to\na,b\n")
    with pytest.warns(UserWarning, match="looks like") as told:
        read(tmp_path / "p.csv")
    assert len(told) == 1
