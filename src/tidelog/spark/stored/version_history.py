"""The versions of a materialisation: an immutable manifest for each, and one for the current version.

A version is committed by the rename that puts its manifest in the place of `manifest.json`. Readers that follow it see
a whole version, whatever happens to a writer; nothing refers to what a writer that died has left, and the next update
removes it. A manifest describes all of its version: rules, files, dictionary, what changed, and whatever the caller
commits with it, so that the version and, say, the number of a batch are committed in one step.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tidelog.errors import StorageError
from tidelog.spark.data.dictionary import Term
from tidelog.spark.stored.layers import Layer, Stored
from tidelog.storage.durable_files import replace_file

MANIFEST = "manifest.json"
_FORMAT = 2


@dataclass(frozen=True)
class Changed:
    """The path of the facts that an update touched, and how many of them came and went."""

    path: str
    come: int
    gone: int


@dataclass(frozen=True)
class Version:
    """One version; all paths are relative to the folder of the materialisation."""

    number: int = 0
    rules: tuple[str, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    stored: Mapping[str, Stored] = field(default_factory=dict)
    changed: Mapping[str, Changed] = field(default_factory=dict)
    work: Mapping[str, int] = field(default_factory=dict)
    terms: tuple[str, ...] = ()
    terms_count: int = 0
    floats: bool = False
    exceptions: tuple[Term, ...] = ()
    commit: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> set[str]:
        """Every folder that the version needs."""
        layers = {layer.path for stored in self.stored.values() for layer in stored.folders}
        return layers | {changed.path for changed in self.changed.values()}


class History:
    """The versions under one folder, which the driver and all executors can reach under the same path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def current(self) -> Version | None:
        """The current version; None if there is none yet."""
        return self._read(self.folder / MANIFEST)

    def version(self, number: int) -> Version:
        """A version by its number, unless it has been vacuumed."""
        current = self.current()
        if current and current.number == number:
            return current
        found = self._read(self._manifest(number)) if current and number < current.number else None
        if found is None:
            raise StorageError(f"{self.folder}: there is no version {number}; there are {self.numbers()}")
        return found

    def numbers(self) -> list[int]:
        """The versions that can be read, the current one last."""
        current = self.current()
        if current is None:
            return []
        found = (int(path.stem) for path in self.folder.glob("versions/*.json") if path.stem.isdigit())
        return sorted({number for number in found if number < current.number} | {current.number})

    def data_folder(self, number: int) -> Path:
        return self.folder / "data" / f"{number:08d}"

    def begin(self, number: int) -> Path:
        """An empty folder for the files of a version; anything that a dead writer left there is removed."""
        folder = self.data_folder(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def commit(self, version: Version) -> None:
        """Make a version the current one, in one step."""
        text = json.dumps({"format": _FORMAT, **asdict(version)}, ensure_ascii=False).encode()
        (self.folder / "versions").mkdir(exist_ok=True)
        replace_file(self._manifest(version.number), text)
        replace_file(self.folder / MANIFEST, text)

    def vacuum(self, keep: int) -> list[int]:
        """Remove all versions but the newest ones, and the files that only they needed; returns their numbers."""
        numbers = self.numbers()
        gone = numbers[: -max(1, keep)]
        needed = {path for number in numbers[len(gone) :] for path in self.version(number).paths}
        for number in gone:
            self._manifest(number).unlink(missing_ok=True)
        newest = numbers[-1] if numbers else 0
        # Each job wrote a folder for each predicate.
        for path in self.folder.glob("data/*/*/*"):
            place = path.relative_to(self.folder)
            if place.parts[1].isdigit() and int(place.parts[1]) <= newest and str(place) not in needed:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for pattern in ("data/*/*", "data/*"):
            for path in self.folder.glob(pattern):
                if path.is_dir() and not any(path.iterdir()):
                    path.rmdir()
        return gone

    def _manifest(self, number: int) -> Path:
        return self.folder / "versions" / f"{number:08d}.json"

    def _read(self, path: Path) -> Version | None:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StorageError(f"{path}: not a readable manifest ({error}); restore it from a backup") from None
        if found.pop("format", None) != _FORMAT:
            raise StorageError(f"{path}: written by another version of tidelog; materialise again elsewhere")
        return _version(found)


def _version(found: dict[str, Any]) -> Version:
    stored = {}
    for name, entry in found.pop("stored").items():
        base, layers = entry.pop("base"), tuple(Layer(**layer) for layer in entry.pop("layers"))
        stored[name] = Stored(**entry, base=Layer(**base) if base else None, layers=layers)
    changed = {name: Changed(**entry) for name, entry in found.pop("changed").items()}
    rules, terms = tuple(found.pop("rules")), tuple(found.pop("terms"))
    exceptions = tuple((id_, tuple(fields)) for id_, fields in found.pop("exceptions"))
    return Version(**found, stored=stored, changed=changed, rules=rules, terms=terms, exceptions=exceptions)
