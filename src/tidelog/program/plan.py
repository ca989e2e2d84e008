"""Plans: in which order a rule's body is matched, and in which sets.

How to think about it. A rule instance is a match of all atoms of a body. Algorithms ask for instances in a handful of
ways: all of them; those in which a changed fact takes part; those that derive a given fact. Each is the same join with
a different start. A plan fixes the start, the *pivot*, and then orders the rest greedily: of the remaining atoms, first
one with all arguments bound, then the one with the fewest expected matches (bound arguments first, then cardinality:
ZodiacEdge, section 4.6). Comparisons, bindings and negated atoms come as early as their variables allow.

To find an instance only once although several of its facts changed, atoms left of the pivot (in the order of the rule)
are matched in another set than atoms right of it: the extended atoms of Backward/Forward, section 3. A plan says on
which side each atom stands and whether its predicate belongs to the rule's own component; the algorithm says which
sets these are. In this order, negated atoms stand right of all positive ones.

A plan is flat data that prints readably. Both the kernels' assembler and the Spark engine read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from heapq import heappop, heappush
from itertools import chain
from typing import NamedTuple

from tidelog.language.names import CONDITIONS
from tidelog.language.syntax import Atom, Call, Comparison, Constant, Term, Variable, variables
from tidelog.program.normal_form import Definition, NormalRule

Estimate = Callable[[Atom, tuple[int, ...]], float]
"""How many facts of an atom's predicate match when the given columns are bound."""

_Cost = tuple[bool, float, int]

# Looking up a fact is assumed to be this many times cheaper than finding an instance whose head may be known: a guess.
FACTS_AN_INSTANCE = 4
# A body with more atoms is long.
FEW_ATOMS = 6


class Side(Enum):
    """Where an atom stands, seen from the pivot, in the order of the rule."""

    BEFORE = "before"
    AFTER = "after"
    PIVOT = "pivot"


class Start(IntEnum):
    """What a plan begins with. A number, because plans are looked up by it for every component of every update."""

    ALL = 0
    POSITIVE = 1
    NEGATIVE = 2
    HEAD = 3


class Pivot(NamedTuple):
    """What the plan starts from: nothing, a positive or negated atom by its position, or the head."""

    start: Start
    position: int = 0


ALL = Pivot(Start.ALL)
HEAD = Pivot(Start.HEAD)


@dataclass(frozen=True, slots=True)
class Take:
    """Match the fact that the plan starts from."""

    atom: Atom

    def __str__(self) -> str:
        return f"take {self.atom}"


@dataclass(frozen=True, slots=True)
class Match:
    """Match a positive atom; `bound` are the columns whose values are known, in order."""

    atom: Atom
    position: int
    bound: tuple[int, ...]
    side: Side
    own: bool

    def __str__(self) -> str:
        return f"match {self.atom} [{self.side.value}{', own' if self.own else ''}] by {_columns(self)}"


@dataclass(frozen=True, slots=True)
class Absent:
    """Check that no fact matches a negated atom."""

    atom: Atom
    position: int
    bound: tuple[int, ...]
    side: Side

    def __str__(self) -> str:
        return f"absent {self.atom} [{self.side.value}] by {_columns(self)}"


@dataclass(frozen=True, slots=True)
class Compare:
    comparison: Comparison

    def __str__(self) -> str:
        return f"check {self.comparison}"


@dataclass(frozen=True, slots=True)
class Define:
    """Bind a variable to the value of its definition, or check it where the start has bound it already."""

    definition: Definition
    binds: bool

    def __str__(self) -> str:
        return f"{'let' if self.binds else 'check'} {self.definition}"


Step = Take | Match | Absent | Compare | Define


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps that find a rule's instances from one start."""

    rule: NormalRule
    pivot: Pivot
    steps: tuple[Step, ...]

    @property
    def crosses(self) -> bool:
        """Whether some atom shares no variable with what comes before it: a cross product."""
        joined = [step for step in self.steps if isinstance(step, Take | Match)]
        return any(isinstance(step, Match) and not step.bound and step.atom.arguments for step in joined[1:])

    def __str__(self) -> str:
        lines = [str(self.rule.source), f"  start: {self.pivot.start.value}"]
        return "\n".join([*lines, *(f"  {step}" for step in self.steps)])


def _columns(step: Match | Absent) -> str:
    if not step.atom.arguments:
        return "nothing"
    if len(step.bound) == len(step.atom.arguments):
        return "all columns"
    return f"columns {', '.join(map(str, step.bound))}" if step.bound else "scan"


def bound_columns(atom: Atom, bound: set[Variable]) -> tuple[int, ...]:
    """The columns of an atom whose values are known."""
    return tuple(
        column
        for column, term in enumerate(atom.arguments)
        if isinstance(term, Constant) or (isinstance(term, Variable) and term in bound)
    )


class _Waiting:
    """Items, by their places, that wait for their variables to be bound."""

    def __init__(self, needs: Iterable[Iterable[Variable]]) -> None:
        self._missing: list[int] = []
        self._waiting: dict[Variable, list[int]] = {}
        self._ready: list[int] = []
        for place, needed in enumerate(map(set, needs)):
            self._missing.append(len(needed))
            for variable in needed:
                self._waiting.setdefault(variable, []).append(place)
            if not needed:
                self._ready.append(place)

    def bind(self, new: Iterable[Variable]) -> None:
        for variable in new:
            for place in self._waiting.pop(variable, ()):
                self._missing[place] -= 1
                if not self._missing[place]:
                    self._ready.append(place)

    def take(self) -> list[int]:
        """The places of those that have stopped waiting, in order; each is returned once."""
        if not self._ready:
            return self._ready
        ready, self._ready = sorted(self._ready), []
        return ready


_NOTHING_WAITS = _Waiting(())


class _Order:
    """The remaining positive atoms of a long body, the cheapest first.

    The cost of an atom is computed again only when one of its variables has been bound. A body of hundreds of atoms has
    as many plans, and to compute all costs at each step of each plan takes minutes.
    """

    def __init__(self, left: dict[int, Atom], cost: Callable[[int], _Cost]) -> None:
        self._left = left
        self._cost = cost
        self._with: dict[Variable, list[int]] = {}  # the atoms that have a variable
        for position, atom in left.items():
            for variable in variables(atom):
                self._with.setdefault(variable, []).append(position)
        # The cost of each atom, and a heap of all costs so far, outdated ones included.
        self._costs: dict[int, _Cost] = {}
        self._heap: list[_Cost] = []
        self._weigh(left)

    def bind(self, new: set[Variable], first: bool) -> None:
        """These variables are bound now; `first` where none was bound before."""
        # With the first ones, every atom that holds none of them becomes a cross product.
        readers = (self._with.get(variable, ()) for variable in new)
        self._weigh(self._left if first else chain.from_iterable(readers))

    def _weigh(self, positions: Iterable[int]) -> None:
        for position in positions:
            if position in self._left:
                self._costs[position] = cost = self._cost(position)
                heappush(self._heap, cost)

    def cheapest(self) -> int:
        while True:
            cost = self._heap[0]
            position = cost[2]
            if position in self._left and self._costs[position] == cost:
                return position
            heappop(self._heap)


class _Planner:
    def __init__(self, rule: NormalRule, pivot: Pivot, own: frozenset[str], estimate: Estimate) -> None:
        self._rule = rule
        self._pivot = pivot
        self._own = own
        self._estimate = estimate
        self._estimates: dict[tuple[str, tuple[int, ...]], float] = {}
        self._bound: set[Variable] = set()
        self._steps: list[Step] = []
        self._positives = dict(enumerate(rule.positives))
        self._order: _Order | None = None
        self._existential = existential = rule.negated_only
        self._definitions = self._conditions = self._negatives = _NOTHING_WAITS
        if rule.definitions:
            self._definitions = _Waiting(variables(definition.expression) for definition in rule.definitions)
        if rule.conditions:
            self._conditions = _Waiting(map(variables, rule.conditions))
        if rule.negatives:
            self._negatives = _Waiting([v for v in variables(atom) if v not in existential] for atom in rule.negatives)

    def plan(self) -> Plan:
        self._begin()
        self._settle_conditions()
        if len(self._positives) > FEW_ATOMS:
            self._order = _Order(self._positives, self._cost)
        while self._positives:
            self._match_next()
            self._settle_conditions()
        return Plan(self._rule, self._pivot, tuple(self._steps))

    def _bind(self, found: Iterable[Variable]) -> None:
        new = set(found) - self._bound
        first = not self._bound
        self._bound |= new
        if self._rule.computes or self._rule.negatives:
            for waiting in (self._definitions, self._conditions, self._negatives):
                waiting.bind(new)
        if self._order is not None and new:
            self._order.bind(new, first)

    def _begin(self) -> None:
        match self._pivot.start:
            case Start.ALL:
                return
            case Start.POSITIVE:
                atom = self._positives.pop(self._pivot.position)
            case Start.NEGATIVE:
                # The atom itself is checked again below: the fact only says where to look.
                atom = self._rule.negatives[self._pivot.position]
            case Start.HEAD:
                atom = Atom(self._rule.head.predicate, self._rule.head.arguments)
        self._steps.append(Take(atom))
        self._bind(variable for variable in variables(atom) if variable not in self._existential)

    def _match_next(self) -> None:
        # For few atoms, computing all costs is faster than keeping them in order.
        position = min(self._positives, key=self._cost) if self._order is None else self._order.cheapest()
        if self._pivot.start is Start.ALL and len(self._positives) == len(self._rule.positives) == 2:
            position = self._covering(position)
        atom = self._positives.pop(position)
        side, own = self._side(position), atom.predicate in self._own
        self._steps.append(Match(atom, position, bound_columns(atom, self._bound), side, own))
        self._bind(variables(atom))

    def _covering(self, cheapest: int) -> int:
        """The atom to begin with: one that has exactly the variables of the head, if there is one and it has not many
        more facts than the cheapest one yields instances. Each of its facts then has a head of its own, which need not
        be looked up.
        """
        other = 1 - cheapest
        atom, first = self._positives[other], self._positives[cheapest]
        if set(variables(atom)) != set(variables(self._rule.head)):
            return cheapest
        joined = bound_columns(atom, set(variables(first)))
        instances = self._estimate(first, ()) * self._estimate(atom, joined)
        return other if joined and self._estimate(atom, ()) <= FACTS_AN_INSTANCE * instances else cheapest

    def _cost(self, position: int) -> _Cost:
        atom = self._positives[position]
        bound = bound_columns(atom, self._bound)
        unbound = bool(atom.arguments) and not bound and bool(self._bound)
        return (unbound, 0.0 if len(bound) == atom.arity else self._expected(atom, bound), position)

    def _expected(self, atom: Atom, bound: tuple[int, ...]) -> float:
        key = (atom.predicate, bound)
        if key not in self._estimates:
            self._estimates[key] = self._estimate(atom, bound)
        return self._estimates[key]

    def _side(self, position: int) -> Side:
        left = self._pivot.start is Start.POSITIVE and position < self._pivot.position
        return Side.BEFORE if left or self._pivot.start is Start.NEGATIVE else Side.AFTER

    def _negative_side(self, position: int) -> Side:
        if self._pivot.start is not Start.NEGATIVE or position > self._pivot.position:
            return Side.AFTER
        return Side.PIVOT if position == self._pivot.position else Side.BEFORE

    def _settle_conditions(self) -> None:
        """Place every definition, comparison and negated atom whose variables are bound by now. What can be compared
        is, before anything else is computed: in `Y != 0, Z = X / Y` and in `is_int(T), Z = int(T)`, the condition keeps
        the expression from failing, in whichever order they are written.
        """
        self._compare()
        while ready := self._definitions.take():
            for definition in sorted((self._rule.definitions[place] for place in ready), key=_is_no_test):
                self._steps.append(Define(definition, definition.variable not in self._bound))
                self._bind((definition.variable,))
                self._compare()
        for place in self._negatives.take():
            atom = self._rule.negatives[place]
            self._steps.append(Absent(atom, place, bound_columns(atom, self._bound), self._negative_side(place)))

    def _compare(self) -> None:
        for place in self._conditions.take():
            self._steps.append(Compare(self._rule.conditions[place]))


def _is_no_test(definition: Definition) -> bool:
    return not (isinstance(definition.expression, Call) and definition.expression.function in CONDITIONS)


def make_plan(rule: NormalRule, pivot: Pivot, own: Iterable[str], estimate: Estimate) -> Plan:
    """Plan a rule from a pivot; `own` are the predicates of the rule's component."""
    return _Planner(rule, pivot, frozenset(own), estimate).plan()


def group_head(rule: NormalRule) -> tuple[Term, ...]:
    """For a rule with aggregates: its group, then the variables that the aggregates range over."""
    return rule.group + tuple(aggregate.argument for aggregate in rule.aggregates)
