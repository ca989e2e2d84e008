"""One update as the papers' procedures take it."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.papers.instances import Fact, Instance, InstanceLookup


@dataclass(slots=True)
class PaperUpdate:
    """E, I = Π^∞(E), E⁻ ⊆ E and E⁺ ∩ E = ∅; and the instances of the rules, in I and in the updated I."""

    explicit: set[Fact]
    facts: set[Fact]
    delete: tuple[Fact, ...]
    add: tuple[Fact, ...]
    before: InstanceLookup
    after: InstanceLookup


def holds_in(instance: Instance, facts: set[Fact]) -> bool:
    return all(fact in facts for fact in instance.body)
