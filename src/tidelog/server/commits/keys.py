"""Idempotency-Keys: which updates have been made already, so that a retry after a lost answer makes none again.

A key is journalled with the commit of its update, in its `commit` note. A snapshot ends the journal, so the keys are
written to a file beside it just before; that file may hold keys of the journal as well, and never any other.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidelog.storage.checked_json import Item
from tidelog.storage.durable_files import read_file, replace_file, storage_errors

FILE = "server-keys.json"

KeysOfCommit = list[tuple[str, str]]


class Made(NamedTuple):
    """An update that was made: a hash of what was asked for, and the number of its commit."""

    asked: str
    number: int


def hash_of(*parts: bytes) -> str:
    """A hash of a request, to tell another one with the same key."""
    found = hashlib.blake2b(digest_size=12)
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()


class Keys:
    """The last keys, as many as there is room for."""

    def __init__(self, room: int) -> None:
        self._room = room
        # Plain tuples, which Python's garbage collector leaves alone.
        self._made: dict[str, tuple[str, int]] = {}

    def __len__(self) -> int:
        return len(self._made)

    def get(self, key: str) -> Made | None:
        found = self._made.get(key)
        return None if found is None else Made(*found)

    def note(self, keys: KeysOfCommit, number: int) -> None:
        """Updates were made in a commit."""
        for key, asked in keys:
            self._made.pop(key, None)
            self._made[key] = asked, number
        while len(self._made) > self._room:
            del self._made[next(iter(self._made))]

    def note_replayed(self, text: str | None, number: int) -> None:
        """The same for a commit of the journal, which has them as a text."""
        if text:
            self.note(msgspec.json.decode(text, type=KeysOfCommit), number)

    @staticmethod
    def text(keys: KeysOfCommit) -> str:
        """The keys of a commit as its note holds them."""
        return msgspec.json.encode(keys).decode()

    def write(self, folder: Path) -> None:
        """Keep all keys, before a new snapshot ends the journal that holds them."""
        with storage_errors("write", folder / FILE):
            replace_file(folder / FILE, msgspec.json.encode(self._made))

    def read(self, folder: Path) -> None:
        """Read what was kept, if there is any."""
        path = folder / FILE
        if path.exists():
            for key, made in Item.of_json(read_file(path), path).members():
                asked, number = made.items()
                self._made[key] = asked.text(), number.integer(0)
