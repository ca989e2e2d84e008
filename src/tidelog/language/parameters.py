"""Questions with values: `$name` in a query or a fact stands for a value that is given with it.

A value is put into the syntax tree and never into the text. So it is a constant whatever it looks like: a name such as
`Mallory` does not become a variable, and nothing that it holds can end the question and begin another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from tidelog.errors import DataError
from tidelog.language import syntax
from tidelog.language.checks import Spellings
from tidelog.language.parse_messages import Source
from tidelog.language.syntax import Atom, Constant, Node, Parameter, Place, Query
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
    bound: Question = _bound(question, constants)
    return bound


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


def _bound(node: Node, constants: Mapping[Parameter, Constant]) -> Any:
    """A node with constants in the place of parameters."""
    match node:
        case Parameter():
            return constants[node]
        case syntax.Atom() | syntax.Call():
            return replace(node, arguments=tuple(_bound(term, constants) for term in node.arguments))
        case syntax.Negation():
            return replace(node, atom=_bound(node.atom, constants))
        case syntax.Comparison():
            return replace(node, left=_bound(node.left, constants), right=_bound(node.right, constants))
        case Query():
            return replace(node, body=tuple(_bound(item, constants) for item in node.body))
    return node
