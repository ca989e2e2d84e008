"""Kinds of terms. Kernels import it as `K`."""

from __future__ import annotations

STRING = 0
INTEGER = 1
FLOAT = 2
BOOLEAN = 3
IRI = 4
LITERAL = 5
NONE = 255  # a number that no term has
FAILURE = 0  # the term number that stands for "this function call failed"; never in a fact
