"""A light core: NumPy is enough for all that the core is for, imports load nothing that they do not need, and what
needs more says which extra brings it.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import without_extras
from tidelog.extras import EXTRAS

# Every package of an extra, the compiler among them.
BLOCKED = sorted(EXTRAS.keys() | {"pandas", "polars"})

BUILD = "from tidelog import KnowledgeBase\nkb = KnowledgeBase('p(X) :- q(X).')\nkb.update(add={'q': [('a',)]})\n"
RUN = "from tidelog.cli import main\nassert main(['run', {program!r}]) == 0\n"
# For each use, the packages that it may load.
ALLOWED = {
    "import": ("import tidelog\n", set[str]()),
    "build": (BUILD, {"numpy"}),
    "ask": (BUILD + "kb.query('p(X)').rows(), list(kb.facts('p')), 'p(a)' in kb\n", {"numpy"}),
    "run": (RUN, {"numpy"}),
}
# Parts of tidelog that none of these uses needs.
APART = (
    *("api.dependencies", "api.persistence", "arrow_checks", "bench", "explain", "facts.frames", "facts.paper_trace"),
    *("formats.batch", "formats.files.folder", "formats.files.rdf", "language.make_tables", "live.async_streams"),
    *(
        "live.fully_dynamic",
        "live.streams",
        "papers",
        "program.drawing",
        "proofs",
        "spark",
        "storage",
        "store.arrow_columns",
    ),
)


def _loaded(code: str) -> set[str]:
    """The modules that a new process has loaded after some code; Python's own are left out."""
    listing = "import sys\nprint(*sys.modules, file=sys.__stdout__)\n"
    done = subprocess.run([sys.executable, "-c", code + listing], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = done.stdout.splitlines()[-1].split()
    return {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names and name != "__main__"}


@cache
def _before() -> set[str]:
    """What an empty process loads by itself, such as the hooks of an editable installation."""
    return {name.partition(".")[0] for name in _loaded("")}


@pytest.mark.parametrize("use", ALLOWED)
def test_imports_load_nothing_that_is_not_needed(use: str, tmp_path: Path) -> None:
    code, allowed = ALLOWED[use]
    program = tmp_path / "program.dlog"
    program.write_text("q(a).\np(X) :- q(X).\n?- p(X).\n")
    loaded = _loaded(code.format(program=str(program)) if use == "run" else code)
    assert {name.partition(".")[0] for name in loaded} - _before() - {"tidelog"} <= allowed
    ours = {name.removeprefix("tidelog.") for name in loaded if name.startswith("tidelog.")}
    assert not [name for name in ours for part in APART if name == part or name.startswith(f"{part}.")]


SCENES = ["updates", "questions", "streams", "on_disk", "commands", "messages", "commands_that_need_more"]


@pytest.mark.parametrize("scene", SCENES)
def test_the_core_needs_no_extra(scene: str, tmp_path: Path) -> None:
    _play(scene, BLOCKED, tmp_path)


def test_the_parser_of_rdf_is_an_extra_of_its_own(tmp_path: Path) -> None:
    _play("rdf", ["pyoxigraph"], tmp_path)


def _play(scene: str, blocked: list[str], folder: Path) -> None:
    command = [sys.executable, without_extras.__file__, scene, *blocked]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    for package, extra in EXTRAS.items():
        name = {"llvmlite": "numba", "paho": "paho-mqtt", "re2": "google-re2"}.get(package, package)
        assert any(requirement.startswith(name) for requirement in extras[extra]), package
    assert [requirement.partition(">")[0] for requirement in project["dependencies"]] == ["numpy"]
