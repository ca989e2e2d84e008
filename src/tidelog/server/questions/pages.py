"""Answers page by page: the answers that are kept for those who turn a page, and the cursors that lead to them."""

from __future__ import annotations

import base64
import binascii
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tidelog.facts.results import Answers, Encoded
from tidelog.server import problems

# Answers that are kept for those who turn a page, and rows of all of them together.
MOST_KEPT = 64
MOST_ROWS_KEPT = 4_000_000


class Page(NamedTuple):
    """Some rows of an answer, and where the rest is."""

    update: int
    names: tuple[str, ...]
    rows: Encoded
    following: str | None
    total: int | None
    more: bool
    errors: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """Answers whose first page has been given."""

    update: int
    answers: Answers
    asked: str


class Pages:
    """Answers of which there is more to come, for as long as there is room: then the pages of one answer are of one
    state, whatever is updated meanwhile.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._rows = 0
        self._lock = threading.Lock()

    def keep(self, kept: Kept) -> str:
        """Keep answers; the name by which they are found."""
        name = secrets.token_urlsafe(9)
        with self._lock:
            self._kept[name] = kept
            self._rows += len(kept.answers)
            while len(self._kept) > MOST_KEPT or (self._rows > MOST_ROWS_KEPT and len(self._kept) > 1):
                _, gone = self._kept.popitem(last=False)
                self._rows -= len(gone.answers)
        return name

    def find(self, name: str) -> Kept | None:
        with self._lock:
            found = self._kept.get(name)
            if found is not None:
                self._kept.move_to_end(name)
            return found


def cursor_of(*parts: Any) -> str:
    """A place in an answer as a text that means nothing to clients."""
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def parts_of(cursor: str, kinds: tuple[type, ...]) -> list[Any]:
    """What a cursor was made of."""
    try:
        parts = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, msgspec.DecodeError):
        parts = None
    if (
        not isinstance(parts, list)
        or tuple(map(type, parts)) != kinds
        or any(type(part) is int and not 0 <= part < 1 << 62 for part in parts)
    ):
        raise problems.bad_request("this is no cursor of such an answer; take the `next` of the page before")
    return parts
