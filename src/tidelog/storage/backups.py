"""Backups: a consistent copy of a store in one file, made while its writer goes on, and a store from such a file.

A generation never changes but for its journal, which only grows. So its files are copied one by one, the journal up to
its last complete record; if the writer has begun another generation meanwhile, that one is copied instead.
"""

from __future__ import annotations

import io
import os
import tarfile
import zlib
from contextlib import suppress
from pathlib import Path, PurePosixPath

from tidelog.errors import StorageError
from tidelog.storage.durable_files import create_file, force, force_folder, made_folder, read_file, storage_errors
from tidelog.storage.home import CURRENT, Generation, is_home, read_current, read_image, require_folder
from tidelog.storage.journal import read_journal
from tidelog.storage.snapshot_files import is_snapshot_file

# Files of others beside a generation that belong to the store: what a server remembers.
BESIDE = ("server-keys.json", "server-history.json")

# The file that tells a server that its store has been restored.
RESTORED = "restored"

# How often a writer may begin another generation while one is copied.
TRIES = 10


def backup(folder: Path, file: Path) -> int:
    """Copy the store in a folder into a tar file; how many updates its journal holds. If that fails, there is none."""
    require_folder(folder)
    if file.exists():
        raise StorageError(f"{file} is there already; choose another name, or remove it")
    draft = file.with_name(file.name + ".part")
    try:
        for _ in range(TRIES):
            generation = read_current(folder)
            try:
                with storage_errors("write", draft):
                    updates = _copy(folder, generation, draft)
            except StorageError:
                if read_current(folder) == generation:
                    raise
                continue  # The writer has just removed these files.
            with storage_errors("write", file):
                draft.replace(file)
                force_folder(file.parent)
            return updates
    finally:
        with suppress(OSError):
            draft.unlink()
    raise StorageError(f"{folder} is saved again and again while it is copied; try again later")


def _copy(folder: Path, generation: Generation, draft: Path) -> int:
    with draft.open("wb") as out:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in BESIDE:
                if (folder / name).is_file():
                    _add(archive, name, read_file(folder / name))
            _add(archive, CURRENT, read_file(folder / CURRENT))
            snapshot = generation.snapshot(folder)
            for path in sorted(snapshot.iterdir()):
                if is_snapshot_file(path.name):
                    archive.add(path, f"{snapshot.name}/{path.name}", recursive=False, filter=_plain)
            journal = generation.journal(folder)
            contents = read_journal(journal)
            _add(archive, journal.name, read_file(journal)[: contents.position.end])
        force(out)
    if read_current(folder) != generation:
        raise StorageError(f"{folder} was saved meanwhile")
    return len(contents.payloads)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member that tells nothing of who has made it."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o600
    return member


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = _plain(tarfile.TarInfo(name))
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def restore(file: Path, folder: Path) -> None:
    """Make a store of a backup, in a folder that holds none. Where that fails, everything created for it is removed."""
    if is_home(folder) or (folder.is_dir() and any(folder.iterdir())):
        raise StorageError(f"{folder} is not empty; restore into a new folder")
    with made_folder(folder):
        created: list[Path] = []
        try:
            _unpack(file, folder, created)
            force_folder(folder)
            read_image(folder)  # whether all of it is there
        except BaseException:
            _remove(created)
            raise


def _unpack(file: Path, folder: Path, created: list[Path]) -> None:
    """Write what a backup holds, and note what has been created so far."""
    try:
        with storage_errors("read", file), tarfile.open(file) as archive:
            members = {member.name: member for member in archive.getmembers()}
            if CURRENT not in members:
                raise StorageError(f"{file} is no backup of a knowledge base")
            created.append(folder / RESTORED)
            create_file(folder / RESTORED, b"")
            # `CURRENT` comes last: before it is there, the folder holds nothing.
            for name in sorted(members, key=lambda name: name == CURRENT):
                _extract(archive, members[name], folder, created, file)
    except (tarfile.TarError, EOFError, zlib.error) as problem:  # It may have been compressed.
        raise StorageError(f"{file} is no backup of a knowledge base, or is damaged: {problem}") from None


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, created: list[Path], file: Path) -> None:
    path = PurePosixPath(member.name)
    if not member.isfile() or path.is_absolute() or ".." in path.parts or len(path.parts) > 2:
        raise StorageError(f"{file} holds {member.name!r}, which no backup does")
    target = folder.joinpath(*path.parts)
    if not target.parent.exists():
        target.parent.mkdir()
        created.append(target.parent)
    content = archive.extractfile(member)
    assert content is not None
    created.append(target)
    with storage_errors("write", target), target.open("xb") as out:
        while piece := content.read(1 << 20):
            out.write(piece)
        force(out)
    force_folder(target.parent)


def _remove(created: list[Path]) -> None:
    for path in reversed(created):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else os.unlink(path)
