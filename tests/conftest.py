"""What holds for all tests: no deadlines, since a first call may compile; and one Spark session, in one worker."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("tidelog", deadline=None)
settings.load_profile("tidelog")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with Spark go to one worker, and begin first: they are the longest row of tests that cannot be divided."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
