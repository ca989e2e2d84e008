"""Options of materialisation and maintenance on Spark, and statistics of what was done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.errors import DataError
from tidelog.language.syntax import Rule

MAINTENANCE = ("auto", "backward-forward", "dred")

OnProgress = Callable[[str], None]


@dataclass
class Round:
    """What one round of one wave did."""

    wave: int
    number: int
    predicates: tuple[str, ...]
    how: str
    new_facts: int
    seconds: float


@dataclass
class Options:
    """How to materialise. A limit of `None` is no limit.

    Components that read at most `local_facts` facts are solved inside one task, unless they yield more than
    `local_results`; 0 forbids it. If there are more facts, components that keep to keys are solved in several tasks,
    each of which holds the facts without a key, if there are at most `closure_edges`; with `local_facts` = 0, only
    recursions are. Transitive closures of at most `closure_edges` pairs are computed in tasks that each hold all pairs;
    larger ones by connected components, if these have no more, or else by doubling. With 0, all closures are doubled,
    and all other recursions go by rounds. The driver itself carries out a small update, looking up the facts that it
    needs, if the rules read at most `lookup_facts` in all; `local_facts` = 0 forbids this as well.

    `maintenance` says how updates delete in recursive components that are not closures: `backward-forward`, `dred`, or
    `auto`, which is `backward-forward` until it would have to check a large part of the component.

    Examples:
        >>> from tidelog.spark import Options
        >>> Options(local_facts=0).local_facts
        0
    """

    max_facts: int | None = None
    timeout: float | None = None
    local_facts: int = 1_000_000
    local_results: int = 5_000_000
    closure_edges: int = 5_000_000
    lookup_facts: int = 50_000_000
    maintenance: str = "auto"

    def __post_init__(self) -> None:
        if self.maintenance not in MAINTENANCE:
            raise DataError(f"maintenance {self.maintenance!r} is not known on Spark; use {', '.join(MAINTENANCE)}")


@dataclass
class Statistics:
    """What was done, and how many rule instances failed because a value was missing: by rule, and inside tasks."""

    rounds: list[Round] = field(default_factory=list)
    failures: dict[Rule, int] = field(default_factory=lambda: defaultdict(int))
    failures_in_tasks: int = 0

    @property
    def total_failures(self) -> int:
        return sum(self.failures.values()) + self.failures_in_tasks
