"""`tidelog run --engine spark`: what it prints and writes is what the embedded engine prints and writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from programs_util import examples
from tidelog.cli.command_line import main
from tidelog.formats import read_file, values_of

Captured = pytest.CaptureFixture[str]


def facts_of(path: Path) -> set[tuple[object, ...]]:
    return {row for batch in read_file(path) for row in zip(*map(values_of, batch.columns), strict=True)}


@pytest.mark.parametrize("name", ["iris", "sensors"])
def test_run_on_spark(spark: SparkSession, name: str, tmp_path: Path, capsys: Captured) -> None:
    example = next(example for example in examples() if example.name == name)
    facts = ["--facts", str(example.facts_path)] if example.facts_path else []
    assert main(["run", str(example.program_path), "--engine", "spark", "--out", str(tmp_path), *facts]) == 0
    expected = {path.name: path.read_text() for path in (example.folder / "expected").iterdir()}
    assert capsys.readouterr().out == expected.pop("answers.txt", "")
    written = {path.name: sorted(_lines(path)) for path in tmp_path.iterdir()}
    assert written == {name: sorted(text.splitlines()) for name, text in expected.items()}


def _lines(folder: Path) -> list[str]:
    parts = sorted(path for path in folder.iterdir() if path.name.startswith("part-"))
    return [line for part in parts for line in part.read_text().splitlines()]


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_run_writes_other_formats(spark: SparkSession, tmp_path: Path, format: str) -> None:
    program = tmp_path / "p.dlog"
    program.write_text('p(1, a). p("x, y", 2.5). p(<http://e/i>, true). q(Y, X) :- p(X, Y). n() :- p(_, _).')
    out = tmp_path / "out"
    assert main(["run", str(program), "--engine", "spark", "--out", str(out), "--format", format]) == 0
    assert facts_of(out / f"q.{format}") == {(y, x) for x, y in facts_of_program(program)}
    assert [batch.rows for batch in read_file(out / f"n.{format}")] == [1]


def facts_of_program(program: Path) -> set[tuple[object, ...]]:
    from tidelog.language import parse_program

    return {tuple(term.value for term in fact.arguments) for fact in parse_program(program.read_text()).facts}  # type: ignore[union-attr]


def test_bad_data_ends_with_one_message(spark: SparkSession, tmp_path: Path, capsys: Captured) -> None:
    program = tmp_path / "p.dlog"
    program.write_text("q(X) :- p(X).")
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "p.csv").write_text("1\n2,3\n")
    assert main(["run", str(program), "--engine", "spark", "--facts", str(tmp_path / "facts")]) == 2
    assert "p.csv, line 2: 2 columns where the rows before have 1" in capsys.readouterr().err
    (tmp_path / "facts" / "p.csv").write_text("1,2\n2,3\n")
    assert main(["run", str(program), "--engine", "spark", "--facts", str(tmp_path / "facts")]) == 2
    assert "`p` has 1 arguments, but 2 rows have 2" in capsys.readouterr().err


def test_expressions_without_a_value_are_told(spark: SparkSession, tmp_path: Path, capsys: Captured) -> None:
    program = tmp_path / "p.dlog"
    program.write_text("n(0). n(2). inverse(X, 1 / X) :- n(X). ?- inverse(X, Y).")
    asked = ["-q", "n($x), inverse($x, Y), not n($y)", "--param", "x=2", "--param", "y=N"]
    assert main(["run", str(program), "--engine", "spark", *asked]) == 0
    captured = capsys.readouterr()
    assert captured.out == ('?- inverse(X, Y).\nX = 2, Y = 0.5\n?- n(2), inverse(2, Y), not n("N").\nY = 0.5\n')
    assert "note: 1 rule instance failed because an expression had no value" in captured.err
