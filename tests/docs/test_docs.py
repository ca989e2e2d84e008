"""The examples of the documentation do what they say.

A fenced block marked `python` is run: as a session with its output where it has prompts, as a program where it has
none. The blocks of a file run one after the other and share their names. What they need and readers do not stands
before them in a comment, `<!-- python … -->`; below `<!-- not run: … -->` a block is only shown.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from places import ROOT

FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^(?P<shown><!-- not run: .*-->\n)?```python\n(?P<code>.*?)^```$|^<!-- python\n(?P<hidden>.*?)^-->$",
    re.DOTALL | re.MULTILINE,
)


# A file of this repository, by its name or its path.
NAMED_FILE = re.compile(r"`((?:[\w.-]+/)*\w+\.py)`")


def blocks(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each block to run."""
    text = path.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        if not found["shown"]:
            part = "code" if found["code"] is not None else "hidden"
            yield text[: found.start(part)].count("\n") + 1, found[part]


def run_session(code: str, path: Path, line: int, names: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(code, names, path.name, str(path), line - 1)
    # `get_doctest` copies the names; blocks share them.
    test.globs = names
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    told: list[str] = []
    assert not runner.run(test, out=told.append, clear_globs=False).failed, "".join(told)


def run_program(code: str, path: Path, line: int, names: dict[str, object]) -> None:
    compiled = compile("\n" * (line - 1) + code, str(path), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(compiled, names)
    if inspect.iscoroutine(result):
        asyncio.run(result)


@pytest.mark.parametrize("path", [path for path in FILES if any(blocks(path))], ids=lambda path: path.name)
def test_examples_do_what_they_say(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(path):
        (run_session if ">>>" in code else run_program)(code, path, line, names)


def test_files_that_are_named_are_there() -> None:
    paths = [
        f"/{path.relative_to(ROOT)}" for part in ("src", "tests", "examples") for path in (ROOT / part).rglob("*.py")
    ]
    named = [(file.name, name) for file in FILES for name in NAMED_FILE.findall(file.read_text(encoding="utf-8"))]
    assert named
    assert [where for where in named if not any(path.endswith(f"/{where[1]}") for path in paths)] == []


def test_the_python_api_is_documented() -> None:
    from tidelog import KnowledgeBase

    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    public = [name for name in vars(KnowledgeBase) if not name.startswith("_")]
    assert [name for name in public if not re.search(rf"\b{name}\b", text)] == []
