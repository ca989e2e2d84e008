"""The answers of a subscription as its events tell them, across lost connections and restarts of the server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tidelog.client.results import RemoteAnswerChange, RemoteAnswers
from tidelog.formats.files.jsonl import row_from_json
from tidelog.values import Row, identity


class EventLines:
    """Events from the lines of a stream, one line after the other."""

    def __init__(self) -> None:
        self._kind, self._id, self._data = "", "", ""

    def take(self, line: str) -> tuple[str, str, Any] | None:
        """The event that a line ends, if it ends one: its kind, its id, its data."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._kind = value
            elif name == "id":
                self._id = value
            elif name == "data":
                self._data += value
            return None
        found = (self._kind, self._id, json.loads(self._data)) if self._data else None
        self._kind, self._id, self._data = "", "", ""
        return found


class Picture:
    """All answers that a subscriber knows, and the number of the last update in them."""

    def __init__(self) -> None:
        self.update: int | None = None
        self._rows: dict[object, Row] = {}
        self._variables: tuple[str, ...] = ()
        self._coming: list[Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, event: tuple[str, str, Any]) -> RemoteAnswerChange | None:
        """What an event changes. A snapshot after the first one, as where the server no longer knew what was missed,
        is compared with what was known: the net difference is told, as ever.
        """
        kind, number, data = event
        change: RemoteAnswerChange | None = None
        if kind == "snapshot":
            self._coming += map(row_from_json, data["rows"])
            if not data["more"]:
                change = self._replaced(tuple(data["variables"]), data["update"])
        elif kind == "change":
            added, removed = (list(map(row_from_json, data[half])) for half in ("added", "removed"))
            change = self._changed(added, removed, data["update"])
        if number:
            self.update = int(number)
        return change

    def _replaced(self, variables: tuple[str, ...], update: int) -> RemoteAnswerChange | None:
        fresh, self._coming = {_key(row): row for row in self._coming}, []
        first, known = self.update is None, self._rows
        self._rows, self._variables = fresh, variables
        added = [row for key, row in fresh.items() if key not in known]
        removed = [row for key, row in known.items() if key not in fresh]
        return self._message(added, removed, update, first) if first or added or removed else None

    def _changed(self, added: list[Row], removed: list[Row], update: int) -> RemoteAnswerChange:
        for row in removed:
            self._rows.pop(_key(row), None)
        self._rows.update((_key(row), row) for row in added)
        return self._message(added, removed, update, False)

    def _message(self, added: Iterable[Row], removed: Iterable[Row], update: int, first: bool) -> RemoteAnswerChange:
        came, went = (RemoteAnswers(self._variables, rows, update) for rows in (added, removed))
        return RemoteAnswerChange(update, came, went, first)


def _key(row: Row) -> object:
    return tuple(map(identity, row))
