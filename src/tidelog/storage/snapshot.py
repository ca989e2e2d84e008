"""An image of a knowledge base as files in a folder: `manifest.json`, the terms and each relation as Parquet.

The manifest holds everything that is not a table, and the checksum of every table. Whoever names the folder keeps the
checksum of the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.errors import StorageError, TidelogError
from tidelog.language import parse_rules
from tidelog.storage.files import checksum, checksum_of_file, force, force_folder, storage_errors, write_file
from tidelog.storage.image import Arrays, Image, RelationImage, RuleImage
from tidelog.store.layout import K_IRI, K_LITERAL, K_STRING

MANIFEST = "manifest.json"
TERMS = "terms.parquet"
TEXT_KINDS = (K_STRING, K_IRI, K_LITERAL)


# --- writing ------------------------------------------------------------------------------------------------------


def write_snapshot(folder: Path, image: Image) -> str:
    """Write an image into a new folder, all of it on the disk afterwards; the checksum of its manifest."""
    with storage_errors("write", folder):
        folder.mkdir()
        files = {TERMS: _write_table(folder / TERMS, _table_of_terms(image.terms))}
        relations = []
        for number, relation in enumerate(image.relations):
            name = f"relation-{number}.parquet"
            files[name] = _write_table(folder / name, _table_of_relation(relation))
            relations.append({"name": relation.name, "arity": relation.arity, "file": name})
        manifest = json.dumps(_manifest(image, relations, files), ensure_ascii=False, indent=1).encode()
        write_file(folder / MANIFEST, manifest)
        force_folder(folder)
        return checksum(manifest)


def _write_table(path: Path, table: pa.Table) -> str:
    with path.open("wb") as file:
        pq.write_table(table, file, compression="zstd", use_dictionary=False, write_statistics=False)
        force(file)
    return checksum_of_file(path)


def _manifest(image: Image, relations: list[dict[str, Any]], files: Mapping[str, str]) -> dict[str, Any]:
    rules = [
        {"number": item.number, "text": str(item.rule), "counter": item.counter, "applications": item.applications}
        for item in image.rules
    ]
    return {
        "options": dict(image.options),
        "prefixes": dict(image.prefixes),
        "arities": dict(image.arities),
        "errors": image.errors,
        "next_rule": image.next_rule,
        "rules": rules,
        "relations": relations,
        "closures": list(image.closures),
        "commit": dict(image.commit),
        "files": dict(files),
    }


def _table_of_terms(terms: Arrays) -> pa.Table:
    """A row for each term from number 1 on: its kind, its number or its text. Texts lie in the heap in that order."""
    kinds, payloads, sizes = (terms[name][1:] for name in ("kinds", "payloads", "sizes"))
    is_text = np.isin(kinds, TEXT_KINDS)
    offsets = np.zeros(len(kinds) + 1, np.int64)
    np.cumsum(np.where(is_text, sizes, 0), out=offsets[1:])
    texts = pa.LargeStringArray.from_buffers(len(kinds), pa.py_buffer(offsets), pa.py_buffer(terms["text"]))
    columns = {
        "kind": pa.array(kinds),
        "number": pa.array(np.where(is_text, 0, payloads), mask=is_text),
        "text": pc.if_else(pa.array(is_text), texts, None),
    }
    return pa.table(columns)


def _table_of_relation(relation: RelationImage) -> pa.Table:
    columns: dict[str, npt.NDArray[Any]] = {
        f"c{place}": np.ascontiguousarray(relation.rows[:, place]) for place in range(relation.arity)
    }
    columns["explicit"] = relation.explicit
    if relation.counters is not None:
        columns["nonrecursive"], columns["recursive"] = np.ascontiguousarray(relation.counters.T)
    return pa.table(columns)


# --- reading ------------------------------------------------------------------------------------------------------


def read_snapshot(folder: Path, expected: str) -> Image:
    """The image in a folder; `StorageError` where anything is missing or is not what was written."""
    content = _read_manifest(folder, expected)
    try:
        return _image(folder, content)
    except (LookupError, TypeError, ValueError, TidelogError) as problem:
        if isinstance(problem, StorageError):
            raise
        raise StorageError(f"{folder / MANIFEST} cannot be understood: {problem!r}") from problem


def _read_manifest(folder: Path, expected: str) -> dict[str, Any]:
    path = folder / MANIFEST
    with storage_errors("read", path):
        content = path.read_bytes()
    if checksum(content) != expected:
        raise _damaged(path)
    manifest: dict[str, Any] = json.loads(content)
    return manifest


def _damaged(path: Path) -> StorageError:
    return StorageError(f"{path} is damaged: its checksum is not the one that was saved; restore it from a copy")


def _image(folder: Path, content: Mapping[str, Any]) -> Image:
    tables = {name: _read_table(folder / name, expected) for name, expected in content["files"].items()}
    rules = tuple(
        RuleImage(item["number"], parse_rules(item["text"], {})[0], item["counter"], item["applications"])
        for item in content["rules"]
    )
    relations = tuple(
        _relation_of_table(item["name"], item["arity"], tables[item["file"]]) for item in content["relations"]
    )
    return Image(
        options=content["options"],
        prefixes=content["prefixes"],
        arities=content["arities"],
        errors=content["errors"],
        next_rule=content["next_rule"],
        rules=rules,
        terms=_terms_of_table(tables[TERMS]),
        relations=relations,
        closures=tuple(content["closures"]),
        commit=content.get("commit", {}),
    )


def _read_table(path: Path, expected: str) -> pa.Table:
    with storage_errors("read", path):
        if checksum_of_file(path) != expected:
            raise _damaged(path)
        return pq.read_table(path, use_threads=False)


def _terms_of_table(table: pa.Table) -> Arrays:
    texts = pc.fill_null(table["text"], "").combine_chunks().cast(pa.large_string())
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    heap = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    kinds = table["kind"].to_numpy()
    numbers = pc.fill_null(table["number"], 0).to_numpy()
    is_text = np.isin(kinds, TEXT_KINDS)
    return {
        "kinds": np.concatenate((np.array([255], np.uint8), kinds)),
        "payloads": np.concatenate((np.zeros(1, np.int64), np.where(is_text, offsets[:-1] - offsets[0], numbers))),
        "sizes": np.concatenate((np.zeros(1, np.int32), np.diff(offsets).astype(np.int32))),
        "text": heap,
    }


def _relation_of_table(name: str, arity: int, table: pa.Table) -> RelationImage:
    rows = np.empty((table.num_rows, arity), np.int32)
    for place in range(arity):
        rows[:, place] = table[f"c{place}"].to_numpy()
    counters = None
    if "recursive" in table.column_names:
        counters = np.stack([table[column].to_numpy() for column in ("nonrecursive", "recursive")], axis=1)
    return RelationImage(name, rows, table["explicit"].to_numpy(), counters)
