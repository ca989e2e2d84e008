"""Events as they go over the wire, and those that a stream begins with, or goes on with after it fell behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tidelog.facts.results import Answers
from tidelog.server.listing import json_rows, rows_of, without_ends
from tidelog.values import Row

# Rows of one event of a snapshot.
ROWS_OF_EVENT = 2000


def event(kind: str, number: int | None, data: Any) -> bytes:
    """An event as it goes over the wire."""
    identity = b"" if number is None else b"id: %d\n" % number
    return b"event: %b\n%bdata: %b\n\n" % (kind.encode(), identity, without_ends(msgspec.json.encode(data)))


class Piece(NamedTuple):
    """Events for many streams, and the chunk of an answer (RFC 9112, 7.1) that they are, which is made once for all."""

    data: bytes
    chunk: bytes

    @classmethod
    def of(cls, data: bytes) -> Piece:
        return cls(data, b"%x\r\n%b\r\n" % (len(data), data))


def progress(number: int) -> bytes:
    """A mark that everything up to a commit is in."""
    return event("progress", number, {"update": number})


def reset(number: int, reason: str) -> bytes:
    """A mark that nobody knows what was missed up to a commit."""
    return event("reset", None, {"update": number, "reason": reason})


class News(NamedTuple):
    """What a stream begins with, or goes on with after it fell behind."""

    number: int
    kind: str  # "snapshot", "change", "reset" or "nothing"
    names: tuple[str, ...] = ()
    answers: Answers | None = None
    added: list[Row] | None = None
    removed: list[Row] | None = None
    reason: str = ""

    def events(self) -> Iterator[bytes]:
        """The events that tell it; they can be many."""
        if self.kind == "change":
            assert self.added is not None
            assert self.removed is not None
            halves = {"added": json_rows(self.added), "removed": json_rows(self.removed)}
            yield event("change", self.number, {"update": self.number, **halves})
        elif self.kind == "nothing":
            yield progress(self.number)
        else:
            if self.kind == "reset":
                yield reset(self.number, self.reason)
            assert self.answers is not None
            rows = rows_of(self.answers)
            for first in range(0, max(len(rows), 1), ROWS_OF_EVENT):
                more = first + ROWS_OF_EVENT < len(rows)
                data = {
                    "update": self.number,
                    "variables": self.names,
                    "rows": rows[first : first + ROWS_OF_EVENT],
                    "more": more,
                }
                yield event("snapshot", None if more else self.number, data)
