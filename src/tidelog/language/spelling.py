"""Names that are one typing mistake apart, for "did you mean"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

# Shorter names are not compared: nearly all of them are alike.
_SHORTEST_MISSPELT = 3


class Spellings:
    """Known names under all their spellings with at most one letter left out.

    Two names that share a spelling are one mistake apart: a letter added, left out or changed, two swapped, or another
    case. A lookup costs the length of the name, however many names there are.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, list[str]] = {}
        for name in names:
            for spelling in _spellings(name):
                self._names.setdefault(spelling, []).append(name)

    def closest(self, name: str) -> str | None:
        """The known name nearest to this one, if any is near; `edge1` is not taken for a misspelling of `edge2`."""
        meetings = Counter(known for spelling in _spellings(name) for known in self._names.get(spelling, ()))
        near = (known for known, _ in meetings.most_common() if _letters(known) != _letters(name))
        return next(near, None)


def _spellings(name: str) -> set[str]:
    folded = name.casefold()
    if len(folded) < _SHORTEST_MISSPELT:
        return {folded}
    return {folded, *(folded[:gap] + folded[gap + 1 :] for gap in range(len(folded)))}


def _letters(name: str) -> str:
    return re.sub(r"\d", "", name)
