"""The folder of a saved knowledge base among other files, its lock, and who holds it: what is not ours stays as it is,
and a lock goes with the process, the knowledge base and nobody else.
"""

from __future__ import annotations

import errno
import gc
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tidelog import KnowledgeBase, StorageError
from tidelog.storage.folder_lock import FolderLock

RULES = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z). edge(a, b). edge(b, c)."


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a saved knowledge base."""
    KnowledgeBase(RULES).save(tmp_path / "home")
    return tmp_path / "home"


def contents(folder: Path) -> dict[str, bytes | str | None]:
    """All files with their contents, links with their targets, and folders."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


# Other people's files


def foreign_files(folder: Path) -> dict[str, bytes | str | None]:
    """Files, folders and links whose names are ours, or nearly ours."""
    for name in (
        *("snapshot-2024/photos/beach.jpg", "snapshot-2024/manifest.json", "snapshot-1/notes.txt", "snapshot-7"),
        *("journal-7.log", "journal-1.log", "journal-2.log/entry", "CURRENT.new", "relation-0.arrays", "LOCK.txt"),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"mine: {name}")
    (folder / "snapshot-3").mkdir()
    (folder / "snapshot-4").symlink_to(folder / "snapshot-2024")
    (folder / "journal-5.log").symlink_to("nowhere")
    return contents(folder)


def test_files_of_others_stay_as_they_are(tmp_path: Path) -> None:
    before = foreign_files(tmp_path)
    kb = KnowledgeBase(RULES)
    for number in range(3):
        kb.update(add={"edge": [("c", number)]})
        kb.save(tmp_path)
        with KnowledgeBase.open(tmp_path, journal=True) as opened:
            opened.update(add={"edge": [(number, "end")]})
            opened.save(tmp_path)
        kb = KnowledgeBase.open(tmp_path)
        after = contents(tmp_path)
        assert before.items() <= after.items()
        ours = {name.partition("/")[0] for name in after.keys() - before.keys()}
        assert len(ours) == 4, ours
    assert ("a", "end") in KnowledgeBase.open(tmp_path).facts("path")


def test_files_that_were_put_into_a_snapshot_stay(home: Path) -> None:
    (home / "snapshot-1" / "notes.txt").write_text("mine")
    (home / "snapshot-1" / "relation-0.arrays.bak").write_text("mine too")
    KnowledgeBase.open(home).save(home)
    assert sorted(os.listdir(home / "snapshot-1")) == ["notes.txt", "relation-0.arrays.bak"]
    assert not (home / "journal-1.log").exists()
    KnowledgeBase.open(home).save(home)
    assert (home / "snapshot-1" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("LOCK", "my own lock"),
        ("LOCK", '{"owner": "me"}'),
        ("LOCK", '{"pid": 4711, "owner": "me"}'),
        ("CURRENT", "MANIFEST-000001\n"),
        ("CURRENT", '{"format": "another", "generation": 1}'),
        ("CURRENT", "[1, 2]"),
        ("CURRENT", ""),
    ],
)
def test_a_file_in_the_way_is_named_and_kept(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    before = contents(tmp_path)
    for attempt in (KnowledgeBase(RULES).save, lambda folder: KnowledgeBase.open(folder, journal=True)):
        with pytest.raises(StorageError, match=f"{name}|no saved knowledge base"):
            attempt(tmp_path)
        assert contents(tmp_path) == before


def test_a_lock_of_somebody_else_within_a_store(home: Path) -> None:
    (home / "LOCK").write_text("a lock of another program")
    before = contents(home)
    for attempt in (KnowledgeBase(RULES).save, lambda folder: KnowledgeBase.open(folder, journal=True)):
        with pytest.raises(StorageError, match=r"no lock of tidelog.*move it away"):
            attempt(home)
    assert contents(home) == before
    assert ("a", "c") in KnowledgeBase.open(home).facts("path")


@pytest.mark.parametrize("name", ["LOCK", "CURRENT", "journal-1.log"])
def test_nothing_is_written_through_a_link(home: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "target"
    shutil.copy(home / name, target)
    (home / name).unlink()
    (home / name).symlink_to(target)
    before = (contents(home), target.read_bytes())
    with pytest.raises(StorageError, match=rf"{name} is .*(symbolic link|regular file)"):
        KnowledgeBase(RULES).save(home) if name == "CURRENT" else KnowledgeBase.open(home, journal=True)
    assert (contents(home), target.read_bytes()) == before
    assert ("a", "c") in KnowledgeBase.open(home).facts("path")  # reading may follow links


@pytest.mark.parametrize("name", ["LOCK", "journal-1.log"])
def test_nothing_is_written_to_a_file_with_two_names(home: Path, tmp_path: Path, name: str) -> None:
    """As in a copy made of hard links, which must not change."""
    os.link(home / name, tmp_path / "copy")
    before = contents(tmp_path)
    with pytest.raises(StorageError, match=rf"{name} is a hard link"):
        KnowledgeBase.open(home, journal=True).update(add={"edge": [("c", "d")]})
    assert (tmp_path / "copy").read_bytes() == before["copy"]
    assert ("a", "c") in KnowledgeBase.open(home).facts("path")
    (tmp_path / "copy").unlink()
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"edge": [("c", "d")]})


def test_a_lock_that_leads_nowhere_is_none(home: Path) -> None:
    (home / "LOCK").unlink()
    (home / "LOCK").symlink_to("nowhere")
    assert ("a", "c") in KnowledgeBase.open(home).facts("path")


def test_the_last_generation_is_followed_by_the_first(home: Path) -> None:
    for name in ("snapshot-{}", "journal-{}.log"):
        (home / name.format(1)).rename(home / name.format(2**62))
    current = (home / "CURRENT").read_text()
    (home / "CURRENT").write_text(current.replace('"generation": 1', f'"generation": {2**62}'))
    KnowledgeBase.open(home).save(home)
    assert sorted(os.listdir(home)) == ["CURRENT", "LOCK", "journal-1.log", "snapshot-1"]
    assert ("a", "c") in KnowledgeBase.open(home).facts("path")
    (home / "CURRENT").write_text(current.replace('"generation": 1', f'"generation": {2**62 + 1}'))
    with pytest.raises(StorageError, match="generation"):
        KnowledgeBase.open(home)


@pytest.mark.parametrize("name", ["CURRENT", "journal-1.log", "snapshot-1/manifest.json"])
def test_a_file_that_is_larger_than_the_memory(home: Path, name: str) -> None:
    os.truncate(home / name, 1 << 42)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 41, limits[1]))  # some machines promise any amount of memory
    try:
        with pytest.raises(StorageError, match=f"{name}: there is not enough memory"):
            KnowledgeBase.open(home)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize("kind", ["text", "nothing"])
def test_a_lock_that_leads_elsewhere_empties_nothing(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    if kind == "text":
        target.write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "LOCK").symlink_to(target)
    with pytest.raises(StorageError, match="LOCK is a symbolic link"):
        KnowledgeBase(RULES).save(tmp_path / "folder")
    assert target.read_text() == "precious" if kind == "text" else not target.exists()


@pytest.mark.parametrize("name", ["LOCK", "CURRENT", "journal-1.log", "snapshot-1/manifest.json"])
def test_pipes_and_folders_are_no_files(home: Path, name: str) -> None:
    for make in (os.mkfifo, os.mkdir):
        copy = home.parent / make.__name__
        shutil.copytree(home, copy)
        (copy / name).unlink()
        make(copy / name)
        for journal in (False, True):
            with pytest.raises(StorageError, match=r"no regular file|Is a directory"):
                KnowledgeBase.open(copy, journal=journal)


def test_what_a_crash_left_is_swept_and_nothing_else(home: Path) -> None:
    """A crash in the middle of a save: the lock says which generation was being written."""
    run_alone("crash_in_a_save", home)


def crash_in_a_save(home: Path) -> None:
    (home / "snapshot-9").mkdir()
    (home / "snapshot-9" / "terms.arrays").write_text("somebody's")
    kb = KnowledgeBase.open(home)
    child = os.fork()
    if child == 0:
        os.fsync = lambda _: os._exit(0) if (home / "snapshot-2" / "manifest.json").exists() else None
        kb.save(home)
    os.waitpid(child, 0)
    assert (home / "snapshot-2").is_dir()
    kb.save(home)
    assert sorted(os.listdir(home)) == ["CURRENT", "LOCK", "journal-2.log", "snapshot-2", "snapshot-9"]
    assert os.listdir(home / "snapshot-9") == ["terms.arrays"]


def test_a_save_that_fails_leaves_a_folder_of_others_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = foreign_files(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tidelog.storage.snapshot_files.write_arrays", full)
    with pytest.raises(StorageError, match="disk is full"):
        KnowledgeBase(RULES).save(tmp_path)
    assert contents(tmp_path) == before


# Who holds the lock


def run_alone(name: str, home: Path) -> None:
    """Run a function of this file in a process that is small and has no threads, so that it can fork."""
    code = f"import sys, pathlib, test_storage_folder as tests; tests.{name}(pathlib.Path(sys.argv[1]))"
    path = os.pathsep.join((str(Path(__file__).parent), *sys.path))
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    command = [sys.executable, "-c", code, str(home)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def run_child(work: Callable[[], Any]) -> str:
    """What a forked child reports about its work."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(work())
        except BaseException as problem:
            said = f"{type(problem).__name__}: {problem}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def test_a_forked_child_cannot_write(home: Path) -> None:
    run_alone("let_a_child_try", home)


def let_a_child_try(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        said = run_child(lambda: kb.update(add={"edge": [("child", "x")]}))
        assert f"is open in process {os.getpid()}, and this is a child of it" in said
        # It reads, and closes what it has open: the lock stays with its parent.
        assert run_child(lambda: (("a", "c") in kb.facts("path"), kb.close())) == "(True, None)"
        with pytest.raises(StorageError, match=f"in use by process {os.getpid()} on .*, which is this one; close"):
            KnowledgeBase.open(home)
        kb.update(add={"edge": [("parent", "x")]})
    assert set(KnowledgeBase.open(home).facts("edge")) == {("a", "b"), ("b", "c"), ("parent", "x")}


def test_a_forked_child_does_not_keep_the_lock_of_a_parent_that_died(home: Path) -> None:
    code = (
        "import os, sys; from tidelog import KnowledgeBase\n"
        f"kb = KnowledgeBase.open({str(home)!r}, journal=True)\n"
        "if os.fork() == 0:\n"
        "    print(os.getpid(), flush=True); sys.stdin.read(); os._exit(0)\n"
        "os._exit(9)"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert process.wait() == 9
        os.kill(child, 0)
        with KnowledgeBase.open(home, journal=True) as kb:
            kb.update(add={"edge": [("c", "d")]})
    assert ("a", "d") in KnowledgeBase.open(home).facts("path")


def test_a_holder_that_has_ended_is_said_to_have(home: Path) -> None:
    """A process that was not forked by Python may still hold its descriptor."""
    lock = FolderLock.for_writing(home)
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    pid = int(gone.stdout)
    (home / "LOCK").write_text((home / "LOCK").read_text().replace(f'"pid": {os.getpid()}', f'"pid": {pid}'))
    with pytest.raises(StorageError, match=f"from process {pid} on .*, which has ended"):
        KnowledgeBase.open(home)
    lock.release()


def test_a_knowledge_base_that_nobody_has_is_closed(home: Path) -> None:
    kb = KnowledgeBase.open(home, journal=True)
    kb.update(add={"edge": [("c", "d")]})
    change = kb.update(add={"edge": [("d", "e")]})
    assert kb.explain("path(a, e)") is not None  # proofs refer to their knowledge base
    facts = kb.facts("path")
    with pytest.raises(StorageError, match="in use"):
        KnowledgeBase.open(home)
    assert len(facts) == 10
    del kb, facts
    with KnowledgeBase.open(home, journal=True) as again:
        assert ("a", "e") in again.facts("path")
    assert len(change.added) == 2


def test_a_dropped_knowledge_base_needs_no_search_for_cycles(home: Path) -> None:
    gc.disable()
    try:
        kb = KnowledgeBase.open(home, journal=True)
        kb.update(add={"edge": [("c", "d")]})
        del kb
        assert '"pid": null' in (home / "LOCK").read_text()
    finally:
        gc.enable()


def test_a_closed_journal_writes_nowhere(home: Path, tmp_path: Path) -> None:
    """The next file that is opened gets the descriptor of the one that was closed."""
    kb = KnowledgeBase.open(home, journal=True)
    record = kb._knowledge.home
    assert record is not None
    kb.close()
    with (tmp_path / "other").open("w+b") as file:
        with pytest.raises(StorageError, match="has been closed"):
            record._journal.append(b"{}")
        assert file.read() == b""


# Files that change while somebody has them open


def replace(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def restore_another(home: Path) -> None:
    """As when a backup is restored: everything but the lock."""
    other = home.with_name("other")
    for edge in ("x", "y"):
        KnowledgeBase(f"{RULES} edge({edge}, z).").save(other)
    for name in ("snapshot-2", "journal-2.log", "CURRENT"):
        (other / name).replace(home / name)


@pytest.mark.parametrize(
    "change",
    [
        lambda home: (home / "journal-1.log").unlink(),
        lambda home: replace(home / "journal-1.log"),
        lambda home: os.truncate(home / "journal-1.log", 20),
        lambda home: os.truncate(home / "journal-1.log", 1000),
        lambda home: (home / "CURRENT").unlink(),
        restore_another,
    ],
)
def test_no_update_is_recorded_where_nobody_would_find_it(home: Path, change: Callable[[Path], None]) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        kb.update(add={"edge": [("c", "d")]})
        change(home)
        before = contents(home)
        with pytest.raises(StorageError):
            kb.update(add={"edge": [("d", "e")]})
        assert ("d", "e") not in kb.facts("edge")
        kb.save(home.with_name("elsewhere"))
        assert contents(home) == before
    assert ("a", "d") in KnowledgeBase.open(home.with_name("elsewhere")).facts("path")


def test_a_file_that_is_only_touched_is_the_same(home: Path) -> None:
    with KnowledgeBase.open(home, journal=True) as kb:
        replace(home / "CURRENT")
        os.utime(home / "journal-1.log")
        kb.update(add={"edge": [("c", "d")]})
    assert ("a", "d") in KnowledgeBase.open(home).facts("path")


# Folders that nobody can write to


@contextmanager
def nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    original = os.open

    def refuse(path: Any, flags: int, *mode: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return original(path, flags, *mode, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        yield


@pytest.mark.parametrize("lock", [True, False])
def test_a_store_that_cannot_be_written_to_is_read(home: Path, lock: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not lock:
        (home / "LOCK").unlink()
    before = contents(home)
    with nothing_can_be_written(monkeypatch):
        assert ("a", "c") in KnowledgeBase.open(home).facts("path")
        with pytest.raises(StorageError, match="Read-only file system"):
            KnowledgeBase.open(home, journal=True)
    assert contents(home) == before


def test_reading_makes_no_lock_and_finds_one_that_came(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a lock nobody is kept out, but a writer that arrives while a reader is at work is noticed."""
    (home / "LOCK").unlink()
    KnowledgeBase.open(home)
    assert not (home / "LOCK").exists()
    from tidelog.storage import home as module

    original, calls = module.read_snapshot, []

    def meet_a_writer(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            monkeypatch.setattr(module, "read_snapshot", original)
            with KnowledgeBase.open(home, journal=True) as kb:
                kb.update(add={"edge": [("c", "d")]})
                kb.save(home)
            monkeypatch.setattr(module, "read_snapshot", meet_a_writer)
        return original(*arguments)

    monkeypatch.setattr(module, "read_snapshot", meet_a_writer)
    assert ("a", "d") in KnowledgeBase.open(home).facts("path")
    assert len(calls) == 2
