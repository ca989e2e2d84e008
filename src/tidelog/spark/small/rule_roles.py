"""What the rules of a component are to a small update: counted or checked, there before and after it or not.

As in `maintenance/counting.py`, a rule that has come into a recursion is taken from the count, and one that has come
out of it is counted, over what held before.
"""

from __future__ import annotations

from tidelog.program.graph import Component
from tidelog.program.normal_form import NormalRule
from tidelog.spark.maintain.rule_versions import RuleChanges


class Roles:
    """The rules of one component, after an update of rules; `is_counted` tells whether it has counts at all."""

    def __init__(self, changes: RuleChanges, component: Component, is_counted: bool) -> None:
        checked = set(component.recursive_rules if is_counted else component.rules)
        counted = [number for number in component.rules if number not in checked]
        removed = [pair for name in component.predicates for pair in changes.removed_from(name)]
        was_checked = changes.was_recursive if is_counted else set(changes.removed)
        moved_in = checked & changes.now_recursive if is_counted else set()
        rules = changes.normal

        self.checked: list[NormalRule] = [rules[number] for number in component.rules if number in checked]
        """Rules whose instances are looked for one by one; those that were there before, and those that were not."""
        self.kept = [rules[number] for number in component.rules if number in checked - changes.added]
        self.new = [rules[number] for number in component.rules if number in checked & changes.added]
        self.gone = [rule for number, rule in removed if number in was_checked]
        """Rules that are there no more and were not counted."""

        self.counted = [rules[number] for number in counted if number not in changes.added]
        self.counted_anew = [rules[number] for number in counted if number in changes.added]
        self.counted_no_more = [rule for number, rule in removed if number not in was_checked]
        self.counted_no_more += [rules[number] for number in sorted(moved_in)]
        self.counted_from_now_on = [rules[number] for number in counted if number in changes.no_longer_recursive]
