"""The paper's Algorithm 1 under chosen schedules: its state as data, and every schedule of some updates, enumerated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field

from naive import Database, without_empty
from tidelog import KnowledgeBase
from tidelog.language.names import is_hidden
from tidelog.language.syntax import Constant
from tidelog.live.operations.algorithm import FullyDynamic
from tidelog.live.operations.counting import Counting
from tidelog.live.operations.facts import Fact
from tidelog.live.operations.mode import begin
from tidelog.live.operations.operations import Fronts, Kind, Operation, Operations

VARIANTS = ("dred", "counting")

Propositions = frozenset[str]


@dataclass(frozen=True)
class Toggle:
    """An update of facts without arguments."""

    add: str = ""
    delete: str = ""

    def enter(self, algorithm: FullyDynamic) -> None:
        algorithm.determine_explicitly(propositions(self.delete), propositions(self.add))


def propositions(names: str) -> list[Fact]:
    return [(name, ()) for name in names.split()]


def holding(algorithm: FullyDynamic) -> Propositions:
    """I, of facts without arguments."""
    return frozenset(predicate for predicate, rows in algorithm.facts.by_predicate().items() if rows)


def decoded(kb: KnowledgeBase, algorithm: FullyDynamic) -> Database:
    """I, as the oracle holds it, without auxiliary facts."""
    decode = kb._knowledge.engine.store.terms.table.decode
    rows = [(name, found) for name, found in algorithm.facts.by_predicate().items() if not is_hidden(name)]
    return without_empty({name: {tuple(Constant(decode(t)) for t in row) for row in found} for name, found in rows})


def algorithm_of(kb: KnowledgeBase, maintenance: str) -> FullyDynamic:
    return begin(kb._knowledge.engine, maintenance)


# --- states


def state_of(algorithm: FullyDynamic, entered: int) -> Hashable:
    """Everything that later steps depend on. Of moments, only the order counts."""
    ages = {(name, row): age for name, rows in algorithm.facts.by_predicate().items() for row, age in rows.items()}
    operations = [*algorithm.delete, *algorithm.add]
    moments = sorted({0, algorithm.clock, *ages.values(), *(each.since - 1 for each in operations)})
    rank = {moment: place for place, moment in enumerate(moments)}
    state: list[Hashable] = [
        entered,
        frozenset(algorithm.explicit),
        frozenset((fact, rank[age]) for fact, age in ages.items()),
        frozenset(_operation(each, rank[each.since - 1]) for each in operations),
    ]
    if isinstance(algorithm, Counting):
        state += [frozenset(algorithm.applied._counts.items()), frozenset(algorithm.counts.items())]
    return tuple(state)


def _operation(each: Operation, since: int) -> Hashable:
    todo = frozenset(map(str, each.todo))
    return each.kind, each.fact, each.executed, todo, each.implied, each.reason, each.waits, since, each.touched


# --- every schedule


@dataclass
class Exploration:
    """All states that some schedule leads to, from a knowledge base and updates that come in at any time."""

    kb: KnowledgeBase
    maintenance: str
    updates: Sequence[Toggle]
    ends: set[Propositions] = field(default_factory=set)
    schedules: dict[Hashable, int] = field(default_factory=dict)  # for each state, how many ways lead to an end
    _on_the_way: set[Hashable] = field(default_factory=set)

    def explore(self) -> int:
        """The number of schedules. Raises where one goes on without end: it would come to a state again."""
        return self._explore(algorithm_of(self.kb, self.maintenance), 0)

    def _explore(self, algorithm: FullyDynamic, entered: int) -> int:
        state = state_of(algorithm, entered)
        assert state not in self._on_the_way, "a schedule goes on without end"
        if state not in self.schedules:
            self._on_the_way.add(state)
            steps = range(len(algorithm.steps()) if algorithm.is_open else 0)
            ways = [self._explore(_after_step(algorithm, step), entered) for step in steps]
            if entered < len(self.updates):
                later = copied(algorithm)
                self.updates[entered].enter(later)
                ways.append(self._explore(later, entered + 1))
            elif not ways:
                self.ends.add(holding(algorithm))
            self.schedules[state] = sum(ways) or 1
            self._on_the_way.remove(state)
        return self.schedules[state]


def _after_step(algorithm: FullyDynamic, step: int) -> FullyDynamic:
    later = copied(algorithm)
    later.take(later.steps()[step])
    return later


def copied(algorithm: FullyDynamic) -> FullyDynamic:
    """The same state to go on from, of the same rules; `deepcopy` would take five times as long."""
    later = copy(algorithm)
    later.facts, later.instances = copy(algorithm.facts), copy(algorithm.instances)
    later.facts._ages = {name: dict(rows) for name, rows in algorithm.facts.by_predicate().items()}
    later.facts._indexes = {}
    later.instances._facts = later.facts
    later.explicit, later.changed, later.work = set(algorithm.explicit), dict(algorithm.changed), Counter()
    later.fronts, later._waiting = Fronts(), []
    later.delete, later.add = (_copied(each, later) for each in (algorithm.delete, algorithm.add))
    if isinstance(later, Counting):
        later.applied, later.counts = deepcopy(later.applied), dict(later.counts)
    return later


def _copied(operations: Operations, later: FullyDynamic) -> Operations:
    result = Operations(operations._kind)
    for each in operations:
        same = result.put(each.fact, each.stratum)
        for name in ("executed", "implied", "reason", "waits", "since", "touched"):
            setattr(same, name, getattr(each, name))
        same.todo = list(each.todo)
        if each.waits:
            later._waiting.append(same)
        if each.kind is Kind.DEL and not each.executed:
            later.fronts.note(same, later.facts.age(each.fact))
    return result
