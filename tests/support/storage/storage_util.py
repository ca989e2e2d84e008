"""The files of a saved knowledge base, for tests that read, change and damage them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from audit import fingerprint
from tidelog import IRI, KnowledgeBase, Literal
from tidelog.storage.durable_files import checksum

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


# A store with constants of all kinds, closures, counters, negation, an aggregate, and a journal.
ALL_KINDS = """
    path(X, Y) :- edge(X, Y).
    path(X, Z) :- path(X, Y), path(Y, Z).
    degree(X, count(Y)) :- edge(X, Y).
    lonely(X) :- node(X), not path(X, _).
    same(X, Z) :- same(X, Y), same(Y, Z), X != Z.
    same(X, Y) :- twin(X, Y).
"""


def save_all_kinds(folder: Path) -> None:
    kb = KnowledgeBase(ALL_KINDS)
    kb.update(add={"edge": [("a", "b"), ("b", "c"), ("c", "a")], "node": [("z",), (1.5,), (7,), (True,)]})
    kb.update(add={"twin": [("a", "b")], "node": [(IRI("http://a"),), (Literal("x", language="en"),)], "flag": [()]})
    kb.save(folder)
    with KnowledgeBase.open(folder, journal=True) as kb:
        kb.update(add={"edge": [("c", "d")]}, add_rules="last(X) :- node(X).", commit={"batch": "1"})


def rewrite(home: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest, as a program would that keeps the checksums right; also those of tables that changed."""
    path = home / "snapshot-1" / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    for name in manifest["files"] if isinstance(manifest.get("files"), dict) else ():
        if (table := path.parent / os.path.basename(name)).is_file():
            manifest["files"][name] = checksum(table.read_bytes())
    path.write_text(json.dumps(manifest))
    current = json.loads((home / "CURRENT").read_text())
    (home / "CURRENT").write_text(json.dumps({**current, "manifest": checksum(path.read_bytes())}))


def file_of(home: Path, name: str) -> str:
    manifest = json.loads((home / "snapshot-1" / "manifest.json").read_text())
    return next(item["file"] for item in manifest["relations"] if item["name"] == name)
