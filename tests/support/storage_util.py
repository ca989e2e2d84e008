"""The files of a saved knowledge base, for tests that read, change and damage them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from audit import fingerprint
from tidelog import KnowledgeBase

RULES = """
    @prefix ex: <http://example.org/> .
    path(X, Y) :- edge(X, Y).
    path(X, Z) :- path(X, Y), path(Y, Z).
    ex:degree(X, count(Y)) :- edge(X, Y).
    lonely(X) :- node(X), not path(X, _).
    pair(X, Y) :- edge(X, Y), edge(Y, X).
"""


def snapshot_of(home: Path) -> Path:
    return next(path for path in home.iterdir() if path.name.startswith("snapshot"))


def journal_of(home: Path) -> Path:
    return next(path for path in home.iterdir() if path.name.startswith("journal"))


def rewrite_manifest(home: Path, manifest: dict[str, Any]) -> None:
    """As a program would that keeps the checksums right."""
    from tidelog.storage.durable_files import checksum

    content = json.dumps(manifest).encode()
    (snapshot_of(home) / "manifest.json").write_bytes(content)
    current = json.loads((home / "CURRENT").read_text())
    (home / "CURRENT").write_text(json.dumps({**current, "manifest": checksum(content)}))


def copy_of(home: Path) -> dict[str, Any]:
    copy = home.parent / "copy"
    shutil.copytree(home, copy)
    found = fingerprint(KnowledgeBase.open(copy))
    shutil.rmtree(copy)
    return found
