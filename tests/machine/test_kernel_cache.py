"""Libraries of compiled kernels: built once, whole or not at all, and used only with the sources they were made of."""

from __future__ import annotations

import ast
import importlib.util
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

from tidelog.errors import CompilationError
from tidelog.machine.jit import JIT_DISABLED
from tidelog.machine.kernels import building, libraries, sources, workers
from tidelog.machine.kernels.cache import Entry, cache_folder, title
from tidelog.machine.kernels.sources import PACKAGE, kernels_of, own_kernels, stamped_sources
from tidelog.machine.kernels.targets import BASELINE, WITH_AVX2, targets_here

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")

KERNELS = """
from __future__ import annotations

from tidelog.machine.jit import Registers, device, entry_point


@device
def sum_of(a, b):
    return a + b


@entry_point
def successor(number: int) -> int:
    return sum_of(number, 1)


@entry_point
def take(m: Registers, place: int, back: bool) -> tuple[int, int]:
    m[place] = sum_of(m[place], -1 if back else 1)
    return place, m[place]
"""
# Lets a process do without the compiler.
BLOCK = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocker())
"""
NUMBERS = count()

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module with kernels, under a name of its own, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / f"kernels_{next(NUMBERS)}.py"
    path.write_text(KERNELS)
    return path


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entry_of(path: Path) -> Entry:
    return Entry(kernels_of(path.stem, str(path)), targets_here()[0])


def process(path: Path, code: str) -> subprocess.Popen[str]:
    """A process that imports the module of kernels as `kernels`."""
    program = f"import sys; sys.path.insert(0, {str(path.parent)!r}); import {path.stem} as kernels\n{code}"
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )


@contextmanager
def no_room_in_files() -> Iterator[None]:
    """Files can be created, but nothing can be written to them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list that gets an item for each time that kernels are compiled."""
    times: list[object] = []
    compile_all = building.object_code

    def compile_and_count(*arguments: object) -> list[bytes]:
        times.append(arguments)
        return compile_all(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "object_code", compile_and_count)
    return times


def test_what_was_compiled_serves_processes_without_the_compiler(source: Path, capfd: Captured) -> None:
    assert loaded(source).successor(1) == 2
    told = capfd.readouterr().err.splitlines()
    assert told[0].startswith("tidelog: compiling 2 kernels, once for this machine")
    assert told[1].startswith("tidelog: compiled 2 kernels in ")
    assert told[1].endswith(f"kept them in {cache_folder()}")
    code = "import numpy; m = numpy.arange(4); print(kernels.successor(4), kernels.take(m, 3, True), m[3])"
    done = process(source, BLOCK + code).communicate(timeout=60)
    assert done == ("5 (3, 2) 2\n", "")


def test_wrong_arguments_are_errors(source: Path) -> None:
    kernels = loaded(source)
    with pytest.raises(TypeError, match=r"successor\(\) takes exactly 1 argument \(2 given\)"):
        kernels.successor(1, 2)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        kernels.successor("one")
    with pytest.raises(TypeError, match="must be read-write bytes-like object"):
        kernels.take(7, 0, False)


def test_an_edit_is_compiled(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = counted(monkeypatch)
    assert loaded(source).successor(1) == 2
    monkeypatch.setattr(libraries, "_loaded", {})
    assert loaded(source).successor(1) == 2
    assert len(times) == 1
    source.write_text(KERNELS.replace("return a + b", "return a + b + 10"))
    monkeypatch.setattr(libraries, "_loaded", {})
    assert loaded(source).successor(1) == 12
    assert len(times) == 2


@pytest.mark.parametrize("place", ["no linker", "no code from there"])
def test_kernels_run_where_nothing_links_or_loads_them(
    source: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "no linker":
        monkeypatch.setenv("CC", "no-such-compiler")
    else:
        monkeypatch.setattr(building, "link", lambda _objects, library: library.write_bytes(b"no library"))
    times = counted(monkeypatch)
    for _ in range(2):
        monkeypatch.setattr(libraries, "_loaded", {})
        assert loaded(source).successor(1) == 2
    assert entry_of(source).shared.exists() == (place != "no linker")
    assert len(times) == 1


def test_kernels_run_where_the_cache_is_full(source: Path, capsys: Captured) -> None:
    kernels = loaded(source)
    with no_room_in_files():
        assert kernels.successor(1) == 2
    assert kernels.successor(2) == 3
    assert not entry_of(source).objects()
    assert {path.name for path in cache_folder().iterdir()} == {"kernels.lock"}
    told = capsys.readouterr().err.splitlines()[-1]
    assert f"for this process only: {cache_folder()} cannot be written (File too large)" in told
    assert "XDG_CACHE_HOME" in told


def test_kernels_run_where_the_cache_cannot_be_made(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(source))
    assert loaded(source).successor(1) == 2
    assert f"{source / 'tidelog'} cannot be written (Not a directory)" in capfd.readouterr().err


def test_threads_have_kernels_compiled_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = counted(monkeypatch)
    kernel: Callable[[int], int] = loaded(source).successor
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(kernel, range(4))) == [1, 2, 3, 4]
    assert len(times) == 1


def test_processes_have_kernels_compiled_once(source: Path) -> None:
    """The second one comes while the first compiles, is told to wait, and uses what the first one made."""
    first = process(source, "print(kernels.successor(1))")
    assert first.stderr is not None
    assert "compiling" in first.stderr.readline()
    waiting = process(source, "print(kernels.successor(2))").communicate(timeout=60)
    assert first.communicate(timeout=60)[0] == "2\n"
    assert waiting == ("3\n", "tidelog: another process is compiling the kernels; waiting for it …\n")


def test_a_process_that_is_killed_leaves_nothing_half_written(source: Path) -> None:
    killed = process(source, "print(kernels.successor(1))")
    assert killed.stderr is not None
    assert "compiling" in killed.stderr.readline()
    killed.kill()
    killed.communicate(timeout=60)
    assert {path.name for path in cache_folder().iterdir()} == {"kernels.lock"}
    unfinished = entry_of(source).folder.with_name(entry_of(source).folder.name + ".unfinished")
    unfinished.mkdir()
    (unfinished / "0.o").write_bytes(b"half")
    assert loaded(source).successor(1) == 2
    assert not unfinished.exists()


def test_an_interruption_ends_the_compiler(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    make = workers.subprocess.Popen

    def note(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(make(*arguments, **options))  # type: ignore[call-overload]
        threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,)).start()
        return started[-1]

    monkeypatch.setattr(workers.subprocess, "Popen", note)
    kernels = loaded(source)
    with pytest.raises(KeyboardInterrupt):
        kernels.successor(1)
    assert all(worker.poll() is not None for worker in started)
    assert len(started) == 1
    monkeypatch.undo()
    assert not entry_of(source).objects()


def test_a_handler_that_interrupts_the_compiler_may_need_it(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = loaded(source)
    compile_all = building.object_code
    within: list[int] = []

    def interrupted(*arguments: object) -> list[bytes]:
        monkeypatch.setattr(building, "object_code", compile_all)
        within.append(kernels.successor(5))
        return compile_all(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "object_code", interrupted)
    assert kernels.successor(1) == 2
    assert within == [6]


def test_without_the_compiler_the_error_says_what_to_do(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "find_spec", lambda _name: None)
    with pytest.raises(CompilationError, match="Numba, which would compile them, is not installed"):
        loaded(source).successor(1)


def test_what_cannot_be_compiled_is_told_with_its_reason(source: Path) -> None:
    source.write_text(KERNELS.replace("number: int", "number"))
    with pytest.raises(CompilationError, match="annotate what an entry point takes"):
        loaded(source).successor(1)


# --- the library of a wheel -------------------------------------------------------------------------------------------


def test_a_shipped_library_is_used_only_with_its_own_sources(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    assert loaded(source).successor(1) == 2
    kernels = kernels_of(source.stem, str(source))
    entry_of(source).shared.rename(shipped / f"{title(kernels, targets_here()[0])}.so")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    monkeypatch.setattr(libraries, "SHIPPED", shipped)
    times = counted(monkeypatch)
    for summand, compiled in ((1, 0), (11, 1)):
        source.write_text(KERNELS.replace("sum_of(number, 1)", f"sum_of(number, {summand})"))
        monkeypatch.setattr(libraries, "_loaded", {})
        assert loaded(source).successor(1) == 1 + summand
        assert len(times) == compiled


def test_the_processor_decides_on_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, expected in (("sse2 avx", (BASELINE,)), ("", (BASELINE,))):
        monkeypatch.setattr("tidelog.machine.kernels.targets._processor_flags", lambda flags=flags: set(flags.split()))
        targets_here.cache_clear()
        monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "", "", "", "x86_64")))
        assert targets_here() == expected
    every = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave", "sse2"}
    monkeypatch.setattr("tidelog.machine.kernels.targets._processor_flags", lambda: every)
    targets_here.cache_clear()
    assert targets_here() == (WITH_AVX2, BASELINE)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "", "", "", "aarch64")))
    targets_here.cache_clear()
    assert [target.title for target in targets_here()] == [f"{sys.platform}-aarch64"]
    targets_here.cache_clear()


# --- the stamp --------------------------------------------------------------------------------------------------------


def module_file(module: str) -> Path | None:
    """The file of a module of tidelog."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def used_in_kernels(tree: ast.Module) -> Iterator[Path]:
    """The files of tidelog from which the kernels of a module use anything."""
    imported: dict[str, Path] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidelog"):
            for alias in node.names:
                file = module_file(f"{node.module}.{alias.name}") or module_file(node.module or "")
                assert file is not None
                imported[alias.asname or alias.name] = file
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            marks = {mark.id for mark in node.decorator_list if isinstance(mark, ast.Name)}
            if marks & {"device", "inlined", "entry_point"}:
                names = [name.id for line in node.body for name in ast.walk(line) if isinstance(name, ast.Name)]
                yield from (imported[name] for name in names if name in imported)


def test_the_stamp_covers_all_that_gets_into_kernels() -> None:
    stamped = {path for path, _ in stamped_sources()}
    used = {file for path in stamped for file in used_in_kernels(ast.parse(path.read_bytes()))}
    assert len(used) > 20
    assert used <= stamped


def test_the_stamp_changes_with_kernels_and_not_with_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PACKAGE, tmp_path / "tidelog", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", tmp_path / "tidelog")
    before = own_kernels.__wrapped__().stamp
    assert before == own_kernels().stamp
    for name, same in (
        ("api/knowledge_base.py", True),
        ("machine/kernels/progress.py", True),
        ("joins/executor.py", False),
        ("machine/flags.py", False),
        ("machine/compiler/built_ins.py", False),
    ):
        with (tmp_path / "tidelog" / name).open("a") as file:
            file.write("# edited")
        after = own_kernels.__wrapped__().stamp
        assert (after == before) is same, name
        before = after


def test_every_entry_point_is_known() -> None:
    symbols = [kernel.symbol for kernel in own_kernels().kernels()]
    marked = sum(path.read_text(encoding="utf-8").count("\n@entry_point\n") for path in PACKAGE.rglob("*.py"))
    assert len(symbols) == len(set(symbols)) == marked
