"""Rule instances that failed because an expression had no value: how many, of which kinds, and the first ones in full.

Kernels count them, and note the plan, the step and the variables of the first ones (`joins.executor.note_failure`).
Here the notes become rules, values and reasons, as long as the plans and terms that they name are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.formats.files.jsonl import value_to_json
from tidelog.language.arithmetic import NoValue
from tidelog.language.literals import render_value
from tidelog.language.syntax import Variable, variables
from tidelog.machine import registers as M
from tidelog.program.no_value import why_incomparable, why_no_value
from tidelog.program.normal_form import is_foreign
from tidelog.program.plan import Compare, Define, Match, Plan, Step, Take
from tidelog.store.store import Store
from tidelog.values import Value

# This many failures are told in full.
MOST_TOLD = 10

COMPARISON, ARITHMETIC, FUNCTION, AGGREGATE = "comparison", "arithmetic", "function", "aggregate"

KIND_TEXTS: Mapping[str, tuple[str, str]] = {
    COMPARISON: ("comparison of values that have no order", "comparisons of values that have no order"),
    ARITHMETIC: ("expression without a value, such as a division by zero", "expressions without a value"),
    FUNCTION: ("function call that failed", "function calls that failed"),
    AGGREGATE: ("aggregate without a value", "aggregates without a value"),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A rule instance that failed: its rule, the variables that were bound by then, and why it failed. `kind` is one of
    "comparison", "arithmetic", "function" and "aggregate".
    """

    rule: str
    values: Mapping[str, Value]
    kind: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        values = {name: value_to_json(value) for name, value in self.values.items()}
        return {"rule": self.rule, "values": values, "kind": self.kind, "reason": self.reason}

    def __str__(self) -> str:
        bound = ", ".join(f"{name} = {render_value(value)}" for name, value in self.values.items())
        return f"{self.rule}\n    {f'with {bound}: ' if bound else ''}{self.reason}"


class Failures(int):
    """How many rule instances failed. `first` are the first of them in full, and `kinds` counts all of them by kind."""

    first: tuple[Failure, ...]
    kinds: Mapping[str, int]

    def __new__(cls, count: int = 0, first: Iterable[Failure] = (), kinds: Mapping[str, int] | None = None) -> Failures:
        made = super().__new__(cls, count)
        # Several steps of an update may meet the same instance.
        made.first = tuple({str(failure): failure for failure in first}.values())[:MOST_TOLD]
        made.kinds = {kind: number for kind, number in (kinds or {}).items() if number}
        return made

    def __add__(self, other: int) -> Failures:
        if not other:
            return self
        if not isinstance(other, Failures):
            return Failures(int(self) + int(other), self.first, self.kinds)
        kinds = Counter(self.kinds) + Counter(other.kinds)
        return Failures(int(self) + int(other), (*self.first, *other.first), kinds)

    __radd__ = __add__

    def summary(self) -> str:
        """`3 rule instances failed: 2 comparisons of values that have no order, 1 function call that failed`"""
        parts = [f"{count:,} {KIND_TEXTS[kind][count != 1]}" for kind, count in self.kinds.items()]
        untold = int(self) - sum(self.kinds.values())  # those of before `open`, whose kinds are not saved
        parts += [f"{untold:,} more"] if parts and untold else []
        told = f": {', '.join(parts)}" if parts else " because an expression had no value"
        return f"{int(self):,} {'rule instance' if self == 1 else 'rule instances'} failed{told}"


@dataclass(frozen=True, slots=True)
class FailedGroup:
    """A group whose values could not be aggregated: the number of its rule, the terms of the group, and the reason."""

    rule: int
    terms: Mapping[Variable, int]
    reason: str


def failures_of(store: Store, rule_text: Callable[[int], str], groups: Iterable[FailedGroup] = ()) -> Failures:
    """What has failed in the work that kernels have just done."""
    machine = store.machine
    count = int(machine[M.ERRORS])
    if not count:
        return NO_FAILURES
    compared, called, aggregated = int(machine[M.UNCOMPARED]), int(machine[M.UNCALLED]), int(machine[M.UNAGGREGATED])
    kinds = {
        COMPARISON: compared,
        ARITHMETIC: count - compared - called - aggregated,
        FUNCTION: called,
        AGGREGATE: aggregated,
    }
    decode = store.terms.table.decode
    told = [Failure(rule_text(group.rule), _named(group.terms, decode), AGGREGATE, group.reason) for group in groups]
    return Failures(count, [*_noted(store, rule_text), *told], kinds)


NO_FAILURES = Failures()


def _noted(store: Store, rule_text: Callable[[int], str]) -> Iterator[Failure]:
    notes = store.arrays.notes[: int(store.machine[M.NOTED])].tolist()
    decode = store.terms.table.decode
    place = 0
    while place < len(notes):
        offset, step_offset, count = notes[place : place + 3]
        terms = notes[place + 3 : place + 3 + count]
        place += 3 + count
        if offset not in store.code.computing:
            continue  # a plan that was borrowed for some purpose, and is gone
        plan, known = store.code.computing[offset]
        cells = dict(zip(known, terms, strict=True))
        number, position = store.code.rule_and_step(offset, step_offset)
        bound = {variable: cells[variable] for variable in _bound_before(plan, position)}
        values = {variable: decode(term) for variable, term in bound.items()}
        kind, reason = _why(store, plan.steps[position], values)
        yield Failure(rule_text(number), _named(bound, decode), kind, reason)


def _bound_before(plan: Plan, position: int) -> Iterator[Variable]:
    """The variables that have a value when a step begins."""
    for step in plan.steps[:position]:
        match step:
            case Take(atom=atom) | Match(atom=atom):
                yield from variables(atom)
            case Define(definition=definition):
                yield definition.variable


def _named(terms: Mapping[Variable, int], decode: Callable[[int], Value]) -> dict[str, Value]:
    """The values of variables that users have named."""
    return {
        variable.name: decode(term)
        for variable, term in terms.items()
        if not variable.anonymous and not variable.name.startswith("#")
    }


def _why(store: Store, step: Step, values: Mapping[Variable, Value]) -> tuple[str, str]:
    """The kind of a failure, and its reason."""
    if isinstance(step, Compare):
        try:
            return COMPARISON, why_incomparable(step.comparison, values, store.call_problem)
        except NoValue as problem:
            return ARITHMETIC, str(problem)
    assert isinstance(step, Define)
    expression = step.definition.expression
    kind = FUNCTION if is_foreign(expression) else ARITHMETIC
    return kind, why_no_value(expression, values, store.call_problem)
