"""Why a program has no stratification: the cycle through negation or aggregation, told rule by rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.errors import StratificationError
from tidelog.language.syntax import Aggregate, Rule


class Step(NamedTuple):
    """A rule of the cycle, and the predicate of its body through which the cycle goes on."""

    rule: Rule
    reads: str
    strict: bool


def stratification_error(cycle: Sequence[Step]) -> StratificationError:
    """The error for a cycle in which each step reads the head of the next, and the last the head of the first."""
    start = next(index for index, step in enumerate(cycle) if step.strict)
    steps = [*cycle[start:], *cycle[:start]]
    needs = [f"{step.rule.head.predicate} needs {_dependency(step)}" for step in steps]
    width = max(map(len, needs))
    rules = [f"{step.rule}{_place(step.rule)}" for step in steps]
    lines = [f"  {need:<{width}}   in   {rule}" for need, rule in zip(needs, rules, strict=True)]
    what = "aggregation" if _aggregates(steps[0].rule) else "negation"
    return StratificationError(
        f"{what} through recursion: {steps[0].rule.head.predicate} depends on {_itself(steps[0])}.\n"
        f"The cycle, rule by rule:\n" + "\n".join(lines) + "\n"
        f"Break it: leave out one of these rules, or let it read a predicate that does not depend on "
        f"{steps[0].rule.head.predicate}."
    )


def _dependency(step: Step) -> str:
    if not step.strict:
        return step.reads
    return f"all of {step.reads}" if _aggregates(step.rule) else f"not {step.reads}"


def _itself(step: Step) -> str:
    return "an aggregate over itself" if _aggregates(step.rule) else "its own negation"


def _aggregates(rule: Rule) -> bool:
    return any(isinstance(argument, Aggregate) for argument in rule.head.arguments)


def _place(rule: Rule) -> str:
    return f"   (line {rule.place.line})" if rule.place else ""
