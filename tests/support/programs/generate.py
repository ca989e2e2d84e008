"""Random programs and streams of updates: stratified, safe and finite by construction, small, and full of collisions.

Predicates stand on levels. A rule uses positively what is on its own level or below, and negates or aggregates only
what is below, so every subset of the rules of a case is stratified, and a stream may add and remove them at will.
Numbers that a rule computes are kept within a small range, on the grid of halves, because the rule may be recursive;
the last level, which no rule uses, may compute anything. Domains have a handful of constants, so facts collide, have
several derivations, and form cycles.

One generator serves both: Hypothesis (`programs`, `updates`, `splits`), which shrinks towards the first choice of each
list, and plain seeded dice for long soaks (`soak`).
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import strategies as st

from naive import Database, Fact, Readable, State, Update, database, minus, normal, renamed, union
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    BodyItem,
    Call,
    Comparison,
    Constant,
    Expression,
    Negation,
    Rule,
    Term,
    Variable,
    variables,
)
from tidelog.values import IRI, Value

T = TypeVar("T")

INTEGERS: tuple[Value, ...] = (0, 1, 2, 3, 4, 5)
STRINGS: tuple[Value, ...] = ("a", "b", "c", "")
ALL_TYPES: tuple[Value, ...] = (0, 1, 2, 3, "a", "b", 1.0, 2.5, "1", True, False, IRI("http://example.org/a"), "été")
NAMES = ("X", "Y", "Z", "W")
LARGEST = 5
ANY_FUNCTION = (
    *("*", "/", "%", "div", "mod", "band", "bxor", "shl", "**", "sqrt", "log", "exp", "ceil", "round", "nested"),
    *("str", "int", "float", "concat", "upper", "lower", "length", "substr"),
    *("contains", "starts_with", "split", "replace", "trim", "is_int", "type", "format", "trunc", "round_to"),
)


@dataclass(frozen=True)
class Features:
    """What the programs may contain. `functions` adds to `+ - *` all that is built in, unbounded on the last level."""

    recursion: bool = True
    closures: bool = True
    negation: bool = True
    comparisons: bool = True
    arithmetic: bool = True
    functions: bool = True
    aggregates: bool = True
    constants: bool = True
    repeated_variables: bool = True
    max_arity: int = 4
    values: tuple[Value, ...] = ALL_TYPES


EVERYTHING = Features()
POSITIVE = Features(
    negation=False, comparisons=False, arithmetic=False, functions=False, aggregates=False, values=INTEGERS + STRINGS
)

WITHOUT_VALUES = Features(
    arithmetic=False,
    functions=False,
    aggregates=False,
    values=(0, 1, 2, 3, "a", "b", True, IRI("http://example.org/a")),
)


class Source(ABC):
    """Where choices come from."""

    @abstractmethod
    def below(self, bound: int) -> int:
        """An integer from 0 to `bound` - 1."""

    def between(self, least: int, greatest: int) -> int:
        return least + self.below(greatest - least + 1)

    def chance(self, percent: int) -> bool:
        return self.below(100) >= 100 - percent

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def some(self, choices: Sequence[T], percent: int) -> list[T]:
        return [choice for choice in choices if self.chance(percent)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in items]


class Dice(Source):
    """Choices of a seeded random generator."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class Drawn(Source):
    """Choices of Hypothesis, which shrinks them towards 0."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def below(self, bound: int) -> int:
        return self._draw(st.integers(0, bound - 1))


@dataclass(frozen=True)
class Predicate:
    name: str
    arity: int
    level: int


@dataclass(frozen=True, repr=False)
class Case(Readable):
    """A program to begin with, and everything that a stream of updates may add to it or take from it."""

    state: State
    rules: tuple[Rule, ...]
    facts: tuple[Fact, ...]

    def facts_as_atoms(self) -> list[Atom]:
        return [Atom(predicate, row) for predicate, row in self.facts]

    def __repr__(self) -> str:
        return repr(self.state)


# Rules


class RuleMaker:
    """Makes one rule at a time, for predicates that are fixed for the whole case."""

    def __init__(self, source: Source, features: Features, predicates: Sequence[Predicate], domain: Sequence[Constant]):
        self.source = source
        self.features = features
        self.predicates = predicates
        self.domain = domain
        self.last_level = max(predicate.level for predicate in predicates)
        self.fresh = 0

    def rules_for(self, head: Predicate) -> list[Rule]:
        rules = [self.rule(head) for _ in range(self.source.between(1, 3))]
        if head.arity == 2 and head.level < self.last_level and self.features.closures and self.source.chance(60):
            rules = self.closure(head) + rules[1:]
        return [self._presented(rule) for rule in rules]

    def _presented(self, rule: Rule) -> Rule:
        """Sometimes in another order; `_` numbered as a parser does, from left to right."""
        if self.source.chance(30):
            rule = replace(rule, body=tuple(self.source.shuffled(rule.body)))
        names = {variable.name: variable.name for variable in variables(rule)}
        for number, name in enumerate([name for name in names if name.startswith("_")], start=1):
            names[name] = f"_{number}"
        return renamed(rule, names)

    def _anonymous(self) -> Variable:
        self.fresh += 1
        return Variable(f"_{self.fresh}")

    # A rule with a random body

    def rule(self, head: Predicate) -> Rule:
        aggregate = self.features.aggregates and head.arity > 0 and self.source.chance(15)
        body: list[BodyItem] = list(self._positive(head, below_only=aggregate))
        bound = [name for name in NAMES if any(v.name == name for item in body for v in variables(item))]
        computed = self._bindings(head, bound)
        body += computed
        bound += [item.left.name for item in computed[:1] if isinstance(item.left, Variable)]
        if self.features.comparisons:
            body += [self._comparison(bound) for _ in range(self.source.below(4) // 3) if bound]
        if self.features.negation and self.source.chance(25):
            body.append(self._negation(head, bound))
        if not body:
            return self._chained(head)
        arguments = self._aggregates(head, bound) if aggregate and bound else self._head_terms(head.arity, bound)
        return Rule(Atom(head.name, tuple(arguments)), tuple(body))

    def _chained(self, head: Predicate) -> Rule:
        """A body of one plain atom of the first base predicate."""
        base = self.predicates[0]
        atom = Atom(base.name, tuple(Variable(NAMES[i]) for i in range(base.arity)))
        return Rule(Atom(head.name, tuple(self._head_terms(head.arity, list(NAMES[: base.arity])))), (atom,))

    def _positive(self, head: Predicate, below_only: bool) -> Iterator[Atom]:
        recursive = self.features.recursion and not below_only and head.level < self.last_level
        usable = [p for p in self.predicates if p.level < head.level or (recursive and p.level == head.level)]
        used: list[str] = []
        for _ in range(self.source.pick((1, 2, 2, 2, 3, 1, 2, 0))):
            atom = self._atom(self.source.pick(usable), used)
            used += [v.name for v in variables(atom) if not v.anonymous and v.name not in used]
            yield atom

    def _atom(self, predicate: Predicate, used: Sequence[str]) -> Atom:
        """An atom that likes to begin with a variable that is already in use, so that bodies join."""
        arguments: list[Term] = []
        for position in range(predicate.arity):
            taken = {argument.name for argument in arguments if isinstance(argument, Variable)}
            repeat = self.features.repeated_variables and self.source.chance(20)
            names = [name for name in NAMES if repeat or name not in taken]
            known = [name for name in used if name in names]
            if self.features.constants and self.source.chance(7):
                arguments.append(self.source.pick(self.domain))
            elif self.source.chance(7):
                arguments.append(self._anonymous())
            elif known and self.source.chance(70 if position == 0 else 25):
                arguments.append(Variable(self.source.pick(known)))
            else:
                arguments.append(Variable(self.source.pick(names)))
        return Atom(predicate.name, tuple(arguments))

    def _head_terms(self, arity: int, bound: Sequence[str]) -> list[Term]:
        """Computed values are last among the bound names; the head likes them, otherwise they would be for nothing."""
        terms: list[Term] = []
        for _ in range(arity):
            if not bound or (self.features.constants and self.source.chance(8)):
                terms.append(self.source.pick(self.domain))
            elif bound[-1] == "V" and self.source.chance(40):
                terms.append(Variable("V"))
            else:
                terms.append(Variable(self.source.pick(bound)))
        return terms

    def _negation(self, head: Predicate, bound: Sequence[str]) -> Negation:
        predicate = self.source.pick([p for p in self.predicates if p.level < head.level])
        arguments: list[Term] = []
        for _ in range(predicate.arity):
            if not bound or self.source.chance(25):
                arguments.append(self.source.pick((Variable("N"), self._anonymous())))
            elif self.features.constants and self.source.chance(10):
                arguments.append(self.source.pick(self.domain))
            else:
                arguments.append(Variable(self.source.pick(bound)))
        return Negation(Atom(predicate.name, tuple(arguments)))

    # Comparisons and expressions

    def _operand(self, bound: Sequence[str]) -> Expression:
        if self.features.constants and self.source.chance(30):
            return self.source.pick(self.domain)
        return Variable(self.source.pick(bound))

    def _comparison(self, bound: Sequence[str]) -> Comparison:
        left: Expression = Variable(self.source.pick(bound))
        if self.features.arithmetic and self.source.chance(25):
            left = self._sum_or_product(bound)
        return Comparison(self.source.pick(("!=", "<", "=", "<=", ">", ">=")), left, self._operand(bound))

    def _bindings(self, head: Predicate, bound: Sequence[str]) -> list[Comparison]:
        """`V = expression`, with bounds on V wherever the value could come round again."""
        if not bound or not self.features.arithmetic or not self.source.chance(20):
            return []
        value = Variable("V")
        if head.level == self.last_level and self.features.functions:
            return [Comparison("=", value, self._anything(bound))]
        expression = self._bounded_call(bound) if self.source.chance(30) else self._sum_or_product(bound)
        binding = Comparison("=", value, expression)
        if self.source.chance(20):
            binding = Comparison("=", value, self._operand(bound))
        return [binding, Comparison(">=", value, Constant(0)), Comparison("<=", value, Constant(LARGEST))]

    def _sum_or_product(self, bound: Sequence[str]) -> Expression:
        left, right = Variable(self.source.pick(bound)), self._operand(bound)
        operator = self.source.pick(("+", "-", "*"))
        return Call("*", (left, Constant(2))) if operator == "*" else Call(operator, (left, right))

    def _bounded_call(self, bound: Sequence[str]) -> Expression:
        """Functions that stay on the grid of halves."""
        left, right = Variable(self.source.pick(bound)), self._operand(bound)
        if not self.features.functions:
            return Call("abs", (Call("-", (left, right)),))
        name = self.source.pick(("abs", "min2", "max2", "%", "floor", "neg"))
        if name in ("abs", "neg", "floor"):
            return Call(name, (Call("-", (left, right)),))
        return self._modulo(left, right) if name == "%" else Call(name, (left, right))

    def _anything(self, bound: Sequence[str]) -> Expression:
        """Any function; those of libm are rounded, as their last bit may differ from one library to the next."""
        left: Expression = Variable(self.source.pick(bound))
        right = self._operand(bound)
        name = self.source.pick(ANY_FUNCTION)
        match name:
            case "log" | "exp":
                return Call("floor", (Call(name, (left,)),))
            case "ceil" | "round":
                return Call(name, (Call("/", (left, Constant(2))),))
            case "substr":
                return Call(name, (left, right, Constant(1)))
            case "split" | "round_to":
                return Call(name, (left, Constant("a"), Constant(1)) if name == "split" else (left, Constant(1)))
            case "replace":
                return Call(name, (left, Constant("a"), right))
            case "contains" | "starts_with":
                return Call(name, (left, right))
            case "format":
                return Call(name, (Constant("{1}-{0}"), left, right))
            case "concat":
                return Call(name, (Call(name, (left, Constant("-"))), right))
            case "nested":
                return Call("+", (Call("*", (left, Constant(0.5))), Call("neg", (right,))))
            case "%":
                return self._modulo(left, right)
            case "*" | "/" | "div" | "mod" | "band" | "bxor" | "shl" | "**":
                return Call(name, (left, right))
        return Call(name, (left,))

    def _modulo(self, left: Expression, right: Expression) -> Expression:
        """A remainder of a variable or a number; text has no other, since `%` begins a comment too."""
        fits = isinstance(right, Variable) or (isinstance(right, Constant) and type(right.value) in (int, float))
        return Call("%", (left, right if fits else Constant(3)))

    def _aggregates(self, head: Predicate, bound: Sequence[str]) -> list[Term]:
        terms = self._head_terms(head.arity, bound)
        for position in {self.source.below(head.arity), self.source.below(head.arity)}:
            terms[position] = self._aggregate(head, bound)
        return terms

    def _aggregate(self, head: Predicate, bound: Sequence[str]) -> Aggregate:
        """Averages leave every grid, so only the last level has them."""
        anything = head.level == self.last_level and self.features.functions
        function = self.source.pick(
            ("count", "sum", "min", "max", *(("avg", "median", "stddev", "list", "quantile 0.25") if anything else ()))
        )
        argument = self._sum_or_product(bound) if self.source.chance(15) else Variable(self.source.pick(bound))
        return Aggregate(function, argument, distinct=function == "count" and self.source.chance(40))

    # Closures

    def closure(self, head: Predicate) -> list[Rule]:
        """The rules of a transitive, symmetric-transitive or linear closure, with or without its diagonal."""
        x, y, z = (Variable(name) for name in self.source.shuffled(("X", "Y", "Z")))
        given = self.source.pick([p for p in self.predicates if p.arity == 2 and p.level < head.level])

        def closed(left: Variable, right: Variable) -> Atom:
            return Atom(head.name, (left, right))

        def edge(left: Variable, right: Variable) -> Atom:
            return Atom(given.name, (left, right))

        base = Rule(closed(x, y), (edge(x, y),))
        if not self.features.recursion:
            return [base]
        step = self.source.pick(((closed(x, y), closed(y, z)), (edge(x, y), closed(y, z)), (closed(x, y), edge(y, z))))
        apart: tuple[BodyItem, ...] = ()
        if self.features.comparisons and self.source.chance(40):
            apart = (Comparison("!=", x, z),)
        symmetric = [Rule(closed(x, y), (closed(y, x),))] if self.source.chance(40) else []
        return [base, Rule(closed(x, z), (*step, *apart)), *symmetric, *self._twin(head, x, y)]

    def _twin(self, head: Predicate, x: Variable, y: Variable) -> list[Rule]:
        """Sometimes, the rules by which another predicate holds the same pairs, mostly the other way round."""
        others = [p for p in self.predicates if p.arity == 2 and p.level == head.level and p != head]
        if not others or self.source.chance(50):
            return []
        ends = (y, x) if self.source.chance(70) else (x, y)
        here, there = Atom(head.name, (x, y)), Atom(self.source.pick(others).name, ends)
        return [Rule(here, (there,)), Rule(there, (here,))]


# Cases


def make_case(source: Source, features: Features = EVERYTHING) -> Case:
    predicates = _predicates(source, features)
    domain = [Constant(value) for value in _domain(source, features)]
    maker = RuleMaker(source, features, predicates, domain)
    rules = {normal(rule): rule for p in predicates if p.level > 0 for rule in maker.rules_for(p)}
    facts = [fact for predicate in predicates for fact in _facts(source, predicate, domain)]
    state = State(tuple(source.some(list(rules.values()), 80)), _gathered(source.some(facts, 65)))
    return Case(state, tuple(rules.values()), tuple(facts))


def _predicates(source: Source, features: Features) -> list[Predicate]:
    """Base predicates, at least one of them binary; one to three levels of one or two; and the last level of one."""
    arities = [arity for arity in (2, 1, 2, 2, 3, 2, 0, 2, 4) if arity <= features.max_arity]
    found = [Predicate("e0", 2, 0), Predicate("e1", 2, 0), Predicate("e2", source.pick(arities), 0)]
    number = level = 0
    for _ in range(source.between(1, 3)):
        level += 1
        for _ in range(source.between(1, 2)):
            found.append(Predicate(f"p{number}", source.pick(arities), level))
            number += 1
            level += not features.recursion
    return [*found, Predicate("last", source.pick(arities), level + 1)]


def _domain(source: Source, features: Features) -> list[Value]:
    chosen = [source.pick(features.values) for _ in range(source.between(3, 7))]
    return list({Constant(value): value for value in (features.values[0], *chosen)}.values())


def _facts(source: Source, predicate: Predicate, domain: Sequence[Constant]) -> list[Fact]:
    """Many for a base predicate, few for a derived one."""
    count = source.between(4, 16) if predicate.level == 0 else source.below(4)
    rows = [tuple(source.pick(domain) for _ in range(predicate.arity)) for _ in range(count)]
    return [(predicate.name, row) for row in dict.fromkeys(rows)]


def _gathered(facts: Sequence[Fact]) -> Database:
    return database([Atom(predicate, row) for predicate, row in facts])


# Streams


def make_stream(source: Source, case: Case, length: int = 6) -> list[Update]:
    """Updates to apply one after the other, each valid in the state that those before it leave."""
    state, stream = case.state, []
    for _ in range(source.between(1, length)):
        update = _update(source, case, state)
        state = state.apply(update)
        stream.append(update)
    return stream


def _update(source: Source, case: Case, state: State) -> Update:
    """Mostly sensible; also additions of what is there, deletions of what is not, and facts both deleted and added."""
    present = [(name, row) for name, row in case.facts if row in state.explicit.get(name, ())]
    absent = [fact for fact in case.facts if fact not in present]
    delete = _sample(source, present, 3) + _sample(source, absent, source.below(2))
    add = _sample(source, absent, 3) + _sample(source, present, source.below(2))
    if delete and source.chance(15):
        add.append(source.pick(delete))
    change_rules = source.chance(30)
    return Update(
        add=_gathered(add),
        delete=_gathered(delete),
        add_rules=tuple(_sample(source, case.rules, 2)) if change_rules else (),
        remove_rules=tuple(_sample(source, state.rules, 2)) if change_rules else (),
    )


def _sample(source: Source, choices: Sequence[T], most: int) -> list[T]:
    """Up to `most` different ones."""
    rest = list(choices)
    return [rest.pop(source.below(len(rest))) for _ in range(min(source.between(0, most), len(rest)))]


# Other ways to cut a stream


def recut(source: Source, state: State, stream: Sequence[Update]) -> list[Update]:
    """The same stream in other pieces, some merged and some split; it ends in the same state."""
    result: list[Update] = []
    start = end = state
    merged: Update | None = None
    for update in stream:
        merged = update if merged is None else merge(start, merged, update)
        end = end.apply(update)
        if source.chance(60):
            result += split(source, merged)
            start, merged = end, None
    return result if merged is None else result + split(source, merged)


def merge(state: State, first: Update, second: Update) -> Update:
    """One update that does to the state what the two do one after the other."""
    there = {normal(rule) for rule in state.rules}
    second_removes = {normal(rule) for rule in second.remove_rules}
    removed = {normal(rule): rule for rule in (*first.remove_rules, *second.remove_rules)}
    return Update(
        add=union(minus(first.add, second.delete), second.add),
        delete=union(first.delete, second.delete),
        add_rules=(*(rule for rule in first.add_rules if normal(rule) not in second_removes), *second.add_rules),
        remove_rules=tuple(rule for key, rule in removed.items() if key in there),
    )


def split(source: Source, update: Update) -> list[Update]:
    """Several updates that do together what one does. What is both deleted and added is only added: in pieces, the
    deletion might come last. So with rules, where a rule that is there can be added again at no harm."""
    count = source.between(1, 3)
    added_rules = {normal(rule) for rule in update.add_rules}
    delete = minus(update.delete, update.add)
    remove_rules = [rule for rule in update.remove_rules if normal(rule) not in added_rules]
    adds, deletes = _dealt(source, _listed(update.add), count), _dealt(source, _listed(delete), count)
    rule_adds, rule_removes = _dealt(source, update.add_rules, count), _dealt(source, remove_rules, count)
    return [
        Update(_gathered(adds[i]), _gathered(deletes[i]), tuple(rule_adds[i]), tuple(rule_removes[i]))
        for i in range(count)
    ]


def _listed(facts: Database) -> list[Fact]:
    return [(name, row) for name, rows in facts.items() for row in sorted(rows, key=repr)]


def _dealt(source: Source, items: Sequence[T], count: int) -> list[list[T]]:
    hands: list[list[T]] = [[] for _ in range(count)]
    for item in items:
        source.pick(hands).append(item)
    return hands


# The two ways in


@st.composite
def programs(draw: st.DrawFn, features: Features = EVERYTHING) -> Case:
    return make_case(Drawn(draw), features)


@st.composite
def updates(draw: st.DrawFn, case: Case, length: int = 6) -> list[Update]:
    return make_stream(Drawn(draw), case, length)


@st.composite
def streams(draw: st.DrawFn, features: Features = EVERYTHING, length: int = 6) -> tuple[Case, list[Update]]:
    """A program and a stream for it."""
    case = make_case(Drawn(draw), features)
    return case, make_stream(Drawn(draw), case, length)


@st.composite
def splits(draw: st.DrawFn, state: State, stream: Sequence[Update]) -> list[Update]:
    return recut(Drawn(draw), state, stream)


def soak(seed: int, features: Features = EVERYTHING, length: int = 6) -> tuple[Case, list[Update]]:
    """The program and the stream of a seed, for loops that run as long as one likes."""
    source = Dice(seed)
    case = make_case(source, features)
    return case, make_stream(source, case, length)
