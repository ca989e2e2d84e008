"""The notebooks run from top to bottom, draw what they say, and are stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from places import ROOT

FOLDER = ROOT / "examples" / "notebooks"
# How many pictures each one draws.
PICTURES = {"five_minutes": 9, "streams": 2, "ontologies": 6, "spark": 1}

notebooks = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.spark] if path.stem == "spark" else [])
    for path in sorted(FOLDER.glob("*.ipynb"))
]


def test_no_notebook_is_without_an_expectation() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(PICTURES)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert [cell["id"] for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []


@pytest.mark.parametrize("path", notebooks)
def test_notebooks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if path.stem == "spark":
        monkeypatch.setenv("JDK_JAVA_OPTIONS", pytest.importorskip("class_archive").java_options())
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient").NotebookClient
    book = nbformat.read(path, as_version=4)
    # Raises what a cell raises.
    client(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert sum("<svg" in text for text in shown(book)) == PICTURES[path.stem]


def shown(book: Any) -> list[str]:
    """The richest form of each output."""
    outputs = [output["data"] for cell in book.cells for output in cell.get("outputs", ()) if "data" in output]
    return [data.get("text/html") or data.get("image/svg+xml") or data["text/plain"] for data in outputs]
