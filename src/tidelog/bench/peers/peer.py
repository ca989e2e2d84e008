"""What another engine is to the benchmarks: a name, a version where it is installed, and its time on a task."""

from __future__ import annotations

import shutil
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from tidelog.bench.data.cases import Case, Tables
from tidelog.bench.measure import Measured
from tidelog.bench.peers.translate import derived_names, plain_name, plain_tables, program_of
from tidelog.language.syntax import Rule
from tidelog.values import Row


@dataclass(frozen=True)
class Task:
    """A case with its facts, as the peers see it."""

    rules: tuple[Rule, ...]
    facts: Tables
    answer: tuple[str, ...]
    query: str

    @staticmethod
    def of(case: Case, seed: int, size: float) -> Task:
        rules, prefixes = program_of(case.rules)
        facts = plain_tables(case.facts(seed, size), prefixes)
        answer = tuple(map(plain_name, case.answer)) or tuple(derived_names(rules))
        return Task(rules, facts, answer, case.query)


class Peer(ABC):
    """An engine. `materialise` measures it on a task; the value of the measurement is the number of facts."""

    name: str

    @abstractmethod
    def version(self) -> str | None:
        """None where it is not installed."""

    @abstractmethod
    def materialise(self, task: Task) -> Measured: ...

    def takes(self, case: Case) -> bool:
        """Whether the engine can run a case at all."""
        return True


def package_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def printed_version(*command: str) -> str | None:
    """The line with a number that a program prints about itself: some print a ruler before it."""
    if shutil.which(command[0]) is None:
        return None
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return next((line.strip() for line in lines if any(map(str.isdigit, line))), "of unknown version")


def rows_of(facts: Tables) -> list[tuple[str, Row]]:
    """Facts one by one, each with its predicate."""
    return [
        (name, row)
        for name, table in facts.items()
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]
