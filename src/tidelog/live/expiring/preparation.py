"""An update on its way to the engine: what time it is by then, what has expired, and what comes into windows.

All of that becomes deletions and additions of explicit facts, of hidden predicates, too. Nothing is changed here before
the update has been made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from tidelog.engine.update.deltas import Request
from tidelog.language.syntax import Expiry
from tidelog.live.expiring.lifetimes import EXPIRES, NOW, Lifetime, arrived, row_of
from tidelog.live.expiring.timed_facts import Known, TimedFacts, Times
from tidelog.live.expiring.timelines import Key, keys_of, rows_of
from tidelog.store.relation_parts import Cells


class Preparation:
    """An update that is being prepared."""

    def __init__(
        self,
        facts: TimedFacts,
        known: Known,
        request: Request,
        after: Mapping[str, list[Lifetime]],
        arities: dict[str, int],
    ) -> None:
        """`arities` are those after the update, and learn of hidden predicates."""
        self._arities = arities
        self._facts = facts
        self._known = known
        self._request = request
        self._after = after
        self._delete: dict[str, list[Cells]] = {name: [rows] for name, rows in request.delete.items()}
        self._add: dict[str, list[Cells]] = {name: [rows] for name, rows in request.add.items()}
        self._events: dict[str, Times] = {}  # of added rows, by holder
        self._time = known.now  # after the update
        self._came = known.now  # when the added facts came in
        before = {each for lifetimes in known.lifetimes.values() for each in lifetimes}
        self._new = {each for lifetimes in after.values() for each in lifetimes if each not in before}
        self._gone = before.difference(*after.values())
        # What to note once this is made: rows and times by holder, arrivals that are no longer known, and new ones.
        self._noted: list[tuple[str, Iterable[Key], Iterable[int]]] = []
        self._left: dict[str, set[Key]] = {}
        self._arrived: dict[str, dict[Key, int]] = {}
        self._from_now: dict[str, dict[Key, int]] = {}  # rows that are not known to have come in before

    # --- the time ---

    def declare(self, gone: Iterable[Expiry], come: Iterable[Expiry]) -> None:
        """What expires changes."""
        for expiries, side in ((gone, self._delete), (come, self._add)):
            rows: list[tuple[object, ...]] = [row_of(expiry) for expiry in expiries]
            if rows:
                side.setdefault(EXPIRES, []).append(self._facts.encoded(rows, 4))

    def pass_time(self, at: int | None) -> None:
        """Find out what time it is: the latest that the update, its facts or those before it say."""
        times = [time for time in (self._known.now, at) if time is not None]
        for predicate, lifetimes in self._after.items():
            for lifetime in lifetimes:
                if lifetime.argument is None:
                    continue
                added = self._request.add.get(predicate)
                if added is not None and len(added):
                    self._events[lifetime.holder] = found = self._facts.event_times(lifetime, added)
                    times.append(int(found.max()))
                if lifetime in self._new:
                    times += self._facts.event_times(lifetime, self._facts.explicit(predicate)).tolist()
        if not times:
            return
        self._time = max(times)
        self._came = self._time if at is None else at
        if self._known.now is None:
            # Nobody knows when facts came in before: they count from now.
            self._new.update(each for lifetimes in self._after.values() for each in lifetimes if each.argument is None)

    @property
    def begins_anew(self) -> bool:
        """Whether other facts expire than before, or in another way."""
        return bool(self._new or self._gone)

    # --- what expires ---

    def let_expire(self) -> None:
        """Delete what has expired; let facts that come and go do so in windows, too."""
        for lifetime in self._gone:
            if not lifetime.ends_facts:
                self._delete_rows(lifetime.holder, self._facts.explicit(lifetime.holder))
        for predicate in {lifetime.given for lifetime in self._gone}:
            if not _by_arrival(self._after.get(predicate, ())):
                self._forget_arrivals(predicate, self._known.arrivals.get(predicate, {}).keys())
        for predicate, lifetimes in self._after.items():
            self._expire(predicate, lifetimes)
            if any(lifetime in self._new for lifetime in lifetimes):
                self._fill(predicate, lifetimes)
            if predicate in self._request.add:
                self._take_in(predicate, lifetimes, self._request.add[predicate])

    def due(self) -> dict[str, Cells]:
        """The rows of each holder that have expired by now."""
        for predicate, lifetimes in self._after.items():
            for lifetime in lifetimes:
                rows = self._rows(predicate, self._due(lifetime))
                for each in lifetimes if lifetime.ends_facts else (lifetime,):
                    self._delete_rows(each.holder, rows)
        return {name: _joined(parts) for name, parts in self._delete.items()}

    def _expire(self, predicate: str, lifetimes: list[Lifetime]) -> None:
        """What is too old goes, and what the update deletes leaves windows as well."""
        windows = [lifetime for lifetime in lifetimes if not lifetime.ends_facts]
        deleted = self._request.delete.get(predicate)
        if deleted is not None:
            self._leave(predicate, windows, deleted)
        longest = max((each.length for each in _by_arrival(lifetimes)), default=0)
        if self._time is not None and any(lifetime.given == predicate for lifetime in self._gone):
            arrivals, since = self._known.arrivals.get(predicate, {}), self._time - longest
            self._forget_arrivals(predicate, [key for key, time in arrivals.items() if time <= since])
        for lifetime in lifetimes:
            keys = [] if lifetime in self._new else self._due(lifetime)
            if not keys:
                continue
            rows = self._rows(predicate, keys)
            self._delete_rows(lifetime.holder, rows)
            if lifetime.ends_facts:
                self._leave(predicate, windows, rows)
            elif lifetime.argument is None and lifetime.length == longest:
                self._forget_arrivals(predicate, keys)

    def _due(self, lifetime: Lifetime) -> list[Key]:
        """The rows that are too old. Those that have come in again since are not."""
        if self._time is None:
            return []
        timed = self._known.timelines[lifetime.holder].until(self._time - lifetime.length)
        if lifetime.argument is not None:
            return [key for _, keys in timed for key in keys]
        arrivals = self._known.arrivals[lifetime.given]
        return [key for time, keys in timed for key in keys if arrivals.get(key) == time]

    def _leave(self, predicate: str, windows: list[Lifetime], rows: Cells) -> None:
        """Facts go, and with them what is known of them."""
        for window in windows:
            self._delete_rows(window.holder, rows)
        self._forget_arrivals(predicate, keys_of(rows))

    def _forget_arrivals(self, predicate: str, keys: Iterable[Key]) -> None:
        arrivals, left = self._known.arrivals.get(predicate, {}), self._left.setdefault(predicate, set())
        self._write(
            self._delete, predicate, {key: arrivals[key] for key in keys if key in arrivals and key not in left}
        )
        left.update(keys)

    # --- what comes in ---

    def _fill(self, predicate: str, lifetimes: list[Lifetime]) -> None:
        """Let new lifetimes begin with the facts that are there. Facts that nobody knows to have come in count from
        now.
        """
        left = {key for rows in self._delete.get(predicate, ()) for key in keys_of(rows)}
        keys = [key for key in keys_of(self._facts.explicit(predicate)) if key not in left]
        rows = self._rows(predicate, keys)
        arrivals = self._known.arrivals.get(predicate, {})
        if _by_arrival(lifetimes) and self._time is not None:
            counted = self._from_now[predicate] = {key: self._time for key in keys if key not in arrivals}
            self._write(self._add, predicate, counted)
        came = np.array([arrivals.get(key, self._time or 0) for key in keys], np.int64)
        for lifetime in sorted(lifetimes, key=lambda each: not each.ends_facts):
            if lifetime not in self._new:
                continue
            times = came if lifetime.argument is None else self._facts.event_times(lifetime, rows)
            young = self._young(lifetime, times)
            if not lifetime.ends_facts:
                self._add_rows(lifetime.holder, rows[young])
            elif not young.all():
                self._delete_rows(predicate, rows[~young])
                self._leave(predicate, [each for each in lifetimes if not each.ends_facts], rows[~young])
                rows, came = rows[young], came[young]

    def _take_in(self, predicate: str, lifetimes: list[Lifetime], rows: Cells) -> None:
        """Facts come in, unless they are too old already."""
        taken = np.ones(len(rows), np.bool_)
        for lifetime in lifetimes:
            if lifetime.ends_facts:
                taken = self._young(lifetime, self._times(lifetime, len(rows)))
                if not taken.all():
                    self._add[predicate] = [rows[taken]]
        fresh = self._fresh(predicate, keys_of(rows[taken])) if _by_arrival(lifetimes) else {}
        for lifetime in lifetimes:
            times = self._times(lifetime, len(rows))
            young = taken & self._young(lifetime, times)
            if not lifetime.ends_facts:
                self._add_rows(lifetime.holder, rows[young])
            if lifetime.argument is not None:
                self._noted.append((lifetime.holder, keys_of(rows[young]), times[young].tolist()))
            elif young.any():
                self._noted.append((lifetime.holder, fresh.keys(), fresh.values()))
        if any(self._young(each, self._times(each, 1)).all() for each in _by_arrival(lifetimes)):
            self._write(self._add, predicate, fresh)
            self._arrived[predicate] = fresh

    def _fresh(self, predicate: str, keys: list[Key]) -> dict[Key, int]:
        """The rows that are the latest of their kind to come in; what was known of others of them goes."""
        if self._came is None:
            return {}
        arrivals, left = self._known.arrivals.get(predicate, {}), self._left.get(predicate, set())
        latest = {**arrivals, **self._from_now.get(predicate, {})}
        fresh = {key: self._came for key in keys if key in left or latest.get(key, self._came - 1) < self._came}
        self._write(
            self._delete, predicate, {key: arrivals[key] for key in fresh if key in arrivals and key not in left}
        )
        return fresh

    def _times(self, lifetime: Lifetime, count: int) -> Times:
        """The times from which the added rows of a predicate count."""
        if lifetime.argument is not None:
            return self._events.get(lifetime.holder, np.empty(0, np.int64))
        return np.full(count, self._came or 0, np.int64)

    def _young(self, lifetime: Lifetime, times: Times) -> npt.NDArray[np.bool_]:
        if self._time is None:
            return np.ones(len(times), np.bool_)
        return times > self._time - lifetime.length

    # --- the end ---

    def _rows(self, predicate: str, keys: Iterable[Key]) -> Cells:
        return rows_of(keys, self._arities.get(predicate, 0))

    def _delete_rows(self, predicate: str, rows: Cells) -> None:
        if len(rows):
            self._delete.setdefault(predicate, []).append(rows)

    def _add_rows(self, predicate: str, rows: Cells) -> None:
        if len(rows):
            self._add.setdefault(predicate, []).append(rows)

    def _write(self, side: dict[str, list[Cells]], predicate: str, came: Mapping[Key, int]) -> None:
        """Write down, or strike out, when rows came in."""
        if came:
            times = self._facts.encoded([(time,) for time in came.values()], 1)
            rows = np.concatenate((self._rows(predicate, came), times), axis=1)
            side.setdefault(arrived(predicate), []).append(rows)

    def finish(self) -> None:
        """Put the update together."""
        if self._time != self._known.now:
            for side, time in ((self._delete, self._known.now), (self._add, self._time)):
                if time is not None:
                    side[NOW] = [self._facts.encoded([(time,)], 1)]
        request = self._request
        delete, add = ({name: _joined(parts) for name, parts in side.items()} for side in (self._delete, self._add))
        for name, rows in (*delete.items(), *add.items()):
            self._arities.setdefault(name, rows.shape[1])
        self.request = Request(delete, add, request.remove_rules, request.add_rules)

    def note(self, known: Known) -> None:
        """The update has been made, and no other lifetimes began or ended with it."""
        known.now = self._time
        for predicate, keys in self._left.items():
            for key in keys:
                known.arrivals[predicate].pop(key, None)
        for predicate, came in self._arrived.items():
            known.arrivals[predicate].update(came)
        for lifetimes in known.lifetimes.values():
            for lifetime in lifetimes:
                if known.now is not None:
                    known.timelines[lifetime.holder].drop_until(known.now - lifetime.length)
        for holder, noted, times in self._noted:
            known.timelines[holder].add_all(noted, times)


def _joined(parts: list[Cells]) -> Cells:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _by_arrival(lifetimes: Iterable[Lifetime]) -> list[Lifetime]:
    return [lifetime for lifetime in lifetimes if lifetime.argument is None]
