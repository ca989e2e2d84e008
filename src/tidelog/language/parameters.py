"""Questions with values: `$name` in a query or a fact stands for a value that is given with it. The other way round,
the values of a query can be taken out of it again, which leaves its shape.

A value is put into the syntax tree and never into the text. So it is a constant whatever it looks like: a name such as
`Mallory` does not become a variable, and nothing that it holds can end the question and begin another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from tidelog.errors import DataError
from tidelog.language import syntax
from tidelog.language.checks import Spellings
from tidelog.language.parse_messages import Source
from tidelog.language.syntax import Atom, Constant, Expression, Node, Parameter, Place, Query, Variable
from tidelog.values import checked_value

Question = TypeVar("Question", Query, Atom)

NO_VALUES: Mapping[str, object] = MappingProxyType({})


def bind(question: Question, values: Mapping[str, object], source: Source) -> Question:
    """A question with values in the place of its parameters: one for each, and no others."""
    parameters = [node for node in syntax.nodes(question) if isinstance(node, Parameter)]
    if not parameters and not values:
        return question
    constants: dict[Parameter, Constant] = {}
    for parameter in parameters:
        if parameter not in constants:
            constants[parameter] = _constant(parameter, values, source)
    _refuse_others(values, [str(parameter.value) for parameter in parameters], source)
    bound: Question = _with_constants(question, lambda node: constants[node] if isinstance(node, Parameter) else node)
    return bound


def shape_of(query: Query) -> tuple[Query, tuple[Variable, ...], tuple[Constant, ...]]:
    """A query with a variable in the place of each constant, these variables, and the constants. Queries that differ in
    their constants alone have the same shape.
    """
    constants: list[Constant] = []

    def taken_out(constant: Constant) -> Variable:
        constants.append(constant)
        return _place(len(constants) - 1)

    shape: Query = _with_constants(query, taken_out)
    return shape, tuple(map(_place, range(len(constants)))), tuple(constants)


def _place(number: int) -> Variable:
    return Variable(f"#constant {number}")  # No text can spell this name, so it cannot clash.


def _constant(parameter: Parameter, values: Mapping[str, object], source: Source) -> Constant:
    name, place = str(parameter.value), parameter.place or Place(1, 1)
    if name not in values:
        meant = Spellings(values).closest(name)
        spelt = f", not `{meant}=…`" if meant else ""
        raise source.error(*place, f"`${name}` has no value", f"give it with the question: `{name}=…`{spelt}")
    try:
        return Constant(checked_value(values[name]), place)
    except DataError as problem:
        raise DataError(source.message(*place, f"the value of `${name}` is no constant: {problem}")) from None


def _refuse_others(values: Mapping[str, object], known: list[str], source: Source) -> None:
    for name in values:
        if name not in known:
            has = ", ".join(f"`${other}`" for other in dict.fromkeys(known)) or "no parameters"
            hint = f"write `${name}` where the value belongs, or leave `{name}` out"
            raise source.error(1, 1, f"there is no `${name}` in the question, which has {has}", hint)


def _with_constants(node: Node, change: Callable[[Constant], Expression]) -> Any:
    """A node with something else in the place of each constant."""
    return syntax.rebuilt(node, lambda inner: change(inner) if isinstance(inner, Constant) else None)
