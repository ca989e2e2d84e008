"""Kinds of work, counted in rule applications or facts: the keys of `change.work`. Kernels import it as `W`."""

from __future__ import annotations

KINDS = (
    "insertion",
    "deletion",
    "backward",
    "forward",
    "rederivation",
    "checked",
    "overdeleted",
    "marked_explicit",
    "marked_implicit",
)
INSERTION, DELETION, BACKWARD, FORWARD, REDERIVATION = 0, 1, 2, 3, 4
CHECKED, OVERDELETED, MARKED_EXPLICIT, MARKED_IMPLICIT = 5, 6, 7, 8
