"""Published results: versions in folders of their own, and a manifest that says which one is current.

The manifest is replaced by one rename, so a reader finds the old version or the new one, and a run that dies leaves the
old one as it was. Versions never change, and have a data set of decoded terms for each predicate.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tidelog.errors import StorageError
from tidelog.storage.durable_files import replace_file

MANIFEST = "manifest.json"
_FORMAT = 1
# Runs of earlier releases kept a dictionary here, which nothing reads any more.
_OLD_TERMS = "terms"


@dataclass
class Manifest:
    """The parts of the current version; paths are relative to the folder of the manifest."""

    version: int = 0
    folder: str = ""
    predicates: dict[str, dict[str, Any]] = field(default_factory=dict)


class Versions:
    """The versions under one folder, which all executors can reach.

    Examples:
        >>> from tidelog.spark import Versions
        >>> Versions(f"{folder}/published").vacuum(keep=2)
        []
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def current(self) -> Manifest | None:
        """The manifest of the current version; None if nothing is published yet."""
        path = self.folder / MANIFEST
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StorageError(f"{path}: not a readable manifest ({error}); restore it, or publish elsewhere") from None
        if stored.pop("format", None) != _FORMAT:
            raise StorageError(f"{path}: written by another version of tidelog; publish into another folder")
        return Manifest(*(stored[one.name] for one in fields(Manifest)))

    def begin(self) -> tuple[int, Path]:
        """The number and the empty folder of the next version; whatever a dead run left there is removed."""
        number = (self.current() or Manifest()).version + 1
        folder = self.folder / "versions" / f"{number:06d}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return number, folder

    def publish(self, number: int, folder: Path, predicates: dict[str, dict[str, Any]]) -> None:
        """Make a version the current one, in one step."""
        manifest = Manifest(number, str(folder.relative_to(self.folder)), predicates)
        text = json.dumps({"format": _FORMAT} | vars(manifest), indent=1, ensure_ascii=False)
        replace_file(self.folder / MANIFEST, text.encode())

    def path(self, predicate: str) -> str:
        """The data set of a predicate in the current version."""
        current = self.current()
        if current is None or predicate not in current.predicates:
            known = ", ".join(sorted(current.predicates)) if current else "nothing is published yet"
            raise StorageError(f"{self.folder}: no data set of `{predicate}`; there is: {known}")
        return str(self.folder / current.folder / current.predicates[predicate]["path"])

    def vacuum(self, keep: int = 2) -> list[int]:
        """Remove all versions but the newest ones; returns the numbers of those that are gone."""
        current = self.current()
        if current is None:
            return []
        numbers = sorted(int(path.name) for path in (self.folder / "versions").iterdir() if path.name.isdigit())
        gone = [number for number in numbers if number <= current.version - max(1, keep)]
        for number in gone:
            shutil.rmtree(self.folder / "versions" / f"{number:06d}")
        shutil.rmtree(self.folder / _OLD_TERMS, ignore_errors=True)
        return gone
