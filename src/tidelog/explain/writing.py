"""From the choices of a proof to a `Proof`, premises before what they prove."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tidelog.explain.alternatives import Choices, choices_of
from tidelog.explain.closure_rules import PairFact, PairStep, base_name, closed_predicate
from tidelog.explain.cone_registers import AS_GIVEN
from tidelog.explain.proof import Proof
from tidelog.explain.search import Cone, Instance
from tidelog.explain.wording import Binding, Wording, shortened
from tidelog.language.syntax import Aggregate, Atom, BodyItem, Call, Rule, Variable


class Writer:
    """Writes the proofs that make some choices."""

    def __init__(self, cone: Cone, wording: Wording, written: dict[str, Proof] | None = None) -> None:
        self._cone = cone
        self._wording = wording
        self._proofs: dict[int, Proof] = {}
        # The lowest proofs so far, as searches within this one find the same facts.
        self._written = written

    def write(self, choices: Choices, goal: int = 0) -> Proof:
        for node in _premises_first(self._cone, choices, goal):
            self._proofs[node] = self._once(self._proof(node, choices[node]))
        return self._proofs[goal]

    def _once(self, proof: Proof) -> Proof:
        """Let a fact that is used twice have one proof, unless that would make a proof higher."""
        if self._written is None:
            return proof
        known = self._written.setdefault(proof.fact, proof)
        return known if known.height <= proof.height else proof

    def _proof(self, node: int, choice: int) -> Proof:
        predicate, row = self._cone.fact(node)
        text = self._fact(predicate, row)
        if choice == AS_GIVEN:
            return self._closed(PairFact(predicate, (row[0], row[1])))
        if choice < 0:
            return Proof(text)
        instance = self._cone.instance(choice)
        rule = instance.rule
        premises = [self._proofs[premise] for premise in instance.premises]
        if rule.turned is not None:
            premises[rule.turned] = self._turned(instance.matches[0][0][rule.turned])
        conditions = _conditions(self._cone, instance, row, self._wording)
        return Proof(text, self._wording.rule(rule.normal.source), premises, conditions)

    def _turned(self, node: int) -> Proof:
        """A pair of a symmetric closure, from the pair of its base that is the other way round."""
        predicate, row = self._cone.fact(node)
        turn = self._cone.backwards.turn(closed_predicate(predicate))
        return Proof(self._fact(predicate, row[::-1]), self._wording.rule(turn.source), [self._proofs[node]])

    def _closed(self, fact: PairFact) -> Proof:
        """A pair of a large closure, from its base."""
        steps = list(self._cone.closure_proofs(fact.predicate).steps(fact))
        leaves = list(dict.fromkeys(step.fact for step in steps if step.rule is None))
        proofs = dict(zip(leaves, self._of_base(leaves), strict=True))
        for step in steps:
            if step.rule is not None:
                proofs[step.fact] = self._once(self._by_step(step, [proofs[premise] for premise in step.premises]))
        return proofs[fact]

    def _of_base(self, leaves: list[PairFact]) -> list[Proof]:
        """Pairs that a large closure starts from, all of one predicate."""
        backwards = self._cone.backwards
        predicate = leaves[0].predicate
        closure = backwards.engine.closures.get(predicate)
        assert closure is not None
        with backwards.inner() as inner:
            cone = Cone(inner, base_name(closure, predicate), np.array([leaf.pair for leaf in leaves], np.int32))
            cone.find_each()
            writer = Writer(cone, self._wording, self._written)
            return [writer.write(choices_of(cone, node), node) for node in range(cone.goals)]

    def _by_step(self, step: PairStep, premises: list[Proof]) -> Proof:
        assert step.rule is not None
        source = step.rule.source
        conditions = list(self._wording.conditions(source.body, frozenset(), step.binding))
        return Proof(self._fact(*step.fact), self._wording.rule(source), premises, conditions)

    def _fact(self, predicate: str, row: Iterable[int]) -> str:
        return self._wording.fact(closed_predicate(predicate), row)


def _premises_first(cone: Cone, choices: Choices, goal: int) -> Iterator[int]:
    premises = {node: cone.instance(choice).premises if choice >= 0 else [] for node, choice in choices.items()}
    done: set[int] = set()
    waiting = [goal]
    while waiting:
        missing = [premise for premise in premises[waiting[-1]] if premise not in done]
        if missing:
            waiting += missing
            continue
        node = waiting.pop()
        if node not in done:
            done.add(node)
            yield node


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
    """Whether a rule rests on more than facts; most steps of long proofs do not."""
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
