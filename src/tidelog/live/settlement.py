"""What has become of the updates of `kb.live()`: how far they are settled, the changes, and those that were refused."""

from __future__ import annotations

from tidelog.facts.netting import net_change
from tidelog.facts.results import Change
from tidelog.live.knowledge import Knowledge

# Changes that are kept before they are folded into one.
KEPT_CHANGES = 32


class Settlement:
    """The outcome of updates, up to a number; all before it are settled, too."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self.settled = 0
        self._changes: list[Change] = []
        self._refused: list[tuple[int, BaseException]] = []

    def note(self, number: int, change: Change | None) -> None:
        """Updates are done up to a number. The caller has the lock."""
        if change is not None:
            self._changes.append(change)
            if len(self._changes) > KEPT_CHANGES:
                self._changes = [self.net(self._changes)]
        self.settled = number

    def take_changes(self) -> list[Change]:
        """The changes since the last time."""
        changes, self._changes = self._changes, []
        return changes

    def net(self, changes: list[Change]) -> Change:
        """One change for several. The caller has the lock."""
        return net_change(self._knowledge.engine.store.terms, changes)

    def refuse(self, number: int, problem: BaseException) -> None:
        """An update is wrong, and does nothing."""
        problem.add_note(f"in update {number} that was submitted; it is refused as a whole, the others are not")
        self._refused.append((number, problem))

    def refuse_all(self, last: int, problem: BaseException) -> None:
        """No update up to a number can be done any more."""
        for number in range(self.settled + 1, last + 1):
            self.refuse(number, problem)
        self.settled = last

    def raise_refused(self) -> None:
        """Raise what was refused since the last time."""
        if self._refused:
            refused, self._refused = self._refused, []
            for number, problem in refused[1:]:
                refused[0][1].add_note(f"update {number} is refused as well: {problem}")
            raise refused[0][1]
