"""A semi-naive engine in plain Python, without any cleverness: the floor under all figures.

Facts are tuples in sets; each join looks up a dictionary of the facts by the columns that are bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from tidelog.bench.peers.translate import Untranslatable
from tidelog.language.syntax import Atom, Comparison, Constant, Negation, Rule, Term, Variable
from tidelog.program.graph import RuleGraph

Fact = tuple[object, ...]
Binding = dict[str, object]


class Relation:
    """A set of facts with an index for each combination of columns that a join asked for."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self.facts: set[Fact] = set()
        self._indexes: dict[tuple[int, ...], defaultdict[Fact, list[Fact]]] = {}
        for fact in facts:
            self.add(fact)

    def add(self, fact: Fact) -> None:
        self.facts.add(fact)
        for columns, index in self._indexes.items():
            index[tuple(fact[column] for column in columns)].append(fact)

    def matching(self, columns: tuple[int, ...], key: Fact) -> Iterable[Fact]:
        if columns not in self._indexes:
            index: defaultdict[Fact, list[Fact]] = defaultdict(list)
            for fact in self.facts:
                index[tuple(fact[column] for column in columns)].append(fact)
            self._indexes[columns] = index
        return self._indexes[columns].get(key, ())


Database = defaultdict[str, Relation]


def materialise(rules: Iterable[Rule], facts: dict[str, Iterable[Fact]]) -> dict[str, set[Fact]]:
    """Every fact of every predicate, by the names of the rules."""
    database: Database = defaultdict(Relation, {name: Relation(rows) for name, rows in facts.items()})
    graph = RuleGraph(tuple(rules))
    for component in graph.components_in_order():
        _evaluate(database, [graph.rule(number) for number in component.rules], set(component.predicates))
    return {name: relation.facts for name, relation in database.items()}


def _evaluate(database: Database, rules: list[Rule], own: set[str]) -> None:
    last: dict[str, Relation] = {name: Relation(database[name].facts) for name in own}
    for rule in rules:
        if not any(isinstance(item, Atom) and item.predicate in own for item in rule.body):
            for fact in list(_heads(rule, database, -1, {})):
                _take(fact, rule.head.predicate, database, last)
    while any(relation.facts for relation in last.values()):
        found: dict[str, Relation] = {name: Relation() for name in own}
        for rule in rules:
            for place, item in enumerate(rule.body):
                if isinstance(item, Atom) and item.predicate in own:
                    for fact in list(_heads(rule, database, place, last)):
                        _take(fact, rule.head.predicate, database, found)
        last = found


def _take(fact: Fact, predicate: str, database: Database, found: dict[str, Relation]) -> None:
    if fact not in database[predicate].facts:
        database[predicate].add(fact)
        found[predicate].add(fact)


def _heads(rule: Rule, database: Database, pivot: int, last: dict[str, Relation]) -> Iterator[Fact]:
    """The heads of a rule's instances; the atom at `pivot` reads the facts of the last round."""
    positives = [place for place, item in enumerate(rule.body) if isinstance(item, Atom) and place != pivot]
    order = ([pivot] if pivot >= 0 else []) + positives
    bindings: Iterator[Binding] = iter([{}])
    for place in order:
        atom = rule.body[place]
        assert isinstance(atom, Atom)
        relation = last[atom.predicate] if place == pivot else database[atom.predicate]
        bindings = _join(bindings, atom, relation)
    for item in rule.body:
        if not isinstance(item, Atom):
            bindings = filter(_test(item, database), bindings)
    return (tuple(_value(term, binding) for term in rule.head.arguments) for binding in bindings)


def _join(bindings: Iterator[Binding], atom: Atom, relation: Relation) -> Iterator[Binding]:
    for binding in bindings:
        columns = tuple(column for column, term in enumerate(atom.arguments) if _bound(term, binding))
        key = tuple(_value(atom.arguments[column], binding) for column in columns)
        for fact in relation.matching(columns, key):
            extended = dict(binding)
            if all(extended.setdefault(term.name, cell) == cell for term, cell in _variables(atom, fact)):
                yield extended


def _variables(atom: Atom, fact: Fact) -> Iterator[tuple[Variable, object]]:
    return ((term, cell) for term, cell in zip(atom.arguments, fact, strict=True) if isinstance(term, Variable))


def _test(item: Negation | Comparison, database: Database) -> Callable[[Binding], bool]:
    if isinstance(item, Negation):
        return lambda binding: not any(_join(iter([binding]), item.atom, database[item.atom.predicate]))
    if item.operator != "!=":
        raise Untranslatable(f"{item} is not translated")
    return lambda binding: _value(item.left, binding) != _value(item.right, binding)


def _bound(term: Term, binding: Binding) -> bool:
    return isinstance(term, Constant) or (isinstance(term, Variable) and term.name in binding)


def _value(term: Term, binding: Binding) -> object:
    match term:
        case Variable(name=name):
            return binding[name]
        case Constant(value=value):
            return value
    raise Untranslatable(f"{term} is not translated")
