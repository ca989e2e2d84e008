"""Random histories of large graphs below closures of every kind, and what the closures then hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from generate import Dice
from large import Longs, Pairs, Rows, Table, mask_of, reachable

Facts = dict[str, Table]
Derived = dict[str, Rows]


class Step(NamedTuple):
    """One update."""

    add: Facts
    delete: Facts
    add_rules: str = ""
    remove_rules: str = ""


# --- closures ---------------------------------------------------------------------------------------------------------


def _edges(facts: Facts, *names: str) -> Table:
    """What is given of some predicates together; those whose name begins with a minus are turned round."""
    together = Table.empty(2)
    for name in names:
        given = facts[name.lstrip("-")]
        together = together.plus(given.project(1, 0) if name.startswith("-") else given)
    return together


def _loops(edges: Table) -> list[int]:
    source, target = edges.columns()
    found: list[int] = source[source == target].tolist()
    return found


def _transitive(nodes: int, facts: Facts) -> Derived:
    return {"p": reachable(nodes, _edges(facts, "p"))}


def _fed(nodes: int, facts: Facts) -> Derived:
    return {"p": reachable(nodes, _edges(facts, "p", "e"))}


def _symmetric(nodes: int, facts: Facts) -> Derived:
    return {"p": reachable(nodes, _edges(facts, "p", "-p"))}


def _apart(nodes: int, facts: Facts) -> Derived:
    return {"p": reachable(nodes, _edges(facts, "p")).apart(_loops(facts["p"]))}


def _symmetric_apart(nodes: int, facts: Facts) -> Derived:
    return {"p": reachable(nodes, _edges(facts, "p", "-p")).apart(_loops(facts["p"]))}


def _linear(nodes: int, facts: Facts) -> Derived:
    return {"p": reachable(nodes, facts["e"])}


def _linear_inverse(nodes: int, facts: Facts) -> Derived:
    return {"p": reachable(nodes, _edges(facts, "-e"))}


def _linear_apart(nodes: int, facts: Facts) -> Derived:
    return {"p": reachable(nodes, facts["e"]).apart()}


def _twins(nodes: int, facts: Facts) -> Derived:
    pairs = reachable(nodes, _edges(facts, "p", "-q"))
    return {"p": pairs, "q": reachable(nodes, _edges(facts, "-p", "q"))}


def _tower(nodes: int, facts: Facts) -> Derived:
    return {"p": reachable(nodes, facts["e"]), "t": reachable(nodes, _edges(facts, "e", "f"))}


def _symmetric_tower(nodes: int, facts: Facts) -> Derived:
    return {"p": reachable(nodes, facts["e"]), "t": reachable(nodes, _edges(facts, "e", "-e"))}


def _recursion(nodes: int, facts: Facts) -> Derived:
    edges = facts["e"]
    while True:
        pairs = reachable(nodes, edges)
        back = pairs.between(facts["n"], facts["m"]).project(1, 0)
        more = edges.plus(back)
        if len(more) == len(edges):
            return {"p": pairs, "q": back}
        edges = more


@dataclass(frozen=True)
class Closure:
    """Rules, the predicates that edges are given of, and what follows. `most` nodes: what the oracle can bear."""

    rules: str
    bases: str
    derive: Callable[[int, Facts], Derived]
    most: int = 5_000


_PATH = "p(X, Z) :- p(X, Y), p(Y, Z)."
_APART = "p(X, Z) :- p(X, Y), p(Y, Z), X != Z."
_BELOW = "p(X, Y) :- e(X, Y). p(X, Z) :- e(X, Y), p(Y, Z)."
CLOSURES = {
    "transitive": Closure(_PATH, "p", _transitive),
    "fed": Closure(f"{_PATH} p(X, Y) :- e(X, Y).", "pe", _fed),
    "symmetric": Closure(f"{_PATH} p(Y, X) :- p(X, Y).", "p", _symmetric),
    "apart": Closure(_APART, "p", _apart),
    "symmetric apart": Closure(f"{_APART} p(Y, X) :- p(X, Y).", "p", _symmetric_apart),
    "right": Closure(_BELOW, "e", _linear),
    "left": Closure("p(X, Y) :- e(X, Y). p(X, Z) :- p(X, Y), e(Y, Z).", "e", _linear),
    "inverse": Closure("p(X, Y) :- e(Y, X). p(X, Z) :- e(Y, X), p(Y, Z).", "e", _linear_inverse),
    "right apart": Closure("p(X, Y) :- e(X, Y), X != Y. p(X, Z) :- e(X, Y), p(Y, Z), X != Z.", "e", _linear_apart),
    "twins": Closure(f"{_PATH} q(X, Y) :- p(Y, X). p(X, Y) :- q(Y, X).", "pq", _twins),
    "tower": Closure(
        f"{_BELOW} t(X, Y) :- p(X, Y). t(X, Y) :- f(X, Y). t(X, Z) :- t(X, Y), t(Y, Z).", "ef", _tower, most=400
    ),
    "symmetric tower": Closure(
        f"{_BELOW} t(X, Y) :- p(X, Y). t(Y, X) :- t(X, Y). t(X, Z) :- t(X, Y), t(Y, Z).",
        "e",
        _symmetric_tower,
        most=400,
    ),
    "recursion": Closure(
        f"{_PATH} p(X, Y) :- e(X, Y). q(X, Y) :- p(Y, X), m(X), n(Y). p(X, Y) :- q(X, Y).", "e", _recursion, most=120
    ),
}

# What reads a closure, pair by pair.
READERS: dict[str, Callable[[Pairs, Facts], Table]] = {
    "above(X) :- p(X, Y), m(Y).": lambda pairs, facts: _above(pairs, facts["m"]),
    "free(X) :- n(X), not p(X, X).": lambda pairs, facts: _free(pairs, facts["n"]),
    "fan(X, count(Y)) :- p(X, Y).": lambda pairs, _facts: pairs.counts(),
    "back(Y, X) :- p(X, Y), m(X), n(Y).": lambda pairs, facts: pairs.between(facts["m"], facts["n"]).project(1, 0),
}
MOST_READ = 700  # nodes
MOST_STORED = 100  # nodes, if pairs are facts like any other


def _above(pairs: Pairs, marked: Table) -> Table:
    mask = mask_of(marked)
    return Table.of(np.array([node for node, row in enumerate(pairs.successors) if row & mask], np.int64))


def _free(pairs: Pairs, asked: Table) -> Table:
    return Table.of(np.array([node for (node,) in asked.rows() if not pairs.successors[node] >> node & 1], np.int64))


# --- shapes -----------------------------------------------------------------------------------------------------------


def _chain(dice: Dice, nodes: int) -> Longs:
    numbers = np.arange(nodes)
    return np.stack([numbers[:-1], numbers[1:]])


def _ring(dice: Dice, nodes: int) -> Longs:
    numbers = np.arange(nodes)
    return np.stack([numbers, np.roll(numbers, -1)])


def _grid(dice: Dice, nodes: int) -> Longs:
    side = int(nodes**0.5)
    numbers = np.arange(side * side).reshape(side, side)
    across = np.stack([numbers[:, :-1].ravel(), numbers[:, 1:].ravel()])
    down = np.stack([numbers[:-1].ravel(), numbers[1:].ravel()])
    return np.concatenate([across, down], axis=1)


def _random(dice: Dice, nodes: int, edges: int) -> Longs:
    return np.random.default_rng(dice.below(1 << 32)).integers(0, nodes, (2, edges))


def _sparse(dice: Dice, nodes: int) -> Longs:
    return _random(dice, nodes, nodes * dice.between(5, 30) // 10)


def _dense(dice: Dice, nodes: int) -> Longs:
    return _random(dice, nodes, min(nodes * nodes // 4, 20_000))


def _layers(dice: Dice, nodes: int) -> Longs:
    """No cycles, and many paths."""
    return np.sort(_random(dice, nodes, 4 * nodes), axis=0)


def _components(dice: Dice, nodes: int) -> Longs:
    size = dice.between(2, 9)
    source = np.arange(nodes - 1)
    kept = source % size != size - 1
    edges = np.stack([source[kept], source[kept] + 1])
    return np.concatenate([edges, edges[::-1, :: dice.between(1, 5)]], axis=1)


def _cliques(dice: Dice, nodes: int) -> Longs:
    size = min(nodes, dice.between(10, 70))
    inner = np.indices((size, size)).reshape(2, -1)
    return np.concatenate([inner + first for first in range(0, min(nodes, 10 * size) - size + 1, size)], axis=1)


def _star(dice: Dice, nodes: int) -> Longs:
    edges = np.stack([np.zeros(nodes - 1, np.int64), np.arange(1, nodes)])
    return edges if dice.chance(50) else edges[::-1]


def _tree(dice: Dice, nodes: int) -> Longs:
    numbers = np.arange(1, nodes)
    edges = np.stack([(numbers - 1) // dice.between(2, 5), numbers])
    return edges if dice.chance(50) else edges[::-1]


SHAPES = [_chain, _ring, _grid, _sparse, _dense, _layers, _components, _cliques, _star, _tree]

Way = Callable[[Dice, int], list[tuple[int, int]]]
GROWTH: list[Way] = [
    lambda _dice, node: [(max(node - 1, 0), node)],
    lambda _dice, node: [(node, max(node - 1, 0))],
    lambda _dice, node: [(0, node)],
    lambda _dice, node: [(node // 2, node)],
    lambda dice, node: [(dice.below(node + 1), node)],
    lambda dice, node: [(dice.below(node + 1), node), (node, dice.below(node + 1))],
]


# --- histories --------------------------------------------------------------------------------------------------------


class GraphHistory:
    """Edges that are added one by one and in bulk, cut, deleted, and added again."""

    def __init__(self, dice: Dice, kind: str, modules: bool, most: int) -> None:
        closure = CLOSURES[kind]
        self._dice = dice
        self._closure = closure
        self._readers = dice.some(list(READERS), 50) if modules and dice.chance(40) else []
        most = min(most, closure.most, MOST_READ if self._readers else most, most if modules else MOST_STORED)
        self._nodes = int(50 * (most / 50) ** (dice.below(1000) / 1000))  # as many of each order of magnitude
        self.universe = 2 * self._nodes + 600
        self._next = 0
        order = np.random.default_rng(dice.below(1 << 32)).permutation(self.universe)
        self._labels = order if dice.chance(50) else np.arange(self.universe)
        self.arities = dict.fromkeys(closure.bases, 2) | {"m": 1, "n": 1}
        rules = [f"{rule.strip()}." for rule in closure.rules.split(".") if rule.strip()] + self._readers
        self.program = " ".join(dice.shuffled(rules))

    def derive(self, facts: Facts) -> Derived:
        """All facts that there are then."""
        derived: Derived = dict(facts) | self._closure.derive(self.universe, facts)
        pairs = derived["p"]
        assert isinstance(pairs, Pairs)
        return derived | {rule[: rule.index("(")]: READERS[rule](pairs, facts) for rule in self._readers}

    def steps(self, facts: Facts) -> Iterator[Step]:
        """Updates; `facts` are those that are given at the time."""
        dice = self._dice
        yield self._marks()
        yield from self._graft(facts) if dice.chance(75) else self._grow(facts)
        ways = [
            self._grow,
            self._grow,
            self._cut,
            self._cut,
            self._thin,
            self._link,
            self._graft,
            self._refill,
            self._swap,
        ]
        for _ in range(dice.between(4, 8)):
            yield from dice.pick(ways)(facts)
            if dice.chance(20):
                yield self._marks()

    def _of(self, edges: Longs, base: str = "") -> Facts:
        """Edges between nodes in the order of their arrival, as facts."""
        return {base or self._dice.pick(self._closure.bases): Table.of(*self._labels[edges])}

    def _marks(self) -> Step:
        def some() -> Table:
            count = self._dice.between(1, 20)
            return Table.of(self._labels[_random(self._dice, max(self._next, 2), count)[0]])

        return Step({"m": some(), "n": some()}, {"m": some(), "n": some()})

    def _present(self, facts: Facts, count: int) -> Facts:
        """Some existing edges."""
        base = self._dice.pick(self._closure.bases)
        keys = facts[base].keys
        if not len(keys):
            return {}
        return {base: Table(2, np.unique(keys[_random(self._dice, len(keys), count)[0]]))}

    def _grow(self, facts: Facts) -> Iterator[Step]:
        """Node by node, with deletions in between."""
        dice = self._dice
        way = dice.pick(GROWTH)
        cutting = dice.pick((0, 20, 60))
        for _ in range(min(dice.between(5, 90), self.universe - self._next)):
            node = self._next
            self._next += 1
            yield Step(self._of(np.array(way(dice, node)).T), {})
            if dice.chance(cutting):
                away = self._present(facts, 1) if dice.chance(50) else self._of(np.array(way(dice, max(node - 5, 0))).T)
                yield Step({}, away)
                if dice.chance(60):
                    yield Step(away, {})

    def _cut(self, facts: Facts) -> Iterator[Step]:
        """Delete single edges here and there; some come back."""
        for _ in range(self._dice.between(1, 8)):
            away = self._present(facts, self._dice.pick((1, 1, 5)))
            yield Step({}, away)
            if self._dice.chance(50):
                yield Step(away, {})

    def _thin(self, facts: Facts) -> Iterator[Step]:
        """Many edges at once."""
        for base in self._closure.bases:
            percent = self._dice.pick((10, 50, 90))
            chosen = np.random.default_rng(self._dice.below(1 << 32)).random(len(facts[base])) * 100 < percent
            yield Step({}, {base: facts[base].where(chosen)})

    def _link(self, facts: Facts) -> Iterator[Step]:
        """Edges between existing nodes."""
        for _ in range(self._dice.between(1, 8)):
            yield Step(self._of(_random(self._dice, max(self._next, 1), self._dice.pick((1, 1, 2, 10, 40)))), {})

    def _graft(self, facts: Facts) -> Iterator[Step]:
        """Another graph beside the existing one, or sharing its last nodes."""
        dice = self._dice
        nodes = min(max(2, self._nodes // dice.pick((1, 1, 3, 10))), self.universe - self._next)
        if nodes < 2:
            return
        first = max(0, self._next - dice.pick((0, 1, nodes // 2)))
        edges = dice.pick(SHAPES)(dice, nodes)
        self._next = max(self._next, first + nodes)
        yield Step(self._of(edges + first), {})

    def _refill(self, facts: Facts) -> Iterator[Step]:
        """Delete everything, then add it all again, or start with something else."""
        all_of_it = {base: facts[base] for base in self._closure.bases}
        yield Step({}, all_of_it)
        if self._dice.chance(60):
            yield Step(all_of_it, {})
        else:
            self._next = 0
            yield from self._grow(facts)
            yield from self._graft(facts)

    def _swap(self, facts: Facts) -> Iterator[Step]:
        """Some edges go, others come, and some do both."""
        for _ in range(self._dice.between(1, 4)):
            away = self._present(facts, self._dice.pick((1, 3, 30, 1000)))
            come = self._of(_random(self._dice, max(self._next, 1), self._dice.pick((1, 3, 30))))
            yield Step(dict(away) | come if self._dice.chance(30) else come, away)
