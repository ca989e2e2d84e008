"""What an update changes in the answers of queries that are watched (`engine.watching`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidelog.engine.update.failures import NO_FAILURES, Failures
from tidelog.engine.update.rows import Rows
from tidelog.language.syntax import Atom

Key = tuple[int, ...]
"""The terms of the constants of a query."""


class Watched(NamedTuple):
    """A query that is watched: the number of its shape, and its constants."""

    shape: int
    key: Key


@dataclass(frozen=True, slots=True)
class AnswersChanged:
    """What an update does to the answers of a query. `misfit` is an atom that cannot be asked any more: its predicate,
    of which nothing was known, has got another number of arguments.
    """

    watched: Watched
    removed: Rows
    added: Rows
    errors: Failures = NO_FAILURES
    misfit: Atom | None = None
