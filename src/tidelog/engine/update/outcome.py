"""What an update asks for, and what it did: rows by predicate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.engine.update.rows import Rows
from tidelog.language.syntax import Rule
from tidelog.store.relation_parts import Cells

EncodedFacts = Mapping[str, Cells]
"""Rows of terms by predicate."""


@dataclass(slots=True)
class Request:
    """What an update asks for."""

    delete: EncodedFacts = field(default_factory=dict)
    add: EncodedFacts = field(default_factory=dict)
    remove_rules: tuple[int, ...] = ()
    add_rules: tuple[Rule, ...] = ()


NO_REQUEST = Request()


@dataclass(slots=True)
class Outcome:
    """What an update did: the rows of each predicate that changed, rule applications by kind, and the number of rule
    instances that failed in an expression.
    """

    removed: dict[str, Rows]
    added: dict[str, Rows]
    work: dict[str, int]
    errors: int
