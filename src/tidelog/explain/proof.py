"""A proof: a fact, the rule instance that derives it, and proofs of the facts that the instance uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidelog.explain.drawing import html, lines, rich_text


class Proof:
    """Why a fact holds. `rule` is None where the fact is explicit; `premises` prove the facts that its body matched.

    `conditions` says what else the instance rests on: negated atoms, comparisons and arithmetic with their values, and
    what went into an aggregate. A fact that is used twice has one proof, which occurs twice. `height` is 0 for an
    explicit fact; for others it is one more than that of the highest premise.
    """

    __slots__ = ("conditions", "fact", "height", "premises", "rule")

    def __init__(
        self,
        fact: str,
        rule: str | None = None,
        premises: list[Proof] | None = None,
        conditions: list[str] | None = None,
    ) -> None:
        self.fact = fact
        self.rule = rule
        self.premises = premises or []
        self.conditions = conditions or []
        self.height: int = 0 if rule is None else 1 + max((premise.height for premise in self.premises), default=0)

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
        steps = list(self.steps())
        numbers = {id(proof): number for number, proof in enumerate(steps)}
        return {
            "fact": self.fact,
            "height": self.height,
            "steps": [
                {
                    "fact": proof.fact,
                    "rule": proof.rule,
                    "premises": [numbers[id(premise)] for premise in proof.premises],
                    "conditions": proof.conditions,
                }
                for proof in steps
            ],
        }

    def __str__(self) -> str:
        return "\n".join(line.text for line in lines(self))

    def __rich__(self) -> Any:
        return rich_text(self)

    def _repr_html_(self) -> str:
        return html(self)

    def __repr__(self) -> str:
        how = "explicit" if self.rule is None else f"height {self.height}"
        return f"<Proof of {self.fact}: {how}>"
