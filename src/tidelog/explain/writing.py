"""Proofs in words: rule instances with the values that they were tested with, and from the choices of a proof to a
`Proof`, premises before what they prove.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tidelog.explain.closure_rules import PairFact, base_name, closed_predicate
from tidelog.explain.cone_registers import AS_GIVEN
from tidelog.explain.proof import Proof
from tidelog.explain.search import Choices, Cone, Instance
from tidelog.language import display_predicate, render
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Negation,
    Node,
    Rule,
    Term,
    Variable,
)
from tidelog.store.term_table import TermTable

Binding = Mapping[Variable, int]
"""The term that each variable stands for."""

NO_FACT = "no fact matches "
MOST_VALUES = 10
MOST_CONDITIONS = 12


class Wording:
    """How facts and conditions are written, under the prefixes of a knowledge base."""

    def __init__(self, terms: TermTable, prefixes: Mapping[str, str]) -> None:
        self.terms = terms
        self.prefixes = dict(prefixes)
        # Long proofs are about few constants.
        self._values: dict[int, str] = {}
        self._names: dict[str, str] = {}
        # By identity, since hashing a rule takes as long as printing it. The rules of a program stay alive.
        self._rules: dict[int, str] = {}

    def fact(self, predicate: str, row: Iterable[int]) -> str:
        if predicate not in self._names:
            self._names[predicate] = display_predicate(closed_predicate(predicate), self.prefixes)
        arguments = ", ".join([self.value(term) for term in row])
        return self._names[predicate] + (f"({arguments})" if arguments else "")

    def rule(self, rule: Rule) -> str:
        if id(rule) not in self._rules:
            self._rules[id(rule)] = self.text(rule)
        return self._rules[id(rule)]

    def text(self, node: Node) -> str:
        return render(node, self.prefixes)

    def value(self, term: int) -> str:
        if term not in self._values:
            self._values[term] = self.text(self._constant(term))
        return self._values[term]

    def _constant(self, term: int) -> Constant:
        return Constant(self.terms.decode(term))

    # --- values in place of variables -------------------------------------------------------------------------------

    def expression(self, expression: Expression, binding: Binding) -> Expression:
        match expression:
            case Variable() if expression in binding:
                return self._constant(binding[expression])
            case Call(function=function, arguments=arguments):
                return Call(function, tuple(self.expression(argument, binding) for argument in arguments))
        return expression

    def atom(self, atom: Atom, binding: Binding) -> Atom:
        """The atom with known values put in; variables without a name are numbered anew, so that they print as `_`."""
        arguments: list[Term] = []
        unnamed = 0
        for term in atom.arguments:
            if isinstance(term, Aggregate):
                arguments.append(term)
                continue
            known = self.expression(term, binding)
            if isinstance(known, Variable) and known.name.startswith(("_", "#")):
                unnamed += 1
                known = Variable(f"_{unnamed}")
            arguments.append(known)
        return Atom(atom.predicate, tuple(arguments))

    def comparison(self, item: Comparison, binding: Binding) -> str:
        left, right = self.expression(item.left, binding), self.expression(item.right, binding)
        return self.text(Comparison(item.operator, left, right))

    def definition(self, variable: Variable, expression: Expression, binding: Binding) -> str:
        """`D = abs(3 - 8) = 5`, without the name where the variable has none."""
        parts = [] if variable.name.startswith(("#", "_")) else [self.text(variable)]
        if isinstance(expression, Call):
            parts.append(self.text(self.expression(expression, binding)))
        if variable in binding:
            parts.append(self.value(binding[variable]))
        return " = ".join(parts)

    # --- conditions of a match --------------------------------------------------------------------------------------

    def conditions(self, rule: Rule, defined: Iterable[Variable], binding: Binding) -> Iterator[str]:
        """What a match rests on besides facts. `defined` are the variables that an `=` in the body binds."""
        rest = set(defined)
        for item in rule.body:
            match item:
                case Negation(atom=atom):
                    yield NO_FACT + self.text(self.atom(atom, binding))
                case Comparison(operator="=", left=Variable() as variable, right=other) if variable in rest:
                    rest.discard(variable)
                    yield self.definition(variable, other, binding)
                case Comparison(operator="=", left=other, right=Variable() as variable) if variable in rest:
                    rest.discard(variable)
                    yield self.definition(variable, other, binding)
                case Comparison():
                    yield self.comparison(item, binding)

    def computed(self, atom: Atom, row: Iterable[int], binding: Binding) -> Iterator[str]:
        """The expressions among an atom's arguments, with their values: `2 + 1 = 3`."""
        for term, result in zip(atom.arguments, row, strict=True):
            if isinstance(term, Call):
                yield f"{self.text(self.expression(term, binding))} = {self.value(result)}"

    def aggregate(self, aggregate: Aggregate, result: int, values: list[int]) -> str:
        """`sum(S) = 7 from 3 matches: S = 1, 2, 4`"""
        shown = ", ".join(self.value(term) for term in values[:MOST_VALUES])
        more = ", …" if len(values) > MOST_VALUES else ""
        count = "1 match" if len(values) == 1 else f"{len(values):,} matches"
        inner = self.text(aggregate.argument)
        return f"{self.text(aggregate)} = {self.value(result)} from {count}: {inner} = {shown}{more}"


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
        if choice == AS_GIVEN:
            return self._closed(PairFact(predicate, (row[0], row[1])))
        text = self._wording.fact(predicate, row)
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
        with backwards.inner() as inner:
            cone = Cone(inner, base, np.array([leaf.pair for leaf in leaves], np.int32))
            cone.find_each()
            writer = Writer(cone, self._wording, self._written)
            return [writer.write(cone.choices(node), node) for node in range(cone.goals)]


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
    rule, source = instance.rule, instance.rule.normal.source
    if not _has_conditions(source):
        return []
    bindings = [_binding(cone, instance, match) for match in instance.matches]
    found = list(_aggregates(instance, row, bindings, wording))
    defined = [variable for variable in rule.extras if not variable.name.startswith("#")]
    atoms = [item for item in source.body if isinstance(item, Atom)]
    for (nodes, _), binding in zip(instance.matches, bindings, strict=True):
        if not rule.grouping:
            found += wording.computed(source.head, row, binding)
        for atom, node in zip(atoms, nodes, strict=True):
            found += wording.computed(atom, cone.fact(node)[1], binding)
        found += wording.conditions(source, defined, binding)
    found = list(dict.fromkeys(found))
    more = len(found) - MOST_CONDITIONS
    return [*found[:MOST_CONDITIONS], f"… {more:,} more conditions"] if more > 0 else found


def _has_conditions(rule: Rule) -> bool:
    """Whether a rule rests on more than facts; most steps of long proofs do not."""
    return any(
        not isinstance(item, Atom) or any(isinstance(term, Call | Aggregate) for term in item.arguments)
        for item in (rule.head, *rule.body)
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
    for written, aggregate, result in zip(normal.source.head.arguments, normal.head.arguments, row, strict=True):
        if isinstance(written, Aggregate) and isinstance(aggregate, Aggregate):
            assert isinstance(aggregate.argument, Variable)
            yield wording.aggregate(written, result, [binding[aggregate.argument] for binding in bindings])
