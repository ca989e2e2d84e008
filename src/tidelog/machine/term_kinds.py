"""Kinds of terms. Kernels import it as `K`."""

from __future__ import annotations

STRING, INTEGER, FLOAT, BOOLEAN, IRI, LITERAL = 0, 1, 2, 3, 4, 5
NONE = 255  # a number that no term has
FAILURE = 0  # the term number that stands for "this function call failed"; never in a fact
