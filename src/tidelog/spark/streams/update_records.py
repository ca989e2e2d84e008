"""Update records: what a stream brings, one by one, and the net effect of several of them.

A record is a single operation, or a whole update as `tidelog stream` reads it:

    {"op": "add", "predicate": "edge", "arguments": ["a", "b"]}        add, +, added; delete, -, removed
    {"op": "add_rules", "arguments": ["path(X, Y) :- edge(X, Y)."]}    remove_rules
    {"add": {"edge": [["a", "b"]]}, "delete": {…}, "add_rules": "…", "remove_rules": "…"}

Either may say when it comes, by `"at"`. In CSV an operation is a line: `add,edge,a,b`. Changes in a sink are operations
too, so that a stream can read what another one wrote.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.errors import DataError
from tidelog.facts.results import row_identity
from tidelog.formats import Update, values_of
from tidelog.formats.files.delimited import DelimitedReader
from tidelog.formats.files.jsonl import parse_json, row_from_json
from tidelog.formats.files.updates import Facts, update_from_json
from tidelog.values import Row

ADD, DELETE = "add", "delete"
Operation = tuple[str, str, Row]  # add or delete, predicate, arguments

_OPERATIONS = {ADD: ADD, "+": ADD, "added": ADD, DELETE: DELETE, "-": DELETE, "removed": DELETE}
_RULES = ("add_rules", "remove_rules")
_KEYS = {"op", "predicate", "arguments", "batch", "key", "at"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A record as it came, and where from; one that is not text is in base64. `fault`: why it cannot be applied."""

    place: str
    body: str
    fault: str = ""


def entry_of(place: str, data: bytes) -> Entry:
    """A record of bytes: its text, or base64 if they are not text."""
    try:
        return Entry(place, data.decode())
    except UnicodeDecodeError as error:
        reason = f"byte 0x{data[error.start]:02x} at place {error.start} is not UTF-8"
        return Entry(place, b64encode(data).decode(), f"{reason}; the record stands here in base64")


def parse_entry(body: str, csv: bool = False, allow_rules: bool = True, allow_times: bool = True) -> Update:
    """The update of a record; DataError if it is none, or if it changes rules, or says when it comes, and must not."""
    update = _parse_csv(body) if csv else _parse_json(body)
    if "at" in update and not allow_times:
        raise DataError('a record that says when it comes, by "at"; the engine memory takes such records')
    if changes_rules(update) and not allow_rules:
        raise DataError("a record that changes rules; write allow_rules = true in [stream] to take such records")
    return update


def _parse_json(body: str) -> Update:
    value = parse_json(body)
    if isinstance(value, dict) and "op" in value:
        unknown = sorted(value.keys() - _KEYS)
        if unknown:
            raise DataError(f"a record has no `{unknown[0]}`; it has op, predicate and arguments")
        arguments = value.get("arguments", [])
        update = operation(
            value["op"],
            value.get("predicate"),
            row_from_json(parse_json(arguments) if isinstance(arguments, str) else arguments),
        )
        return Update(**update, **update_from_json({"at": value["at"]})) if "at" in value else update
    return update_from_json(value)


def _parse_csv(line: str) -> Update:
    for _, columns in DelimitedReader(io.BytesIO(line.encode()), ",", "record"):
        op, *cells = (values_of(column)[0] for column in columns)
        named = 0 if op in _RULES else 1
        return operation(op, cells[0] if cells[:named] else None, tuple(cells[named:]))
    raise DataError("an empty record; write add,predicate,argument,…")


def operation(op: Any, predicate: Any, arguments: Row) -> Update:
    """The update of a single operation."""
    if op in _RULES:
        rules = arguments[0] if len(arguments) == 1 else None
        if not isinstance(rules, str):
            raise DataError(f'{op} takes rules as its one argument, such as ["path(X, Y) :- edge(X, Y)."]')
        return Update(add_rules=rules) if op == "add_rules" else Update(remove_rules=rules)
    if not isinstance(op, str) or op not in _OPERATIONS:
        raise DataError(f"`{op}` is no operation; there are add, delete, add_rules and remove_rules")
    if not isinstance(predicate, str) or not predicate:
        raise DataError("a record without a predicate")
    facts: Facts = {predicate: [arguments]}
    return Update(add=facts) if _OPERATIONS[op] == ADD else Update(delete=facts)


def changes_rules(update: Update) -> bool:
    return bool(update.get("add_rules") or update.get("remove_rules"))


def come_together(first: Update, second: Update) -> bool:
    """Whether two updates may be applied as one."""
    return not changes_rules(first) and not changes_rules(second) and first.get("at") == second.get("at")


def operations(update: Update) -> Iterator[Operation]:
    """The operations on facts in an update, in their order: deletions before additions."""
    for op, facts in ((DELETE, update.get("delete", {})), (ADD, update.get("add", {}))):
        for predicate, rows in facts.items():
            for row in rows:
                yield op, predicate, row


def net(updates: Sequence[Update]) -> Update:
    """One update for several that change no rules and come at the same time, or at any: of all operations on a fact,
    the last one counts.
    """
    if len(updates) == 1:
        return updates[0]
    found = update_of(operation for update in updates for operation in operations(update))
    if "at" in updates[0]:
        found["at"] = updates[0]["at"]
    return found


def update_of(operations: Iterable[Operation]) -> Update:
    """The update of consecutive operations."""
    last = {(predicate, row_identity(row)): (op, predicate, row) for op, predicate, row in operations}
    sides: dict[str, Facts] = {ADD: {}, DELETE: {}}
    for op, predicate, row in last.values():
        sides[op].setdefault(predicate, []).append(row)
    return Update(add=sides[ADD], delete=sides[DELETE])
