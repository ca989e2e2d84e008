"""From the choices of a proof to a `Proof`, premises before what they prove."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.explain.alternatives import EXPLICIT, Choices
from tidelog.explain.backwards import closed_predicate
from tidelog.explain.proof import Proof
from tidelog.explain.search import Cone, Instance
from tidelog.explain.wording import Binding, Wording, shortened
from tidelog.language import render
from tidelog.language.syntax import Aggregate, Atom, BodyItem, Call, Rule, Variable


class Writer:
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
