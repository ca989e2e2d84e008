"""Saved knowledge bases as earlier versions of tidelog wrote them, with the tables of a snapshot as Parquet files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage_util import rewrite_manifest, snapshot_of
from tidelog.storage.array_files import Arrays, read_arrays
from tidelog.storage.durable_files import checksum
from tidelog.storage.term_columns import IS_TEXT


def make_old(home: Path) -> None:
    """Write a saved knowledge base anew, in version 1 of the format."""
    snapshot = snapshot_of(home)
    manifest = json.loads((snapshot / "manifest.json").read_text())
    files = {}
    for name, expected in manifest["files"].items():
        path = snapshot / name
        arrays = read_arrays(path, expected)
        old = path.with_suffix(".parquet")
        table = _table_of_terms(arrays) if path.stem == "terms" else pa.table(dict(arrays))
        pq.write_table(table, old, compression="zstd", use_dictionary=False, write_statistics=False)
        files[old.name] = checksum(old.read_bytes())
        path.unlink()
    manifest["files"] = files
    for relation in manifest["relations"]:
        relation["file"] = str(Path(relation["file"]).with_suffix(".parquet"))
    rewrite_manifest(home, manifest)
    current = json.loads((home / "CURRENT").read_text())
    (home / "CURRENT").write_text(json.dumps({**current, "version": 1}))


def _table_of_terms(arrays: Arrays) -> pa.Table:
    kinds, numbers, sizes, text = arrays.values()
    is_text = IS_TEXT[kinds]
    offsets = np.zeros(len(kinds) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    texts = pa.LargeStringArray.from_buffers(len(kinds), pa.py_buffer(offsets), pa.py_buffer(text))
    columns = {
        "kind": pa.array(kinds),
        "number": pa.array(numbers, mask=is_text),
        "text": pc.if_else(pa.array(is_text), texts, None),
    }
    return pa.table(columns)
