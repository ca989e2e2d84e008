"""Rule instances as data: what the papers' procedures look up when they match a rule's head or body.

A procedure that matches a body in some set of facts finds some of the instances that hold in I. So all instances are
found once, before it begins, and "for each τ ∈ X.eval(…)" becomes a look at the instances of a fact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from tidelog.language.syntax import Constant


class Fact:
    """A ground atom. What else an instance rests on is a fact, too: that no fact matches a negated atom (its predicate
    is `not p`, an argument is None for any value), and that a rule is in force (its predicate is the rule).
    """

    __slots__ = ("_hash", "predicate", "row")

    def __init__(self, predicate: str, row: tuple[Constant | None, ...] = ()) -> None:
        self.predicate = predicate
        self.row = row
        self._hash = hash((predicate, row))  # Sets ask for it all the time.

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fact) and self.predicate == other.predicate and self.row == other.row

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        arguments = ", ".join("_" if term is None else str(term) for term in self.row)
        return f"{self.predicate}({arguments})" if self.row else self.predicate


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """A rule r and a substitution τ: h(r)τ and b₁(r)τ, …, bₙ(r)τ. Two instances are equal only if they are one."""

    rule: str
    head: Fact
    body: tuple[Fact, ...]

    def __str__(self) -> str:
        return f"{self.head} ← {' ∧ '.join(map(str, self.body))}"


class InstanceLookup(Protocol):
    """What a procedure asks for."""

    @property
    def all(self) -> Iterable[Instance]: ...

    def deriving(self, fact: Fact) -> Iterable[Instance]:
        """Π.matchHead(F): the instances with this head, rule by rule."""

    def using(self, fact: Fact) -> Iterable[Instance]:
        """Π.matchBody(F): the instances with this fact in their bodies, each once."""


class Instances:
    """The instances of a program, by head and by body fact, in a fixed order."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self.all = tuple(instances)
        self._by_head: defaultdict[Fact, list[Instance]] = defaultdict(list)
        self._by_fact: defaultdict[Fact, list[Instance]] = defaultdict(list)
        for instance in self.all:
            self._by_head[instance.head].append(instance)
            for fact in dict.fromkeys(instance.body):
                self._by_fact[fact].append(instance)

    def deriving(self, fact: Fact) -> Collection[Instance]:
        return self._by_head.get(fact, ())

    def using(self, fact: Fact) -> Collection[Instance]:
        return self._by_fact.get(fact, ())


class FactQueue:
    """A set of facts with `next`, as the papers use them: `next` gives each fact once, in the order of arrival."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._facts = dict.fromkeys(facts)
        self._order = list(self._facts)
        self._next = 0

    def add(self, fact: Fact) -> bool:
        """Whether the fact is new."""
        if fact in self._facts:
            return False
        self._facts[fact] = None
        self._order.append(fact)
        return True

    def next(self) -> Fact | None:
        if self._next == len(self._order):
            return None
        self._next += 1
        return self._order[self._next - 1]

    def fresh(self) -> Iterator[Fact]:
        """`while (F := X.next) ≠ ε`"""
        while (fact := self.next()) is not None:
            yield fact

    def after(self, count: int) -> list[Fact]:
        """What arrived after the first so many facts."""
        return self._order[count:]

    def __contains__(self, fact: Fact) -> bool:
        return fact in self._facts

    def __iter__(self) -> Iterator[Fact]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)
