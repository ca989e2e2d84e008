"""What rules read, and why a program has no stratification: a cycle through negation or aggregation, rule by rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.errors import StratificationError
from tidelog.language.syntax import Aggregate, Atom, Negation, Rule
from tidelog.program.condensation import Condensation

Node = int | str
"""A rule by its number, or a predicate by its name."""


class Reads(NamedTuple):
    """The predicates that a rule reads: with a positive dependency (E_p), and with a strict one (E_n)."""

    positive: tuple[str, ...]
    strict: tuple[str, ...]


class Step(NamedTuple):
    """A rule of the cycle, and the predicate of its body through which the cycle goes on."""

    rule: Rule
    reads: str
    strict: bool


def reads_of(rule: Rule) -> Reads:
    """What a rule reads; everything that an aggregate is made of is read strictly."""
    positive = dict.fromkeys(item.predicate for item in rule.body if isinstance(item, Atom))
    strict = dict.fromkeys(item.atom.predicate for item in rule.body if isinstance(item, Negation))
    return Reads((), tuple(positive | strict)) if _aggregates(rule) else Reads(tuple(positive), tuple(strict))


def check_strata(
    graph: Condensation[Node], rules: Mapping[int, Rule], reads: Mapping[int, Reads], added: Iterable[int]
) -> None:
    """Raise `StratificationError` where rules that were added close a cycle with a strict dependency."""
    for part in dict.fromkeys(graph.part(number) for number in added):
        if len(part.members) == 1:
            continue
        for number in sorted(member for member in part.members if isinstance(member, int)):
            for predicate in reads[number].strict:
                if predicate in part.members:
                    raise _error(_cycle(graph.walk(number, predicate), predicate, rules, reads))


def _cycle(walk: Sequence[Node], predicate: str, rules: Mapping[int, Rule], reads: Mapping[int, Reads]) -> list[Step]:
    """The walk from a rule to a predicate that it reads, backwards: each step reads what the next one derives."""
    numbers = [node for node in walk if isinstance(node, int)]
    inputs = [predicate, *(node for node in walk if isinstance(node, str))]
    steps = zip(numbers, inputs, strict=False)
    return [Step(rules[number], name, name in reads[number].strict) for number, name in steps][::-1]


def _error(cycle: Sequence[Step]) -> StratificationError:
    """The error for a cycle in which each step reads the head of the next, and the last the head of the first."""
    start = next(index for index, step in enumerate(cycle) if step.strict)
    steps = [*cycle[start:], *cycle[:start]]
    needs = [f"{step.rule.head.predicate} needs {_dependency(step)}" for step in steps]
    width = max(map(len, needs))
    lines = [
        f"  {need:<{width}}   in   {rule}" + (f"   (line {rule.place.line})" if rule.place else "")
        for need, (rule, _, _) in zip(needs, steps, strict=True)
    ]
    first = steps[0].rule
    aggregation = ("aggregation", "an aggregate over itself")
    what, itself = aggregation if _aggregates(first) else ("negation", "its own negation")
    return StratificationError(
        f"{what} through recursion: {first.head.predicate} depends on {itself}.\n"
        f"The cycle, rule by rule:\n" + "\n".join(lines) + "\n"
        f"Break it: leave out one of these rules, or let it read a predicate that does not depend on "
        f"{first.head.predicate}."
    )


def _dependency(step: Step) -> str:
    if not step.strict:
        return step.reads
    return f"all of {step.reads}" if _aggregates(step.rule) else f"not {step.reads}"


def _aggregates(rule: Rule) -> bool:
    return any(isinstance(argument, Aggregate) for argument in rule.head.arguments)
