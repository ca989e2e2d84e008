"""Why a fact came or went with an update: its proof, with marks where the update decided.

    path(a, c)  by path(X, Z) :- edge(X, Y), path(Y, Z).  ← new
    ├── edge(a, b)  explicit
    └── path(b, c)  by path(X, Y) :- edge(X, Y).  ← new
        └── edge(b, c)  explicit  ← new

A fact that came has a proof in the state after the update; a fact that went had one in the state before. What else is
new in the one, and gone of the other, is why: explicit facts, rules, and negated atoms that a fact matched, or matches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from tidelog.proofs.drawing import proof_html
from tidelog.proofs.proof import Line, Proof, html_text, plain_text, rich_text
from tidelog.proofs.wording import NO_FACT

Changed = Callable[[str], bool]
"""Whether an update changed something: a fact, or a fact that an atom matches. Both are texts."""


@dataclass(frozen=True, slots=True)
class ChangeProof:
    """Why a fact came, or went.

    `proof` is a proof of least height: of a fact that came, as it holds after the update; of one that went, as it held
    before. Within it, `facts` are those that came or went with the update, and `leaves` the explicit ones among them.
    `negations` are the negated atoms that no fact matched any more, or that one did now, and `rules` the rules that
    were added or removed. `why_not` says what a fact that went lacks now; it is empty for one that came.

    Examples:
        >>> kb = tidelog.KnowledgeBase("path(X, Y) :- edge(X, Y).")
        >>> came = kb.update(add={"edge": [("a", "b")]}).explain("path(a, b)")
        >>> came.came, came.leaves
        (True, ('edge(a, b)',))
    """

    fact: str
    came: bool
    proof: Proof
    facts: tuple[str, ...]
    leaves: tuple[str, ...]
    negations: tuple[str, ...]
    rules: tuple[str, ...]
    why_not: str

    @classmethod
    def of(
        cls,
        proof: Proof,
        came: bool,
        changed: Changed,
        negated: Changed,
        rules: Collection[str],
        why_not: str = "",
    ) -> ChangeProof:
        """What of a proof an update decided: `changed` facts that are new or gone, `negated` atoms that matched facts
        on the other side of the update, and `rules` of this side alone.
        """
        steps = [step for step in proof.steps() if not step.is_part and changed(step.fact)]
        conditions = dict.fromkeys(text for step in proof.steps() for text in step.conditions)
        return cls(
            proof.fact,
            came,
            proof,
            facts=tuple(dict.fromkeys(step.fact for step in steps)),
            leaves=tuple(dict.fromkeys(step.fact for step in steps if step.rule is None)),
            negations=tuple(text for text in conditions if text.startswith(NO_FACT) and negated(text[len(NO_FACT) :])),
            rules=tuple(
                dict.fromkeys(step.rule for step in proof.steps() if step.rule is not None and step.rule in rules)
            ),
            why_not=why_not,
        )

    def lines(self) -> Iterator[Line]:
        """The proof with its marks, and what a fact that went lacks now."""
        yield from self._proof_lines()
        if self.why_not:
            yield Line("", "")
            yield from self._why_not_lines()

    def _proof_lines(self) -> Iterator[Line]:
        marked = {*self.facts, *self.negations}
        by_rule = {f"  by {rule}" for rule in self.rules}
        rule = ", by a new rule" if self.came else ", with its rule"
        for line in self.proof.lines():
            mark = f"  ← {self._mark}" if line.subject in marked else ""
            yield line._replace(remark=line.remark + mark + (rule if line.remark in by_rule else ""))

    def _why_not_lines(self) -> Iterator[Line]:
        return (Line("", text) for text in self.why_not.splitlines())

    @property
    def _mark(self) -> str:
        return "new" if self.came else "gone"

    def __str__(self) -> str:
        return plain_text(self.lines())

    def __rich__(self) -> Any:
        return rich_text(self.lines())

    def _repr_html_(self) -> str:
        shown = proof_html(self.proof, self._proof_lines(), self._mark, {*self.facts, *self.negations, *self.rules})
        return shown + html_text(self._why_not_lines()) if self.why_not else shown

    def __repr__(self) -> str:
        return f"<ChangeProof: {self.fact} {'came' if self.came else 'went'}>"
