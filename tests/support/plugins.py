"""A module for tests that follows the definitions of the paper literally, for any rules, and can be made to fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from tidelog import Dataset
from tidelog.language import parse_rules
from tidelog.language.syntax import Atom, Comparison, Constant, Rule, Variable

Row = tuple[int, ...]
Facts = set[tuple[str, Row]]
Instance = tuple[tuple[str, Row], Facts]


class LiteralModule:
    """Add, Del, Diff and Red of any rules without arithmetic, by their definitions."""

    def __init__(self, rules: str) -> None:
        self.rules = rules
        self._parsed = parse_rules(rules, {})
        self.calls: list[str] = []
        self._left: int | None = None  # calls that do not fail

    def fail_after(self, calls: int) -> None:
        self._left = calls

    def _begin(self, function: str) -> None:
        self.calls.append(function)
        if self._left is not None:
            self._left -= 1
            assert self._left >= -1
            if self._left < 0:
                raise ZeroDivisionError

    def add(self, facts: Dataset, new: Dataset) -> dict[str, list[np.ndarray]]:
        self._begin("add")
        known, delta = _facts(facts), _facts(new)
        found: Facts = set()
        while True:
            more = self._derived(facts, known | found, delta | found) - known - found
            if not more:
                return _columns(found)
            found |= more

    def delete(self, facts: Dataset, gone: Dataset, safe: Dataset) -> dict[str, list[np.ndarray]]:
        self._begin("delete")
        known, delta, kept = _facts(facts), _facts(gone), _facts(safe)
        found: Facts = set()
        while True:
            more = self._derived(facts, known, delta | found) - kept - delta - found
            if not more:
                return _columns(found)
            found |= more

    def difference(self, facts: Dataset, changed: Dataset) -> dict[str, list[np.ndarray]]:
        self._begin("difference")
        return _columns(self._derived(facts, _facts(facts), _facts(changed)))

    def rederive(self, left: Dataset, gone: Dataset) -> dict[str, list[np.ndarray]]:
        self._begin("rederive")
        known, lost = _facts(left), _facts(gone)
        found: Facts = set()
        while True:
            more = (self._derived(left, known | found, None) & lost) - found
            if not more:
                return _columns(found)
            found |= more

    def _derived(self, data: Dataset, facts: Facts, delta: Facts | None) -> Facts:
        """Π[facts : delta], or Π[facts]."""
        instances = (instance for rule in self._parsed for instance in _instances(rule, facts, data))
        return {head for head, body in instances if delta is None or body & delta}


def _facts(data: Dataset) -> Facts:
    return {(name, tuple(row)) for name in data for row in data.rows(name).tolist()}


def _columns(facts: Iterable[tuple[str, Row]]) -> dict[str, list[np.ndarray]]:
    rows: dict[str, list[Row]] = {}
    for name, row in facts:
        rows.setdefault(name, []).append(row)
    return {name: list(np.array(found, np.int32).T) for name, found in rows.items()}


def _instances(rule: Rule, facts: Facts, data: Dataset) -> Iterator[Instance]:
    atoms = [item for item in rule.body if isinstance(item, Atom)]
    tests = [item for item in rule.body if isinstance(item, Comparison)]

    def term(argument: object, binding: dict[str, int]) -> int:
        if isinstance(argument, Constant):
            return int(data.terms([argument.value])[0])
        assert isinstance(argument, Variable)
        return binding[argument.name]

    def match(at: int, binding: dict[str, int], used: Facts) -> Iterator[Instance]:
        if at == len(atoms):
            if all(_holds(test, binding, term) for test in tests):
                yield (rule.head.predicate, tuple(term(each, binding) for each in rule.head.arguments)), used
            return
        for fact in facts:
            if fact[0] == atoms[at].predicate:
                extended = dict(binding)
                for argument, value in zip(atoms[at].arguments, fact[1], strict=True):
                    if isinstance(argument, Variable):
                        if extended.setdefault(argument.name, value) != value:
                            break
                    elif term(argument, extended) != value:
                        break
                else:
                    yield from match(at + 1, extended, used | {fact})

    return match(0, {}, set())


def _holds(test: Comparison, binding: dict[str, int], term: Callable[..., int]) -> bool:
    """Only `!=` between different terms that are no numbers of different types."""
    assert test.operator == "!="
    return term(test.left, binding) != term(test.right, binding)
