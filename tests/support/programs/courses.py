"""Courses: a random program, a random history of updates, and what the oracle says of every state on the way.

The programs are those of `generate`, and on top of them what knowledge bases keep in forms of their own: closures over
closures, twins, closures within a larger recursion, negation and aggregates above all of them, facts of up to twelve
arguments, Python functions, and every kind of constant. The rules stand in any order.

A course is plain data, so that one that fails can be made smaller: `shrunk` drops rules, facts and updates for as long
as it still fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from generate import Case, Dice, Features, Predicate, RuleMaker, Source, make_stream
from naive import Database, Fact, Readable, Row, State, Update, database, minus, normal, without_empty
from tidelog.errors import TidelogError
from tidelog.language.syntax import Aggregate, Atom, BodyItem, Call, Comparison, Constant, Negation, Rule, Variable
from tidelog.values import IRI, XSD, Literal, Value

LONG = "a text that is long, 長い " * 300

VALUES: tuple[Value, ...] = (
    *(0, 1, 2, 3, 1.0, 2.5, 0.5, -0.0, True, False),
    *("a", "b", "1", "", "été", "日本語 🌊", 'a "quoted"\n\\ text', "line\u2028apart\x85", "\x00", LONG, LONG + "!"),
    *(2**62, -(2**63), 2**63 - 1, 2**53 + 1, -7, math.inf, -math.inf, math.nan, 1e300),
    *(IRI("http://example.org/a"), IRI("http://example.org/été")),
    *(Literal("a", language="en"), Literal("2024-02-30", XSD + "date"), Literal("1", "http://example.org/unit")),
)

FEATURES = Features(values=VALUES)

WIDEST = 12

X, Y, Z = Variable("X"), Variable("Y"), Variable("Z")


# Functions of rules: of one argument, with values that do not grow when they are applied again.


def mirror(value: Value) -> Value:
    """A text backwards; fails for anything else."""
    return value[::-1]  # type: ignore[index]


def echo(value: Value) -> Value:
    return value


def parity(value: Value) -> Value:
    if type(value) is not int:
        raise TypeError(f"{value!r} is neither odd nor even")
    return value % 2 == 1


FUNCTIONS: dict[str, Callable[[Value], Value]] = {"mirror": mirror, "echo": echo, "parity": parity}


class CourseMaker(RuleMaker):
    """Makes more rules of the kinds that are stored in special forms."""

    wide: Sequence[Predicate] = ()

    def rules_of(self, level: Sequence[Predicate]) -> list[Rule]:
        """The rules of the predicates of one level."""
        pair = all(predicate.arity == 2 for predicate in level) and len(level) == 2
        if pair and level[0].level < self.last_level and self.source.chance(70):
            rules = self.source.pick((self._twins, self._entangled))(*level)
            return [self._presented(rule) for rule in rules]
        return [rule for predicate in level for rule in self.rules_for(predicate)]

    def rules_for(self, head: Predicate) -> list[Rule]:
        if head.arity == 2 and head.level < self.last_level and self.source.chance(80):
            rules = self.closure(head) + ([self.rule(head)] if self.source.chance(25) else [])
        elif head.arity in (1, 2) and self.source.chance(50):
            rules = [self.source.pick((self._without, self._grouped, self._computed))(head)]
        else:
            return super().rules_for(head)
        return [self._presented(rule) for rule in rules]

    def _lower(self, head: Predicate) -> Predicate:
        """A predicate of pairs from below, usually a close one, so that closures stand on closures."""
        lower = sorted((p for p in self.predicates if p.arity == 2 and p.level < head.level), key=lambda p: -p.level)
        return self.source.pick(lower[:2]) if self.source.chance(75) else self.source.pick(lower)

    def closure(self, head: Predicate) -> list[Rule]:
        """A closure over pairs from below: transitive, symmetric, linear to the left or right, without its diagonal."""
        x, y, z = X, Y, Z
        given = self._lower(head).name
        ends = (y, x) if self.source.chance(25) else (x, y)
        base = Rule(Atom(head.name, (x, y)), (Atom(given, ends),))
        left, right = Atom(head.name, (x, y)), Atom(head.name, (y, z))
        step: tuple[Atom, Atom] = self.source.pick(
            ((left, right), (left, right), (Atom(given, (x, y)), right), (left, Atom(given, (y, z))))
        )
        apart = (Comparison("!=", x, z),) if self.source.chance(20) else ()
        symmetric = [Rule(left, (Atom(head.name, (y, x)),))] if self.source.chance(30) else []
        return [base, Rule(Atom(head.name, (x, z)), (*step, *apart)), *symmetric]

    def _twins(self, head: Predicate, twin: Predicate) -> list[Rule]:
        """Two predicates that hold the same pairs, mostly the other way round; both may be given some."""
        ends = (Y, X) if self.source.chance(70) else (X, Y)
        here, there = Atom(head.name, (X, Y)), Atom(twin.name, ends)
        rules = [*self.closure(head), Rule(here, (there,)), Rule(there, (here,))]
        if self.source.chance(50):
            rules.append(Rule(Atom(twin.name, (X, Y)), (Atom(self._lower(twin).name, (X, Y)),)))
        if self.source.chance(50):
            rules.append(Rule(Atom(twin.name, (X, Z)), (Atom(twin.name, (X, Y)), Atom(twin.name, (Y, Z)))))
        return rules

    def _entangled(self, head: Predicate, other: Predicate) -> list[Rule]:
        """A closure some of whose edges come from a predicate that reads it."""
        through, back = self._lower(head).name, self._lower(head).name
        return [
            *self.closure(head),
            Rule(Atom(other.name, (X, Y)), (Atom(head.name, (Y, X)), Atom(through, (X, Z)))),
            Rule(Atom(head.name, (X, Z)), (Atom(other.name, (X, Y)), Atom(back, (Y, Z)))),
        ]

    # Above what is below

    def _ends(self, head: Predicate) -> tuple[Variable, ...]:
        return tuple(self.source.shuffled((X, Y))[: head.arity])

    def _without(self, head: Predicate) -> Rule:
        held, missing = self._lower(head).name, self._lower(head).name
        denied = self.source.pick(((Y, X), (X, Y), (X, self._anonymous()), (Y, Y)))
        return Rule(Atom(head.name, self._ends(head)), (Atom(held, (X, Y)), Negation(Atom(missing, denied))))

    def _grouped(self, head: Predicate) -> Rule:
        function = self.source.pick(("count", "min", "max", "sum"))
        found = Aggregate(function, Y, distinct=function == "count" and self.source.chance(40))
        arguments = (found,) if head.arity == 1 else self.source.pick(((X, found), (found, X)))
        return Rule(Atom(head.name, arguments), (Atom(self._lower(head).name, (X, Y)),))

    def _computed(self, head: Predicate) -> Rule:
        """Through a Python function, which may fail."""
        value = Variable("V")
        name = self.source.pick(tuple(FUNCTIONS))
        body: tuple[BodyItem, ...] = (
            Atom(self._lower(head).name, (X, Y)),
            Comparison("=", value, Call(name, (self.source.pick((X, Y)),))),
        )
        arguments = (value,) if head.arity == 1 else self.source.pick(((X, value), (value, Y)))
        return Rule(Atom(head.name, arguments), body)

    # Wide facts

    def wide_rules(self) -> Iterator[Rule]:
        """From wide facts to wide facts, joined with pairs; down to pairs; and up from them."""
        given, derived = self.wide
        pairs = [p for p in self.predicates if p.arity == 2 and p.level > 0]
        columns = [Variable(f"C{number}") for number in range(given.arity)]
        joined = Atom(self.source.pick(pairs or self.predicates[:1]).name, (columns[0], columns[-1]))
        turned = self.source.shuffled(columns)
        arguments = tuple(turned[number % len(turned)] for number in range(derived.arity))
        whole = Atom(given.name, tuple(columns))
        yield Rule(Atom(derived.name, arguments), (whole, joined) if self.source.chance(60) else (whole,))
        if pairs and self.source.chance(60):
            # What reads wide facts may not be read by them, since negation and aggregates may be above.
            ends = (columns[1], columns[2])
            lowest = min(pairs, key=lambda p: p.level)
            yield Rule(Atom(lowest.name, ends), (whole, Comparison("!=", *ends)))
        if self.source.chance(40):
            some = tuple(column if self.source.chance(30) else self._anonymous() for column in columns)
            yield Rule(Atom("seen", ()), (Atom(derived.name, _filled(some, derived.arity)),))


def _filled(some: Sequence[Variable], arity: int) -> tuple[Variable, ...]:
    """As many arguments as needed; those beyond the given ones are variables of their own."""
    return tuple(some[number] if number < len(some) else Variable(f"D{number}") for number in range(arity))


def make_case(source: Source) -> Case:
    """A third of the programs are towers: one closure over another, with little else."""
    tower = source.chance(33)
    predicates = list(_predicates(source, tower))
    domain = _domain(source)
    maker = CourseMaker(source, FEATURES, predicates, domain)
    maker.wide = (
        Predicate("wide", source.between(3, WIDEST), 0),
        Predicate("wider", source.between(1, WIDEST), maker.last_level + 1),
    )
    made: list[Rule] = []
    for level in range(1, maker.last_level + 1):
        here = [predicate for predicate in predicates if predicate.level == level]
        made += maker.closure(here[0]) if tower and level < maker.last_level else maker.rules_of(here)
    if source.chance(50):
        made += maker.wide_rules()
    rules = source.shuffled(list({normal(rule): rule for rule in made}.values()))
    facts = [fact for p in (*predicates, *maker.wide) for fact in _facts(source, p, domain)]
    state = State(tuple(source.some(rules, 97 if tower else 92)), _gathered(source.some(facts, 65)))
    return Case(state, tuple(rules), tuple(facts))


def _predicates(source: Source, tower: bool) -> Iterator[Predicate]:
    """Base predicates, two to four levels that are mostly of pairs, and a last one."""
    arities = (2,) if tower else (2, 2, 2, 2, 2, 2, 1, 3, 0)
    yield from (Predicate("e0", 2, 0), Predicate("e1", 2, 0), Predicate("e2", source.pick(arities), 0))
    number = 0
    levels = source.between(2, 4)
    for level in range(1, levels + 1):
        for _ in range(1 if tower else source.between(1, 2)):
            yield Predicate(f"p{number}", source.pick(arities), level)
            number += 1
    yield Predicate("last", source.pick(arities), levels + 1)


def _domain(source: Source) -> list[Constant]:
    plain = source.chance(30)
    chosen = list(range(source.between(4, 8))) if plain else [source.pick(VALUES) for _ in range(source.between(3, 8))]
    return list(dict.fromkeys(map(Constant, (0, *chosen))))


def _facts(source: Source, predicate: Predicate, domain: Sequence[Constant]) -> list[Fact]:
    """Many for a base predicate. Derived ones mostly have none: some closures hold only without them."""
    derived = source.between(1, 3) if source.chance(25) else 0
    count = source.between(4, 16) if predicate.level == 0 else derived
    rows = [tuple(source.pick(domain) for _ in range(predicate.arity)) for _ in range(count)]
    return [(predicate.name, row) for row in dict.fromkeys(rows)]


def _gathered(facts: Iterable[Fact]) -> Database:
    return database([Atom(predicate, row) for predicate, row in facts])


# A course


@dataclass(frozen=True, repr=False, eq=False)
class Course(Readable):
    """A state to begin with and the updates that follow. The last one comes after the end of the history: it shows
    whether what the history left behind is as it should be where nobody can look.
    """

    start: State
    updates: tuple[Update, ...]

    @cached_property
    def states(self) -> tuple[State, ...]:
        """The state before the first update, and after each."""
        found = [self.start]
        for update in self.updates:
            found.append(found[-1].apply(update))
        return tuple(found)

    @cached_property
    def facts(self) -> tuple[Database, ...]:
        """What holds in each of the states."""
        return tuple(without_empty(state.materialise(FUNCTIONS)) for state in self.states)

    @property
    def history(self) -> tuple[Update, ...]:
        return self.updates[:-1]

    @property
    def end(self) -> int:
        """The number of the state that the history ends in."""
        return len(self.updates) - 1

    @property
    def calls(self) -> bool:
        """Whether rules of the first state call Python functions, which a program's text cannot bring along."""
        texts = [str(rule) for rule in self.start.rules]
        return any(f"{name}(" in text for name in FUNCTIONS for text in texts)

    def __repr__(self) -> str:
        lines = [repr(self.start).strip()]
        for number, update in enumerate(self.updates, start=1):
            lines += [f"% update {number}", repr(update).strip()]
        return "\n".join(lines)


def make_course(seed: int, length: int = 4) -> Course:
    source = Dice(seed)
    case = make_case(source)
    updates = make_stream(source, case, length)
    probe = make_stream(source, replace(case, state=Course(case.state, (*updates, Update())).states[-1]), 1)
    return Course(case.state, (*updates, *probe))


# Smaller courses


def shrunk(course: Course, fails: Callable[[Course], bool], most: int = 400) -> Course:
    """A smaller course that still fails, found in at most this many trials."""
    trials = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(course):
            trials += 1
            if trials > most:
                return course
            if fails(candidate):
                course, smaller = candidate, True
                break
    return course


def _smaller(course: Course) -> Iterator[Course]:
    """Smaller courses, the much smaller ones first."""
    for number in range(len(course.updates) - 1):
        without = (*course.updates[:number], *course.updates[number + 1 :])
        yield from _valid(course.start, without)
    yield from _valid(course.start, course.updates[:-1])
    rules = list(dict.fromkeys((*course.start.rules, *(rule for one in course.updates for rule in one.add_rules))))
    for rules_gone in _halves(rules):
        gone = {normal(rule) for rule in rules_gone}
        yield from _valid(_without_rules(course.start, gone), [_less_rules(update, gone) for update in course.updates])
    for facts_gone in _halves(_facts_of(course)):
        lost = _gathered(facts_gone)
        start = replace(course.start, explicit=minus(course.start.explicit, lost))
        yield from _valid(
            start, [replace(one, add=minus(one.add, lost), delete=minus(one.delete, lost)) for one in course.updates]
        )
    for number, update in enumerate(course.updates):
        for less in _less(update):
            yield from _valid(course.start, (*course.updates[:number], less, *course.updates[number + 1 :]))


def _valid(start: State, updates: Sequence[Update]) -> Iterator[Course]:
    course = Course(start, tuple(updates))
    try:
        if course.updates and course.states:
            yield course
    except TidelogError:  # It removes a rule that is no longer there.
        return


def _halves(items: Sequence[object]) -> Iterator[Sequence[object]]:
    """Parts of a list, larger ones first, and finally each item alone."""
    size = max(1, len(items) // 2)
    while items:
        yield from (items[first : first + size] for first in range(0, len(items), size))
        if size == 1:
            return
        size //= 2


def _without_rules(state: State, gone: set[Rule]) -> State:
    return replace(state, rules=tuple(rule for rule in state.rules if normal(rule) not in gone))


def _less_rules(update: Update, gone: set[Rule]) -> Update:
    return replace(
        update,
        add_rules=tuple(rule for rule in update.add_rules if normal(rule) not in gone),
        remove_rules=tuple(rule for rule in update.remove_rules if normal(rule) not in gone),
    )


def _facts_of(course: Course) -> list[Fact]:
    found: dict[tuple[str, Row], None] = {}
    for facts in (course.start.explicit, *(part for one in course.updates for part in (one.add, one.delete))):
        found |= {(name, row): None for name, rows in facts.items() for row in sorted(rows, key=repr)}
    return list(found)


def _less(update: Update) -> Iterator[Update]:
    """The update without one of its four parts, or one of its facts or rules."""
    for part, empty in (("add", {}), ("delete", {}), ("add_rules", ()), ("remove_rules", ())):
        if getattr(update, part):
            yield replace(update, **{part: empty})
    for part in ("add_rules", "remove_rules"):
        for rule in getattr(update, part):
            yield replace(update, **{part: tuple(other for other in getattr(update, part) if other is not rule)})
    for part in ("add", "delete"):
        for name, rows in getattr(update, part).items():
            for row in sorted(rows, key=repr):
                yield replace(update, **{part: minus(getattr(update, part), {name: {row}})})


__all__ = ["FUNCTIONS", "Course", "make_course", "shrunk"]
