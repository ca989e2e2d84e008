"""The lock of a folder: one writer at a time, whatever becomes of it, its process and its folder."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from audit import fingerprint
from tidelog import KnowledgeBase, StorageError
from tidelog.storage.folder_lock import FolderLock


def test_a_second_writer_is_kept_out(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        for attempt in (
            lambda: KnowledgeBase.open(home, journal=True),
            lambda: KnowledgeBase.open(home),
            lambda: KnowledgeBase().save(home),
        ):
            with pytest.raises(StorageError, match=f"in use by process {os.getpid()} on .*close"):
                attempt()
        kb.update(add={"node": [("still here",)]})
    with pytest.raises(StorageError, match="has been closed"):
        kb.update(add={"node": [("too late",)]})
    with KnowledgeBase.open(home, journal=True) as kb:
        assert ("still here",) in kb.facts("node")
        assert ("too late",) not in kb.facts("node")


def test_a_full_disk_does_not_leak_the_lock(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        patched.setattr(os, "ftruncate", full)
        KnowledgeBase.open(home, journal=True).close()  # the name of the holder is a courtesy
    KnowledgeBase.open(home, journal=True).close()


def test_an_interrupted_open_does_not_leak_the_lock(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", interrupt)
        with pytest.raises(KeyboardInterrupt):
            KnowledgeBase.open(home, journal=True)
    KnowledgeBase.open(home, journal=True).close()


def test_a_lock_that_was_removed_locks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a holder removes the folder, whoever waited for its lock does not hold the folder that was made since."""
    holder = FolderLock.for_writing(tmp_path)
    original = fcntl.flock

    def wait(file: int, kind: int) -> None:
        holder.discard()
        holder.release()
        original(file, kind)

    monkeypatch.setattr(fcntl, "flock", wait)
    with pytest.raises(StorageError, match="cannot lock"):
        FolderLock.for_writing(tmp_path)


@pytest.mark.parametrize("away", ["LOCK", ""])
def test_who_lost_the_lock_writes_no_more(home: Path, tmp_path: Path, away: str) -> None:
    """Nothing keeps a second writer from the journal any more, and what is written to a folder that is gone is lost."""
    with KnowledgeBase.open(home, journal=True) as kb:
        (home / away).rename(tmp_path / "away")
        before = fingerprint(kb)
        for change in (lambda: kb.update(add={"node": [("lost",)]}), lambda: kb.save(home)):
            with pytest.raises(StorageError, match="was moved or removed, or its lock was"):
                change()
        assert fingerprint(kb) == before
        kb.save(tmp_path / "elsewhere")
    assert ("a",) in KnowledgeBase.open(tmp_path / "elsewhere").facts("node")


def test_a_save_into_a_folder_that_goes_tells_its_own_failure(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanish(*_: object) -> None:
        shutil.rmtree(home)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("tidelog.storage.home.write_snapshot", vanish)
    with KnowledgeBase.open(home, journal=True) as kb, pytest.raises(OSError, match="Input/output error"):
        kb.save(home)


def test_a_lock_dies_with_its_process(home: Path) -> None:
    code = (
        "import os, sys; from tidelog import KnowledgeBase\n"
        f"kb = KnowledgeBase.open({str(home)!r}, journal=True); kb.update(add={{'node': [('other',)]}})\n"
        "print(os.getpid(), flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        holder = int(process.stdout.readline())
        with pytest.raises(StorageError, match=f"in use by process {holder} "):
            KnowledgeBase.open(home)
        process.kill()
    with KnowledgeBase.open(home, journal=True) as kb:
        assert ("other",) in kb.facts("node")
