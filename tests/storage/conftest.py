"""Fixtures for the tests of knowledge bases on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_util import RULES
from tidelog import KnowledgeBase


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a saved knowledge base."""
    kb = KnowledgeBase(RULES, maintenance="backward-forward-counting", max_facts=10_000, timeout=60.5)
    kb.update(add={"edge": [("a", "b"), ("b", "c"), ("c", "a")], "node": [("z",), ("a",)], "flag": [()]})
    kb.save(tmp_path / "home")
    return tmp_path / "home"
