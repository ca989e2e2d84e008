"""Making records and taking them apart: what `[X, Y]` in a rule becomes (`language.records.patterns`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from tidelog.errors import DataError
from tidelog.language.functions.failing import CallFailed
from tidelog.values import Record, Value

# The fields of a record are asked for one after the other.
_fields = lru_cache(maxsize=1024)(lambda record: record.fields)


def _make(*fields: Value) -> Value:
    try:
        return Record(*fields)
    except DataError as problem:
        raise CallFailed(f"has no value: {problem}") from None


def _field(value: Value, place: Value, size: Value) -> Value:
    """A field of a record of that size; of anything else, the value itself."""
    if not isinstance(value, Record):
        return value
    fields: tuple[Value, ...] = _fields(value)
    return fields[place] if len(fields) == size and type(place) is int and 0 <= place < len(fields) else value


FUNCTIONS: Mapping[str, Callable[..., Value]] = {"make_record": _make, "record_field": _field}
