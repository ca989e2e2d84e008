"""`--param NAME=VALUE`: values for the parameters of programs, queries and facts on the command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.errors import DataError, TidelogError
from tidelog.language import literals, syntax
from tidelog.language.names import is_word
from tidelog.language.parameters import bind
from tidelog.language.parse_messages import Source
from tidelog.language.syntax import Parameter, Query
from tidelog.values import IRI, Value

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NAMES = re.compile(r"\$([^\W\d]\w*)")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", re.DOTALL)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """The option, which may be given again."""
    parser.add_argument(
        "--param",
        metavar="NAME=VALUE",
        type=_parameter,
        action=_Parameters,
        default={},
        help="the value of $NAME: a number, true, false, an <IRI>, or text, in quotes if it reads as another one",
    )


class _Parameters(argparse.Action):
    """All values, by name."""

    def __call__(self, parser: argparse.ArgumentParser, options: argparse.Namespace, pair: Any, *_: object) -> None:
        name, value = pair
        values = dict(getattr(options, self.dest))
        if name in values:
            parser.error(f"--param {name} is given twice")
        setattr(options, self.dest, {**values, name: value})


def _parameter(text: str) -> tuple[str, Value]:
    name, equals, value = text.partition("=")
    if not equals or not is_word(name):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as user=ada")
    try:
        return name, _value(value)
    except DataError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def _value(text: str) -> Value:
    """A value as a cell of a CSV file is read: what looks like a number is one, but `01234` is text."""
    if _NUMBER.fullmatch(text):
        return literals.number(text)
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("<") and text.endswith(">"):
        return IRI(text[1:-1])
    return literals.unquote(text) if _QUOTED.fullmatch(text) else text


def parameters_of(fact: str) -> list[str]:
    """The names of the parameters that a fact is written with."""
    return _NAMES.findall(fact)


def bind_queries(
    queries: Iterable[tuple[Query, Source]], values: Mapping[str, Value], elsewhere: Iterable[str] = ()
) -> list[Query]:
    """Queries with their values; each value has to be that of a parameter somewhere, if not `elsewhere`."""
    unused, bound = set(values).difference(elsewhere), []
    for query, source in queries:
        names = {str(node.value) for node in syntax.nodes(query) if isinstance(node, Parameter)}
        bound.append(bind(query, {name: value for name, value in values.items() if name in names}, source))
        unused -= names
    if unused:
        name = min(unused)
        raise TidelogError(f"--param {name}: no rule and no query has `${name}`; write it where the value belongs")
    return bound
