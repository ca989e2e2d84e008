"""The package itself: its names complete, and it knows its version."""

from __future__ import annotations

from importlib.metadata import version

import tidelog


def test_all_names_complete() -> None:
    assert set(tidelog.__all__) <= set(dir(tidelog))
    assert {"KnowledgeBase", "Change", "Answers", "__version__"} <= set(dir(tidelog))
    for name in tidelog.__all__:
        assert getattr(tidelog, name).__name__ == name


def test_the_version_is_that_of_the_distribution() -> None:
    assert tidelog.__version__ == version("tidelog")
