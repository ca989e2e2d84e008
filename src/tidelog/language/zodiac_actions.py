"""What the rules of `zodiac.lark` do: the same syntax tree, from the syntax of ZodiacEdge (its section 4.5).

`COMP(X, >, Y)` is the comparison `X > Y`, `BIND(E AS X)` the equation `X = E`, and an aggregation is a rule with the
aggregate in its head. What the paper demands of a rule, and the language does not, is checked here, where the text is
known: every variable is in a positive atom of the body (section 2.1), or given by BIND, which counts as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tidelog.errors import UnsafeRuleError
from tidelog.language.actions import Actions, atom_of, place_of
from tidelog.language.hints import ZODIAC_AGGREGATE
from tidelog.language.syntax import Aggregate, Atom, Comparison, Negation, Place, Rule, Term, Variable, variables

AGGREGATES = MappingProxyType(
    {"max": "max", "min": "min", "avg": "avg", "count": "count", "sum": "sum", "med": "median"}
)
"""The aggregates of the paper, in lower case, and their names in the language."""

KEYWORDS = frozenset({"comp", "bind", "aggregate"})
"""The words that would name no predicate in a body, in lower case."""


class ZodiacActions(Actions):
    """The actions of the language, and those of what ZodiacEdge writes in another way."""

    aggregate_hint = ZODIAC_AGGREGATE

    def _begin_statement(self) -> None:
        super()._begin_statement()
        self._given: list[Variable] = []

    # ---- statements

    def rule(self, children: list[Any]) -> None:
        given, (head, body) = self._given, children
        super().rule([[head], body])
        self._refuse_unsafe(self.parsed.rules[-1], given)

    def aggregation(self, children: list[Any]) -> None:
        head, body, group, operator, argument, value = children
        function = AGGREGATES.get(operator.lower())
        if function is None:
            known = ", ".join(name.upper() for name in AGGREGATES)
            raise self._error(operator, f"there is no aggregate `{operator}`", f"the aggregates are {known}")
        self._check_aggregation(head, body, group, value)
        aggregate = Aggregate(function, argument, place=argument.place)
        arguments = tuple([aggregate if term == value else term for term in head.arguments])
        self.rule([replace(head, arguments=arguments), body])

    def _check_aggregation(self, head: Atom, body: list[Any], group: Variable, value: Variable) -> None:
        """The head has the variable of ON, perhaps that of AS, which is new, and no other."""
        if group not in head.arguments:
            hint = f"the aggregate has one value for each `{group.name}`, so the head has to say which"
            raise self._error(group.place, f"the variable `{group.name}` of ON is not in the head", hint)
        other = next((term for term in variables(head) if term not in (group, value)), None)
        if other is not None:
            hint = f"the head of an aggregation has the variables of ON and AS, `{group.name}` and `{value.name}`"
            raise self._error(other.place, f"the variable `{other.name}` has no single value here", hint)
        if value == group or any(value == variable for item in body for variable in variables(item)):
            hint = "the variable of AS gets the value of the aggregate; choose a new one"
            raise self._error(value.place, f"the variable `{value.name}` of AS has a value already", hint)

    def _refuse_unsafe(self, rule: Rule, given: Iterable[Variable]) -> None:
        variable = unsafe_variable(rule, given)
        if variable is None:
            return
        place = variable.place or Place(1, 1)
        what = f"the rule is unsafe: the variable `{variable.shown}` is in no positive atom of its body"
        hint = "ZodiacEdge requires every variable of a rule to be in a positive body atom, or to be given by BIND"
        if any(isinstance(item, Negation) and variable in variables(item) for item in rule.body):
            hint += "; in tidelog's own syntax, a variable of a negated atom alone means that there is none"
        raise UnsafeRuleError(self.source.message(place.line, place.column, what, hint))

    # ---- bodies and atoms

    def atom(self, children: list[Any]) -> Atom:
        name, *arguments = children
        place = place_of(name)
        return atom_of(self._predicate(str(name), place), tuple(arguments[0]) if arguments else (), place)

    def _predicate(self, name: str, place: Place) -> str:
        if name.lower() in KEYWORDS:
            raise self._error(place, f"`{name}` cannot be a predicate", "the word has a meaning of its own")
        return super()._predicate(name, place)

    def binding(self, children: list[Any]) -> Comparison:
        expression, variable = children
        self._given.append(variable)
        return Comparison("=", variable, self._shallow(expression), variable.place)

    def summary(self, children: list[Any]) -> Aggregate:
        name = children[0]
        raise self._error(name, f"`{name} {{ … }}` is no expression of ZodiacEdge", self.aggregate_hint.format(name))

    def variable(self, children: list[Any]) -> Variable:
        term: Term = self.term(children)
        if not isinstance(term, Variable):
            hint = "a variable begins with an upper-case letter, `_` or `?`"
            raise self._error(children[0], f"a variable is needed here, and `{children[0]}` is none", hint)
        return term


def unsafe_variable(rule: Rule, given: Iterable[Variable]) -> Variable | None:
    """The first variable of a rule that is in no positive atom of its body, and that no BIND gives."""
    safe = {variable for item in rule.body if isinstance(item, Atom) for variable in variables(item)}.union(given)
    return next((variable for variable in variables(rule) if variable not in safe), None)
