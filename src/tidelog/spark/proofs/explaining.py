"""The answers to a materialisation's questions: a proof of a fact that holds, the reasons why another does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial

from tidelog.errors import LimitError
from tidelog.language.syntax import Atom, Constant
from tidelog.program.graph import RuleGraph
from tidelog.program.modules import Kind, recognise
from tidelog.program.normal_form import NormalRule, normalise
from tidelog.proofs.failure import Inquest, WhyNot
from tidelog.proofs.order import premises_first
from tidelog.proofs.proof import Proof
from tidelog.proofs.wording import Matched, Wording, conditions_of, has_conditions
from tidelog.spark.data.term_lookup import Fact
from tidelog.spark.proofs.closure_paths import ClosurePaths, transitive_rule
from tidelog.spark.proofs.cone import Cone
from tidelog.spark.proofs.file_grounds import FileGrounds
from tidelog.spark.proofs.stored_facts import Instance, StoredFacts
from tidelog.spark.small.pending_facts import PendingFacts
from tidelog.spark.stored.keyed_files import TooManyFacts

# Closures with more pairs than this are explained from their base.
SEARCHED_PAIRS = 5000


class Explainer:
    """Finds proofs in the facts of one version."""

    def __init__(self, facts: PendingFacts, graph: RuleGraph, prefixes: Mapping[str, str]) -> None:
        self._pending = facts
        self._facts = StoredFacts(facts)
        self._graph = graph
        self._prefixes = prefixes

    def explain(self, asked: Atom) -> Proof | None:
        """A proof of least height; None if the fact does not hold."""
        if not self._facts.count(asked.predicate):
            return None
        goal = self._fact(asked)
        try:
            if not self._facts.holding([goal]):
                return None
            cone = Cone(self._facts, self._rules, self._closures, [goal])
            cone.find()
            return self._written(cone, [goal])[goal]
        except TooManyFacts:
            raise LimitError(
                f"too many facts lie behind `{asked}` to find the lowest proof among them; "
                "explain a fact that it rests on, or take a part of the facts into a knowledge base"
            ) from None

    def why_not(self, asked: Atom, arities: Mapping[str, int]) -> WhyNot:
        """What a fact lacks; `arities` are those of the known predicates."""
        wording = self._wording()
        is_known = asked.predicate in self._pending.stored
        if is_known and self._facts.holding([self._fact(asked)]):
            return WhyNot.of(f"{wording.text(asked)} holds; `explain` proves it.")
        return Inquest(FileGrounds(self._pending, self._graph), wording).report(asked, is_known, arities)

    def _fact(self, asked: Atom) -> Fact:
        return asked.predicate, self._facts.ids(term for term in asked.arguments if isinstance(term, Constant))

    def _wording(self) -> Wording:
        return Wording(self._facts.values.value, self._prefixes)

    # ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _rules(self) -> dict[str, list[NormalRule]]:
        """The rules by the predicate that they derive; those that lead to explicit facts soonest come first."""
        found: dict[str, list[NormalRule]] = {}
        for number in sorted(self._graph.rules, key=self._graph.recursive):
            rule = normalise(self._graph.rule(number))
            found.setdefault(rule.head.predicate, []).append(rule)
        return found

    @cached_property
    def _closures(self) -> dict[str, ClosurePaths]:
        """The transitive closures that have too many pairs to be searched like other rules."""
        found: dict[str, ClosurePaths] = {}
        for component in self._graph.components_in_order():
            if len(component.predicates) != 1 or self._facts.count(component.predicates[0]) <= SEARCHED_PAIRS:
                continue
            [name] = component.predicates
            modules, rest = recognise({number: self._graph.rule(number) for number in component.rules})
            if len(modules) != 1 or modules[0].kind is not Kind.TRANSITIVE or any(map(self._graph.recursive, rest)):
                continue
            if modules[0].needs_distinct_values and not self._facts.values.by_identity:
                continue
            transitive = transitive_rule([normalise(self._graph.rule(number)) for number in modules[0].rules])
            base = [normalise(self._graph.rule(number)) for number in rest]
            if transitive is not None and not any(rule.aggregates for rule in base):
                heights = partial(self._base_heights, name, base)
                found[name] = ClosurePaths(self._facts, name, transitive, base, modules[0].diagonal, heights)
        return found

    def _of_base(self, predicate: str, base: Sequence[NormalRule], pairs: Sequence[Fact]) -> Cone:
        """The proofs of pairs of a closure's base, which do not need the closure."""
        closures = {name: paths for name, paths in self._closures.items() if name != predicate}
        cone = Cone(self._facts, {**self._rules, predicate: base}, closures, pairs)
        cone.find()
        return cone

    def _base_heights(self, predicate: str, base: Sequence[NormalRule], pairs: Sequence[Fact]) -> dict[Fact, int]:
        cone = self._of_base(predicate, base, pairs)
        return {pair: cone.heights[pair] for pair in pairs}

    # ── proofs in words ──────────────────────────────────────────────────────────────────────────────────────────

    def _written(self, cone: Cone, goals: Sequence[Fact]) -> dict[Fact, Proof]:
        """The lowest proofs of goals; a fact that is used twice has one proof."""
        order = premises_first(goals, lambda fact: _premises(cone, fact))
        self._facts.values.fetch(id_ for fact in order for id_ in _ids_of(fact, cone))
        wording = self._wording()
        proofs: dict[Fact, Proof] = {}
        for fact in order:
            choice = cone.choices[fact]
            closure = self._closures.get(fact[0])
            if choice is None and closure is not None and cone.heights[fact]:
                proofs[fact] = self._closed(closure, fact, wording)
            else:
                proofs[fact] = _proof(fact, choice, proofs, wording)
        return {goal: proofs[goal] for goal in goals}

    def _closed(self, closure: ClosurePaths, fact: Fact, wording: Wording) -> Proof:
        """A pair of a large closure, from its base."""
        steps = list(closure.steps(fact[1]))
        leaves = list(dict.fromkeys(step for step in steps if not isinstance(step, Instance)))
        proofs = self._written(self._of_base(closure.predicate, closure.base_rules, leaves), leaves)
        for step in steps:
            if isinstance(step, Instance):
                self._facts.values.fetch(id_ for match in step.matches for id_ in match.ids)
                proofs.setdefault(step.head, _proof(step.head, step, proofs, wording))
        return proofs[fact]


def _premises(cone: Cone, fact: Fact) -> Iterable[Fact]:
    choice = cone.choices[fact]
    return choice.premises if choice else ()


def _ids_of(fact: Fact, cone: Cone) -> Iterator[int]:
    """The ids that the words of a step are about."""
    yield from fact[1]
    choice = cone.choices[fact]
    if choice is not None:
        yield from (id_ for match in choice.matches for id_ in match.ids)


def _proof(fact: Fact, choice: Instance | None, proofs: Mapping[Fact, Proof], wording: Wording) -> Proof:
    text = wording.fact(*fact)
    if choice is None:
        return Proof(text)
    source = choice.rule.source
    conditions: list[str] = []
    if has_conditions(source):
        variables = choice.variables
        matches = [
            Matched([row for _, row in match.facts], dict(zip(variables, match.ids, strict=True)))
            for match in choice.matches
        ]
        conditions = conditions_of(choice.rule, fact[1], matches, wording)
    premises = [(premise[0], proofs[premise]) for premise in choice.premises]
    return Proof.of_instance(fact[0], text, wording.rule(source), premises, conditions)
