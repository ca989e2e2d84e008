"""What a procedure did: its sets when it ended, its rule applications in order, and how many there were by line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.papers.instances import Fact, Instance


class Application(NamedTuple):
    """One rule application: the work it counts as, and the instance."""

    kind: str
    instance: Instance


@dataclass(slots=True)
class Trace:
    """A run of a paper's procedure on one update.

    `sets` holds the paper's sets by the paper's letters, each in the order of arrival, `work` the applications by kind,
    and `applications` each of them, in order. With several strata, each contributes in turn.
    """

    procedure: str
    sets: dict[str, tuple[Fact, ...]] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)
    applications: list[Application] = field(default_factory=list)

    def apply(self, kind: str, instance: Instance) -> None:
        self.applications.append(Application(kind, instance))
        self.work[kind] = self.work.get(kind, 0) + 1

    def keep(self, **sets: Iterable[Fact]) -> None:
        """Keep sets under the paper's letters; what an earlier stratum kept comes first."""
        for letter, facts in sets.items():
            self.sets[letter] = tuple(dict.fromkeys((*self.sets.get(letter, ()), *facts)))

    def __str__(self) -> str:
        sets = (f"{letter} = {{{', '.join(map(str, facts))}}}" for letter, facts in self.sets.items())
        counts = (f"{kind}: {count}" for kind, count in self.work.items())
        return "\n".join((self.procedure, *sets, *counts))
