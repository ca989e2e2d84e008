"""What rules read, and why a program has no stratification: a cycle through negation or aggregation, rule by rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.errors import StratificationError
from tidelog.language.names import display_predicate
from tidelog.language.syntax import Atom, Negation, Rule
from tidelog.program.condensation import Condensation, Part
from tidelog.program.lattices import IsMonotone, aggregates, check_component, is_lattice_rule

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
    return Reads((), tuple(positive | strict)) if aggregates(rule) else Reads(tuple(positive), tuple(strict))


def check_strata(
    graph: Condensation[Node],
    rules: Mapping[int, Rule],
    reads: Mapping[int, Reads],
    added: Iterable[int],
    monotone: IsMonotone,
) -> None:
    """Raise `StratificationError` where rules that were added close a cycle with a strict dependency, unless it is one
    through `min` or `max` of values that are used monotonically.
    """
    added = list(added)
    # A rule that is not recursive itself may derive a predicate that keeps the best value of a recursion.
    heads = (graph.part(rules[number].head.predicate) for number in added)
    for part in dict.fromkeys((*map(graph.part, added), *heads)):
        if len(part.members) > 1:
            _check_part(graph, part, rules, reads, monotone)


def _check_part(
    graph: Condensation[Node],
    part: Part[Node],
    rules: Mapping[int, Rule],
    reads: Mapping[int, Reads],
    monotone: IsMonotone,
) -> None:
    numbers = sorted(member for member in part.members if isinstance(member, int))
    keeps_values = False
    for number in numbers:
        for predicate in reads[number].strict:
            if predicate in part.members:
                if not _may_be_recursive(rules[number], predicate):
                    raise _error(_cycle(graph.walk(number, predicate), predicate, rules, reads))
                keeps_values = True
    if keeps_values:
        predicates = [member for member in part.members if isinstance(member, str)]
        producers = {number for name in predicates for number in graph.predecessors(name)}
        others = sorted(number for number in producers if isinstance(number, int) and number not in part.members)
        own, beside = [rules[number] for number in numbers], [rules[number] for number in others]
        check_component(own, beside, predicates, monotone)


def _may_be_recursive(rule: Rule, predicate: str) -> bool:
    """Whether a strict dependency on a predicate is that of `min` or `max`, and not of a negation."""
    negated = any(isinstance(item, Negation) and item.atom.predicate == predicate for item in rule.body)
    return not negated and is_lattice_rule(rule)


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
    needs = [f"{_shown(step.rule.head.predicate)} needs {_dependency(step)}" for step in steps]
    width = max(map(len, needs))
    lines = [
        f"  {need:<{width}}   in   {rule}" + (f"   (line {rule.place.line})" if rule.place else "")
        for need, (rule, _, _) in zip(needs, steps, strict=True)
    ]
    first = steps[0].rule
    aggregation = ("aggregation", "an aggregate over itself")
    what, itself = aggregation if aggregates(first) else ("negation", "its own negation")
    return StratificationError(
        f"{what} through recursion: {_shown(first.head.predicate)} depends on {itself}.\n"
        f"The cycle, rule by rule:\n" + "\n".join(lines) + "\n"
        f"Break it: leave out one of these rules, or let it read a predicate that does not depend on "
        f"{_shown(first.head.predicate)}.{_recursive_ones(first)}"
    )


def _recursive_ones(rule: Rule) -> str:
    """Which aggregates may be in a recursion, where those of a rule may not."""
    known = " In a recursion, `min`, `max`, `any` and `all` can stand, and lattices of your own."
    return known if aggregates(rule) else ""


def _dependency(step: Step) -> str:
    read = _shown(step.reads)
    if not step.strict:
        return read
    return f"all of {read}" if aggregates(step.rule) else f"not {read}"


def _shown(predicate: str) -> str:
    """A predicate as its name, or what it says of a part of a rule."""
    return display_predicate(predicate, {})
