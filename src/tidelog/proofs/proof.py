"""A proof: a fact, the rule instance that derives it, and proofs of the facts that the instance uses. Drawn as a tree:

    path(a, c)                   by path(X, Z) :- edge(X, Y), path(Y, Z).
    ├── edge(a, b)               explicit
    └── path(b, c)               by path(X, Y) :- edge(X, Y).
        └── edge(b, c)           explicit

A derived fact that occurs again is not proved again. A proof deeper than a page is wide is cut: what lies below the cut
is drawn as a tree of its own further down, so that a proof of any height is drawn in full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any, NamedTuple

from tidelog.formats.plain_data import PlainData
from tidelog.language.names import is_auxiliary, is_checked_once, is_evident
from tidelog.proofs.order import premises_first

DEEPEST = 20
MOST_PREMISES = 24
MOST_LINES_IN_NOTEBOOKS = 400


class Proof(PlainData):
    """Why a fact holds. `rule` is None where the fact is explicit; `premises` prove the facts that its body matched.

    `conditions` says what else the instance rests on: negated atoms, comparisons and arithmetic with their values, and
    what went into an aggregate. A fact that is used twice has one proof, which occurs twice. `height` is 0 for an
    explicit fact; for others it is one more than that of the highest premise. `is_part` says that it proves a part of
    a rule, such as the value of an aggregate in its body, and no fact.

    Examples:
        >>> kb = tidelog.KnowledgeBase("hot(X) :- temp(X, T), T > 30, not off(X).  temp(oven, 90).")
        >>> proof = kb.explain("hot(oven)")
        >>> proof.fact, proof.rule, proof.height
        ('hot(oven)', 'hot(X) :- temp(X, T), T > 30, not off(X).', 1)
        >>> [premise.fact for premise in proof.premises], proof.conditions
        (['temp(oven, 90)'], ['90 > 30', 'no fact matches off(oven)'])
    """

    __slots__ = ("conditions", "fact", "height", "is_part", "premises", "rule")

    def __init__(
        self,
        fact: str,
        rule: str | None = None,
        premises: list[Proof] | None = None,
        conditions: list[str] | None = None,
        is_part: bool = False,
    ) -> None:
        self.fact = fact
        self.rule = rule
        self.premises = premises or []
        self.conditions = conditions or []
        self.is_part = is_part
        self.height: int = 0 if rule is None else 1 + max((premise.height for premise in self.premises), default=0)

    @classmethod
    def of_instance(
        cls, predicate: str, fact: str, rule: str, premises: Iterable[tuple[str, Proof]], conditions: Iterable[str]
    ) -> Proof:
        """A proof by an instance of a rule, from proofs of facts of some predicates. Parts of the rule that need no
        proof are conditions, and what a part that is checked once rests on, the rule itself rests on.
        """
        shown: list[Proof] = []
        said: list[str] = []
        for name, premise in premises:
            if is_evident(name):
                said.append(premise.fact)
            elif is_checked_once(name):
                shown += premise.premises
                said += premise.conditions
            else:
                shown.append(premise)
        return cls(fact, rule, shown, [*said, *conditions], is_auxiliary(predicate))

    def steps(self) -> Iterator[Proof]:
        """This proof and all below it, each once, in the order in which they are drawn."""
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            proof = waiting.pop()
            if id(proof) not in seen:
                seen.add(id(proof))
                yield proof
                waiting.extend(reversed(proof.premises))

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain data: `steps`, of which the first proves the fact; premises are numbers of steps.

        It is flat, so that a proof of any height can be written as JSON and shared parts are there once.
        """
        numbers = {id(proof): number for number, proof in enumerate(self.steps())}
        steps = [
            {
                "fact": proof.fact,
                "rule": proof.rule,
                "premises": [numbers[id(premise)] for premise in proof.premises],
                "conditions": proof.conditions,
            }
            for proof in self.steps()
        ]
        return {"fact": self.fact, "height": self.height, "steps": steps}

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled: flat as well, so at any height."""
        return proof_of_steps, (self.to_dict()["steps"], [proof.is_part for proof in self.steps()])

    _plain_type = dict[str, Any]

    def _plain(self) -> dict[str, Any]:
        return self.to_dict()

    def lines(self) -> Iterator[Line]:
        """The lines of the drawing, from top to bottom."""
        return _Drawing().lines(self)

    def __str__(self) -> str:
        return plain_text(self.lines())

    def __rich__(self) -> Any:
        return rich_text(self.lines())

    def _repr_html_(self) -> str:
        from tidelog.proofs.drawing import proof_html

        return proof_html(self, self.lines())

    def __repr__(self) -> str:
        how = "explicit" if self.rule is None else f"height {self.height}"
        return f"<Proof of {self.fact}: {how}>"


def proof_of_steps(steps: Sequence[Mapping[str, Any]], parts: Sequence[bool] = ()) -> Proof:
    """A proof from its steps as plain data, of which the first proves the fact; and which of them are parts of rules,
    where that is known.
    """
    made: dict[int, Proof] = {}
    for number in premises_first([0], lambda number: steps[number]["premises"]):
        step = steps[number]
        premises = [made[each] for each in step["premises"]]
        made[number] = Proof(step["fact"], step["rule"], premises, step["conditions"], any(parts[number : number + 1]))
    return made[0]


class Line(NamedTuple):
    """A line of the drawing: branches of the tree, a fact or a condition, and a remark."""

    branches: str
    subject: str
    remark: str = ""

    def html(self) -> str:
        if not self.remark:
            return escape(self.branches + self.subject)
        remark = f'  <span style="opacity: 0.6">{escape(self.remark.lstrip())}</span>'
        return f"{escape(self.branches)}<b>{escape(self.subject)}</b>{remark}"


def plain_text(lines: Iterable[Line]) -> str:
    return "\n".join(f"{line.branches}{line.subject}{line.remark}" for line in lines)


def rich_text(lines: Iterable[Line]) -> Any:
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ignore")
    for number, line in enumerate(lines):
        text.append("\n" if number else "")
        text.append(line.branches, "dim")
        text.append(line.subject, "bold" if line.remark else "")
        text.append(line.remark, "dim")
    return text


def html_text(lines: Iterable[Line]) -> str:
    """A drawing for a notebook; only the beginning of a long one."""
    drawn = [line.html() for line in islice(lines, MOST_LINES_IN_NOTEBOOKS + 1)]
    if len(drawn) > MOST_LINES_IN_NOTEBOOKS:
        drawn[-1] = "<i>… and so on; <code>print(proof)</code> draws all of it</i>"
    return '<pre style="line-height: 1.3">' + "\n".join(drawn) + "</pre>"


class _Item(NamedTuple):
    """What waits to be drawn: a proof or a line of text, and the branches before it and below it."""

    content: Proof | str
    branches: str = ""
    below: str = ""
    depth: int = 0

    def children(self, proof: Proof) -> list[_Item]:
        contents: list[Proof | str] = [*proof.premises[:MOST_PREMISES]]
        hidden = len(proof.premises) - len(contents)
        if hidden:
            contents.append(f"… {hidden:,} more facts")
        contents += proof.conditions
        items = [_Item(each, f"{self.below}├── ", f"{self.below}│   ", self.depth + 1) for each in contents]
        if items:
            items[-1] = items[-1]._replace(branches=f"{self.below}└── ", below=f"{self.below}    ")
        return items


class _Drawing:
    """What has been drawn so far, and the numbers of the proofs that were cut."""

    def __init__(self) -> None:
        self._drawn: set[int] = set()
        self._sections: deque[Proof] = deque()
        self._numbers: dict[int, int] = {}

    def lines(self, proof: Proof) -> Iterator[Line]:
        """The lines of the drawing, from top to bottom."""
        yield from self._tree(_Item(proof))
        while self._sections:
            cut = self._sections.popleft()
            if id(cut) not in self._drawn:
                yield Line("", "")
                yield from self._tree(_Item(cut, f"[{self._numbers[id(cut)]}] ", "    "))

    def _tree(self, top: _Item) -> Iterator[Line]:
        waiting = [top]
        while waiting:
            item = waiting.pop()
            proof, branches = item.content, item.branches
            if isinstance(proof, str):
                yield Line(branches, proof)
            elif proof.rule is None:
                yield Line(branches, proof.fact, "  explicit")
            elif id(proof) in self._drawn:
                yield Line(branches, proof.fact, "  see above")
            elif item.depth == DEEPEST:
                if id(proof) not in self._numbers:
                    self._numbers[id(proof)] = len(self._numbers) + 1
                    self._sections.append(proof)
                yield Line(branches, proof.fact, f"  see [{self._numbers[id(proof)]}] below")
            else:
                self._drawn.add(id(proof))
                # A proof that was cut further up may be drawn here, where there is room for it.
                label = f"[{self._numbers[id(proof)]}] " if item.depth and id(proof) in self._numbers else ""
                by = "  within the rule" if proof.is_part else f"  by {proof.rule}"
                yield Line(branches + label, proof.fact, by)
                waiting += reversed(item.children(proof))
