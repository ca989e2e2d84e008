"""The recursion of a component whose rules are split into modules (Modular Materialisation, section 4).

The recursive rules of a stratum are split into disjoint modules, each with an algorithm of its own, which exchange what
they derive until nothing is new: Algorithm 2 where the component is materialised, Algorithm 3 (DRed^c) where it is
maintained. This file is all that the recursion knows of modules. What they are is said elsewhere: closures in
`closure_module`, modules that somebody has added in `plugin_module`, all other rules, by semi-naive evaluation, in
`general_module`.

Each round of an exchange takes as long as a few hundred plain rule applications, however little it derives. Where a
recursion needs very many rounds that derive next to nothing, its rules are better left in one module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

# So many pairs are derived one by one in the time of a round, measured on recursions that go one step a round.
ROUND = 400
# Rounds that any exchange may take.
FEW_ROUNDS = 16


class TooManyRounds(Exception):
    """The modules of a recursion exchange too little in too many rounds."""


class RecursiveModule(Protocol):
    """Π_r^{s,i}: one module of a recursion, in one update, by the four functions of section 4.

    The paper passes I, D, A and Δ ∖ Δ_i to each of them. Here these sets lie in the store, and the modules take from
    each other what the others have derived since they were last called. Each function that derives says how much that
    was, in pairs that were not derived one by one, or at least whether it has derived anything.
    """

    def difference(self, deleting: bool) -> None:
        """Diff (Definition 5; line 25 in deletion, 35 in insertion): what follows from changes below the recursion. The
        general module also takes in E⁻ and E⁺ and what non-recursive rules derive (lines 23 and 32).
        """

    def delete(self) -> int:
        """Del (Definition 6; line 28): overdelete at least what DRed^c would, and at most what DRed would."""

    def rederive(self) -> None:
        """Red (Definition 7; line 34): bring back the overdeleted facts that follow from what is left."""

    def add(self) -> int:
        """Add (Definition 3; lines 14 and 39): close I under the module's rules."""


def maintain_recursion(modules: Sequence[RecursiveModule], worth: float) -> None:
    """Algorithm 3 in one stratum; where nothing was there before, Algorithm 2. Modules rederive in the order in which
    they are given: each sees what those before it have brought back. `worth` is how many pairs the modules keep.
    """
    patience = _Patience(worth)
    # OVERDELETE, lines 22 to 30.
    for module in modules:
        module.difference(deleting=True)
    while derived := sum(module.delete() for module in modules):
        patience.end_round(derived)
    # REDERIVE-INSERT, lines 32 to 35.
    for module in modules:
        module.rederive()
    for module in modules:
        module.difference(deleting=False)
    # Lines 36 to 40; Algorithm 2, lines 11 to 15.
    while derived := sum(module.add() for module in modules):
        patience.end_round(derived)


class _Patience:
    """How long an exchange may still take, in pairs that are derived one by one."""

    def __init__(self, worth: float) -> None:
        self._left = FEW_ROUNDS * ROUND + worth

    def end_round(self, derived: int) -> None:
        self._left += derived - ROUND
        if self._left < 0:
            raise TooManyRounds
