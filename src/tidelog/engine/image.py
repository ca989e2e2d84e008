"""All that a knowledge base is, as arrays and plain values: what `engine.imaging` takes and gives, and storage writes.

Indexes, hash tables, plans and the results of functions are not part of it: they are built again when they are needed.
Derivation counters are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.rules.policy import AT_LEVEL, NO_COUNTER
from tidelog.language.records.types import Declared
from tidelog.language.syntax import Rule

Arrays = Mapping[str, npt.NDArray[Any]]
Cells = npt.NDArray[np.int32]

# The counters that the derivations of a rule can be counted in, from the first to the last.
COUNTERS = (NO_COUNTER, AT_LEVEL)
# Counts that serve statistics alone have room to grow.
MOST_COUNTED = 1 << 62


@dataclass(frozen=True, slots=True)
class RelationImage:
    """The facts of a relation that are in I: rows, which are explicit, and the two counters where it keeps them."""

    name: str
    rows: Cells
    explicit: npt.NDArray[np.bool_]
    counters: Cells | None

    @property
    def arity(self) -> int:
        return int(self.rows.shape[1])

    @property
    def is_internal(self) -> bool:
        """Whether it belongs to no predicate, and serves rules or closures."""
        return self.name.startswith("#")


@dataclass(frozen=True, slots=True)
class RuleImage:
    """A rule under its number, the counter that its derivations are counted in, and how often it was applied so far."""

    number: int
    rule: Rule
    counter: int | None
    applications: int


@dataclass(frozen=True, slots=True)
class Image:
    """A knowledge base. `options` are the arguments of its constructor, `closures` the predicates kept as closures."""

    options: Mapping[str, Any]
    prefixes: Mapping[str, str]
    arities: Mapping[str, int]
    errors: int
    next_rule: int
    rules: tuple[RuleImage, ...]
    terms: Arrays
    relations: tuple[RelationImage, ...]
    closures: tuple[str, ...]
    pairs: Mapping[str, int]  # how many each closure has; older snapshots do not say
    commit: Mapping[str, str]
    declared: Declared  # older snapshots have none
