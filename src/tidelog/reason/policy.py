"""Which derivation counters an algorithm keeps."""

from __future__ import annotations

from enum import Enum

# Which counter a derivation moves; the numbers are those of `reason.heads`.
NO_COUNTER = -1
NON_RECURSIVE = 0
RECURSIVE = 1
PROTECT_ONLY = 2  # move none, but a fact with a non-recursive derivation is safe from overdeletion


class Counters(Enum):
    """None (DRed, B/F); of non-recursive derivations (B/F with counters); of all (counting, DRed^c)."""

    NONE = 0
    NON_RECURSIVE = 1
    ALL = 2

    def of(self, recursive: bool, deleting: bool) -> int:
        """The counter that an instance of a rule moves."""
        if self is Counters.NONE:
            return NO_COUNTER
        if not recursive:
            return NON_RECURSIVE
        if self is Counters.ALL:
            return RECURSIVE
        return PROTECT_ONLY if deleting else NO_COUNTER
