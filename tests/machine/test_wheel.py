"""The wheel: installed without the compiler, it has its kernels, and the examples of the README run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT
from tidelog.machine.jit import JIT_DISABLED
from tidelog.machine.kernels.targets import targets_here
from tidelog.machine.kernels.wheel import write_libraries
from tidelog.machine.ownership import CHECKED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(JIT_DISABLED or CHECKED, reason="such kernels are not shipped"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no linker"),
]

# Only the packages of this environment are there, and the compiler is not.
README = """
import sys, time

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)

sys.meta_path.insert(0, Blocker())
from pathlib import Path
import tidelog
from test_docs import ROOT, test_examples_do_what_they_say

assert Path(tidelog.__file__).is_relative_to(sys.argv[1]), tidelog.__file__

class Here:
    def chdir(self, path): pass

test_examples_do_what_they_say(ROOT / "README.md", Path.cwd(), Here())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this platform, and nothing else, installed into it."""
    folder = tmp_path_factory.mktemp("wheel")
    write_libraries(folder / "libraries", targets_here()[:1])
    sources = folder / "sources"
    shutil.copytree(ROOT / "src", sources / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    building = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(sources)]
    subprocess.run(building, check=True, env=os.environ | {"TIDELOG_KERNELS": str(folder / "libraries")})
    (wheel,) = folder.glob("*.whl")
    assert wheel.name.split("-", 2)[2].startswith("py3-none-linux_")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(folder / "installed"), str(wheel)], check=True)
    return folder / "installed"


def test_the_examples_of_the_readme_run_without_the_compiler(installed: Path, tmp_path: Path) -> None:
    paths = (installed, ROOT / "tests" / "support", ROOT / "tests" / "docs")
    cache = tmp_path / "cache"
    subprocess.run(
        [sys.executable, "-c", README, str(installed)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "XDG_CACHE_HOME": str(cache)},
        cwd=tmp_path,
        check=True,
    )
    assert not (cache / "tidelog").exists(), "something was compiled"
