"""The names of the maintenance algorithms, apart from them so that `tidelog --help` can list them without Numba."""

from __future__ import annotations

from enum import StrEnum


class Maintenance(StrEnum):
    """The values of the option `maintenance`."""

    AUTO = "auto"
    RECOMPUTE = "recompute"
    DRED = "dred"
    COUNTING = "counting"
    COUNTING_TRACE = "counting-trace"
    DRED_COUNTING = "dred-counting"
    BACKWARD_FORWARD = "backward-forward"
    BACKWARD_FORWARD_COUNTING = "backward-forward-counting"


MAINTENANCE = tuple(item.value for item in Maintenance)
