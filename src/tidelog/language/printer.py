"""The syntax tree as text that parses back to an equal tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from tidelog.language.literals import render_value
from tidelog.language.names import display_predicate, escape_iri, shorten
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    BodyItem,
    Call,
    Comparison,
    Constant,
    Negation,
    Node,
    Program,
    Query,
    Rule,
    Term,
    Variable,
    variables,
)
from tidelog.values import IRI

_NO_PREFIXES: Mapping[str, str] = MappingProxyType({})

# How tightly operators bind; operands that bind less tightly than their place demands get parentheses.
_SUM, _PRODUCT, _UNARY, _PRIMARY = range(4)
_OPERATORS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}

_PLAIN_MODULUS = re.compile(r"-?[0-9]+(?:\.[0-9]+)?|[A-Z_?]\w*")
_NUMBERED = re.compile(r"_[1-9][0-9]*")


def render(node: Node, prefixes: Mapping[str, str] = _NO_PREFIXES) -> str:
    """A node as text, with prefixed names where a prefix fits. The text of a program declares its own prefixes."""
    match node:
        case Program():
            return _program(node, prefixes)
        case Rule(head=head, body=body):
            printer = _Printer(prefixes, [head, *body])
            return f"{printer.atom(head)} :- {printer.body(body)}."
        case Query(body=body):
            return f"?- {_Printer(prefixes, body).body(body)}."
        case Atom() | Negation() | Comparison():
            return _Printer(prefixes, [node]).item(node)
        case Variable() | Constant() | Call() | Aggregate():
            return _Printer(prefixes, [node]).term(node)
    raise TypeError(f"{type(node).__name__} is not a node of the syntax tree")


def _program(program: Program, prefixes: Mapping[str, str]) -> str:
    known = {**prefixes, **dict(program.prefixes)}
    lines = [f"@prefix {name}: <{escape_iri(namespace)}> ." for name, namespace in program.prefixes]
    lines += [f"{render(fact, known)}." for fact in program.facts]
    lines += [render(statement, known) for statement in (*program.rules, *program.queries)]
    return "\n".join(lines)


class _Printer:
    """Prints the parts of one statement, which write unnamed variables in the same way."""

    def __init__(self, prefixes: Mapping[str, str], parts: Iterable[Term | BodyItem]) -> None:
        self._prefixes = prefixes
        self._variable = _variable_printer(parts)

    def body(self, items: Iterable[BodyItem]) -> str:
        return ", ".join([self.item(item) for item in items])

    def item(self, item: BodyItem) -> str:
        match item:
            case Atom():
                return self.atom(item)
            case Negation(atom=atom):
                return f"not {self.atom(atom)}"
            case Comparison(operator=operator, left=left, right=right):
                return f"{self.term(left)} {operator} {self.term(right)}"

    def atom(self, atom: Atom) -> str:
        name = display_predicate(atom.predicate, self._prefixes)
        return f"{name}({self._list(atom.arguments)})" if atom.arguments else name

    def term(self, term: Term, tightness: int = _SUM) -> str:
        match term:
            case Variable(name=name):
                return self._variable(name)
            case Constant(value=IRI(value=iri)):
                return shorten(iri, self._prefixes) or render_value(term.value)
            case Constant(value=value):
                return render_value(value)
            case Aggregate(function=function, argument=argument, distinct=distinct):
                return f"{function}({'distinct ' if distinct else ''}{self.term(argument)})"
            case Call(function="neg", arguments=(operand,)):
                return self._enclosed(f"-{self._signed(operand)}", _UNARY, tightness)
            case Call(function=operator, arguments=(left, right)) if operator in _OPERATORS:
                own = _OPERATORS[operator]
                second = self._modulus(right) if operator == "%" else f" {self.term(right, own + 1)}"
                return self._enclosed(f"{self.term(left, own)} {operator}{second}", own, tightness)
            case Call(function=function, arguments=arguments):
                return f"{function}({self._list(arguments)})"

    def _list(self, terms: Iterable[Term]) -> str:
        return ", ".join([self.term(term) for term in terms])

    def _signed(self, operand: Term) -> str:
        # `-5` is a constant, so the negation of a number needs parentheses.
        text = self.term(operand, _UNARY)
        return f"({text})" if isinstance(operand, Constant) else text

    def _modulus(self, operand: Term) -> str:
        # `%` begins a comment unless an operand clearly follows.
        text = self.term(operand)
        return f" {text}" if _PLAIN_MODULUS.fullmatch(text) else f"({text})"

    @staticmethod
    def _enclosed(text: str, own: int, demanded: int) -> str:
        return f"({text})" if own < demanded else text


def _variable_printer(parts: Iterable[Term | BodyItem]) -> Callable[[str], str]:
    """`_1`, `_2`, … are printed as `_` where the parser would number them so again, and by name elsewhere."""
    underscored = [variable.name for part in parts for variable in variables(part) if variable.name.startswith("_")]
    numbered = [name for name in underscored if _NUMBERED.fullmatch(name)]
    if numbered == [f"_{number}" for number in range(1, len(numbered) + 1)]:
        return lambda name: "_" if _NUMBERED.fullmatch(name) else name
    return lambda name: name
