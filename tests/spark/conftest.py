"""One Spark session for all tests of this folder, small and quick to start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from tidelog.spark.session import SHORT_JOB_JAVA_OPTIONS, open_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder; those with processes of their own come first, so that none is left alone last."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": SHORT_JOB_JAVA_OPTIONS,
        "spark.sql.shuffle.partitions": "2",
        # Compiling a plan takes longer than interpreting it on a handful of rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    session = open_session("local[2]", settings, "tidelog tests")
    yield session
    session.stop()
