"""Without the remedies of section 3 the paper's examples go wrong just as it says: the enumeration would notice."""

from __future__ import annotations

import pytest

from operations_util import Exploration, Toggle
from tidelog import KnowledgeBase
from tidelog.live.operations.algorithm import FullyDynamic
from tidelog.live.operations.counting import Counting
from tidelog.live.operations.delete_rederive import DeleteRederive
from tidelog.live.operations.instances import Instance
from tidelog.live.operations.operations import Operation

CYCLE = "b :- a. c :- b. a :- c."


def explored(rules: str, facts: str, updates: list[Toggle], maintenance: str) -> set[frozenset[str]]:
    kb = KnowledgeBase(rules, maintenance=maintenance)
    kb.update(add={fact: [()] for fact in facts.split()})
    exploration = Exploration(kb, maintenance, updates)
    exploration.explore()
    return exploration.ends


def test_without_doubt_a_cycle_keeps_itself_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Example 1, case 2: addition overtakes deletion."""
    monkeypatch.setattr(FullyDynamic, "is_certain", lambda *_: True)
    ends = explored(CYCLE, "", [Toggle(add="a"), Toggle(delete="a")], "dred")
    assert ends == {frozenset(), frozenset("abc")}


def test_without_doubt_facts_are_deleted_and_added_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Example 1, case 3: no overtaking."""
    monkeypatch.setattr(FullyDynamic, "is_certain", lambda *_: True)
    with pytest.raises(AssertionError, match="without end"):
        explored(CYCLE, "", [Toggle(add="a"), Toggle(delete="a")], "counting")


def test_without_memory_a_deletion_chases_what_was_added_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Example 2: the deletion that went round the cycle meets the fact that was added again."""

    def spread(self: DeleteRederive, instance: Instance, *_: object) -> None:
        if instance.head in self.facts and instance.head not in self.explicit:
            self.determine_deletion(instance.head, self.clock + 1)

    monkeypatch.setattr(DeleteRederive, "lost", spread)
    with pytest.raises(AssertionError, match="without end"):
        explored(CYCLE + "a :- d.", "a", [Toggle(add="d", delete="a")], "dred")


def test_without_what_was_applied_a_derivation_counts_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Example 4: an instance is applied a second time, and keeps a fact that is to go."""
    gained = Counting.gained

    def gained_again(self: Counting, instance: Instance) -> None:
        if instance in self.applied and instance.head in self.counts:
            self.counts[instance.head] += 1
        gained(self, instance)

    monkeypatch.setattr(Counting, "gained", gained_again)
    updates = [Toggle(delete="a"), Toggle(add="a"), Toggle(delete="a")]
    assert explored("b :- a. c :- a.", "a", updates, "counting") > {frozenset()}


def test_without_what_was_left_out_a_cancelled_deletion_loses_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    cancel = FullyDynamic.cancel

    def forgetful(self: FullyDynamic, deletion: Operation) -> None:
        deletion.touched = False
        cancel(self, deletion)

    monkeypatch.setattr(Counting, "cancel", forgetful)
    ends = explored("b :- a. c :- a.", "a", [Toggle(delete="a"), Toggle(add="a")], "counting")
    assert ends > {frozenset("abc")}
