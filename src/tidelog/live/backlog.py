"""What waits to be worked on in `kb.live()`: updates in order, merged into batches of net operations.

Of all operations on one fact only the last one counts, and only if it differs from what is explicit now (the cancel
transitions of Fully Dynamic Materialization Maintenance, section 2.1, with the order of updates kept). A batch that is
in work can still lose operations: if what comes in takes back at least half of it, and brings less than it takes back,
the batch starts again. Each restart leaves fewer operations than before, so endless deleting and adding cannot keep a
batch from being finished.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tidelog.engine.engine import Engine
from tidelog.engine.update.deltas import Request
from tidelog.facts.encoding import row_keys
from tidelog.live.update_sources import UpdateMapping
from tidelog.machine import flags as F
from tidelog.store.relation_parts import Cells

# Rows that are encoded in a few tenths of a millisecond.
FEW_ROWS = 256

Signs = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Submission:
    """One update as it was submitted; numbers follow the order of submission."""

    number: int
    update: UpdateMapping
    priority: int = 0  # of two updates, the one with the higher goes first
    client: Hashable = None  # updates of one client keep their order; None: its own

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the updates of this piece of work, as of a batch."""
        return (self.number,)

    @property
    def is_apart(self) -> bool:
        """Whether it is worked on by itself: rules change, time passes, or facts are given as text, whose prefixes may
        give names another meaning.
        """
        update = self.update
        rules = update.get("add_rules") or update.get("remove_rules")
        return bool(rules) or "at" in update or any(isinstance(update.get(key), str) for key in ("add", "delete"))

    @property
    def is_quick(self) -> bool:
        """Whether taking it in takes far less than a millisecond: it has few facts, or is left as it is."""
        if self.is_apart:
            return True
        parts = [rows for key in ("add", "delete") for rows in (self.update.get(key) or {}).values()]
        return all(isinstance(rows, list | tuple | set) for rows in parts) and sum(map(len, parts)) <= FEW_ROWS

    @property
    def predicates(self) -> set[str]:
        """Those whose facts it names, by the names that it gives them."""
        return {name for key in ("add", "delete") for name in self.update.get(key) or {}}


@dataclass(frozen=True, slots=True)
class Part:
    """A submission with its facts encoded."""

    number: int
    delete: Mapping[str, Cells]
    add: Mapping[str, Cells]
    priority: int = 0
    client: Hashable = None
    # Where some of it is void: all of it, and the updates that have made it so, without which it is not to be seen.
    whole: Part | None = None
    overwritten_by: tuple[Part, ...] = ()

    @property
    def operations(self) -> int:
        return sum(len(rows) for facts in (self.delete, self.add) for rows in facts.values())

    @property
    def predicates(self) -> set[str]:
        """Those of its facts, also of void ones: these count again if what has made them void is refused."""
        whole = self.whole or self
        return {*whole.delete, *whole.add}

    def without(self, later: Part) -> Part:
        """What is left of it after an update that came later and went first: operations on the same facts are void."""
        whole = self.whole or self
        if _left(whole, later).operations == whole.operations:
            return self
        return replace(_left(self, later), whole=whole, overwritten_by=(*self.overwritten_by, later.whole or later))

    def unless(self, number: int) -> Part:
        """What is left of it if an update that has made some of it void was refused."""
        if self.whole is None or all(later.number != number for later in self.overwritten_by):
            return self
        found = self.whole
        for later in self.overwritten_by:
            if later.number != number:
                found = found.without(later)
        return found


@dataclass(frozen=True, slots=True)
class Operations:
    """Facts of one predicate, each once, and whether each is wanted to be explicit."""

    rows: Cells
    wanted: Signs

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, chosen: Signs) -> Operations:
        return Operations(self.rows[chosen], self.wanted[chosen])


@dataclass(slots=True)
class Batch:
    """Parts that are worked on together. One thread works on them while others append more.

    Operations are netted only where necessary: a batch of one part, such as a large load, stays as it is until
    something comes that could take half of it back.
    """

    parts: list[Part] = field(default_factory=list)
    arities: dict[str, int] = field(default_factory=dict)
    _net: dict[str, Operations] = field(default_factory=dict)
    _netted: int = 0  # parts that `_net` includes
    _effective: dict[str, Operations] | None = None
    _operations: int = 0
    _largest: int = 0  # operations of one part
    _counted: int = 0  # parts that these two include
    _asked_from: int = 0  # operations that must come after it before it can be undone
    gave_way: int = 0  # how often it was rolled back to let another update go first

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(part.number for part in self.parts)

    @property
    def priority(self) -> int:
        return max((part.priority for part in self.parts), default=0)

    def with_parts(self, parts: list[Part]) -> Batch:
        """A batch of other parts in the place of this one."""
        return Batch(parts, dict(self.arities), gave_way=self.gave_way)

    @property
    def operations(self) -> int:
        more = self.parts[self._counted :]
        for part in more:
            self._operations += part.operations
            self._largest = max(self._largest, part.operations)
        self._counted += len(more)
        return self._operations

    @property
    def net(self) -> Mapping[str, Operations]:
        """Of the facts that the parts mention, which are explicit after them."""
        parts = self.parts[:]
        if self._netted < len(parts):
            listed: dict[str, list[tuple[Cells, bool]]] = {}
            for part in parts:
                for facts, wanted in ((part.delete, False), (part.add, True)):
                    for predicate, rows in facts.items():
                        listed.setdefault(predicate, []).append((rows, wanted))
            self._net = {predicate: _last_ones(pieces) for predicate, pieces in listed.items()}
            self._netted = len(parts)
        return self._net

    def drop(self, numbers: set[int]) -> None:
        """These parts are done, or are worked on elsewhere."""
        self._replace([part for part in self.parts if part.number not in numbers])

    def give_back(self, number: int) -> None:
        """An update was refused: nothing is void because of it."""
        if any(part.overwritten_by for part in self.parts):
            self._replace([part.unless(number) for part in self.parts])

    def part(self, number: int) -> Part:
        """The part of this number, as it is now."""
        return next(part for part in self.parts if part.number == number)

    def _replace(self, parts: list[Part]) -> None:
        self.parts = parts
        self._net, self._netted, self._effective = {}, 0, None
        self._operations = self._largest = self._counted = self._asked_from = 0

    def merge(self, later: Batch) -> None:
        """Make a later batch part of this one."""
        self.parts += later.parts
        self.arities.update(later.arities)
        self._asked_from = 0

    def split(self) -> list[Batch]:
        """A batch for each part."""
        return [Batch([part], dict(self.arities)) for part in self.parts]

    def request(self, engine: Engine) -> Request:
        """The operations to work on; of several parts, only those that change something as things are now."""
        if len(self.parts) == 1:
            return Request(self.parts[0].delete, self.parts[0].add)
        effective = {name: found for name, net in self.net.items() if len(found := _effective(engine, name, net))}
        self._effective = effective
        return Request(
            {name: rows for name, found in effective.items() if len(rows := found.rows[~found.wanted])},
            {name: rows for name, found in effective.items() if len(rows := found.rows[found.wanted])},
        )

    def is_undone_by(self, later: Batch) -> bool:
        """Whether this batch, which is in work, should start again because of what comes after it."""
        come = later.operations
        count = self.operations if self._effective is None else sum(map(len, self._effective.values()))
        if come < self._asked_from or 2 * come < count:
            return False  # It cannot take half back.
        if later._largest > 4 * count:
            return False  # It brings more than it takes back, unless it says most of it twice.
        effective = self.net if self._effective is None else self._effective
        shared = [(effective[name], after) for name, after in later.net.items() if name in effective]
        taken_back = sum(_common(before, after) - _agreeing(before, after) for before, after in shared)
        known = sum(_agreeing(self.net[name], after) for name, after in later.net.items() if name in self.net)
        changed = sum(map(len, later.net.values())) - known
        missing = max(sum(map(len, effective.values())) - 2 * taken_back, changed + 1 - 2 * taken_back)
        # Each further operation takes back one at most.
        self._asked_from = come + (missing + 1) // 2
        return missing <= 0


class Passed:
    """Updates that have been looked at, whether they may pass others. Those that wait let nothing pass that has to
    do with them.
    """

    def __init__(self) -> None:
        self.seen: set[int] = set()  # the numbers of the updates; those that wait are not always in their order
        self._claims: set[str] = set()
        self._clients: set[Hashable] = set()

    def claim(self, predicates: frozenset[str]) -> None:
        """Nothing passes that touches these."""
        self._claims |= predicates

    def wait(self, part: Part | Submission, claims: frozenset[str]) -> None:
        """An update waits."""
        self.claim(claims)
        self._clients.add(part.client)

    def lets(self, part: Part, claims: frozenset[str]) -> bool:
        """Whether an update has nothing to do with those that wait, and none of them is of its client."""
        return self._claims.isdisjoint(claims) and (part.client is None or part.client not in self._clients)


def _left(part: Part, later: Part) -> Part:
    return replace(part, delete=_without(part.delete, later), add=_without(part.add, later))


def _without(facts: Mapping[str, Cells], later: Part) -> dict[str, Cells]:
    left: dict[str, Cells] = {}
    for name, rows in facts.items():
        for others in (later.delete.get(name), later.add.get(name)):
            if others is not None and len(others) and len(rows):
                rows = rows[~np.isin(row_keys(rows), row_keys(others))]
        if len(rows):
            left[name] = rows
    return left


def _last_ones(pieces: list[tuple[Cells, bool]]) -> Operations:
    """Of several operations on one fact, the last one."""
    rows = np.concatenate([rows for rows, _ in pieces])
    wanted = np.concatenate([np.full(len(rows), wanted) for rows, wanted in pieces])
    if len(rows) <= FEW_ROWS:
        last = list({tuple(row): place for place, row in enumerate(rows.tolist())}.values())
        return Operations(rows[last], wanted[last])
    _, places = np.unique(row_keys(rows)[::-1], return_index=True)
    places = len(rows) - 1 - places
    return Operations(rows[places], wanted[places])


def _agreeing(before: Operations, after: Operations) -> int:
    """How many facts both want alike."""
    return sum(_common(before.only(before.wanted == sign), after.only(after.wanted == sign)) for sign in (False, True))


def _common(before: Operations, after: Operations) -> int:
    """How many facts both are about."""
    rows = np.concatenate((before.rows, after.rows))
    return len(rows) - len(np.unique(row_keys(rows)))


def _effective(engine: Engine, predicate: str, net: Operations) -> Operations:
    """The operations that change something as things are now."""
    relation = engine.explicit_relation(predicate)
    if relation is None:
        return net.only(net.wanted)
    facts = engine.store.find_facts(relation, net.rows)
    flags = relation.cells[facts, relation.flags_column]
    return net.only(((facts >= 0) & (flags & F.EXPLICIT != 0)) != net.wanted)
