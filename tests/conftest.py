"""What holds for all tests: no deadlines, since a first call may compile; and tests with Spark come first."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("tidelog", deadline=None)
settings.load_profile("tidelog")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with Spark are the longest row that one worker has to run alone, so they begin first."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
