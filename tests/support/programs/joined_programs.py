"""Random programs with lattices of the user's own, in a recursion and above it, for streams of updates of facts and
rules.

All lattices are finite, so that nothing grows without end: intervals between two bounds, sets of a few letters, single
constants below "top", and least numbers. Any subset of the rules of a case is a program: without its recursive join, a
predicate is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from generate import Case, Source
from naive import State, database, normal
from tidelog import Lattice, Monotone, Record
from tidelog.language import parse_program
from tidelog.language.syntax import Atom, Constant, Rule
from tidelog.language.written.conditions import Names
from tidelog.values import Value

LOWEST, HIGHEST = -6, 6


def bounded(number: int) -> int:
    return min(max(number, LOWEST), HIGHEST)


def hull(one: Any, other: Any) -> Record:
    return Record(min(one[0], other[0]), max(one[1], other[1]))


def union(one: str, other: str) -> str:
    return "".join(sorted({*one, *other}))


def flat(one: Value, other: Value) -> Value:
    return one if one == other else "top"


def shifted(value: Any, by: int) -> Record:
    return Record(bounded(value[0] + by), bounded(value[1] + by))


def counted(value: Value, by: int) -> Value:
    return "top" if value == "top" else (value + by) % 4  # type: ignore[operator]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "hull": Lattice(hull),
    "union": Lattice(union, lambda one, other: set(one) <= set(other)),
    "flat": Lattice(flat),
    "least": Lattice(min, lambda one, other: other <= one),
    "shifted": Monotone(shifted),
    "width": Monotone(lambda value: value[1] - value[0]),
    "wide": Monotone(lambda value: value[1] - value[0] >= 3),
    "also": Monotone(union),
    "holds": Monotone(lambda letters, letter: letter in letters),
    "size": Monotone(len),
    "counted": Monotone(counted),
    "is_top": Monotone(lambda value: value == "top"),
    "nearer": Monotone(lambda value, by: bounded(value + by)),
    "is_near": Monotone(lambda value: value <= 2),
}

NAMES = Names.of(FUNCTIONS, frozenset(), lattices=frozenset({"hull", "union", "flat", "least"}))

# For each lattice: what starts a value, steps of one, tests, and a number that rises with it.
STEPS = {
    "hull": ("shifted(V, W)", "V", "hull(V, A)", "shifted(hull(V, A), W)"),
    "union": ("also(V, Y)", "V", "also(V, A)", "union(V, A)"),
    "flat": ("counted(V, W)", "V", "flat(V, A)"),
    "least": ("nearer(V, W)", "V", "least(V, A)"),
}
TESTS = {"hull": "wide(V)", "union": 'holds(V, "b")', "flat": "is_top(V)", "least": "is_near(V)"}
RISING = {"hull": "width(V)", "union": "size(V)", "flat": "1", "least": "2"}
VALUES: Mapping[str, tuple[Value, ...]] = {
    "hull": (Record(0, 0), Record(0, 1), Record(-2, -1), Record(2, 3)),
    "union": ("a", "b", "", "ac", "d"),
    "flat": (0, 1, 2, "top"),
    "least": (0, 1, 2, 3, 5),
}
NODES: tuple[Value, ...] = ("a", "b", "c", "d", "e")


class JoinMaker:
    """Makes the rules of one case: `p` and `q` keep joins of one lattice, `r` of groups of two, `m` best numbers."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lattice = source.pick(tuple(STEPS))

    def rules(self) -> list[Rule]:
        texts = [*self.values(), *self.readers()]
        for make in (self.pairs, self.beside):
            texts += make() if self.source.chance(45) else []
        return list({normal(rule): rule for rule in parse_program("\n".join(texts), names=NAMES).rules}.values())

    def values(self) -> list[str]:
        join = self.lattice
        found = [f"{name}(X, {self.source.pick((f'{join}(V)', 'V'))}) :- s(X, V)." for name in ("p", "q")]
        found += [self.step() for _ in range(self.source.between(2, 5))]
        if self.source.chance(50):
            found.append(f"near(X) :- p(X, V), {TESTS[join]}.")
            found.append(f"p(Y, {join}(V)) :- near(X), e(X, Y, _), s(Y, V).")
        return found

    def step(self) -> str:
        head, read = self.source.pick(("p", "p", "q")), self.source.pick(("p", "q"))
        value = self.source.pick(STEPS[self.lattice])
        body = [f"{read}(X, V)", "e(X, Y, W)"]
        if "A" in value:
            body.append(f"{self.source.pick(('p', 'q', 's'))}(Y, A)")
        # A plain rule passes a value on within its own predicate alone, as in `best_programs`.
        if read != head or "A" in value or self.source.chance(80):
            value = f"{self.lattice}({value})"
        if self.source.chance(20):
            body.append(TESTS[self.lattice])
        if self.source.chance(20):
            body.append("not b(Y)")
        if self.source.chance(20):
            body.reverse()
        return f"{head}(Y, {value}) :- {', '.join(body)}."

    def pairs(self) -> list[str]:
        join, step = self.lattice, self.source.pick(STEPS[self.lattice][:2])
        return [
            f"r(X, Y, {join}(V)) :- s(X, V), e(X, Y, _).",
            self.source.pick((
                f"r(X, Z, {join}({join}(V, A))) :- r(X, Y, V), r(Y, Z, A).",
                f"r(X, Y, {join}({step})) :- r(X, Z, V), e(Z, Y, W).",
            )),
        ]  # fmt: skip

    def beside(self) -> list[str]:
        """A `max` within the same recursion."""
        join, number = self.lattice, RISING[self.lattice]
        return [
            f"m(X, max({number})) :- p(X, V), b(X).",
            "m(Y, max(D)) :- m(X, D), e(X, Y, _), D > 1.",
            f"p(X, {join}(V)) :- m(X, D), D >= 2, s(X, V).",
        ]

    def readers(self) -> list[str]:
        """Rules above the recursion."""
        join = self.lattice
        return self.source.some(
            [
                f"whole({join}(V)) :- p(_, V).",
                "above(X, V) :- p(X, V), not q(X, V).",
                "number(count(X)) :- p(X, _).",
                f"of(Y, {join}(V)) :- e(X, Y, _), s(X, V).",
                "linked(X, Y) :- p(X, V), q(Y, V).",
            ],
            50,
        )


def joined_case(source: Source) -> Case:
    """Rules and facts; some facts are explicit values of the recursion's own predicates."""
    maker = JoinMaker(source)
    rules = maker.rules()
    nodes = NODES[: source.between(3, len(NODES))]
    known = {item.predicate for rule in rules for item in (rule.head, *rule.body) if isinstance(item, Atom)}
    facts = []

    def add(name: str, count: int, *columns: tuple[Value, ...]) -> None:
        for _ in range(count):
            facts.append((name, tuple(Constant(source.pick(values)) for values in (nodes, *columns))))

    values = VALUES[maker.lattice]
    add("e", source.between(4, 12), nodes, (-1, 0, 1, 2))
    add("s", source.between(1, 4), values)
    add("b", source.between(0, 3))
    for name, columns in (("p", (values,)), ("q", (values,)), ("r", (nodes, values)), ("m", ((1, 2),)), ("near", ())):
        if name in known:
            add(name, source.below(3), *columns)
    facts = list(dict.fromkeys(facts))
    state = State(tuple(source.some(rules, 85)), database([Atom(name, row) for name, row in source.some(facts, 65)]))
    return Case(state, tuple(rules), tuple(facts))
