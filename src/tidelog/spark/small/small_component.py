"""One component under a small update: derivations counted, deletions by Backward/Forward, insertions semi-naive.

As in `maintenance/recursion.py`, a fact that is explicit or has a derivation by a rule that is not recursive is
*protected*. Where derivations are not counted, every rule is looked at as if it were recursive. Backward/Forward (Motik
et al., §4) keeps the instances that it finds when it looks backwards, so that proving forwards needs no facts.

Rules that come and go are evaluated as a whole, over what holds after or held before the update (`roles.py`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidelog.language.syntax import Atom
from tidelog.program.graph import Component
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, HEAD, Pivot, Start
from tidelog.spark.maintain.role_sets import Sets
from tidelog.spark.maintain.rule_versions import RuleChanges
from tidelog.spark.small.keyed_files import Ids
from tidelog.spark.small.matching import Facts, Matches
from tidelog.spark.small.pending_facts import Changes, Choose, Given, View
from tidelog.spark.small.record_encoding import Fact
from tidelog.spark.small.rule_roles import Roles
from tidelog.spark.small.touched_groups import Groups


@dataclass(frozen=True)
class Row:
    """A touched fact with its state before (`e0`, `h0`) and after, as a layer stores it."""

    ids: Ids
    e0: bool
    h0: bool
    e: bool
    n: int
    h: bool


@dataclass(frozen=True)
class Asked:
    """What an update says about the explicit facts of a component."""

    give: frozenset[Fact]
    take: frozenset[Fact]


class Touched:
    """The facts that may have changed, with the state that all but recursion gives them."""

    def __init__(self, changes: Changes, asked: Asked, gained: Mapping[Fact, int], counted: bool) -> None:
        self._changes = changes
        self._counted = counted
        self._asked = asked
        self._gained = gained
        self.facts = set(gained) | asked.give | asked.take

    def explicit(self, fact: Fact) -> bool:
        before = self._changes.before(fact)
        kept = before is not None and before.explicit and fact not in self._asked.take
        return kept or fact in self._asked.give

    def gained(self, fact: Fact) -> int:
        return self._gained.get(fact, 0)

    def derivations(self, fact: Fact) -> int:
        before = self._changes.before(fact)
        known = before.derivations if before and self._counted else 0
        return known + self.gained(fact)

    def protected(self, fact: Fact) -> bool:
        return self.explicit(fact) or self.derivations(fact) > 0


class Maintained:
    """One component, which an update takes from one state to the next."""

    def __init__(self, changes: Changes, component: Component, rules: RuleChanges, asked: Asked) -> None:
        counted = all(changes.stored[name].counted for name in component.predicates)
        self._changes = changes
        self._names = component.predicates
        self._roles = Roles(rules, component, counted)
        self._checked = self._roles.checked
        self._is_counted = counted
        self._asked = asked
        self._deleted: dict[str, set[Ids]] = defaultdict(set)
        self._inserted: dict[str, set[Ids]] = defaultdict(set)
        self._touched = Touched(changes, asked, {}, counted)
        self._touched_groups: dict[NormalRule, set[Ids]] = {}

    def run(self) -> dict[str, list[Row]]:
        """Settle the component; the rows of its touched facts by predicate."""
        self._touched = Touched(self._changes, self._asked, self._count(), self._is_counted)
        self._changes.look_up(self._touched.facts)
        self._delete()
        self._insert()
        return self._settled()

    # ── counting ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _count(self) -> Counter[Fact]:
        """How many derivations each fact gains, less those that it loses."""
        gained: Counter[Fact] = Counter()
        for rule in self._roles.counted:
            gained.subtract(self._from_below(rule, created=False, own=self._changes.old))
            gained.update(self._from_below(rule, created=True, own=self._changes.old))
        for rule in self._roles.counted_no_more:
            gained.subtract(self._whole(rule, before=True))
        for rule in self._roles.counted_from_now_on:
            gained.update(self._whole(rule, before=True))
        for rule in self._roles.counted_anew:
            gained.update(self._whole(rule, before=False))
        return gained

    def _whole(self, rule: NormalRule, before: bool, own: Choose | None = None) -> list[Fact]:
        """Heads of all instances of a rule, from what held before or from what holds after the update."""
        changes = self._changes
        if rule.aggregates:
            found = [(rule.head.predicate, ids) for ids in Groups(changes, rule).all_heads(before)]
        else:
            sets = changes.sets.held() if before else changes.sets.holding(own)
            found = _facts(rule.head, changes.instances(rule, ALL, self._names, sets))
        changes.work["deletion" if before else "insertion"] += len(found)
        return found

    def _from_below(self, rule: NormalRule, created: bool, own: Choose) -> list[Fact]:
        """Heads of the instances that what changed below creates or destroys; of aggregates, those of all touched
        groups."""
        changes: Changes = self._changes
        found: list[Fact] = []
        if rule.aggregates:
            found += self._of_groups(rule, self._groups(rule), before=not created)
        for pivot, negated in () if rule.aggregates else changes.pivots_below(rule, self._names, created):
            sets = changes.sets.created(negated, own) if created else changes.sets.destroyed(negated)
            found += _facts(rule.head, changes.instances(rule, pivot, self._names, sets))
        changes.work["insertion" if created else "deletion"] += len(found)
        return found

    def _groups(self, rule: NormalRule) -> set[Ids]:
        if rule not in self._touched_groups:
            self._touched_groups[rule] = Groups(self._changes, rule).touched()
        return self._touched_groups[rule]

    def _of_groups(self, rule: NormalRule, groups: set[Ids], before: bool) -> list[Fact]:
        return [(rule.head.predicate, ids) for ids in Groups(self._changes, rule).heads(groups, before)]

    # ── sets ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _rest(self, name: str) -> Facts:
        """What held before and has not been deleted."""
        return View(self._changes.files, name, self._deleted[name])

    def _current(self, name: str) -> Facts:
        """What is left, and what has been inserted by now."""
        return View(self._changes.files, name, self._deleted[name], self._inserted[name])

    def _holds(self, fact: Fact) -> bool:
        name, ids = fact
        left = self._changes.before(fact) is not None and ids not in self._deleted[name]
        return left or ids in self._inserted[name]

    def _forward(self, latest: set[Fact], sets: Sets[Facts], kind: str) -> set[Fact]:
        """Heads of instances of checked rules that use one of the latest facts."""
        found: list[Fact] = []
        present = {name for name, _ in latest}
        for rule in self._checked:
            for position, atom in enumerate(rule.positives):
                if atom.predicate in present:
                    pivot = Pivot(Start.POSITIVE, position)
                    found += _facts(rule.head, self._changes.instances(rule, pivot, self._names, sets))
        self._changes.work[kind] += len(found)
        return set(found)

    # ── deletion ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _delete(self) -> None:
        candidates = {fact for rule in self._roles.kept for fact in self._from_below(rule, False, self._changes.old)}
        candidates |= {fact for rule in self._roles.gone for fact in self._whole(rule, before=True)}
        candidates |= {fact for fact in self._touched.facts if self._changes.before(fact) is not None}
        checked: set[Fact] = set()
        while True:
            latest = self._unprotected(candidates) - checked
            known = set(checked)
            lost = self._lost(latest, checked)
            self._changes.work["checked"] += len(checked) - len(known)
            if not lost:
                return
            for name, ids in lost:
                self._deleted[name].add(ids)
            candidates = self._forward(lost, self._changes.sets.held(_choose(lost)), "deletion")

    def _unprotected(self, facts: Iterable[Fact]) -> set[Fact]:
        """Those facts that held before and need a proof."""
        asked = set(facts)
        self._changes.look_up(asked)
        return {fact for fact in asked if self._changes.before(fact) is not None and not self._touched.protected(fact)}

    def _lost(self, latest: set[Fact], checked: set[Fact]) -> set[Fact]:
        """C := all that the latest facts may rest on, as far as they are not proved at once; those of it that have no
        proof."""
        proofs: dict[Fact, list[frozenset[Fact]]] = defaultdict(list)
        added: set[Fact] = set()
        while latest:
            added |= latest
            # What was checked before and is not deleted has been proved: it counts as protected does.
            latest = self._backward(latest, checked, proofs) - added
        proved = _proved(proofs)
        self._changes.work["forward"] += len(proved)
        checked |= added
        return added - proved

    def _backward(
        self, latest: set[Fact], proved_before: set[Fact], proofs: dict[Fact, list[frozenset[Fact]]]
    ) -> set[Fact]:
        """Instances of checked rules that derive one of the latest facts; the facts they use that need a proof.

        A fact is proved by an instance that uses nothing in need of a proof, and is not looked at any further. So the
        rules that use the fewest facts of the component come first, and of these the ones with the most facts."""
        found_proofs: dict[Fact, list[frozenset[Fact]]] = defaultdict(list)
        unproved = _by_predicate(latest)
        for rule, own in self._by_promise():
            name = rule.head.predicate
            if not unproved[name]:
                continue
            if rule.aggregates:
                heads, bodies = self._heads_of_groups(rule, unproved[name]), []
            else:
                sets = self._changes.sets.holding(self._rest, lambda name: Given(unproved[name]))
                found = self._changes.instances(rule, HEAD, self._names, sets, few=not own)
                heads, bodies = _facts(rule.head, found), [_facts(atom, found) for atom in own]
            self._changes.work["backward"] += len(heads)
            needed = self._unprotected(fact for body in bodies for fact in body) - proved_before
            for head, *body in zip(heads, *bodies, strict=True):
                missing = needed.intersection(body) if needed else None
                if missing:
                    found_proofs[head].append(frozenset(missing))
                elif head[1] in unproved[name]:
                    unproved[name].discard(head[1])
                    proofs[head].append(frozenset())
        open_ = {head: bodies for head, bodies in found_proofs.items() if head[1] in unproved[head[0]]}
        proofs.update(open_)
        return {fact for bodies in open_.values() for body in bodies for fact in body}

    def _by_promise(self) -> list[tuple[NormalRule, list[Atom]]]:
        """The checked rules with the atoms of the component in their bodies, those first that prove most at once."""
        stored = self._changes.stored
        found = [(rule, [atom for atom in rule.positives if atom.predicate in self._names]) for rule in self._checked]
        least = {rule: min((stored[atom.predicate].facts for atom in rule.positives), default=0) for rule, _ in found}
        return sorted(found, key=lambda pair: (len(pair[1]), -least[pair[0]]))

    def _heads_of_groups(self, rule: NormalRule, wanted: set[Ids]) -> list[Fact]:
        """Those facts that their groups yield; an aggregate rests on what is below alone, so that they are proved."""
        heads = self._of_groups(rule, Groups(self._changes, rule).of_facts(wanted), before=False)
        return [head for head in heads if head[1] in wanted]

    # ── insertion ────────────────────────────────────────────────────────────────────────────────────────────────

    def _insert(self) -> None:
        """DR5: what came from below, and then round by round."""
        heads = {fact for rule in self._roles.kept for fact in self._from_below(rule, True, self._current)}
        heads |= {fact for rule in self._roles.new for fact in self._whole(rule, False, self._current)}
        latest = self._fresh(heads | {fact for fact in self._touched.facts if self._touched.protected(fact)})
        while latest:
            earlier = {name: set(facts) for name, facts in self._inserted.items()}
            for name, ids in latest:
                self._inserted[name].add(ids)
            sets = self._changes.sets.holding(self._current, _choose(latest))
            sets = replace(sets, own_before=self._before_last(earlier))
            latest = self._fresh(self._forward(latest, sets, "insertion"))

    def _fresh(self, facts: set[Fact]) -> set[Fact]:
        self._changes.look_up(facts)
        return {fact for fact in facts if not self._holds(fact)}

    def _before_last(self, earlier: Mapping[str, set[Ids]]) -> Choose:
        return lambda name: View(self._changes.files, name, self._deleted[name], earlier.get(name, set()))

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _settled(self) -> dict[str, list[Row]]:
        moved = {(name, ids) for piles in (self._deleted, self._inserted) for name in piles for ids in piles[name]}
        rows: dict[str, list[Row]] = defaultdict(list)
        for fact in moved | self._touched.facts:
            name, ids = fact
            before = self._changes.before(fact)
            explicit, derivations = self._touched.explicit(fact), self._touched.derivations(fact)
            was, holds = before is not None, self._holds(fact)
            was_explicit = bool(before and before.explicit)
            same = (was_explicit, was) == (explicit, holds) and not self._touched.gained(fact)
            if (was or holds) and not same:
                rows[name].append(Row(ids, was_explicit, was, explicit, derivations, holds))
            if was and not holds:
                self._changes.gone[name].add(ids)
            elif holds and not was:
                self._changes.come[name].add(ids)
        return rows


def _facts(atom: Atom, found: Matches) -> list[Fact]:
    return [(atom.predicate, ids) for ids in found.values(atom.arguments)]


def _choose(facts: Iterable[Fact]) -> Choose:
    by_name = _by_predicate(facts)
    return lambda name: Given(by_name[name])


def _by_predicate(facts: Iterable[Fact]) -> dict[str, set[Ids]]:
    by_name: dict[str, set[Ids]] = defaultdict(set)
    for name, ids in facts:
        by_name[name].add(ids)
    return by_name


def _proved(proofs: Mapping[Fact, list[frozenset[Fact]]]) -> set[Fact]:
    """P: the facts of which some instance uses none but proved ones of those that need a proof."""
    waiting: dict[Fact, list[tuple[Fact, set[Fact]]]] = defaultdict(list)
    ready: list[Fact] = []
    for head, bodies in proofs.items():
        for body in bodies:
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
