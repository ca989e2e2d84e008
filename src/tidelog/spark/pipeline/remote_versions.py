"""Published results at an address: versions in any file system that Spark can write, also one without a rename.

A version is made in a working folder, and Spark copies its data sets to a place that nobody reads yet. The last step
is the manifest, one file under the number of the version: the newest one that is there names the current version. No
file is ever replaced or renamed by us, so that a store of objects will do. Spark itself writes a file so that it is
there as a whole or not at all, if the store is consistent and its committer is one that the store supports.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidelog.errors import StorageError
from tidelog.spark.pipeline.publishing import Manifest, Versions

_AT_ONCE = 4


class RemoteVersions:
    """The versions at an address."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        self._spark = spark
        self.address = address.rstrip("/")

    def current(self) -> Manifest | None:
        """The manifest of the current version; None if nothing is published yet."""
        try:
            frame = self._spark.read.text(f"{self.address}/manifests/*", wholetext=True)
            found = [json.loads(row["value"]) for row in frame.collect()]
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise StorageError(f"{self.address}: no readable manifest ({error})") from None
            return None
        except ValueError as error:
            raise StorageError(f"{self.address}: a manifest is broken ({error}); remove it") from None
        return max((Manifest(**one) for one in found), key=lambda one: one.version, default=None)

    def path(self, predicate: str) -> str:
        """The data set of a predicate in the current version."""
        current = self.current()
        if current is None or predicate not in current.predicates:
            known = ", ".join(sorted(current.predicates)) if current else "nothing is published yet"
            raise StorageError(f"{self.address}: no data set of `{predicate}`; there is: {known}")
        return f"{self.address}/{current.folder}/{current.predicates[predicate]['path']}"

    def publish(self, made: Versions, report: Any) -> int:
        """Copy the current version of a folder here, and make it the current one; returns its number."""
        manifest = made.current()
        assert manifest is not None
        before = self.current()
        number = before.version + 1 if before else 1
        report.version = number
        source, target = made.folder / manifest.folder, f"versions/{number:06d}"
        names = [entry["path"] for entry in manifest.predicates.values()]
        names += [path.name for path in source.iterdir() if path.is_dir() and not path.name.startswith((".", "_"))]

        def copy(name: str) -> None:
            frame = self._spark.read.parquet(f"file:{(source / name).absolute()}")
            frame.write.mode("overwrite").parquet(f"{self.address}/{target}/{name}")

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            # Jobs of other threads count as those of this one.
            list(pool.map(inheritable_thread_target(self._spark)(copy), dict.fromkeys(names)))
        self._put(f"{target}/report.json", asdict(report))
        self._put(f"manifests/{number:06d}", {**vars(manifest), "version": number, "folder": target})
        return number

    def _put(self, name: str, content: dict[str, Any]) -> None:
        """Write a folder with one file that holds JSON."""
        text = pa.table({"value": [json.dumps(content, ensure_ascii=False)]})
        self._spark.createDataFrame(text).coalesce(1).write.mode("overwrite").text(f"{self.address}/{name}")
