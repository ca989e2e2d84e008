"""Facts that are looked up by key, and one plan of one rule over them: each step extends all matches so far at once.

What `spark.plan.rule_frames` does with DataFrames is done here with tuples of ids. Steps that need the values of
constants leave the computation to `term_values.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.language.syntax import Atom, Call, Comparison, Constant, Expression, Term, Variable, variables
from tidelog.program.plan import Absent, Compare, Define, Match, Plan, Take
from tidelog.spark.data.term_lookup import Fact, Ids
from tidelog.spark.plan.rule_frames import is_plain
from tidelog.spark.small.term_values import Values
from tidelog.spark.stored.keyed_files import Files, TooManyFacts

_NONE: frozenset[Ids] = frozenset()

# More matches than this are not kept: a join of facts that share nothing has them soon.
_MOST_MATCHES = 3_000_000


@dataclass(frozen=True)
class Facts:
    """A set of facts: those of a predicate in files, if any are given, `without` some of them, and `extra` ones."""

    extra: Collection[Ids] = _NONE
    files: Files | None = None
    name: str = ""
    without: Collection[Ids] = _NONE

    def matching(self, columns: Sequence[int], keys: Collection[Ids]) -> list[Ids]:
        """The facts that have one of these keys in some columns."""
        found = self.files.matching(self.name, columns, keys) if self.files else ()
        return [*(fact for fact in found if fact not in self.without), *self._extra(columns, keys)]

    def some(self, columns: Sequence[int], keys: Collection[Ids]) -> list[Ids]:
        """At least one fact for each key that has any."""
        found = self.files.some(self.name, columns, keys, self.without) if self.files else ()
        return [*found, *self._extra(columns, keys)]

    def _extra(self, columns: Sequence[int], keys: Collection[Ids]) -> Iterable[Ids]:
        return (fact for fact in self.extra if tuple([fact[column] for column in columns]) in keys)


Lookup = Callable[[Take | Match | Absent], Facts]
"""The facts that a step matches."""


class Matches:
    """All instances of a rule that a plan finds, each once: the ids of all variables.

    With `few`, only some for each match of all atoms but the last."""

    def __init__(self, plan: Plan, lookup: Lookup, ids: Mapping[Constant, int], values: Values, few: bool) -> None:
        self._ids = ids
        self._values = values
        self._places: dict[Variable, int] = {}
        self._rows: list[Ids] = [()]
        for step in plan.steps:
            match step:
                case Take(atom=atom):
                    self._take(atom, lookup(step), plan.rule.negated_only)
                case Match(atom=atom, bound=bound):
                    self._match(atom, bound, lookup(step), few and step is plan.steps[-1])
                case Absent(atom=atom, bound=bound):
                    self._reject(atom, bound, lookup(step))
                case Compare(comparison=comparison):
                    self._compare(comparison)
                case Define(definition=definition, binds=binds):
                    self._define(definition.variable, definition.expression, binds)

    def __len__(self) -> int:
        return len(self._rows)

    def values(self, terms: Sequence[Term]) -> list[Ids]:
        """The ids of some terms in each instance."""
        places = [self._places[term] if isinstance(term, Variable) else ~self._constant(term) for term in terms]
        return [tuple([row[place] if place >= 0 else ~place for place in places]) for row in self._rows]

    def facts(self, atom: Atom) -> list[Fact]:
        """The facts that an atom stands for in each instance."""
        return [(atom.predicate, ids) for ids in self.values(atom.arguments)]

    def _constant(self, term: Term) -> int:
        assert isinstance(term, Constant)
        return self._ids[term] if term in self._ids else self._values.ids([term.value])[0]

    def _take(self, atom: Atom, facts: Facts, ignored: Collection[Variable]) -> None:
        """Start from facts, and forget the variables that do not occur in the rest of the rule."""
        found = self._parts(atom, (), facts.matching((), {()}))
        if all(variable in ignored for variable in variables(atom)):
            self._rows = [()] if found else []
            return
        self._bind(atom)
        self._rows = found.get((), [])
        if any(variable in ignored for variable in variables(atom)):
            kept = {variable: place for variable, place in self._places.items() if variable not in ignored}
            self._rows = list(dict.fromkeys(tuple(row[place] for place in kept.values()) for row in self._rows))
            self._places = {variable: place for place, variable in enumerate(kept)}

    def _match(self, atom: Atom, bound: Sequence[int], facts: Facts, few: bool) -> None:
        """Extend each match by the facts that fit it; with `few`, by some of them."""
        keys = self.values([atom.arguments[column] for column in bound])
        free = [term for column, term in enumerate(atom.arguments) if column not in bound]
        look_up = facts.some if few and len(set(free)) == len(free) else facts.matching
        index = self._parts(atom, bound, look_up(bound, set(keys)))
        self._bind(atom)
        if sum(len(index.get(key, ())) for key in keys) > _MOST_MATCHES:
            raise TooManyFacts
        self._rows = [row + part for row, key in zip(self._rows, keys, strict=True) for part in index.get(key, ())]

    def _reject(self, atom: Atom, bound: Sequence[int], facts: Facts) -> None:
        """Keep the matches that no fact fits."""
        keys = self.values([atom.arguments[column] for column in bound])
        index = self._parts(atom, bound, facts.matching(bound, set(keys)))
        self._rows = [row for row, key in zip(self._rows, keys, strict=True) if key not in index]

    def _compare(self, comparison: Comparison) -> None:
        """Keep the matches in which a comparison holds."""
        if self._values.by_identity and is_plain(comparison):
            self._keep(self.values([comparison.left]), self.values([comparison.right]), comparison.operator == "=")
            return
        used = list(dict.fromkeys(variables(comparison)))
        verdicts = self._values.holds(comparison, used, self.values(used))
        self._rows = [row for row, holds in zip(self._rows, verdicts, strict=True) if holds]

    def _define(self, variable: Variable, expression: Expression, binds: bool) -> None:
        """Bind a variable to the value of an expression, or keep the matches in which it is that constant already."""
        if isinstance(expression, Call):
            used = list(dict.fromkeys(variables(expression)))
            found = self._values.computed(expression, used, self.values(used))
            self._rows = [row for row, id_ in zip(self._rows, found, strict=True) if id_ is not None]
            values: list[Ids] = [(id_,) for id_ in found if id_ is not None]
        else:
            values = self.values([expression])
        if not binds:
            self._keep(self.values([variable]), values, True)
            return
        self._places[variable] = len(self._places)
        self._rows = [row + value for row, value in zip(self._rows, values, strict=True)]

    def _keep(self, left: Sequence[Ids], right: Sequence[Ids], same: bool) -> None:
        matches = zip(self._rows, left, right, strict=True)
        self._rows = [row for row, one, other in matches if (one == other) is same]

    def _bind(self, atom: Atom) -> None:
        for variable in variables(atom):
            self._places.setdefault(variable, len(self._places))

    def _parts(self, atom: Atom, bound: Sequence[int], facts: Iterable[Ids]) -> dict[Ids, list[Ids]]:
        """For each fact that fits an atom on its own, what the atom newly binds, by what is bound already."""
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
