"""Uses the core of tidelog in a process that can import no package of an extra, as after `pip install tidelog`.

`test_light_core.py` runs it: the first argument names a scene, the rest are packages to block. What a scene asserts is
its result.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

RULES = """
    path(X, Y) :- edge(X, Y).
    path(X, Z) :- edge(X, Y), path(Y, Z).
    degree(X, count(Y)) :- edge(X, Y).
    lonely(X) :- node(X), not edge(X, _).
"""


class Blocker(MetaPathFinder):
    """Makes packages look as if they were not installed."""

    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = packages

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] in self._packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def knowledge_base() -> Any:
    import tidelog

    return tidelog.KnowledgeBase(RULES + "edge(a, b). edge(b, c). node(z).")


def updates() -> None:
    import numpy as np

    from tidelog import IRI, Literal, TidelogError

    kb = knowledge_base()
    for rows in ([("c", "d")], [["d", "e"]], {("e", "f")}, iter([("f", "g")]), np.array([["g", "h"]])):
        assert kb.update(add={"edge": rows}), rows
    assert ("a", "h") in kb.facts("path")
    for dtype in (np.int32, np.int64, np.uint64, np.float32, np.float64, bool, object, "U1"):
        kb.update(add={"number": np.array([[1]]).astype(dtype)})
    assert sorted(map(repr, kb.facts("number"))) == ["('1',)", "(1,)", "(1.0,)", "(True,)"]
    kb.update(add={"value": [(IRI("http://x/y"),), (Literal("chat", language="fr"),), (0.5,)]})
    assert len(kb.facts("value")) == 3
    other = knowledge_base()
    other.update(add={"edge": kb.facts("edge")})
    assert set(other.facts("path")) == set(kb.facts("path"))
    change = kb.update(delete={"edge": other.update(add={"edge": [("x", "y")]}).added["edge"]}, add={"node": [("y",)]})
    assert set(change.added) == {"node", "lonely"}
    for wrong in ([("a",)], [("a", None)], ["ab"], "ab", np.zeros((1, 1, 1)), np.array([[b"a", b"b"]]), [(2**70, 1)]):
        with contextlib.suppress(TidelogError):
            kb.update(add={"edge": wrong})
            raise AssertionError(wrong)


def questions() -> None:
    kb = knowledge_base()
    assert kb.query("path(a, X), X != b").rows() == [("c",)]
    assert "path(a, c)" in kb
    assert set(kb.explicit("edge")) == {("a", "b"), ("b", "c")}
    assert kb.explain("path(a, c)").height == 2
    assert len(list(kb.proofs("path(a, c)"))) == 1
    assert "does not hold" in kb.why_not("path(c, a)")
    change = kb.what_if(delete={"edge": [("b", "c")]}, add_rules="p(X) :- lonely(X).")
    assert change.explain("path(a, c)").leaves == ("edge(b, c)",)
    assert kb.graph.draw("svg").startswith("<svg")
    for shown in (kb, change, kb.facts("path"), kb.query("path(X, Y)"), kb.explain("path(a, c)")):
        assert shown._repr_html_()
    kb.register("twice", lambda text: text + text)
    kb.add_rules("d(T) :- edge(X, _), T = twice(X).")
    assert sorted(kb.facts("d")) == [("aa",), ("bb",)]
    assert [rule.facts for rule in kb.rules[:2]] == [2, 1]
    kb.remove_rules("d(T) :- edge(A, _), T = twice(A).")


def streams() -> None:
    import tidelog

    given: list[dict[str, Any]] = [{"add": {"edge": [("c", "d")]}}, {"delete": {"edge": [("a", "b")]}}]
    kb = knowledge_base()
    assert [len(change.added) + len(change.removed) for change in kb.stream(given)] == [3, 3]

    async def awaited() -> AsyncIterator[dict[str, Any]]:
        for update in given:
            yield update

    async def changes() -> int:
        return len([change async for change in knowledge_base().stream(awaited())])

    assert asyncio.run(changes()) == 2
    kb = knowledge_base()
    with kb.live() as live:
        for update in given:
            live.submit(**update)
        assert live.settle()
    traced = tidelog.KnowledgeBase("p(X) :- q(X).", maintenance="dred", trace="paper")
    assert traced.update(add={"q": [("a",)]}).trace is not None


def commands() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program, lines = Path(folder, "program.dlog"), Path(folder, "updates.jsonl")
        program.write_text(RULES + "edge(a, b).\n?- path(a, X).\n")
        lines.write_text('{"add": {"edge": [["b", "c"]]}}\n')
        assert said("run", str(program)) == (0, "?- path(a, X).\nX = b\n", "")
        assert said("run", str(program), "--explain-plan")[0] == 0
        assert said("stream", str(program), "--updates", str(lines))[1].startswith('{"added": {"degree": [["b", 1]]')
        assert said("explain", str(program), "path(a, b)")[1].startswith("path(a, b)  by path")
        assert said("graph", str(program))[1].startswith("digraph")
        assert said("shell", str(program), typed="edge(b, c).\n:explain path(a, c)\n:facts path\n")[0] == 0
        program.write_text("p(X) :- q(X), r(X).")
        assert said("convert", str(program)) == (0, "p(X) :- q(X) and r(X).\n", "")
        program.write_text("path(X, Y) :- edge(X Y).")
        assert "expected `,` or `)`" in said("run", str(program))[2]


def said(*arguments: str, typed: str = "") -> tuple[int, str, str]:
    """The exit code of a command, and what it wrote to standard output and standard error."""
    from tidelog.cli import main

    out, err = io.StringIO(), io.StringIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(typed.encode()))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


def on_disk() -> None:
    import tidelog

    kb = knowledge_base()
    kb.update(add={"value": [(1,), (0.5,), (True,), ("é",), (tidelog.IRI("http://x"),)]})
    with tempfile.TemporaryDirectory() as folder:
        kb.save(folder)
        with tidelog.KnowledgeBase.open(folder, journal=True) as durable:
            durable.update(add={"edge": [("c", "d")]}, commit={"batch": "1"})
        again = tidelog.KnowledgeBase.open(folder)
    assert again.commit_info == {"batch": "1"}
    assert set(again.facts("value")) == set(kb.facts("value"))
    assert ("a", "d") in again.facts("path")


def messages() -> None:
    """What needs a package says so, names the extra, and changes nothing."""
    from tidelog import formats
    from tidelog.cli.shell import Shell, _prompt
    from tidelog.storage.snapshot_files import _read

    kb = knowledge_base()
    needs: dict[str, tuple[str, Callable[[], object]]] = {
        "to_arrow": ("arrow", kb.facts("path").to_arrow),
        "to_pandas": ("arrow", kb.query("path(X, Y)").to_pandas),
        "to_polars": ("arrow", kb.facts("path").to_polars),
        "a table of facts": ("arrow", lambda: kb.update(add={"edge": Table()})),
        "facts in files": ("arrow", lambda: formats.read_facts("folder")),
        "reading or writing facts": ("arrow", lambda: kb.load("folder")),
        "or writing facts in files": ("arrow", lambda: kb.export("folder")),
        "an earlier version saved": ("arrow", lambda: _read(Path("terms.parquet"), "", are_terms=True)),
        "the shell": ("cli", lambda: _prompt(Shell(kb))),
        "tidelog.spark": ("spark", lambda: import_module("tidelog.spark")),
    }
    for what, (extra, use) in needs.items():
        message = refusal(use)
        assert what in message, message
        assert f"pip install 'tidelog[{extra}]'" in message, message
    assert len(kb.facts("edge")) == 2


def commands_that_need_more() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.dlog")
        program.write_text("p(X) :- q(X). q(a). ?- p(X).")
        for extra, *arguments in (
            ("arrow", "run", str(program), "--facts", folder),
            ("arrow", "run", str(program), "--out", f"{folder}/out"),
            ("cli", "run", str(program), "--stats"),
            ("spark", "run", str(program), "--engine", "spark"),
            ("bench", "bench", "list"),
        ):
            code, out, error = said(*arguments)
            assert (code, out) == (2, ""), arguments
            assert f"pip install 'tidelog[{extra}]'" in error, error
        assert os.listdir(folder) == ["program.dlog"]


def refusal(use: Callable[[], object]) -> str:
    """What is said where a package is missing."""
    from tidelog import MissingPackageError

    try:
        use()
    except MissingPackageError as error:
        return str(error)
    raise AssertionError("no package was missing")


class Table:
    """Something with Arrow's interface, as a Polars frame has."""

    def __arrow_c_stream__(self) -> Iterator[object]:
        raise NotImplementedError


def rdf() -> None:
    """Only the parser of RDF is missing."""
    from tidelog.formats import read_facts

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "edge.csv").write_text("c,d\n")
        kb = knowledge_base()
        assert kb.load(read_facts(folder))
        Path(folder, "more.nt").write_text("<http://x/a> <http://x/p> <http://x/b> .\n")
        message = refusal(lambda: kb.load(read_facts(folder)))
    assert "RDF needs the package pyoxigraph" in message, message
    assert "'tidelog[rdf]'" in message, message


if __name__ == "__main__":
    scene, *packages = sys.argv[1:]
    sys.meta_path.insert(0, Blocker(packages))
    globals()[scene]()
