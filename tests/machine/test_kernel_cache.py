"""The cache of compiled kernels, and what happens if it cannot be written."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tidelog.machine import jit
from tidelog.machine.jit import JIT_DISABLED, entry_point

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")


def successor(number):  # type: ignore[no-untyped-def]
    return number + 1


@contextmanager
def _no_room_in_files() -> Iterator[None]:
    """Files can be created, but nothing can be written to them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_kernel_is_kept_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "CACHE_FOLDER", tmp_path)
    assert entry_point(successor)(1) == 2
    assert list(tmp_path.rglob("*.nbc"))


def test_a_kernel_runs_where_the_cache_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "CACHE_FOLDER", tmp_path)
    kernel = entry_point(successor)
    with _no_room_in_files():
        assert kernel(1) == 2
    assert kernel(2) == 3
    assert not list(tmp_path.rglob("*.nb?"))


def test_a_kernel_runs_where_the_cache_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(jit, "CACHE_FOLDER", tmp_path / "file" / "cache")
    assert entry_point(successor)(1) == 2


def test_threads_have_a_kernel_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_one = jit._EntryPoint._compile

    def compile_slowly(self: jit._EntryPoint, dispatcher: Any, signature: Any) -> Any:
        compiled.append(signature)
        time.sleep(0.05)
        return compile_one(self, dispatcher, signature)

    monkeypatch.setattr(jit, "CACHE_FOLDER", tmp_path)
    monkeypatch.setattr(jit._EntryPoint, "_compile", compile_slowly)
    kernel = entry_point(successor)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(kernel, range(4))) == [1, 2, 3, 4]
    assert len(compiled) == 1
