"""Fact files written, read and compared, for tests of formats."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidelog.formats import read_file, values_of
from tidelog.values import Row, identity

XSD = "http://www.w3.org/2001/XMLSchema#"


def rows_of(batches: Iterable[object]) -> dict[str, list[Row]]:
    facts: dict[str, list[Row]] = {}
    for batch in batches:
        columns = [values_of(column) for column in batch.columns]  # type: ignore[attr-defined]
        rows = list(zip(*columns, strict=True)) if columns else [()]
        facts.setdefault(batch.predicate, []).extend(rows)  # type: ignore[attr-defined]
    return facts


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_text(folder: Path, name: str, content: str | bytes, header: bool = False) -> list[Row]:
    facts = rows_of(read_file(write(folder, name, content), header=header))
    assert len(facts) <= 1
    return next(iter(facts.values()), [])


def same(left: Iterable[Row], right: Iterable[Row]) -> bool:
    """Equality of rows as constants: 1, 1.0 and true are three."""
    return [[identity(value) for value in row] for row in left] == [[identity(value) for value in row] for row in right]
