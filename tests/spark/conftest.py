"""One Spark session for all tests of this folder, small and quick to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from quick import QUICK
from tidelog.spark.session import open_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests but those of the engines of streams, which need no session. Those with processes of their own come
    first, and short ones without Spark last, so that no worker has much left when the others are done."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.path.parent != here / "stream_engines":
            item.add_marker(pytest.mark.spark)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("slow"):
        return 0
    return 1 if "spark" in getattr(item, "fixturenames", ()) else 2


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("local[2]", QUICK | {"spark.driver.memory": "1g"}, "tidelog tests")
    yield session
    session.stop()
