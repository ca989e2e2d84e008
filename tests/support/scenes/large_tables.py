"""Random histories of relations that grow past powers of two and shrink, and what rules above them then derive."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from generate import Dice
from large import BITS, Longs, Table, joined
from large_graphs import Derived, Facts, Step

Derive = Callable[[Derived], Table]


def _table(facts: Derived, name: str) -> Table:
    found = facts[name]
    assert isinstance(found, Table)
    return found


def _copied(name: str, *places: int) -> Derive:
    return lambda facts: _table(facts, name).project(*places)


def _mutual(facts: Derived) -> Table:
    pairs = _table(facts, "a2")
    return pairs.where(np.isin(pairs.keys, pairs.project(1, 0).keys))


def _path(facts: Derived) -> Table:
    left, right = joined(_table(facts, "a3"), 2, _table(facts, "a2"), 0)
    return Table.of(left[0], left[1], right[1])


def _looked_up(facts: Derived) -> Table:
    """By all columns but one, in another order."""
    wide, narrow = _table(facts, "a5"), _table(facts, "a4").project(3, 0, 2, 1)
    return Table(4, np.intersect1d(wide.project(0, 1, 2, 3).keys, narrow.keys))


def _same_ends(facts: Derived) -> Table:
    rows = _table(facts, "a5")
    columns = rows.columns()
    return rows.where(columns[0] == columns[4]).project(0, 1)


def _groups(key: Longs) -> tuple[Longs, Longs, Longs]:
    """The order by groups, where each begins, and its key."""
    order = np.argsort(key, kind="stable")
    keys, first = np.unique(key[order], return_index=True)
    return order, first, keys


def _counted(facts: Derived) -> Table:
    keys, counts = np.unique(_table(facts, "a2").columns()[0], return_counts=True)
    return Table.of(keys, counts)


def _all_counted(facts: Derived) -> Table:
    count = len(_table(facts, "a1"))
    return Table.of(np.full(min(count, 1), count))


def _summed(facts: Derived) -> Table:
    columns = _table(facts, "a3").columns()
    order, first, keys = _groups(columns[0])
    return Table.of(keys, np.add.reduceat(columns[2][order], first) if len(keys) else keys)


def _spread(facts: Derived) -> Table:
    columns = _table(facts, "a4").columns()
    order, first, keys = _groups(columns[1])
    if not len(keys):
        return Table.empty(3)
    values = columns[3][order]
    return Table.of(keys, np.minimum.reduceat(values, first), np.maximum.reduceat(values, first))


def _reached(facts: Derived) -> Table:
    found = fresh = _table(facts, "a1")
    while len(fresh):
        _, right = joined(fresh, 0, _table(facts, "a2"), 0)
        fresh = Table.of(right[1]).minus(found)
        found = found.plus(fresh)
    return found


def _coloured(facts: Derived) -> Table:
    found = fresh = _table(facts, "a2").within(0, _table(facts, "a1"))
    steps = _table(facts, "a3").project(0, 1)
    while len(fresh):
        left, right = joined(fresh, 1, steps, 0)
        fresh = Table.of(left[0], right[1]).minus(found)
        found = found.plus(fresh)
    return found


# Rules with their heads, in an order in which each reads what is derived before it; those with numbers need numbers.
RULES: dict[str, Derive] = {
    "c2(Y, X) :- a2(X, Y).": _copied("a2", 1, 0),
    "c3(Z, X, Y) :- a3(X, Y, Z).": _copied("a3", 2, 0, 1),
    "c4(W, Z, Y, X) :- a4(X, Y, Z, W).": _copied("a4", 3, 2, 1, 0),
    "c5(V, X, W, Y, Z) :- a5(X, Y, Z, W, V).": _copied("a5", 4, 0, 3, 1, 2),
    "s(Y) :- a2(X, Y).": _copied("a2", 1),
    "s3(Y, Z) :- a3(X, Y, Z).": _copied("a3", 1, 2),
    "d2(X, Y) :- a2(X, Y), not a1(X).": lambda facts: _table(facts, "a2").within(0, _table(facts, "a1"), negated=True),
    "d4(X, Z) :- a4(X, Y, Z, W), not a1(W), a1(Y).": lambda facts: (
        _table(facts, "a4").within(3, _table(facts, "a1"), negated=True).within(1, _table(facts, "a1")).project(0, 2)
    ),
    "mutual(X, Y) :- a2(X, Y), a2(Y, X).": _mutual,
    "path(X, Y, W) :- a3(X, Y, Z), a2(Z, W).": _path,
    "both(X, Y, Z, W) :- a5(X, Y, Z, W, V), a4(Y, W, Z, X).": _looked_up,
    "ends(X, Y) :- a5(X, Y, Z, W, X).": _same_ends,
    "counted(X, count(Y)) :- a2(X, Y).": _counted,
    "all(count(X)) :- a1(X).": _all_counted,
    "summed(X, sum(Z)) :- a3(X, Y, Z).": _summed,
    "spread(Y, min(W), max(W)) :- a4(X, Y, Z, W).": _spread,
    "r(X) :- a1(X). r(Y) :- r(X), a2(X, Y).": _reached,
    "rc(C, X) :- a2(C, X), a1(C). rc(C, Y) :- rc(C, X), a3(X, Y, _).": _coloured,
}
OF_NUMBERS = ("summed", "spread")

SIZES = (1_000, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 300_000)


def head_of(rule: str) -> str:
    return rule[: rule.index("(")]


class TableHistory:
    """Relations of arity one to five, with rules that come and go while they are large."""

    def __init__(self, dice: Dice, most: int, texts: bool) -> None:
        self._dice = dice
        self._numbers = np.random.default_rng(dice.below(1 << 32))
        self.arities = {f"a{arity}": arity for arity in (dice.some(range(1, 6), 60) or [2])}
        self._possible = [rule for rule in RULES if self._can_use(rule) and not (texts and head_of(rule) in OF_NUMBERS)]
        self.rules = dice.some(self._possible, 50)
        self.program = " ".join(dice.shuffled(self.rules))
        size = dice.pick([size for size in SIZES if size <= most])
        # Few rules make more facts than there are; recursion makes as many as there are pairs, so it starts from few.
        self._sizes = {name: dice.pick([size, size, max(size // 8, 1_000)]) for name in self.arities}
        self._domain = max(dice.pick((size // 4, size, 2 * size)), 300)
        self.universe = self._domain

    def _can_use(self, rule: str) -> bool:
        return all(f"a{arity}" in self.arities or f"a{arity}(" not in rule for arity in range(1, 6))

    def derive(self, facts: Facts) -> Derived:
        """All facts that there are then."""
        derived: Derived = dict(facts)
        return derived | {head_of(rule): RULES[rule](derived) for rule in self.rules}

    def steps(self, facts: Facts) -> Iterator[Step]:
        """Updates; `facts` are those that are given at the time."""
        ways = [self._fill, self._fill, self._pass, self._thin, self._thin, self._single, self._swap, self._refill]
        yield from self._fill(facts)
        for _ in range(self._dice.between(5, 10)):
            yield from self._dice.pick(ways)(facts)
            if self._possible and self._dice.chance(30):
                yield self._other_rules(self._dice.pick(self._possible))

    def _other_rules(self, rule: str) -> Step:
        if rule in self.rules:
            self.rules.remove(rule)
            return Step({}, {}, remove_rules=rule)
        self.rules.append(rule)
        return Step({}, {}, add_rules=rule)

    def _domain_of(self, name: str) -> int:
        return min(self._domain, (1 << BITS[self.arities[name]]) - 1)

    def _rows(self, name: str, count: int) -> Table:
        domain = self._domain_of(name)
        columns = [self._numbers.integers(0, domain, count) for _ in range(self.arities[name])]
        if name == "a4" and self._dice.chance(50):
            columns[1] %= 50  # large groups, long chains
        if name == "a3":
            onwards = columns[0] + self._numbers.integers(0, 3, count)
            columns[1] = np.minimum(onwards, np.minimum(columns[0] | 63, domain - 1))  # paths that end soon
        if name == "a5" and self._dice.chance(50):
            columns[4] = np.where(columns[4] % 3, columns[4], columns[0])
        return Table.of(*columns)

    def _related(self, facts: Facts, name: str, count: int) -> Table:
        """New rows; some are those of another relation in another order, so that they are found."""
        rows = self._rows(name, count)
        if name == "a4" and len(facts.get("a5", ())):
            wide = facts["a5"].project(1, 3, 2, 0)
            rows = rows.plus(wide.where(self._numbers.random(len(wide)) < 0.2))
        if name == "a2":
            rows = rows.plus(rows.project(1, 0).where(self._numbers.random(len(rows.project(1, 0))) < 0.1))
        return rows

    def _few(self, name: str, count: int) -> int:
        """Keep the starting points of a recursion few."""
        return min(count, 20) if name == "a1" and any(head_of(rule) == "rc" for rule in self._possible) else count

    def _some_names(self) -> list[str]:
        return self._dice.some(list(self.arities), 60) or [self._dice.pick(list(self.arities))]

    def _fill(self, facts: Facts) -> Iterator[Step]:
        """In one update or in a few."""
        for _ in range(self._dice.pick((1, 1, 3))):
            names = self._some_names()
            missing = {name: self._few(name, self._sizes[name] - len(facts[name])) for name in names}
            share = self._dice.pick((1, 1, 2, 4))
            counts = {name: count // share for name, count in missing.items() if count > 0}
            yield Step({name: self._related(facts, name, count) for name, count in counts.items()}, {})

    def _pass(self, facts: Facts) -> Iterator[Step]:
        """Grow to just below a power of two, and past it by single rows."""
        name = self._dice.pick(list(self.arities))
        there = len(facts[name])
        goal = 1 << max(there, 255).bit_length()
        if goal > 2 * self._sizes[name] or self._few(name, goal) < goal:
            return
        yield Step({name: self._rows(name, goal - there - 3)}, {})
        for _ in range(8):
            yield Step({name: self._rows(name, 1)}, {})

    def _thin(self, facts: Facts) -> Iterator[Step]:
        share = self._dice.pick((0.01, 0.3, 0.6, 0.95))
        names = self._some_names()
        yield Step({}, {name: facts[name].where(self._numbers.random(len(facts[name])) < share) for name in names})

    def _single(self, facts: Facts) -> Iterator[Step]:
        for _ in range(self._dice.between(2, 12)):
            name = self._dice.pick(list(self.arities))
            rows = facts[name].where(self._numbers.random(len(facts[name])) < 1.5 / max(1, len(facts[name])))
            yield Step({}, {name: rows})
            if self._dice.chance(60):
                yield Step({name: rows}, {})
            yield Step({name: self._rows(name, 1)}, {})

    def _swap(self, facts: Facts) -> Iterator[Step]:
        names = self._some_names()
        share = self._dice.pick((0.01, 0.3, 0.9))
        away = {name: facts[name].where(self._numbers.random(len(facts[name])) < share) for name in names}
        come = {name: self._related(facts, name, self._few(name, len(rows))) for name, rows in away.items()}
        yield Step(come, away)

    def _refill(self, facts: Facts) -> Iterator[Step]:
        """Empty some relations, then fill them again."""
        away = {name: facts[name] for name in self._some_names()}
        yield Step({}, away)
        if self._dice.chance(60):
            yield Step(away, {})
