"""The examples of the documentation do what they say, and what it links to is there.

A fenced block marked `python` is run: as a session with its output where it has prompts, as a program where it has
none. The blocks of a file run one after the other and share their names. What they need and readers do not stands
before them in a comment, `<!-- python … -->`; below `<!-- not run: … -->` a block is only shown.

`make docs` checks the links between the pages of the site, this file those of the pages beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from doc_examples import run_example
from places import ROOT

DOCS = ROOT / "docs"
BESIDE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
FILES = [*BESIDE, *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(
    r"^(?P<shown><!-- not run: .*-->\n)?```python\n(?P<code>.*?)^```$|^<!-- python\n(?P<hidden>.*?)^-->$",
    re.DOTALL | re.MULTILINE,
)
SHOWN = re.compile(r"^```\w*\n.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
MOST_FILES = 20

# A file of this repository, by its name or its path.
NAMED_FILE = re.compile(r"`((?:[\w.-]+/)*(?!test_NAME)\w+\.py)`")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each block to run."""
    text = path.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        if not found["shown"]:
            part = "code" if found["code"] is not None else "hidden"
            yield text[: found.start(part)].count("\n") + 1, found[part]


@pytest.mark.parametrize("path", [path for path in FILES if any(blocks(path))], ids=named)
def test_examples_do_what_they_say(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(path):
        run_example(code, str(path), line, names)


def test_files_that_are_named_are_there() -> None:
    paths = [
        f"/{path.relative_to(ROOT)}"
        for part in ("src", "tests", "examples", "docs")
        for path in (ROOT / part).rglob("*.py")
    ]
    found = [(named(file), name) for file in FILES for name in NAMED_FILE.findall(file.read_text(encoding="utf-8"))]
    assert found
    assert [where for where in found if not any(path.endswith(f"/{where[1]}") for path in paths)] == []


@pytest.mark.parametrize("path", BESIDE, ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    links = LINK.findall(path.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_how_to_pages_are_listed() -> None:
    text = (DOCS / "how-to" / "index.md").read_text(encoding="utf-8")
    pages = {path.name for path in (DOCS / "how-to").glob("*.md")} - {"index.md"}
    assert len(pages) >= 11
    assert {page for page in pages if f"]({page})" not in text} == set()


def test_no_folder_of_pages_is_crowded() -> None:
    folders = {path.parent for path in DOCS.rglob("*.*")}
    assert {named(folder) for folder in folders if len(list(folder.iterdir())) > MOST_FILES} == set()


def test_lines_are_short() -> None:
    """But for tables, whose rows cannot be broken, and what programs print."""
    long = []
    for path in FILES:
        text = SHOWN.sub(lambda found: "\n" * found[0].count("\n"), path.read_text(encoding="utf-8"))
        lines = enumerate(text.splitlines(), 1)
        long += [f"{named(path)}:{number}" for number, line in lines if len(line) > 120 and not line.startswith("|")]
    assert long == []


def test_the_python_api_is_documented() -> None:
    from tidelog import KnowledgeBase

    text = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    public = [name for name in dir(KnowledgeBase) if not name.startswith("_")]
    assert [name for name in public if not re.search(rf"\b{name}\b", text)] == []
