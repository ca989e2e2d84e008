"""The journal: an append-only log of the updates since a snapshot. Each is on disk before its update returns.

An update is written as JSON: its constants, each with its type, and its facts as rows of their numbers.

    {"terms": [["str", "a"], ["int", 7], ["float", "0.5"]],
     "add": {"edge": {"arity": 2, "rows": 1, "cells": [0, 1]}}, "delete": {…},
     "add_rules": ["p(X) :- q(X)."], "remove_rules": […], "prefixes": {"ex": "http://example.org/"},
     "declared": ["@predicate edge/2."], "commit": {"batch": "17"}}

`"lattices": ["hull"]` names those of the user's own that the rules join values by, if there are any.

A record is 20 bytes of header (a mark, its number from 1 on, the length of its payload and a checksum of all that) and
the payload. A crash can tear only the last record, since each is forced to disk before the next is written: an
incomplete record at the end is cut off. Anything wrong before another record is damage, and then nothing is cut.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tidelog.engine.image import Cells
from tidelog.errors import StorageError
from tidelog.language.records.types import Declared
from tidelog.language.syntax import Rule
from tidelog.storage import durable_files as files
from tidelog.storage.checked_json import (
    Item,
    declared_prefixes,
    is_predicate,
    parsed_rules,
    read_declarations,
    to_text,
    with_lattices,
    written_declarations,
)
from tidelog.values import INTEGER_MAX, INTEGER_MIN, IRI, Literal, Value

MAGIC = b"tidelog journal 1\n"
MARK = b"\x9eREC"

_MARKS = re.compile(re.escape(MARK))
_HEADER = struct.Struct("<4sQII")
_LONGEST = (1 << 32) - 1

Facts = Mapping[str, Cells]
Decode = Callable[[int], Value]
"""The constant of a number."""
Encode = Callable[[Sequence[Value]], Cells]
"""The numbers of constants."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place between two records: where it is, how many records are before it, and bytes before it by which a reader
    who comes back knows the journal again.
    """

    end: int
    count: int
    known_at: int
    known: bytes


BEGINNING = Position(len(MAGIC), 0, 0, MAGIC)


@dataclass(frozen=True, slots=True)
class Contents:
    """The payloads of a journal, and where its last complete record ends; `torn` where an incomplete one follows."""

    payloads: list[bytes]
    position: Position
    torn: bool


def _checksum(number: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(struct.pack("<QI", number, len(payload))))


def encode_record(number: int, payload: bytes) -> bytes:
    return _HEADER.pack(MARK, number, len(payload), _checksum(number, payload)) + payload


def _record_at(data: bytes, at: int) -> tuple[int, bytes] | None:
    """The number and the payload of the record at an offset, if there is a complete one."""
    if at + _HEADER.size > len(data):
        return None
    mark, number, length, expected = _HEADER.unpack_from(data, at)
    payload = data[at + _HEADER.size : at + _HEADER.size + length]
    if mark != MARK or len(payload) != length or _checksum(number, payload) != expected:
        return None
    return number, payload


def _more_behind(data: bytes, at: int) -> bool:
    """Whether something follows the record that begins at an offset: then it was complete once."""
    if at + _HEADER.size > len(data):
        return False
    mark, _, length, _ = _HEADER.unpack_from(data, at)
    return mark == MARK and at + _HEADER.size + length < len(data)


def read_journal(path: Path, since: Position = BEGINNING) -> Contents:
    """Everything in a journal from a position on, up to a torn tail."""
    with files.reading(path) as file:
        file.seek(since.known_at)
        data = file.read()
    at, position = since.end - since.known_at, since
    if not data.startswith(since.known) or len(data) < at:
        raise StorageError(f"{path} is no journal of this version of tidelog, or its beginning is damaged")
    payloads: list[bytes] = []
    while (record := _record_at(data, at)) is not None and record[0] == position.count + 1:
        payloads.append(record[1])
        begin, at = at, at + _HEADER.size + len(record[1])
        known = data[begin : begin + _HEADER.size]
        position = Position(since.known_at + at, record[0], since.known_at + begin, known)
    marks = _MARKS.finditer(data, at)
    if _more_behind(data, at) or any(_record_at(data, mark.start()) is not None for mark in marks):
        raise StorageError(
            f"{path} is damaged after update {position.count} (byte {position.end}), with more updates behind; "
            "restore a copy"
        )
    return Contents(payloads, position, at < len(data))


def create_journal(path: Path) -> None:
    """Create an empty journal."""
    with files.storage_errors("write", path):
        files.create_file(path, MAGIC)
        files.force_folder(path.parent)


def is_journal(path: Path) -> bool:
    """Whether a file begins as a journal does, as far as it goes."""
    with files.reading(path) as file:
        beginning = file.read(len(MAGIC)).rstrip(b"\0")
    return MAGIC.startswith(beginning)


class Journal:
    """A journal to append to. The caller holds the folder's lock."""

    def __init__(self, path: Path, contents: Contents) -> None:
        """Open a journal that has been read, and cut off a torn record."""
        self._path = path
        self._count = contents.position.count
        self.end = contents.position.end
        self._broken = ""
        with files.storage_errors("open", path):
            self._file = files.OpenFile(path, files.open_own(path))
            self._cut()

    def append(self, payload: bytes) -> None:
        """Add a record and force it to disk. Where that fails, the journal is as before, or refuses further records."""
        if self._broken:
            raise StorageError(
                f"{self._path} takes no updates since an earlier failure ({self._broken}); open it again"
            )
        if len(payload) > _LONGEST:
            raise StorageError(f"an update is too large for {self._path} ({len(payload)} bytes); take it in parts")
        record = encode_record(self._count + 1, payload)
        with files.storage_errors("write", self._path):
            self._check_place()
            try:
                written = 0
                while written < len(record):
                    written += os.pwrite(self._file.descriptor, record[written:], self.end + written)
                os.fsync(self._file.descriptor)
            except BaseException as problem:
                try:
                    self._cut()
                except (OSError, StorageError):  # What is on the disk is unknown.
                    self._broken = str(problem)
                raise
        self._count += 1
        self.end += len(record)

    def _check_place(self) -> None:
        """Refuse a file that somebody has replaced or written to in spite of the lock: a record would be lost."""
        found, here = os.stat(self._path), os.fstat(self._file.descriptor)
        if not os.path.samestat(found, here) or here.st_size != self.end:
            raise StorageError(
                f"{self._path} was changed or replaced by somebody else; save elsewhere, or open the folder again"
            )

    def _cut(self) -> None:
        if os.fstat(self._file.descriptor).st_size != self.end:
            os.ftruncate(self._file.descriptor, self.end)
            os.fsync(self._file.descriptor)

    def close(self) -> None:
        self._file.close()


# --- updates as JSON ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """An update with its facts encoded, its rules parsed, the prefixes declared after it, the predicates that it
    declares, and the note that its user committed with it.
    """

    add: Facts = field(default_factory=dict)
    delete: Facts = field(default_factory=dict)
    add_rules: tuple[Rule, ...] = ()
    remove_rules: tuple[Rule, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    declared: Declared = field(default_factory=dict)
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
        "add_rules": list(dict.fromkeys(map(str, record.add_rules))),
        "remove_rules": list(dict.fromkeys(map(str, record.remove_rules))),
        "prefixes": dict(record.prefixes),
        "declared": written_declarations(record.declared),
        "commit": dict(record.commit),
    }
    return to_text(with_lattices(content, (*record.add_rules, *record.remove_rules)), indent=None)


def from_json(payload: bytes, encode: Encode, place: Path) -> Record:
    """The record of such a text, its constants as numbers. Where it is none, the error names `place`."""
    content = Item.of_json(payload, place)
    values = [_value(item) for item in content["terms"].items()]
    numbers = encode(values) if values else np.empty(0, np.int32)
    return Record(
        _facts(content["add"], numbers),
        _facts(content["delete"], numbers),
        _rules(content["add_rules"], content),
        _rules(content["remove_rules"], content),
        declared_prefixes(content["prefixes"]),
        read_declarations(content["declared"]) if content.get("declared") is not None else {},
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


def _rules(texts: Item, content: Item) -> tuple[Rule, ...]:
    return tuple(rule for text in texts.items() for rule in parsed_rules(text, content))
