"""`tidelog test`: finds the files, runs their tests, and tells what failed, where, and how it differs.

The exit code is 0 if all tests pass, 1 if one fails, and 2 if a file cannot be read or there is no test.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tidelog.errors import TidelogError
from tidelog.formats.display import counted
from tidelog.formats.files.byte_files import data_error, io_errors
from tidelog.testing.rule_tests import SUFFIX, RuleTest, read_tests
from tidelog.testing.running import Failure, run

PASSED, FAILED, UNREADABLE = 0, 1, 2


def run_tests(paths: Iterable[str], match: str = "", verbose: bool = False) -> int:
    """Run the tests of files and folders whose names contain `match`; returns the exit code."""
    began = time.perf_counter()
    passed = unreadable = 0
    failed: list[tuple[RuleTest, list[Failure]]] = []
    files = [file for path in paths for file in test_files(Path(path))]
    for file in dict.fromkeys(files):
        try:
            tests = [test for test in read_tests(file) if match in test.name]
        except TidelogError as error:
            unreadable += 1
            print(f"error: {error}", file=sys.stderr)
            continue
        results = [(test, run(test)) for test in tests]
        bad = [result for result in results if result[1]]
        failed += bad
        passed += len(results) - len(bad)
        _print_file(file, results, verbose)
    for test, failures in failed:
        _print_failures(test, failures)
    print(_summary(passed, len(failed), unreadable, time.perf_counter() - began))
    if unreadable:
        return UNREADABLE
    if not (passed or failed):
        wanted = f" whose name contains {match!r}" if match else ""
        raise TidelogError(f"there is no test{wanted}; tests are in files named *{SUFFIX}")
    return FAILED if failed else PASSED


def test_files(path: Path) -> list[Path]:
    """A file of tests, or all of them in a folder and below."""
    with io_errors(str(path)):
        if path.is_dir():
            return sorted(file for file in path.rglob(f"*{SUFFIX}") if file.is_file())
        if not path.exists():
            raise data_error(str(path), None, "no such file or folder; check the path")
    if not path.name.endswith(SUFFIX):
        raise data_error(str(path), None, f"tests are in files named *{SUFFIX}")
    return [path]


def _print_file(file: Path, results: list[tuple[RuleTest, list[Failure]]], verbose: bool) -> None:
    if not results:
        return
    if not verbose:
        print(f"{file} {''.join('F' if failures else '.' for _, failures in results)}")
        return
    for test, failures in results:
        print(f"{file}:{test.line or 1}: {test.name} {'FAILED' if failures else 'passed'}")


def _print_failures(test: RuleTest, failures: list[Failure]) -> None:
    print(f"\n── {test.name}")
    for failure in failures:
        print(f"{test.path}:{failure.line}: {failure}")


def _summary(passed: int, failed: int, unreadable: int, seconds: float) -> str:
    counts = [f"{passed} passed"]
    counts += [f"{failed} failed"] if failed else []
    counts += [f"{counted(unreadable, 'file')} cannot be read"] if unreadable else []
    return f"\n{', '.join(counts)} in {seconds:.2f} s"
