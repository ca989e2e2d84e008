"""Fixtures for the tests of streams and of the fully dynamic mode."""

from __future__ import annotations

import pytest

import tidelog.engine.transaction.task
import tidelog.facts.encoding
import tidelog.live.backlog
import tidelog.live.worker
import tidelog.store.store


@pytest.fixture
def _tiny_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make slices so small that every transaction pauses halfway."""
    monkeypatch.setattr(tidelog.live.worker, "SLICE", 3)
