"""An update as JSON, for the journal: the constants that occur, each with its type, and facts as rows of their numbers.

{"terms": [["str", "a"], ["int", 7], ["float", "0.5"]],
 "add": {"edge": {"arity": 2, "rows": 1, "cells": [0, 1]}}, "delete": {…},
 "add_rules": ["p(X) :- q(X)."], "remove_rules": […], "prefixes": {"ex": "http://example.org/"},
 "commit": {"batch": "17"}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidelog.errors import StorageError, TidelogError
from tidelog.language import parse_rules
from tidelog.language.syntax import Rule
from tidelog.store.records import Cells
from tidelog.store.terms import Terms
from tidelog.values import IRI, Literal, Value

Facts = Mapping[str, Cells]

_READ: Mapping[str, Callable[..., Value]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "iri": IRI,
    "literal": Literal,
}


@dataclass(frozen=True, slots=True)
class Record:
    """An update with its facts encoded, its rules parsed, the prefixes that were declared after it, and the note that
    its user committed with it."""

    add: Facts = field(default_factory=dict)
    delete: Facts = field(default_factory=dict)
    add_rules: tuple[Rule, ...] = ()
    remove_rules: tuple[Rule, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    commit: Mapping[str, str] = field(default_factory=dict)


def _written(value: Value) -> list[Any]:
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, float):
        return ["float", repr(value)]  # JSON has neither NaN nor infinity
    if isinstance(value, IRI):
        return ["iri", value.value]
    if isinstance(value, Literal):
        return ["literal", value.text, value.datatype, value.language]
    return [type(value).__name__, value]


def to_json(record: Record, terms: Terms) -> bytes:
    """The record as UTF-8 text."""
    tables = [*record.add.values(), *record.delete.values()]
    used = np.unique(np.concatenate([rows.ravel() for rows in tables])) if tables else np.empty(0, np.int32)

    def facts(side: Facts) -> dict[str, Any]:
        return {
            name: {"arity": rows.shape[1], "rows": len(rows), "cells": np.searchsorted(used, rows.ravel()).tolist()}
            for name, rows in side.items()
        }

    content = {
        "terms": [_written(terms.table.decode(int(term))) for term in used],
        "add": facts(record.add),
        "delete": facts(record.delete),
        "add_rules": list(map(str, record.add_rules)),
        "remove_rules": list(map(str, record.remove_rules)),
        "prefixes": dict(record.prefixes),
        "commit": dict(record.commit),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def from_json(payload: bytes, terms: Terms) -> Record:
    """The record of such a text; its constants are numbered by `terms`."""
    try:
        content = json.loads(payload)
        values = [_READ[kind](*parts) for kind, *parts in content["terms"]]
        numbers = terms.encode_values(values) if values else np.empty(0, np.int32)
        return Record(
            _facts(content["add"], numbers),
            _facts(content["delete"], numbers),
            _rules(content["add_rules"]),
            _rules(content["remove_rules"]),
            content["prefixes"],
            content.get("commit", {}),
        )
    except (ValueError, LookupError, TypeError, AttributeError, TidelogError) as problem:
        raise StorageError(f"the journal holds an update that cannot be understood: {problem!r}") from problem


def _facts(side: Mapping[str, Any], numbers: Cells) -> Facts:
    return {
        name: numbers[np.array(table["cells"], np.int64)].reshape(table["rows"], table["arity"])
        for name, table in side.items()
    }


def _rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    return tuple(rule for text in texts for rule in parse_rules(text, {}))
