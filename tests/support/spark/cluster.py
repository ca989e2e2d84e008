"""A standalone cluster on the loopback interface: a master and two workers, from the pip package alone."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from class_archive import java_options
from tidelog.spark.session import find_java

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Cluster:
    """Where the master is, and the processes of the workers."""

    master: str
    workers: list[subprocess.Popen[bytes]]


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster that ends with the context."""
    find_java()
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    address = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        _start(stack, "master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0")
        started = [
            _start(
                stack,
                "worker.Worker",
                *("--host", HOST, "--cores", "1", "--memory", "700m", "--webui-port", "0"),
                *("--work-dir", str(folder / f"worker-{number}"), address),
            )
            for number in range(workers)
        ]
        yield Cluster(address, started)


def _start(stack: ExitStack, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": java_options(),
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process
