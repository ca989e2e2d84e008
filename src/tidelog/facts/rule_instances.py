"""The state of an engine as the papers see it: the explicit facts, and every rule instance that holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidelog.engine.engine import Engine
from tidelog.engine.queries import rule_matches
from tidelog.engine.transaction.task import explicit_rows
from tidelog.engine.update.deltas import EncodedFacts
from tidelog.errors import TidelogError
from tidelog.language.syntax import Atom, Constant, Rule, Term, Variable
from tidelog.papers.instances import Fact, Instance
from tidelog.program.normal_form import NormalRule, normalise

Values = Mapping[Variable, Constant]


@dataclass(slots=True)
class State:
    """E, the instances of each rule in I, and what negated atoms they rest on: the atom behind each `not p(…)`."""

    explicit: dict[Fact, None] = field(default_factory=dict)
    instances: dict[Rule, list[Instance]] = field(default_factory=dict)
    negated: dict[Fact, Atom] = field(default_factory=dict)

    def facts(self) -> dict[Fact, None]:
        """I: what is explicit, and what an instance derives."""
        return self.explicit | dict.fromkeys(each.head for found in self.instances.values() for each in found)

    def met_by(self, facts: Iterable[Fact]) -> list[Fact]:
        """The negated atoms of which one of the facts is a match."""
        by_predicate: dict[str, list[Fact]] = {}
        for fact in facts:
            by_predicate.setdefault(fact.predicate, []).append(fact)
        found = []
        for negated, atom in self.negated.items():
            if any(_matches(atom, negated, fact) for fact in by_predicate.get(atom.predicate, ())):
                found.append(negated)
        return found


def _matches(atom: Atom, negated: Fact, fact: Fact) -> bool:
    free: dict[Term, Constant | None] = {}
    for term, wanted, cell in zip(atom.arguments, negated.row, fact.row, strict=True):
        if (free.setdefault(term, cell) if wanted is None else wanted) != cell:
            return False
    return True


def read_state(engine: Engine) -> State:
    """What an engine holds now; within an update, what it has come to so far."""
    state = State()
    decode = _decoder(engine)
    for predicate in engine.store.named():
        relation = engine.explicit_relation(predicate)
        if relation is not None and not predicate.startswith("#"):
            state.explicit |= dict.fromkeys(_facts(predicate, explicit_rows(relation).tolist(), decode))
    for rule in engine.graph.rules.values():
        state.instances[rule] = list(_instances(engine, normalise(rule), decode, state.negated))
    return state


def read_facts(engine: Engine, encoded: EncodedFacts) -> list[Fact]:
    """Encoded facts."""
    decode = _decoder(engine)
    return [fact for predicate, cells in encoded.items() for fact in _facts(predicate, cells.tolist(), decode)]


def _decoder(engine: Engine) -> Callable[[int], Constant]:
    known: dict[int, Constant] = {}
    table = engine.store.terms.table

    def decode(term: int) -> Constant:
        if term not in known:
            known[term] = Constant(table.decode(term))
        return known[term]

    return decode


def _facts(predicate: str, rows: Iterable[list[int]], decode: Callable[[int], Constant]) -> Iterator[Fact]:
    return (Fact(predicate, tuple(map(decode, row))) for row in rows)


def _instances(
    engine: Engine, rule: NormalRule, decode: Callable[[int], Constant], negated: dict[Fact, Atom]
) -> Iterator[Instance]:
    if rule.aggregates:
        raise TidelogError(f"a trace follows the papers, which have no aggregates: {rule.source}")
    text = str(rule.source)
    variables, cells = rule_matches(engine, rule)
    for row in cells.tolist():
        values = dict(zip(variables, map(decode, row), strict=True))
        absent = [_ground(replace(atom, predicate=f"not {atom.predicate}"), values) for atom in rule.negatives]
        for fact, atom in zip(absent, rule.negatives, strict=True):
            negated.setdefault(fact, atom)
        body = [*(_ground(atom, values) for atom in rule.positives), *absent]
        yield Instance(text, _ground(rule.head, values), tuple(body))


def _ground(atom: Atom, values: Values) -> Fact:
    return Fact(atom.predicate, tuple(_value(term, values) for term in atom.arguments))


def _value(term: Term, values: Values) -> Constant | None:
    """The value of a term; None for a variable that occurs in negated atoms only, and may be anything."""
    if isinstance(term, Variable):
        return values.get(term)
    assert isinstance(term, Constant)
    return term
