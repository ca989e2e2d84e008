"""The maintenance algorithms by name. The algorithms need Numba, and `tidelog --help` wants their names at once."""

from __future__ import annotations

from enum import StrEnum


class Maintenance(StrEnum):
    """What `maintenance` of a knowledge base can be."""

    AUTO = "auto"
    RECOMPUTE = "recompute"
    DRED = "dred"
    COUNTING = "counting"
    DRED_COUNTING = "dred-counting"
    BACKWARD_FORWARD = "backward-forward"
    BACKWARD_FORWARD_COUNTING = "backward-forward-counting"


MAINTENANCE = tuple(item.value for item in Maintenance)
