"""One plan of one rule over facts that are looked up: each step extends the matches so far, all of them at once.

It is what `spark/rules.py` is for DataFrames, on tuples of ids, for rules that only ask which constant is which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from tidelog.language.syntax import Atom, Comparison, Constant, Expression, Term, Variable, variables
from tidelog.program.plan import Absent, Compare, Define, Match, Plan, Take
from tidelog.spark.lookups.files import Ids


class Facts(Protocol):
    """A set of facts that can be looked into by key."""

    def all(self) -> Iterable[Ids]: ...

    def matching(self, columns: Sequence[int], keys: Collection[Ids]) -> Iterable[Ids]: ...


Lookup = Callable[[Take | Match | Absent], Facts]
"""The facts that a step is to match."""


class Matches:
    """The instances of a rule that a plan finds: for each the ids of all variables."""

    def __init__(self, ids: Mapping[Constant, int]) -> None:
        self._ids = ids
        self._places: dict[Variable, int] = {}
        self._rows: list[Ids] = [()]

    def values(self, terms: Sequence[Term]) -> list[Ids]:
        """The ids of some terms in each instance."""
        places = [self._places[term] if isinstance(term, Variable) else ~self._constant(term) for term in terms]
        return [tuple([row[place] if place >= 0 else ~place for place in places]) for row in self._rows]

    def _constant(self, term: Term) -> int:
        assert isinstance(term, Constant)
        return self._ids[term]

    def take(self, atom: Atom, facts: Facts, ignored: Collection[Variable]) -> None:
        """Start from facts, and forget the variables that the rest of the rule does not know."""
        found = self._parts(atom, (), facts.all())
        if all(variable in ignored for variable in variables(atom)):
            self._rows = [()] if found else []
            return
        self._bind(atom)
        self._rows = found.get((), [])
        if any(variable in ignored for variable in variables(atom)):
            kept = {variable: place for variable, place in self._places.items() if variable not in ignored}
            self._rows = list(dict.fromkeys(tuple(row[place] for place in kept.values()) for row in self._rows))
            self._places = {variable: place for place, variable in enumerate(kept)}

    def match(self, atom: Atom, bound: Sequence[int], facts: Facts) -> None:
        """Extend each match by the facts that fit it."""
        keys = self.values([atom.arguments[column] for column in bound])
        index = self._parts(atom, bound, facts.matching(bound, set(keys)))
        self._bind(atom)
        self._rows = [row + part for row, key in zip(self._rows, keys, strict=True) for part in index.get(key, ())]

    def reject(self, atom: Atom, bound: Sequence[int], facts: Facts) -> None:
        """Keep the matches that no fact fits."""
        keys = self.values([atom.arguments[column] for column in bound])
        index = self._parts(atom, bound, facts.matching(bound, set(keys)))
        self._rows = [row for row, key in zip(self._rows, keys, strict=True) if key not in index]

    def compare(self, comparison: Comparison) -> None:
        """Keep the matches in which two terms are the same constant, or are not."""
        self._keep(comparison.left, comparison.right, comparison.operator == "=")

    def define(self, variable: Variable, expression: Expression, binds: bool) -> None:
        if not binds:
            self._keep(variable, expression, True)
            return
        values = self.values([expression])
        self._places[variable] = len(self._places)
        self._rows = [row + value for row, value in zip(self._rows, values, strict=True)]

    def _keep(self, left: Expression, right: Expression, same: bool) -> None:
        pairs = self.values([left, right])
        self._rows = [row for row, (one, other) in zip(self._rows, pairs, strict=True) if (one == other) is same]

    def _bind(self, atom: Atom) -> None:
        for variable in variables(atom):
            self._places.setdefault(variable, len(self._places))

    def _parts(self, atom: Atom, bound: Sequence[int], facts: Iterable[Ids]) -> dict[Ids, list[Ids]]:
        """Of each fact that fits an atom by itself what the atom binds anew, by what is bound already."""
        first: dict[Variable, int] = {}
        checks: list[tuple[int, int]] = []
        constants: list[tuple[int, int]] = []
        for column, term in enumerate(atom.arguments):
            if column in bound:
                continue
            if isinstance(term, Variable) and term not in first:
                first[term] = column
            elif isinstance(term, Variable):
                checks.append((first[term], column))
            else:
                constants.append((column, self._constant(term)))
        index: dict[Ids, list[Ids]] = defaultdict(list)
        new = tuple(first.values())
        for fact in facts:
            if all(fact[one] == fact[other] for one, other in checks) and all(fact[c] == id_ for c, id_ in constants):
                index[tuple([fact[column] for column in bound])].append(tuple([fact[column] for column in new]))
        return index


def instances(plan: Plan, lookup: Lookup, ids: Mapping[Constant, int]) -> Matches:
    """All instances of a rule that a plan finds, each once."""
    found = Matches(ids)
    for step in plan.steps:
        match step:
            case Take(atom=atom):
                found.take(atom, lookup(step), plan.rule.negated_only)
            case Match(atom=atom, bound=bound):
                found.match(atom, bound, lookup(step))
            case Absent(atom=atom, bound=bound):
                found.reject(atom, bound, lookup(step))
            case Compare(comparison=comparison):
                found.compare(comparison)
            case Define(definition=definition, binds=binds):
                found.define(definition.variable, definition.expression, binds)
    return found
