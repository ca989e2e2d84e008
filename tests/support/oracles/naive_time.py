"""The oracle for time that passes: facts with the times from which they count, filtered by age before the rules see
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

from naive import Database, constant, materialise, plain, without_empty
from tidelog.language import parse_program
from tidelog.language.syntax import Expiry, Rule
from tidelog.language.written.windows import Window, windows_in
from tidelog.values import Value

SECOND = 1_000_000
Row = tuple[Value, ...]
Facts = Mapping[str, Iterable[Row]]


class Measure(NamedTuple):
    """An age that matters for the facts of a predicate, and the argument that it is counted from. The holder is
    a window, or has no name where facts expire.
    """

    holder: str
    name: str
    length: int
    argument: int | None


@dataclass
class TimedState:
    """A program, its explicit facts, and what time it is, in microseconds. Times in facts are whole seconds."""

    rules: list[Rule] = field(default_factory=list)
    expiries: dict[str, Expiry] = field(default_factory=dict)
    facts: dict[str, dict[Row, int | None]] = field(default_factory=dict)  # with when they came in, if that is known
    inside: dict[str, set[Row]] = field(default_factory=dict)  # by window
    time: int | None = None

    def copy(self) -> TimedState:
        return deepcopy(self)

    def windows(self) -> dict[str, Window]:
        return {atom.predicate: window for rule in self.rules for atom, window in windows_in(rule.body)}

    def update(
        self,
        add: Facts | None = None,
        delete: Facts | None = None,
        add_rules: str = "",
        remove_rules: str = "",
        at: float | None = None,
    ) -> None:
        before, time_before = self._measures(), self.time
        self._change_rules(add_rules, remove_rules)
        added = {name: list(rows) for name, rows in (add or {}).items()}
        self._pass_time(added, at)
        came = self.time if at is None else round(at * SECOND)
        for name, rows in (delete or {}).items():
            for row in rows:
                self.facts.get(name, {}).pop(row, None)
        begun = {each for each in self._measures() if each not in before or time_before is None}
        self._count_unknown_from_now({each.name for each in begun if each.argument is None})
        for name in list(self.facts):
            self.facts[name] = {row: since for row, since in self.facts[name].items() if self._stays(name, row, since)}
        for each in begun:
            if each.holder and each.holder not in self.inside:
                self.inside[each.holder] = set(self.facts.get(each.name, {}))
        self._let_leave()
        for name, rows in added.items():
            for row in rows:
                self._take_in(name, row, came)
        self._let_leave()
        self._forget()

    def _change_rules(self, add_rules: str, remove_rules: str) -> None:
        gone, come = parse_program(remove_rules), parse_program(add_rules)
        self.rules = [rule for rule in self.rules if rule not in gone.rules]
        self.rules += [rule for rule in come.rules if rule not in self.rules]
        for expiry in gone.expiries:
            del self.expiries[expiry.predicate]
        self.expiries.update({expiry.predicate: expiry for expiry in come.expiries})
        self.inside = {name: rows for name, rows in self.inside.items() if name in self.windows()}

    def _measures(self) -> list[Measure]:
        """All ages that matter."""
        own = [Measure("", each.predicate, each.length, each.argument) for each in self.expiries.values()]
        windows = self.windows().items()
        return own + [Measure(name, of.predicate, of.length, of.argument) for name, of in windows]

    def _pass_time(self, added: Mapping[str, list[Row]], at: float | None) -> None:
        times = [time for time in (self.time, None if at is None else round(at * SECOND)) if time is not None]
        for each in self._measures():
            if each.argument is not None:
                rows = [*added.get(each.name, ()), *self.facts.get(each.name, ())]
                times += [_seconds(row[each.argument]) for row in rows]
        self.time = max(times, default=None)

    def _count_unknown_from_now(self, names: Iterable[str]) -> None:
        """Facts that nobody knows to have come in count from when somebody asks for it."""
        for name in names:
            known = self.facts.get(name, {})
            self.facts[name] = {row: self.time if since is None else since for row, since in known.items()}

    def _since(self, row: Row, argument: int | None, came: int | None) -> int | None:
        return came if argument is None else _seconds(row[argument])

    def _young(self, row: Row, length: int, argument: int | None, came: int | None) -> bool:
        since = self._since(row, argument, came)
        return since is None or self.time is None or self.time - since < length

    def _stays(self, name: str, row: Row, came: int | None) -> bool:
        expiry = self.expiries.get(name)
        return expiry is None or self._young(row, expiry.length, expiry.argument, came)

    def _take_in(self, name: str, row: Row, came: int | None) -> None:
        if not self._stays(name, row, came):
            return
        facts = self.facts.setdefault(name, {})
        known = facts.get(row)
        facts[row] = came if known is None or came is None else max(came, known)
        for window, of in self.windows().items():
            if of.predicate == name and self._young(row, of.length, of.argument, came):
                self.inside.setdefault(window, set()).add(row)

    def _let_leave(self) -> None:
        for window, of in self.windows().items():
            facts = self.facts.get(of.predicate, {})
            self.inside[window] = {
                row
                for row in self.inside.get(window, ())
                if row in facts and self._young(row, of.length, of.argument, facts[row])
            }

    def _forget(self) -> None:
        """Nobody remembers when facts came in that are too old for all that asks for it."""
        for name, facts in self.facts.items():
            ages = [each.length for each in self._measures() if each.name == name and each.argument is None]
            for row, came in facts.items():
                if came is not None and (not ages or (self.time or 0) - came >= max(ages)):
                    facts[row] = None

    def materialise(self) -> dict[str, set[Row]]:
        """All facts that are seen, as Python values."""
        explicit: Database = {
            name: {tuple(map(constant, row)) for row in rows} for name, rows in (self.facts | self.inside).items()
        }
        found = plain(materialise(self.rules, without_empty(explicit)))
        return {name: set(rows) for name, rows in found.items() if not name.startswith("<") and rows}


def _seconds(value: Value) -> int:
    assert isinstance(value, int)
    return value * SECOND
