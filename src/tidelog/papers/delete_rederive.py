"""Delete/Rederive: steps DR1 to DR5 as section 3 of Backward/Forward gives them, with both cures against repeated
derivations.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.papers.instances import Fact
from tidelog.papers.trace import Trace
from tidelog.papers.update import PaperUpdate, holds_in


def delete_rederive(update: PaperUpdate, trace: Trace) -> set[Fact]:
    """The updated I."""
    explicit = update.explicit.difference(update.delete)  # DR1
    overdeleted = _overdelete(update, trace)
    remaining = update.facts.difference(overdeleted)  # DR3
    derived = [fact for fact in overdeleted if fact in explicit]
    for fact in overdeleted:  # DR4
        for instance in update.before.deriving(fact):
            if holds_in(instance, remaining):
                trace.apply("rederivation", instance)
                derived.append(fact)
    trace.keep(D=overdeleted)
    return insert(update, remaining, trace, (*derived, *update.add))


def _overdelete(update: PaperUpdate, trace: Trace) -> dict[Fact, None]:
    """DR2: D. Facts that were processed, O, are matched no more."""
    overdeleted: dict[Fact, None] = {}
    processed: set[Fact] = set()
    new = dict.fromkeys(update.delete)
    while new:
        overdeleted |= new
        derived: dict[Fact, None] = {}
        for fact in new:
            for instance in update.before.using(fact):
                if processed.isdisjoint(instance.body):
                    trace.apply("deletion", instance)
                    derived[instance.head] = None
            processed.add(fact)
        new = {fact: None for fact in derived if fact not in overdeleted}
    return overdeleted


def insert(update: PaperUpdate, facts: set[Fact], trace: Trace, derived: Iterable[Fact]) -> set[Fact]:
    """DR5: N := A ∖ I, I := I ∪ N and A := what the rules derive with a fact of N, until N is empty."""
    facts = set(facts)
    new = {fact: None for fact in derived if fact not in facts}
    while new:
        facts.update(new)
        seen: set[Fact] = set()
        found: dict[Fact, None] = {}
        for fact in new:
            for instance in update.after.using(fact):
                # Found already with an earlier fact of N, or not yet an instance in I.
                if seen.isdisjoint(instance.body) and holds_in(instance, facts):
                    trace.apply("insertion", instance)
                    found[instance.head] = None
            seen.add(fact)
        new = {fact: None for fact in found if fact not in facts}
    return facts
