"""The commits of late: what each did to E and to the rules, and what is told of it.

From what changed in E since a commit follows the update that leads back to the state after it (`to_the_state`). So
whoever comes back after a while gets exactly what he has missed, and a fact that has gone can be explained. As many
commits are kept as have no more than a number of explicit facts in all; a commit with more ends the reach.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import msgspec

from tidelog.errors import StorageError
from tidelog.facts.results import Change, row_identity
from tidelog.formats.files.jsonl import row_from_json
from tidelog.language import parse_rules, render
from tidelog.language.syntax import Rule, own_lattices, rule_key
from tidelog.language.written.conditions import names_of_printed
from tidelog.live.knowledge import Knowledge
from tidelog.live.origin import Origin
from tidelog.server.listing import json_rows
from tidelog.storage.durable_files import read_file, replace_file, storage_errors
from tidelog.values import Row

FILE = "server-history.json"

# What a commit weighs beside its facts.
WEIGHT = 4


@dataclass(slots=True)
class Commit:
    """An update that was made, or several that were committed together."""

    number: int
    at: str = ""
    seconds: float = 0.0
    latency: float = 0.0
    together: int = 1
    added: Mapping[str, int] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    work: Mapping[str, int] = field(default_factory=dict)
    rules_added: tuple[Rule, ...] = ()
    rules_removed: tuple[Rule, ...] = ()
    rules: Mapping[str, list[str]] = field(default_factory=dict)
    facts: int = 0
    errors: int = 0
    undone: int | None = None  # the commit whose rules this one took back
    # The explicit facts that came and went, by predicate as the engine names it; None where there were too many. They
    # are tuples, which Python's garbage collector leaves alone, as there are many of them.
    come: Mapping[str, tuple[Row, ...]] | None = field(default_factory=dict)
    gone: Mapping[str, tuple[Row, ...]] | None = field(default_factory=dict)

    @property
    def weight(self) -> int:
        halves = (self.come or {}, self.gone or {})
        return WEIGHT + sum(len(rows) for half in halves for rows in half.values())

    @property
    def predicates(self) -> set[str]:
        """The predicates whose facts changed, as they are displayed."""
        return {*self.added, *self.removed}

    @property
    def explicit(self) -> set[str]:
        """The predicates whose explicit facts changed, as the engine names them; windows are among them."""
        return {*(self.come or ()), *(self.gone or ())}

    def told(self) -> dict[str, Any]:
        """What everybody may know of it."""
        return {
            "update": self.number,
            "at": self.at,
            "seconds": round(self.seconds, 6),
            "latency": round(self.latency, 6),
            "together": self.together,
            "added": self.added,
            "removed": self.removed,
            "work": self.work,
            "rules": self.rules or {"added": [], "removed": []},
            "facts": self.facts,
            "errors": self.errors,
        }


def commit_of(knowledge: Knowledge, number: int, change: Change, most: int) -> Commit:
    """What is kept of the last update. Of more than `most` explicit facts nobody keeps which."""
    origin = change._origin
    assert isinstance(origin, Origin)
    gone, come = origin.rules
    explicit = origin.explicit()
    if explicit is not None and sum(len(rows) for halves in explicit.values() for rows in halves) > most:
        explicit = None
    prefixes = knowledge.catalogue.prefixes
    texts = {
        way: list(dict.fromkeys(render(rule, prefixes) for rule in rules))
        for way, rules in (("added", come), ("removed", gone))
    }
    return Commit(
        number,
        added={name: len(rows) for name, rows in change.added.items()},
        removed={name: len(rows) for name, rows in change.removed.items()},
        work={kind: count for kind, count in change.work.items() if count},
        rules_added=come,
        rules_removed=gone,
        rules=texts if gone or come else {},
        facts=knowledge.reader.count_all(),
        errors=int(change.errors),
        come=None if explicit is None else {name: tuple(rows) for name, (_, rows) in explicit.items() if len(rows)},
        gone=None if explicit is None else {name: tuple(rows) for name, (rows, _) in explicit.items() if len(rows)},
    )


@dataclass(frozen=True, slots=True)
class WayBack:
    """What leads from one state to another: explicit facts and rules to remove and to add."""

    delete: Mapping[str, list[Row]]
    add: Mapping[str, list[Row]]
    remove_rules: tuple[Rule, ...]
    add_rules: tuple[Rule, ...]

    def __bool__(self) -> bool:
        return bool(self.delete or self.add or self.remove_rules or self.add_rules)


class _Kept(msgspec.Struct):
    """A commit in a file."""

    update: int
    at: str
    come: dict[str, list[list[Any]]]
    gone: dict[str, list[list[Any]]]
    rules_added: list[str]
    rules_removed: list[str]
    added: dict[str, int]
    removed: dict[str, int]
    told: dict[str, Any]
    rules: dict[str, list[str]]
    undone: int | None
    lattices: list[str] = []

    def commit(self) -> Commit:
        names = names_of_printed(self.lattices)
        numbers = {name: self.told[name] for name in ("seconds", "latency", "together", "work", "facts", "errors")}
        return Commit(
            self.update,
            self.at,
            added=self.added,
            removed=self.removed,
            rules_added=parse_rules("\n".join(self.rules_added), {}, names=names),
            rules_removed=parse_rules("\n".join(self.rules_removed), {}, names=names),
            rules=self.rules,
            undone=self.undone,
            come={name: tuple(map(row_from_json, rows)) for name, rows in self.come.items()},
            gone={name: tuple(map(row_from_json, rows)) for name, rows in self.gone.items()},
            **numbers,
        )


class _File(msgspec.Struct):
    reach: int
    commits: list[_Kept]


def _written(commit: Commit) -> _Kept:
    return _Kept(
        commit.number,
        commit.at,
        {name: json_rows(rows) for name, rows in (commit.come or {}).items()},
        {name: json_rows(rows) for name, rows in (commit.gone or {}).items()},
        list(dict.fromkeys(map(str, commit.rules_added))),
        list(dict.fromkeys(map(str, commit.rules_removed))),
        dict(commit.added),
        dict(commit.removed),
        commit.told(),
        dict(commit.rules),
        commit.undone,
        sorted(own_lattices((*commit.rules_added, *commit.rules_removed))),
    )


def _read(content: bytes, path: Path) -> _File:
    try:
        return msgspec.json.decode(content, type=_File)
    except msgspec.DecodeError as problem:
        raise StorageError(f"{path} is damaged: {problem}; without it, those who come back fetch all again") from None


class History:
    """The last commits, the oldest first. `reach` is the number of the earliest state that can be told. One thread
    appends to it, and any reads.
    """

    def __init__(self, number: int, room: int) -> None:
        self.number = number
        self.reach = number
        self._room = room
        self._weight = 0
        self._commits: deque[Commit] = deque()
        self._lock = threading.Lock()
        self._rule_changes: list[int] = []  # numbers of commits whose rules nobody has taken back

    def append(self, commit: Commit) -> None:
        """A commit was made."""
        with self._lock:
            self._commits.append(commit)
            self._weight += commit.weight
            if commit.come is None or commit.gone is None:
                self._forget(len(self._commits) - 1)
                self.reach = commit.number
            while self._weight > self._room and len(self._commits) > 1:
                self._forget(1)
            if commit.undone is not None:
                self._rule_changes = [number for number in self._rule_changes if number != commit.undone]
            elif commit.rules:
                self._rule_changes.append(commit.number)
            self.number = commit.number

    def _forget(self, count: int) -> None:
        for _ in range(count):
            gone = self._commits.popleft()
            self._weight -= gone.weight
            self.reach = gone.number
        first = self._commits[0].number
        self._rule_changes = [number for number in self._rule_changes if number >= first]

    def after(self, number: int) -> list[Commit]:
        """The commits after a number, as far as they are kept."""
        with self._lock:
            found = list(takewhile(lambda commit: commit.number > number, reversed(self._commits)))
        return found[::-1]

    def last(self, count: int) -> list[Commit]:
        with self._lock:
            return list(islice(self._commits, max(0, len(self._commits) - count), None))

    def __getitem__(self, number: int) -> Commit | None:
        with self._lock:
            return next((commit for commit in reversed(self._commits) if commit.number == number), None)

    # --- across a snapshot, which ends the journal ---

    def write(self, folder: Path) -> None:
        """Keep the commits, before a new snapshot ends the journal that holds them."""
        with self._lock:
            content = {"reach": self.reach, "commits": [_written(commit) for commit in self._commits]}
        with storage_errors("write", folder / FILE):
            replace_file(folder / FILE, msgspec.json.encode(content))

    def read(self, folder: Path) -> None:
        """Take in what was kept up to the snapshot, if it is all there. The file may be of a snapshot that was never
        finished: what comes after this one is in the journal.
        """
        path = folder / FILE
        if not path.exists():
            return
        kept = _read(read_file(path), path)
        commits = [commit for commit in kept.commits if commit.update <= self.number]
        if not commits or commits[-1].update != self.number:
            return
        for commit in commits:
            self.append(commit.commit())
        self.reach = max(kept.reach, commits[0].update - 1)

    def to_undo(self) -> Commit | None:
        """The last change of rules that nobody has taken back."""
        numbers = self._rule_changes
        return self[numbers[-1]] if numbers else None

    def reaches(self, number: int) -> bool:
        """Whether the state after a commit can be told. A restored store has left out numbers of commits."""
        return number == self.reach or (self.reach < number <= self.number and self[number] is not None)

    def out_of_reach(self, number: int) -> str:
        """Why the state after a commit cannot be told; empty where it can."""
        if self.reaches(number):
            return ""
        if number > self.reach:
            return f"update {number} is none of this store, whose last one is {self.number}"
        return f"the journal reaches back to update {self.reach}, and not to {number}"

    def to_the_state(self, number: int) -> WayBack:
        """The update that leads from now to the state after a commit. The first change of a fact since then tells
        whether it was there, the last one whether it is.
        """
        facts: dict[tuple[str, object], tuple[Row, bool, bool]] = {}
        rules: dict[Hashable, tuple[Rule, bool, bool]] = {}
        for commit in self.after(number):
            for half, is_there in ((commit.gone, False), (commit.come, True)):
                for predicate, rows in (half or {}).items():
                    for row in rows:
                        key = predicate, row_identity(row)
                        was = facts[key][1] if key in facts else not is_there
                        facts[key] = row, was, is_there
            for changed, holds in ((commit.rules_removed, False), (commit.rules_added, True)):
                for rule in changed:
                    rule_id = rule_key(rule)
                    held = rules[rule_id][1] if rule_id in rules else not holds
                    rules[rule_id] = rule, held, holds
        add: dict[str, list[Row]] = {}
        delete: dict[str, list[Row]] = {}
        for (predicate, _), (row, was, is_there) in facts.items():
            if was is not is_there:
                (add if was else delete).setdefault(predicate, []).append(row)
        changed_rules = [(rule, held) for rule, held, holds in rules.values() if held is not holds]
        return WayBack(
            delete,
            add,
            tuple(rule for rule, held in changed_rules if not held),
            tuple(rule for rule, held in changed_rules if held),
        )
