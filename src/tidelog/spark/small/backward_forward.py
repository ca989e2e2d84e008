"""Which facts of a component have lost their last proof (Backward/Forward, §4, Algorithms 2 and 3, on sets of facts).

Backward chaining keeps the instances that it finds, so that forward chaining needs no more facts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidelog.language.syntax import Atom
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import HEAD
from tidelog.spark.data.term_lookup import Fact, Ids
from tidelog.spark.small.matching import Facts
from tidelog.spark.small.pending_facts import Choose, Groups, PendingFacts, Touched, by_predicate

Bodies = dict[Fact, list[frozenset[Fact]]]
"""For each fact the instances that derive it: of each, the facts of its body that need a proof themselves."""


@dataclass(frozen=True)
class Proofs:
    """The search for proofs in one component, by its checked rules; `rest` chooses what has not been deleted."""

    facts: PendingFacts
    component: Collection[str]
    rules: Sequence[NormalRule]
    touched: Touched
    rest: Choose
    checked: set[Fact] = field(default_factory=set, init=False)

    def lost(self, candidates: Iterable[Fact]) -> set[Fact]:
        """The facts without a proof among the candidates and the facts that these may rest on.

        Afterwards C has all of these facts, `checked`: those that are not returned have been proved."""
        bodies: Bodies = defaultdict(list)
        added: set[Fact] = set()
        latest = self._unprotected(candidates)
        while latest:
            added |= latest  # Line 12: each fact is checked once.
            latest = self._backward(latest, bodies) - added
        proved = _proved(bodies)
        self.facts.work["checked"] += len(added)
        self.facts.work["forward"] += len(proved)
        self.checked.update(added)
        return added - proved

    def _unprotected(self, facts: Iterable[Fact]) -> set[Fact]:
        """The facts that held before, need a proof and have not been checked; checked ones that are left have one."""
        asked = set(facts) - self.checked
        self.facts.look_up(asked)
        return {fact for fact in asked if self.facts.before(fact) is not None and not self.touched.protected(fact)}

    def _backward(self, latest: set[Fact], bodies: Bodies) -> set[Fact]:
        """Lines 15–18: instances of checked rules that derive the latest facts, and the facts that need a proof there.

        An instance that uses no such fact is a proof, and its head is not looked at any further (line 19). So rules
        that use the fewest facts of the component come first, and of these the ones with the most facts."""
        open_bodies: Bodies = defaultdict(list)
        unproved = by_predicate(latest)
        for rule, own in self._by_promise():
            name = rule.head.predicate
            if not unproved[name]:
                continue
            heads, used = self._instances(rule, own, unproved[name])
            self.facts.work["backward"] += len(heads)
            needed = self._unprotected(fact for facts in used for fact in facts)
            for head, *body in zip(heads, *used, strict=True):
                missing = needed.intersection(body) if needed else None
                if missing:
                    open_bodies[head].append(frozenset(missing))
                elif head[1] in unproved[name]:
                    unproved[name].discard(head[1])
                    bodies[head].append(frozenset())
        still_open = {head: found for head, found in open_bodies.items() if head[1] in unproved[head[0]]}
        bodies.update(still_open)
        return {fact for found in still_open.values() for body in found for fact in body}

    def _instances(
        self, rule: NormalRule, own: Sequence[Atom], wanted: set[Ids]
    ) -> tuple[list[Fact], list[list[Fact]]]:
        """The instances of a rule that derive wanted facts: their heads, and their facts for each own atom.

        An aggregate rests on facts below the component alone, so whatever its group derives is proved."""
        if rule.aggregates:
            groups = Groups(self.facts, rule)
            heads = groups.heads(groups.deriving(wanted), before=False)
            return [head for head in heads if head[1] in wanted], []
        sets = self.facts.phases.holding(self.rest, lambda _: Facts(wanted))
        found = self.facts.instances(rule, HEAD, self.component, sets, few=not own)
        return found.facts(rule.head), [found.facts(atom) for atom in own]

    def _by_promise(self) -> list[tuple[NormalRule, list[Atom]]]:
        """The checked rules with the atoms of the component in their bodies, the most promising ones first."""
        stored = self.facts.stored
        found = [(rule, [atom for atom in rule.positives if atom.predicate in self.component]) for rule in self.rules]
        least = {rule: min((stored[atom.predicate].facts for atom in rule.positives), default=0) for rule, _ in found}
        return sorted(found, key=lambda pair: (len(pair[1]), -least[pair[0]]))


def _proved(bodies: Mapping[Fact, list[frozenset[Fact]]]) -> set[Fact]:
    """P (lines 20–28): the facts with an instance in which every fact that needs a proof has one."""
    waiting: dict[Fact, list[tuple[Fact, set[Fact]]]] = defaultdict(list)
    ready: list[Fact] = []
    for head, found in bodies.items():
        for body in found:
            missing = set(body)
            if not missing:
                ready.append(head)
            for fact in missing:
                waiting[fact].append((head, missing))
    proved: set[Fact] = set()
    while ready:
        fact = ready.pop()
        if fact in proved:
            continue
        proved.add(fact)
        for head, missing in waiting.pop(fact, ()):
            missing.discard(fact)
            if not missing:
                ready.append(head)
    return proved
