"""The layers of the source: which folder may import which, and that nothing heavy is loaded before it is needed.

Every import counts: those at the head of a module, those inside a function, and those for type hints alone. A folder's
`__init__` that only re-exports names is a front door; it belongs to no layer and nothing inside its folder uses it.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import tidelog

ROOT = Path(tidelog.__file__).parent

# From the lowest layer to the highest; a folder imports lower ones only.
LAYERS = (
    ("errors", "extras", "iris", "moments", "records", "values", "arrow_checks"),
    ("runtime",),
    ("language",),
    ("program",),
    ("papers",),
    ("formats",),
    ("proofs",),
    ("machine",),
    ("closures",),
    ("joins",),
    ("store",),
    ("engine",),
    ("explain",),
    ("facts",),
    ("storage",),
    ("live",),
    ("api",),
    ("testing",),
    ("client",),
    ("server",),
    ("cli",),
    ("spark",),
    ("bench",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# Spark brings the rules to the data by itself: it has the front of the in-memory engine, never its inside.
EVERYTHING = """
from tidelog import KnowledgeBase
kb = KnowledgeBase("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z). far(count(X)) :- path(a, X).")
kb.update(add={"edge": [("a", "b"), ("b", "c")]})
kb.query("path(a, X)").rows()
kb.explain("path(a, c)")
list(kb.stream([{"delete": {"edge": [("a", "b")]}}, {"add": {"edge": [("a", "c")]}}]))
kb.why_not("path(c, a)")
"""

HIDDEN_FROM_SPARK = {"machine", "closures", "joins", "store", "engine", "explain"}


class Import(NamedTuple):
    """A module that another one imports."""

    importer: str
    imported: str


@cache
def _modules() -> dict[str, Path]:
    """All modules by their dotted names, a package under the name of its folder."""
    paths = {path.relative_to(ROOT.parent).with_suffix("").parts: path for path in ROOT.rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): path for parts, path in sorted(paths.items())}


@cache
def _imports() -> list[Import]:
    """Every import of our own modules by another one, front doors left out."""
    found = []
    for name, path in _modules().items():
        if path.name == "__init__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found += [Import(name, imported) for imported in _imported(node) if imported.startswith("tidelog")]
    return found


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        source = node.module or ""
        for alias in node.names:
            inner = f"{source}.{alias.name}"
            yield inner if inner in _modules() else source


def _top(module: str) -> str:
    """The folder of a module, or the module itself where it lies in none."""
    return module.partition(".")[2].partition(".")[0]


def _inner(module: str) -> str:
    """The folder of a module, with the subfolder that it lies in."""
    parts = module.split(".")[1:]
    return "/".join(parts[:-1]) if len(parts) > 1 else parts[0]


def _shown(imports: list[Import]) -> str:
    return "\n".join(f"{importer} imports {imported}" for importer, imported in imports)


def test_every_folder_has_a_layer() -> None:
    assert {_top(name) for name in _modules()} - {"", "__main__"} == set(RANK)


def test_lower_layers_import_no_higher_ones() -> None:
    wrong = [
        each
        for each in _imports()
        if _top(each.importer) in RANK and RANK.get(_top(each.imported), -1) > RANK[_top(each.importer)]
    ]
    assert not wrong, _shown(wrong)


def test_spark_knows_no_inside_of_the_engine() -> None:
    wrong = [each for each in _imports() if _top(each.importer) == "spark" and _top(each.imported) in HIDDEN_FROM_SPARK]
    assert not wrong, _shown(wrong)


def test_the_compiler_is_used_in_its_own_folder_only() -> None:
    using = {
        _inner(name)
        for name, path in _modules().items()
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(import|from) (numba|llvmlite)\b", line) and name != "tidelog.machine.kernels.loading"
    }
    assert using == {"machine/compiler"}
    # It is loaded where kernels are compiled; the rest of the machine knows no more than its instructions.
    wrong = [each for each in _imports() if _inner(each.imported) == "machine/compiler" != _inner(each.importer)]
    assert {each.importer for each in wrong} == {"tidelog.machine.jit", "tidelog.machine.bits"}


def test_nothing_imports_the_benchmarks() -> None:
    wrong = [each for each in _imports() if _top(each.imported) == "bench" != _top(each.importer)]
    assert not wrong, _shown(wrong)


def test_nobody_uses_a_front_door_from_inside() -> None:
    doors = {"tidelog", "tidelog.spark"}
    wrong = [each for each in _imports() if each.imported in doors and each.importer.startswith(f"{each.imported}.")]
    wrong = [each for each in wrong if each.imported != "tidelog" or _top(each.importer) != "bench"]
    assert not wrong, _shown(wrong)


@pytest.mark.parametrize("folder", ["formats", "engine", "spark", "program", "server"])
def test_subfolders_do_not_import_each_other_in_circles(folder: str) -> None:
    needs: dict[str, set[str]] = {}
    for importer, imported in _imports():
        edge = _inner(importer), _inner(imported)
        if edge[0] != edge[1] and _top(importer) == _top(imported) == folder:
            needs.setdefault(edge[0], set()).add(edge[1])
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as problem:
        pytest.fail(" <- ".join(problem.args[1]))


@pytest.mark.parametrize(
    "code",
    [
        "import tidelog",
        "import tidelog.spark",
        "from tidelog.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        EVERYTHING,
    ],
    ids=["import", "spark", "help", "everything"],
)
def test_numba_is_loaded_only_where_it_is_needed(code: str) -> None:
    if "spark" in code:
        pytest.importorskip("pyspark")
    # Compiled kernels are loaded by the system if there is a linker, and by LLVM otherwise.
    needless = ("numba", "llvmlite") if shutil.which("cc") else ("numba",)
    check = f"\nimport sys; sys.exit(' '.join(set({needless}) & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code + check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
