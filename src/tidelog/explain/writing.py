"""From the choices of a proof to a `Proof`, premises before what they prove."""

from __future__ import annotations

import numpy as np

from tidelog.explain.closure_rules import PairFact, base_name, closed_predicate
from tidelog.explain.cone_registers import AS_GIVEN
from tidelog.explain.search import Choices, Cone, Instance
from tidelog.language.syntax import Variable
from tidelog.proofs.order import premises_first
from tidelog.proofs.proof import Proof
from tidelog.proofs.wording import Binding, Matched, Wording, conditions_of, has_conditions
from tidelog.store.relation_parts import Cells


class Writer:
    """Writes the proofs that make some choices."""

    def __init__(self, cone: Cone, wording: Wording, written: dict[str, Proof] | None = None) -> None:
        self._cone = cone
        self._wording = wording
        self._proofs: dict[int, Proof] = {}
        # The lowest proofs so far, as searches within this one find the same facts.
        self._written = written

    def write(self, choices: Choices, goal: int = 0) -> Proof:
        premises = {node: self._premises(choice) for node, choice in choices.items()}
        for node in premises_first([goal], premises.__getitem__):
            self._proofs[node] = self._once(self._proof(node, choices[node]))
        return self._proofs[goal]

    def _premises(self, choice: int) -> list[int]:
        return self._cone.instance(choice).premises if choice >= 0 else []

    def _once(self, proof: Proof) -> Proof:
        """Let a fact that is used twice have one proof, unless that would make a proof higher."""
        if self._written is None:
            return proof
        known = self._written.setdefault(proof.fact, proof)
        return known if known.height <= proof.height else proof

    def _proof(self, node: int, choice: int) -> Proof:
        predicate, row = self._cone.fact(node)
        if choice == AS_GIVEN:
            joined = self._cone.join_proofs(predicate)
            if joined is not None:
                return joined.write((predicate, tuple(row)), self._wording, self._lower)
            return self._closed(PairFact(predicate, (row[0], row[1])))
        text = self._wording.fact(predicate, row)
        if choice < 0:
            return Proof(text)
        instance = self._cone.instance(choice)
        rule = instance.rule
        premises = [(self._cone.fact(premise)[0], self._proofs[premise]) for premise in instance.premises]
        if rule.turned is not None:
            premises[rule.turned] = predicate, self._turned(instance.matches[0][0][rule.turned])
        if [proof.fact for _, proof in premises] == [text]:
            return premises[0][1]  # Under an equality, a fact is among its own copies.
        conditions = _conditions(self._cone, instance, row, self._wording)
        return Proof.of_instance(predicate, text, self._wording.rule(rule.normal.source), premises, conditions)

    def _turned(self, node: int) -> Proof:
        """A pair of a symmetric closure, from the pair of its base that is the other way round."""
        predicate, row = self._cone.fact(node)
        turn = self._cone.backwards.turn(closed_predicate(predicate))
        return Proof(self._wording.fact(predicate, row[::-1]), self._wording.rule(turn.source), [self._proofs[node]])

    def _closed(self, fact: PairFact) -> Proof:
        """A pair of a large closure, from its base."""
        steps = list(self._cone.closure_proofs(fact.predicate).steps(fact))
        leaves = list(dict.fromkeys(step.fact for step in steps if step.rule is None))
        proofs = dict(zip(leaves, self._of_base(leaves), strict=True))
        for step in steps:
            if step.rule is not None:
                rule, text = step.rule.source, self._wording.fact(*step.fact)
                conditions = list(self._wording.conditions(rule, (), step.binding))
                premises = [proofs[premise] for premise in step.premises]
                proofs[step.fact] = self._once(Proof(text, self._wording.rule(rule), premises, conditions))
        return proofs[fact]

    def _of_base(self, leaves: list[PairFact]) -> list[Proof]:
        """Pairs that a large closure starts from, all of one predicate."""
        backwards = self._cone.backwards
        predicate = leaves[0].predicate
        base = base_name(backwards.closure(predicate), predicate)
        return self._lower(base, np.array([leaf.pair for leaf in leaves], np.int32))

    def _lower(self, predicate: str, rows: Cells) -> list[Proof]:
        """Facts that something which is not searched rests on, all of one predicate."""
        with self._cone.backwards.inner() as inner:
            cone = Cone(inner, predicate, rows)
            cone.find_each()
            writer = Writer(cone, self._wording, self._written)
            return [writer.write(cone.choices(node), node) for node in range(cone.goals)]


def _conditions(cone: Cone, instance: Instance, row: list[int], wording: Wording) -> list[str]:
    normal = instance.rule.normal
    if not has_conditions(normal.source):
        return []
    rows = ([cone.fact(node)[1] for node in nodes] for nodes, _ in instance.matches)
    bindings = (_binding(cone, instance, match) for match in instance.matches)
    return conditions_of(normal, row, list(map(Matched, rows, bindings)), wording)


def _binding(cone: Cone, instance: Instance, match: tuple[list[int], list[int]]) -> Binding:
    nodes, extras = match
    binding = dict(zip(instance.rule.extras, extras, strict=True))
    for atom, node in zip(instance.rule.premises, nodes, strict=True):
        for term, cell in zip(atom.arguments, cone.fact(node)[1], strict=True):
            if isinstance(term, Variable):
                binding[term] = cell
    return binding
