"""A plugin for pytest: `*.test.dlog` files are collected, and each of their tests is a test of pytest.

It is loaded with every run of pytest where tidelog is installed, so it imports nothing before there is such a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidelog.testing.rule_tests import RuleTest
    from tidelog.testing.running import Failure


class FailedSteps(Exception):
    """What failed in a test of rules."""

    def __init__(self, failures: list[Failure]) -> None:
        super().__init__("\n".join(map(str, failures)))
        self.failures = failures


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the files of tests."""
    return RuleTestFile.from_parent(parent, path=file_path) if file_path.name.endswith(".test.dlog") else None


class RuleTestFile(pytest.File):
    """A file of tests."""

    def collect(self) -> Iterator[pytest.Item]:
        from tidelog.errors import TidelogError
        from tidelog.testing.rule_tests import read_tests

        try:
            tests = read_tests(self.path)
        except TidelogError as error:
            raise self.CollectError(str(error)) from None
        for test in tests:
            yield RuleTestItem.from_parent(self, name=test.name, test=test)


class RuleTestItem(pytest.Item):
    """One test of a file."""

    def __init__(self, *, test: RuleTest, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._test = test

    def runtest(self) -> None:
        from tidelog.testing.running import run

        failures = run(self._test)
        if failures:
            raise FailedSteps(failures)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if not isinstance(excinfo.value, FailedSteps):
            return super().repr_failure(excinfo, style)
        return "\n".join(f"{self.path}:{failure.line}: {failure}" for failure in excinfo.value.failures)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, max(self._test.line - 1, 0), self.name
