"""The folder with all that a restart of a stream needs: which stream it is, Spark's own checkpoint, the state of the
engine, and the latest metrics. They belong together: remove all of them, or none.
"""

from __future__ import annotations

import json
from pathlib import Path

from tidelog.errors import StorageError
from tidelog.spark.streams.sink import BatchFolder
from tidelog.storage.durable_files import checksum, replace_file, storage_errors

_FORMAT = 2


class Checkpoint:
    """One stream: a program, an engine, a sink."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spark = folder / "spark"
        self.engine = folder / "engine"
        self.metrics = folder / "metrics.json"
        self._path = folder / "stream.json"

    def begin(self, program: str, engine: str, *outputs: BatchFolder, shards: int | None = None) -> None:
        """Begin a stream here, or make sure that it is the same one as before; `shards`: of keys, if it has any."""
        wanted = {"format": _FORMAT, "program": checksum(program.encode()), "engine": engine, "shards": shards}
        if self._path.exists():
            self._compare(wanted)
            return
        used = [output.path for output in outputs if output.batches]
        if used:
            raise StorageError(f"{used[0]} holds batches of another stream; name an empty folder, or its checkpoint")
        with storage_errors("write", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, json.dumps(wanted).encode())

    def _compare(self, wanted: dict[str, object]) -> None:
        with storage_errors("read", self._path):
            found = json.loads(self._path.read_bytes())
        for what, advice in (
            ("format", "it is of another version of tidelog"),
            ("engine", f"its engine is {found.get('engine')}"),
            ("shards", f"it has {found.get('shards')} shards"),
            ("program", "its program was another one: put that back and send the change of rules through the stream"),
        ):
            if found.get(what) != wanted[what]:
                raise StorageError(f"{self.folder} is the checkpoint of another stream: {advice}; or name a new folder")
