"""Facts of one predicate from Arrow's stream format, unpacked to no more than a number of bytes.

Buffers may be compressed, a thousandfold and more, and columns without buffers may have any number of rows. Both are
said in the metadata of each message, a flatbuffer (`Message.fbs`, `Schema.fbs` of Arrow), before anything is unpacked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from tidelog.extras import needing
from tidelog.server import problems

# Fields of the tables of flatbuffers, by their places.
_HEADER_TYPE, _HEADER = 1, 2  # of a message
_DICTIONARY_DATA = 1  # of a dictionary batch
_ROWS, _BUFFERS, _COMPRESSION = 0, 2, 3  # of a record batch
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3


def update_of_arrow(body: bytes, predicate: str, action: str, most: int) -> dict[str, Any]:
    """An update that adds or deletes the rows of a table."""
    with needing("Arrow", "arrow"):
        import pyarrow as pa

    try:
        if any(size > most for size in _sizes(pa.ipc.MessageReader.open_stream(body))):
            raise problems.over_limit(
                "max_body", most, f"unpacked, facts take at most {most:,} bytes", 413, "too-large"
            )
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error) as problem:
        raise problems.bad_request(f"the body is no Arrow stream: {problem}") from None
    return {action: {predicate: table}}


def _sizes(messages: Any) -> Iterator[int]:
    """The bytes that messages take, unpacked, up to each of them; a row takes one at least."""
    total = 0
    for message in messages:
        batch = _batch_of(_Table.root(bytes(message.metadata)))
        if batch is not None:
            packed = bytes(message.body)
            total += max(_unpacked(batch, packed), batch.integer(_ROWS))
            yield total


def _batch_of(message: _Table) -> _Table | None:
    """The record batch in a message."""
    kind, header = message.integer(_HEADER_TYPE, "<B"), message.table(_HEADER)
    if kind == _DICTIONARY_BATCH and header is not None:
        return header.table(_DICTIONARY_DATA)
    return header if kind == _RECORD_BATCH else None


def _unpacked(batch: _Table, body: bytes) -> int:
    """How long the buffers of a batch are; before each compressed one stands its length, or -1 if it is as it was."""
    compressed, total = batch.table(_COMPRESSION) is not None, 0
    for offset, length in batch.pairs(_BUFFERS):
        said = _number("<q", body, offset) if compressed and length > 0 else length
        total += length if said == -1 else said
        if said < -1:
            raise ValueError("a buffer has a negative length")
    return total


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self._place = place
        self._fields = place - _number("<i", data, place)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, _number("<I", data, 0))

    def _at(self, field: int) -> int | None:
        """Where a field is, if it is there."""
        entry = 4 + 2 * field
        if entry >= _number("<H", self._data, self._fields):
            return None
        offset = _number("<H", self._data, self._fields + entry)
        return self._place + offset if offset else None

    def integer(self, field: int, form: str = "<q") -> int:
        place = self._at(field)
        return 0 if place is None else _number(form, self._data, place)

    def table(self, field: int) -> _Table | None:
        place = self._at(field)
        return None if place is None else _Table(self._data, place + _number("<I", self._data, place))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """A vector of structures of two integers."""
        place = self._at(field)
        if place is not None:
            first = place + _number("<I", self._data, place)
            for number in range(_number("<I", self._data, first)):
                start = first + 4 + 16 * number
                yield _number("<q", self._data, start), _number("<q", self._data, start + 8)


def _number(form: str, data: bytes, place: int) -> int:
    if place < 0:
        raise ValueError("an offset leads out of a message")
    found: int = struct.unpack_from(form, data, place)[0]
    return found
