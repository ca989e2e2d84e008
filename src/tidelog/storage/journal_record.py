"""An update as JSON, for the journal: its constants, each with its type, and its facts as rows of their numbers.

{"terms": [["str", "a"], ["int", 7], ["float", "0.5"]],
 "add": {"edge": {"arity": 2, "rows": 1, "cells": [0, 1]}}, "delete": {…},
 "add_rules": ["p(X) :- q(X)."], "remove_rules": […], "prefixes": {"ex": "http://example.org/"},
 "commit": {"batch": "17"}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tidelog.engine.image import Cells
from tidelog.language.syntax import Rule
from tidelog.storage.checked_json import Item, declared_prefixes, is_predicate, parsed_rules, to_text
from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Literal, Value

Facts = Mapping[str, Cells]
Decode = Callable[[int], Value]
"""The constant of a number."""
Encode = Callable[[Sequence[Value]], Cells]
"""The numbers of constants."""


@dataclass(frozen=True, slots=True)
class Record:
    """An update with its facts encoded, its rules parsed, the prefixes declared after it, and the note that its user
    committed with it.
    """

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


def to_json(record: Record, decode: Decode) -> bytes:
    """The record as UTF-8 text."""
    tables = [*record.add.values(), *record.delete.values()]
    used = np.unique(np.concatenate([rows.ravel() for rows in tables])) if tables else np.empty(0, np.int32)

    def facts(side: Facts) -> dict[str, Any]:
        return {
            name: {"arity": rows.shape[1], "rows": len(rows), "cells": np.searchsorted(used, rows.ravel()).tolist()}
            for name, rows in side.items()
        }

    content = {
        "terms": [_written(decode(int(term))) for term in used],
        "add": facts(record.add),
        "delete": facts(record.delete),
        "add_rules": list(map(str, record.add_rules)),
        "remove_rules": list(map(str, record.remove_rules)),
        "prefixes": dict(record.prefixes),
        "commit": dict(record.commit),
    }
    return to_text(content, indent=None)


def from_json(payload: bytes, encode: Encode, place: Path) -> Record:
    """The record of such a text, its constants as numbers. Where it is none, the error names `place`."""
    content = Item.of_json(payload, place)
    values = [_value(item) for item in content["terms"].items()]
    numbers = encode(values) if values else np.empty(0, np.int32)
    return Record(
        _facts(content["add"], numbers),
        _facts(content["delete"], numbers),
        _rules(content["add_rules"]),
        _rules(content["remove_rules"]),
        declared_prefixes(content["prefixes"]),
        content["commit"].texts() if content.get("commit") is not None else {},
    )


def _value(item: Item) -> Value:
    """A constant: the name of its type, and what it is made of."""
    kind, *parts = list(item.items()) or [item]
    match kind.value, len(parts):
        case "str", 1:
            return parts[0].text()
        case "int", 1:
            return parts[0].integer(INTEGER_MIN, INTEGER_MAX)
        case "float", 1:
            return _float(parts[0])
        case "bool", 1:
            return parts[0].flag()
        case "iri", 1:
            return IRI(parts[0].text())
        case "literal", 3:
            return Literal(*(part.text() for part in parts))
    item.refuse("is no constant")


def _float(item: Item) -> float:
    try:
        return float(item.text())
    except ValueError:
        item.refuse("is no float")


def _facts(side: Item, numbers: Cells) -> Facts:
    facts = {}
    for name, item in side.members():
        if not is_predicate(name):
            item.refuse("is not named after a predicate")
        arity, count, cells = item.fields("arity", "rows", "cells")
        facts[name] = _rows(arity.integer(0), count.integer(0), cells, numbers)
    return facts


def _rows(arity: int, count: int, item: Item, numbers: Cells) -> Cells:
    """Rows from a list of places. There may be millions, so they are not checked one by one."""
    if not isinstance(item.value, list):
        item.refuse("are not a list")
    try:
        places = np.array(item.value or np.empty(0, np.int64))
    except (ValueError, OverflowError):
        item.refuse("are no whole numbers")
    if places.ndim != 1 or places.dtype != np.int64:
        item.refuse("are no whole numbers")
    if len(places) != arity * count:
        item.refuse(f"are {len(places)} cells, not {count} rows of {arity}")
    if places.min(initial=0) < 0 or places.max(initial=-1) >= len(numbers):
        item.refuse(f"name a constant that is not there: there are {len(numbers)}")
    # There is one fact without arguments, however often it is given.
    return numbers[places].reshape(count if arity else min(count, 1), arity)


def _rules(texts: Item) -> tuple[Rule, ...]:
    return tuple(rule for text in texts.items() for rule in parsed_rules(text))
