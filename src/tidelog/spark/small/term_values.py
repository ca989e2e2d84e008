"""The values behind ids, for the rules of a small update that compute, order or aggregate.

Matches are rows of ids. If a step needs more than the identity of constants, their values are looked up in the
dictionary, and the embedded engine computes the step: the matches are its facts, and the step is its only rule. So both
share one arithmetic. A computed value gets the id that the dictionary has for it, or a new one during the update; of
these new ids only those that end up in facts are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidelog.formats.batch import FLOAT, FactBatch
from tidelog.formats.columns.tables import columns_of
from tidelog.language.printer import plain_text
from tidelog.language.syntax import Aggregate, Atom, BodyItem, Call, Comparison, Constant, Expression, Rule, Variable
from tidelog.program.normal_form import NormalRule
from tidelog.spark.data.dictionary import Dictionary, Fields, Key, Term, fields_of, key_of, value_of
from tidelog.spark.data.term_lookup import Ids, meet, values_of_ids
from tidelog.spark.materialise.embedded_tasks import solved
from tidelog.spark.plan.sql_expressions import Functions
from tidelog.values import Value

Names = Mapping[Variable, Variable]

_ROW, _GROUP, _RESULT = Variable("Row"), Variable("Group"), Variable("Result")
_NO_LIMIT = 1 << 60


class Values:
    """Constants by id: those of a dictionary, those that came with the update (`terms`), and computed ones."""

    def __init__(self, dictionary: Dictionary, terms: Sequence[Term], functions: Functions) -> None:
        self._dictionary = dictionary
        self._functions = functions
        self._values = {id_: value_of(fields) for id_, fields in terms}
        self._ids: dict[Key, int] = {key_of(fields): id_ for id_, fields in terms}
        self._floats = dictionary.floats or any(fields[0] == FLOAT for _, fields in terms)
        self._given = list(terms)
        self._new: dict[int, Fields] = {}

    @property
    def by_identity(self) -> bool:
        """Whether two constants are equal exactly if their ids are."""
        return not self._floats

    def ids(self, values: Sequence[Value]) -> list[int]:
        """The ids of values; those without one get one."""
        fields = [fields_of(value) for value in values]
        missing = {key: cells for cells in fields if (key := key_of(cells)) not in self._ids}
        met = meet(self._dictionary, missing.values(), (*self._given, *self._new.items()))
        self._ids |= met.known
        for key, (id_, cells) in met.new.items():
            self._ids[key] = id_
            self._new[id_] = cells
            self._values[id_] = value_of(cells)
            self._floats = self._floats or cells[0] == FLOAT
        return [self._ids[key_of(cells)] for cells in fields]

    def kept(self, used: Iterable[int]) -> list[Term]:
        """The computed constants among the used ids."""
        return [(id_, self._new[id_]) for id_ in sorted(set(used) & self._new.keys())]

    def computed(self, expression: Expression, of: Sequence[Variable], rows: Sequence[Ids]) -> list[int | None]:
        """The id of an expression's value for each row of its variables, in order; None if it has no value."""
        names = _names(of)
        binding = Comparison("=", _RESULT, _renamed(expression, names))
        found = self._solve(Atom("result", (_ROW, _RESULT)), names.values(), [binding], self._numbered(rows))
        ids = self.ids([value for _, value in found])
        by_row = {row: id_ for (row, _), id_ in zip(found, ids, strict=True)}
        return [by_row.get(number) for number in range(len(rows))]

    def holds(self, item: Comparison, of: Sequence[Variable], rows: Sequence[Ids]) -> list[bool]:
        """Whether a comparison holds, for each row of its variables, in order."""
        names = _names(of)
        test = Comparison(item.operator, _renamed(item.left, names), _renamed(item.right, names))
        found = set(self._solve(Atom("result", (_ROW,)), names.values(), [test], self._numbered(rows)))
        return [(number,) in found for number in range(len(rows))]

    def aggregated(self, rule: NormalRule, rows: Sequence[Ids]) -> list[Ids]:
        """The heads of a rule with aggregates, from rows of its group and of the values that it aggregates."""
        width = len(rule.group)
        numbers: dict[Ids, int] = {}
        groups = [numbers.setdefault(row[:width], len(numbers)) for row in rows]
        names = [Variable(f"V{place}") for place in range(len(rule.aggregates))]
        results = [
            Aggregate(item.function, name, item.distinct) for item, name in zip(rule.aggregates, names, strict=True)
        ]
        values = self._numbered([row[width:] for row in rows])
        given = [(number, group, *row) for (number, *row), group in zip(values, groups, strict=True)]
        found = self._solve(Atom("result", (_GROUP, *results)), (_GROUP, *names), [], given)
        ids = iter(self.ids([value for _, *values in found for value in values]))
        keys = list(numbers)
        return [_head(rule, keys[group], [next(ids) for _ in results]) for group, *_ in found]

    def fetch(self, ids: Iterable[int]) -> None:
        """Look up the values of ids, from one pass over the dictionary."""
        missing = {id_ for id_ in ids if id_ not in self._values}
        if missing:
            self._values |= values_of_ids(self._dictionary.parts, missing)

    def value(self, id_: int) -> Value:
        """The value of an id."""
        self.fetch([id_])
        return self._values[id_]

    def _numbered(self, rows: Sequence[Ids]) -> list[tuple[Any, ...]]:
        """The values of rows, each after the number of its row, so that equal rows stay apart."""
        self.fetch(id_ for row in rows for id_ in row)
        return [(number, *(self._values[id_] for id_ in row)) for number, row in enumerate(rows)]

    def _solve(
        self, head: Atom, names: Iterable[Variable], body: Sequence[BodyItem], given: Sequence[tuple[Any, ...]]
    ) -> list[tuple[Any, ...]]:
        """What a rule with this head and these conditions derives from rows of a number and named values."""
        columns = columns_of(given, "given")
        if columns is None:
            return []
        rule = Rule(head, (Atom("given", (_ROW, *names)), *body))
        kb, _ = solved(plain_text(rule), [FactBatch("given", columns, "matches", 1)], self._functions, _NO_LIMIT)
        return list(kb.facts("result"))


def _head(rule: NormalRule, group: Ids, aggregates: Sequence[int]) -> Ids:
    """The arguments of a head from those of its group and its aggregates."""
    plain, computed = iter(group), iter(aggregates)
    return tuple([next(computed if isinstance(term, Aggregate) else plain) for term in rule.head.arguments])


def _names(of: Sequence[Variable]) -> Names:
    """Names that can be written in a text, in order."""
    return {variable: Variable(f"V{place}") for place, variable in enumerate(of)}


def _renamed(expression: Expression, names: Names) -> Expression:
    match expression:
        case Variable():
            return names[expression]
        case Constant():
            return expression
        case Call(function=function, arguments=arguments):
            return Call(function, tuple(_renamed(argument, names) for argument in arguments))
