"""The syntax tree as text that parses back to an equal tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from tidelog.language import syntax
from tidelog.language.literals import render_value
from tidelog.language.names import display_predicate, escape_iri, shorten
from tidelog.language.syntax import variables
from tidelog.values import IRI

NO_PREFIXES: Mapping[str, str] = MappingProxyType({})

# How tightly operators bind; operands that bind less tightly than their place demands get parentheses.
_SUM, _PRODUCT, _UNARY = range(3)
_OPERATORS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}

_PLAIN_MODULUS = re.compile(r"-?[0-9]+(?:\.[0-9]+)?|[A-Z_?]\w*")
_NUMBERED = re.compile(r"_[1-9][0-9]*")


class Printer:
    """Prints the parts of one statement, which write unnamed variables in the same way."""

    def __init__(self, prefixes: Mapping[str, str], statement: syntax.Node) -> None:
        self._prefixes = prefixes
        self._statement = statement
        self._variable = _variable_printer(statement)

    def rule(self, rule: syntax.Rule) -> str:
        return f"{self.atom(rule.head)} :- {self.body(rule.body)}."

    def query(self, query: syntax.Query) -> str:
        return f"?- {self.body(query.body)}."

    def body(self, items: Iterable[syntax.BodyItem]) -> str:
        return ", ".join([self.item(item) for item in items])

    def item(self, item: syntax.BodyItem) -> str:
        match item:
            case syntax.Atom():
                return self.atom(item)
            case syntax.Negation(atom=atom):
                return f"not {self.atom(atom)}"
            case syntax.Comparison(operator=operator, left=left, right=right):
                return f"{self.term(left)} {operator} {self.term(right)}"

    def atom(self, atom: syntax.Atom) -> str:
        name = display_predicate(atom.predicate, self._prefixes)
        return f"{name}({self._list(atom.arguments)})" if atom.arguments else name

    def term(self, term: syntax.Term, tightness: int = _SUM) -> str:
        match term:
            case syntax.Variable(name=name):
                return self._variable(name)
            case syntax.Parameter(value=name):
                return f"${name}"
            case syntax.Constant(value=IRI(value=iri)):
                return shorten(iri, self._prefixes) or render_value(term.value)
            case syntax.Constant(value=value):
                return render_value(value)
            case syntax.Aggregate(function=function, argument=argument, distinct=distinct, witness=witness):
                beside = "" if witness is None else f", {self.term(witness)}"
                return f"{function}({'distinct ' if distinct else ''}{self.term(argument)}{beside})"
            case syntax.Call(function="neg", arguments=(operand,)):
                text = self.term(operand, _UNARY)
                # `-5` is a constant, so the negation of a number needs parentheses.
                signed = f"-({text})" if isinstance(operand, syntax.Constant) else f"-{text}"
                return f"({signed})" if tightness > _UNARY else signed
            case syntax.Call(function=operator, arguments=(left, right)) if operator in _OPERATORS:
                own = _OPERATORS[operator]
                second = self._modulus(right) if operator == "%" else f" {self.term(right, own + 1)}"
                text = f"{self.term(left, own)} {operator}{second}"
                return f"({text})" if own < tightness else text
            case syntax.Call(function=function, arguments=arguments):
                return f"{function}({self._list(arguments)})"

    def _list(self, terms: Iterable[syntax.Term]) -> str:
        return ", ".join([self.term(term) for term in terms])

    def _modulus(self, operand: syntax.Term) -> str:
        # `%` begins a comment unless an operand clearly follows.
        text = self.term(operand)
        return f" {text}" if _PLAIN_MODULUS.fullmatch(text) else f"({text})"


def _variable_printer(statement: syntax.Node) -> Callable[[str], str]:
    """`_1`, `_2`, … are printed as `_` where the parser would number them so again, and by name elsewhere."""
    underscored = [variable.name for variable in variables(statement) if variable.anonymous]
    numbered = [name for name in underscored if _NUMBERED.fullmatch(name)]
    if numbered == [f"_{number}" for number in range(1, len(numbered) + 1)]:
        return lambda name: "_" if _NUMBERED.fullmatch(name) else name
    return lambda name: name


def render(node: syntax.Node, prefixes: Mapping[str, str] = NO_PREFIXES, printer: type[Printer] = Printer) -> str:
    """A node as text, with prefixed names where a prefix fits. The text of a program declares its own prefixes.

    Examples:
        >>> from tidelog.language import parse_rules, render
        >>> rule, = parse_rules("@prefix ex: <http://example.org/> . ex:b(X) :- ex:a(X).", {})
        >>> render(rule, {"ex": "http://example.org/"})
        'ex:b(X) :- ex:a(X).'
    """
    match node:
        case syntax.Program():
            known = {**prefixes, **dict(node.prefixes)}
            lines = [f"@prefix {name}: <{escape_iri(namespace)}> ." for name, namespace in node.prefixes]
            lines += [f"@predicate {render(signature, known, printer)}." for signature in node.predicates]
            lines += [f"{render(fact, known, printer)}." for fact in node.facts]
            lines += [render(statement, known, printer) for statement in (*node.rules, *node.queries)]
            return "\n".join(lines)
        case syntax.Signature(predicate=predicate, arity=arity):
            return f"{display_predicate(predicate, prefixes)}/{arity}"
        case syntax.Rule():
            return printer(prefixes, node).rule(node)
        case syntax.Query():
            return printer(prefixes, node).query(node)
        case syntax.Atom() | syntax.Negation() | syntax.Comparison():
            return printer(prefixes, node).item(node)
        case syntax.Variable() | syntax.Constant() | syntax.Call() | syntax.Aggregate():
            return printer(prefixes, node).term(node)
    raise TypeError(f"{type(node).__name__} is not a node of the syntax tree")
