"""Proofs as trees of text, for terminals and notebooks.

    path(a, c)                   by path(X, Z) :- edge(X, Y), path(Y, Z).
    ├── edge(a, b)               explicit
    └── path(b, c)               by path(X, Y) :- edge(X, Y).
        └── edge(b, c)           explicit

A derived fact that occurs again is not proved again. A proof deeper than a page is wide is cut: what lies below the cut
is drawn as a tree of its own further down, so that a proof of any height is drawn in full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.explain.proof import Proof

DEEPEST = 20
MOST_PREMISES = 24
MOST_LINES_IN_NOTEBOOKS = 400


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the drawing: branches of the tree, a fact or a condition, and a remark."""

    branches: str
    subject: str
    remark: str = ""

    @property
    def text(self) -> str:
        return f"{self.branches}{self.subject}{'  ' if self.remark else ''}{self.remark}"


@dataclass(frozen=True, slots=True)
class _Item:
    """What waits to be drawn: a proof or a line of text, and the branches before it and below it."""

    content: Proof | str
    branches: str
    below: str
    depth: int


class _Drawing:
    def __init__(self, proof: Proof) -> None:
        self._drawn: set[int] = set()
        self._sections: deque[tuple[int, Proof]] = deque()
        self._numbers: dict[int, int] = {}
        self._proof = proof

    def lines(self) -> Iterator[Line]:
        yield from self._tree(_Item(self._proof, "", "", 0))
        while self._sections:
            number, proof = self._sections.popleft()
            if id(proof) in self._drawn:
                continue
            yield Line("", "")
            yield from self._tree(_Item(proof, f"[{number}] ", "    ", 0))

    def _tree(self, top: _Item) -> Iterator[Line]:
        waiting = [top]
        while waiting:
            item = waiting.pop()
            if isinstance(item.content, str):
                yield Line(item.branches, item.content)
                continue
            proof = item.content
            if proof.rule is None:
                yield Line(item.branches, proof.fact, "explicit")
            elif id(proof) in self._drawn:
                yield Line(item.branches, proof.fact, "see above")
            elif item.depth == DEEPEST:
                yield Line(item.branches, proof.fact, f"see [{self._section(proof)}] below")
            else:
                self._drawn.add(id(proof))
                yield Line(item.branches, self._label(proof, item) + proof.fact, f"by {proof.rule}")
                waiting += reversed(_children(proof, item))

    def _label(self, proof: Proof, item: _Item) -> str:
        """The number of a proof that was cut further up and is now drawn here, where there is room for it."""
        number = self._numbers.get(id(proof))
        return f"[{number}] " if number is not None and item.depth else ""

    def _section(self, proof: Proof) -> int:
        if id(proof) not in self._numbers:
            self._numbers[id(proof)] = len(self._numbers) + 1
            self._sections.append((self._numbers[id(proof)], proof))
        return self._numbers[id(proof)]


def _children(proof: Proof, parent: _Item) -> list[_Item]:
    contents: list[Proof | str] = [*proof.premises[:MOST_PREMISES]]
    hidden = len(proof.premises) - len(contents)
    if hidden:
        contents.append(f"… {hidden:,} more facts")
    contents += proof.conditions
    last = len(contents) - 1
    return [
        _Item(
            content,
            parent.below + ("└── " if place == last else "├── "),
            parent.below + ("    " if place == last else "│   "),
            parent.depth + 1,
        )
        for place, content in enumerate(contents)
    ]


def lines(proof: Proof) -> Iterator[Line]:
    """The lines of the drawing, from top to bottom."""
    return _Drawing(proof).lines()


def rich_text(proof: Proof) -> Any:
    """The drawing in colours, for rich."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ignore")
    for number, line in enumerate(lines(proof)):
        text.append("\n" if number else "")
        text.append(line.branches, "dim")
        text.append(line.subject, "bold" if line.remark else "")
        text.append(f"  {line.remark}" if line.remark else "", "dim")
    return text


def html(proof: Proof) -> str:
    """The drawing for a notebook; only the beginning of a long one."""
    drawn = [_html_line(line) for line in islice(lines(proof), MOST_LINES_IN_NOTEBOOKS + 1)]
    if len(drawn) > MOST_LINES_IN_NOTEBOOKS:
        drawn[-1] = "<i>… and so on; <code>print(proof)</code> draws all of it</i>"
    return '<pre style="line-height: 1.3">' + "\n".join(drawn) + "</pre>"


def _html_line(line: Line) -> str:
    remark = f'  <span style="opacity: 0.6">{escape(line.remark)}</span>' if line.remark else ""
    subject = f"<b>{escape(line.subject)}</b>" if line.remark else escape(line.subject)
    return f"{escape(line.branches)}{subject}{remark}"
