"""Proofs of facts: from what the search finds to `Proof` objects, one or all of them.

All proofs come in the order of their height, by Lawler's partition ("A procedure for computing the k best solutions to
discrete optimization problems", 1972). A proof chooses for each of its facts how it comes about. Take the lowest proof
there is, and its facts in the order of the drawing: every other proof agrees with it on the facts before some i, and
differs on fact i. For each i, the lowest of those proofs is found by measuring the same cone again, with the choices
before i fixed and the one at i forbidden.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice

from tidelog.explain.backwards import Backwards, closed_predicate
from tidelog.explain.proof import Proof
from tidelog.explain.search import Cone, Instance
from tidelog.explain.wording import Binding, Wording, shortened
from tidelog.language import render
from tidelog.language.syntax import Aggregate, Atom, BodyItem, Call, Rule, Variable
from tidelog.reason.engine import Engine
from tidelog.store.relation import Cells

EXPLICIT = -1
Choices = dict[int, int]
"""For each node of a proof, in the order of the drawing: the instance that derives it, or EXPLICIT."""


class Explainer:
    """Finds proofs in the materialisation of an engine."""

    def __init__(self, engine: Engine, prefixes: Callable[[], Mapping[str, str]]) -> None:
        self.backwards = Backwards(engine)
        self._engine = engine
        self._prefixes = prefixes

    def wording(self) -> Wording:
        return Wording(self._engine.store.terms, self._prefixes())

    def proofs(self, predicate: str, row: Cells, limit: int) -> list[Proof]:
        """The `limit` lowest proofs of a fact, the lowest first; none where it does not hold."""
        if limit <= 0 or not self._engine.holds(predicate, row):
            return []
        wording = self.wording()
        try:
            cone = Cone(self.backwards, predicate, row)
            if limit == 1:
                cone.find_lowest()
                return [_Writer(cone, wording).write(choices_of(cone))]
            cone.find_all()
            return [_Writer(cone, wording).write(choices) for choices in islice(lowest_first(cone), limit)]
        finally:
            self.backwards.forget()

    def why_not(self, fact: Atom, row: Cells | None, predicates: list[str]) -> str:
        """What a fact lacks; `row` is None where its predicate is unknown, `predicates` are those that are known."""
        from tidelog.explain.failure import Inquest

        wording = self.wording()
        if row is not None and self._engine.holds(fact.predicate, row):
            return f"{wording.text(fact)} holds; `explain` proves it."
        return Inquest(self.backwards, wording).report(fact, row, predicates)


def choices_of(cone: Cone) -> Choices:
    """What the last measurement chose for the fact and all that its proof uses."""
    chosen: Choices = {}
    waiting = [0]
    while waiting:
        node = waiting.pop()
        if node not in chosen:
            chosen[node] = cone.choice(node)
            if chosen[node] != EXPLICIT:
                waiting += reversed(cone.instance(chosen[node]).premises)
    return chosen


# --- all proofs -----------------------------------------------------------------------------------------------------


@dataclass(order=True, slots=True)
class _Part:
    """Those proofs that make the first `fixed` choices of the lowest among them, and next none of `forbidden`."""

    height: int
    number: int
    choices: Choices = field(compare=False)
    fixed: int = field(compare=False)
    forbidden: frozenset[int] = field(compare=False)


def lowest_first(cone: Cone) -> Iterator[Choices]:
    """The choices of every proof of node 0."""
    numbers = count()
    height = cone.measure()
    heap = [_Part(height, next(numbers), choices_of(cone), 0, frozenset())]
    while heap:
        part = heapq.heappop(heap)
        yield part.choices
        nodes = list(part.choices)
        for place in range(part.fixed, len(nodes)):
            choice = part.choices[nodes[place]]
            forbidden = frozenset((choice,)) | (part.forbidden if place == part.fixed else frozenset())
            alternatives = _alternatives(cone, nodes[place])
            if forbidden >= set(alternatives):
                continue
            fixed = {node: part.choices[node] for node in nodes[:place]}
            found = _lowest_within(cone, fixed, nodes[place], forbidden)
            if found is not None:
                heapq.heappush(heap, _Part(found[0], next(numbers), found[1], place, forbidden))


def _alternatives(cone: Cone, node: int) -> list[int]:
    explicit = [EXPLICIT] if cone.is_explicit(node) else []
    return [*explicit, *cone.instances(node)]


def _lowest_within(cone: Cone, fixed: Choices, node: int, forbidden: frozenset[int]) -> tuple[int, Choices] | None:
    """The height and the choices of the lowest proof with some choices fixed and some forbidden at one node."""
    disabled = [(other, choice) for other in fixed for choice in _alternatives(cone, other) if choice != fixed[other]]
    disabled += [(node, choice) for choice in forbidden]
    _enable(cone, disabled, False)
    height = cone.measure()
    found = (height, choices_of(cone)) if height >= 0 else None
    _enable(cone, disabled, True)
    return found


def _enable(cone: Cone, choices: list[tuple[int, int]], enabled: bool) -> None:
    for node, choice in choices:
        if choice == EXPLICIT:
            cone.enable_leaf(node, enabled)
        else:
            cone.enable(choice, enabled)


# --- from choices to proofs -----------------------------------------------------------------------------------------


class _Writer:
    """Writes the proof that makes some choices."""

    def __init__(self, cone: Cone, wording: Wording) -> None:
        self._cone = cone
        self._wording = wording
        self._proofs: dict[int, Proof] = {}
        self._rules: dict[int, str] = {}

    def write(self, choices: Choices) -> Proof:
        for node, instance in _premises_first(self._cone, choices):
            self._proofs[node] = self._proof(node, instance)
        return self._proofs[0]

    def _proof(self, node: int, instance: Instance | None) -> Proof:
        predicate, row = self._cone.fact(node)
        text = self._fact(predicate, row)
        if instance is None:
            return Proof(text)
        rule = instance.rule
        if rule.number not in self._rules:
            self._rules[rule.number] = render(rule.normal.source, self._wording.prefixes)
        premises = [self._proofs[premise] for premise in instance.premises]
        if rule.turned is not None:
            premises[rule.turned] = self._turned(instance.matches[0][0][rule.turned])
        conditions = _conditions(self._cone, instance, row, self._wording)
        return Proof(text, self._rules[rule.number], premises, conditions)

    def _turned(self, node: int) -> Proof:
        """The pair of a symmetric closure that one of its base makes, the other way round."""
        predicate, row = self._cone.fact(node)
        turn = self._cone.backwards.turn(closed_predicate(predicate))
        return Proof(
            self._fact(predicate, row[::-1]), render(turn.source, self._wording.prefixes), [self._proofs[node]]
        )

    def _fact(self, predicate: str, row: list[int]) -> str:
        return self._wording.fact(closed_predicate(predicate), row)


def _premises_first(cone: Cone, choices: Choices) -> Iterator[tuple[int, Instance | None]]:
    instances = {node: None if choice == EXPLICIT else cone.instance(choice) for node, choice in choices.items()}
    done: set[int] = set()
    waiting = [0]
    while waiting:
        node = waiting[-1]
        instance = instances[node]
        missing = [] if instance is None else [premise for premise in instance.premises if premise not in done]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if node not in done:
            done.add(node)
            yield node, instance


def _conditions(cone: Cone, instance: Instance, row: list[int], wording: Wording) -> list[str]:
    source = instance.rule.normal.source
    defined = frozenset(variable for variable in instance.rule.extras if not variable.name.startswith("#"))
    if not _has_conditions(source):
        return []
    bindings = [_binding(cone, instance, match) for match in instance.matches]
    found = list(_aggregates(instance, row, bindings, wording))
    for (nodes, _), binding in zip(instance.matches, bindings, strict=True):
        if not instance.rule.grouping:
            found += wording.computed(source.head, row, binding)
        atoms = [item for item in source.body if isinstance(item, Atom)]
        for atom, node in zip(atoms, nodes, strict=True):
            found += wording.computed(atom, cone.fact(node)[1], binding)
        found += wording.conditions(source.body, defined, binding)
    return shortened(found)


def _has_conditions(rule: Rule) -> bool:
    """Whether a rule has more than facts to tell: most steps of long proofs have not."""
    items: tuple[BodyItem, ...] = (rule.head, *rule.body)
    return not all(
        isinstance(item, Atom) and not any(isinstance(term, Call | Aggregate) for term in item.arguments)
        for item in items
    )


def _binding(cone: Cone, instance: Instance, match: tuple[list[int], list[int]]) -> Binding:
    nodes, extras = match
    binding = dict(zip(instance.rule.extras, extras, strict=True))
    for atom, node in zip(instance.rule.premises, nodes, strict=True):
        for term, cell in zip(atom.arguments, cone.fact(node)[1], strict=True):
            if isinstance(term, Variable):
                binding[term] = cell
    return binding


def _aggregates(instance: Instance, row: list[int], bindings: list[Binding], wording: Wording) -> Iterator[str]:
    normal = instance.rule.normal
    columns = zip(normal.source.head.arguments, normal.head.arguments, row, strict=True)
    for written, aggregate, result in columns:
        if isinstance(written, Aggregate) and isinstance(aggregate, Aggregate):
            assert isinstance(aggregate.argument, Variable)
            values = [binding[aggregate.argument] for binding in bindings]
            yield wording.aggregate(written, result, values)
