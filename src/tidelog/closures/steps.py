"""A closure that one update changes in several steps, read as it was before the first and taken back as a whole.

In a recursion that has more rules than its closure, edges come and go while the fixpoint is computed (Modular,
Algorithms 2 and 3). Each step is a change of the closure, which knows what was before it. After one step that is what
was before the update, and costs nothing. After several, what was is built again from the base edges of then, where
somebody asks for it.
"""

from __future__ import annotations

import numpy as np

from tidelog.closures.closed_graph import Watch, watch_nothing
from tidelog.closures.closure import Closure, ReadableClosure
from tidelog.closures.edges import Edges, packed, unpacked, without_change
from tidelog.closures.history import ClosureChange, Step, base_before


class SteppedClosure:
    """A closure, and the steps of the update in work."""

    def __init__(self, closure: Closure) -> None:
        self.closure = closure
        self._steps: list[Step] = []
        self._current: Step | None = None  # while it is made
        self._copy: Closure | None = None  # of what was before several steps

    @property
    def changed(self) -> bool:
        """Whether the update in work has changed the closure."""
        return bool(self._steps)

    def apply(self, gone: Edges, come: Edges, watch: Watch = watch_nothing) -> ClosureChange:
        """Delete base edges, then add some; all or nothing."""
        self._current = gone, come
        try:
            change = self.closure.apply(gone, come, watch)
        finally:
            self._current = None
        self._steps.append((gone, come))
        return change

    def former(self) -> ReadableClosure | None:
        """The closure as it was before the update, to be asked for at each pause anew; None where the closure itself is
        what it was.
        """
        if not self._steps or (len(self._steps) == 1 and self._current is None):
            return self.closure.former()
        if self._copy is None:
            edges = self.closure.base_edges()
            if self._current is not None:
                edges = without_change(edges, *self._current)
            self._copy = self.closure.over(base_before(edges, self._steps))
        return self._copy

    def undo(self) -> None:
        """Take all steps back."""
        if len(self._steps) == 1:
            self.closure.undo()
        elif self._steps:
            before, now = packed(self.before()), packed(self.closure.base_edges())
            gone, come = (unpacked(np.setdiff1d(*pair)) for pair in ((now, before), (before, now)))
            self.closure.apply(gone, come)
        self.forget()

    def before(self) -> Edges:
        """The base edges of before the update; between two steps."""
        return base_before(self.closure.base_edges(), self._steps)

    def forget(self) -> None:
        """The update is over."""
        self._steps.clear()
        self._copy = None
        self.closure.forget()
