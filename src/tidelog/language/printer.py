"""The syntax tree as text that parses back to an equal tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from tidelog.language import syntax
from tidelog.language.literals import quote, render_value
from tidelog.language.names import (
    CONDITIONS,
    display_predicate,
    escape_iri,
    fill_in,
    is_auxiliary,
    shorten,
    type_named,
)
from tidelog.language.syntax import variables
from tidelog.language.written.windows import window_at
from tidelog.values import IRI

NO_PREFIXES: Mapping[str, str] = MappingProxyType({})

# How tightly operators bind; operands that bind less tightly than their place demands get parentheses.
_BITS, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(5)
_OPERATORS = (
    dict.fromkeys(("band", "bor", "bxor", "shl", "shr"), _BITS)
    | dict.fromkeys(("+", "-"), _SUM)
    | dict.fromkeys(("*", "/", "%", "div", "mod"), _PRODUCT)
)

_PLAIN_MODULUS = re.compile(r"-?[0-9]+(?:\.[0-9]+)?|[A-Z_?]\w*")
_NUMBERED = re.compile(r"_[1-9][0-9]*")


class Printer:
    """Prints the parts of one statement, which write unnamed variables in the same way."""

    def __init__(self, prefixes: Mapping[str, str], statement: syntax.Node) -> None:
        self._prefixes = prefixes
        self._statement = statement
        self._variable = _variable_printer(statement)

    def rule(self, rule: syntax.Rule) -> str:
        if rule.is_equality:
            same, *others = map(self.item, rule.body)
            return f"@equality {same} on {', '.join(others)}." if others else f"@equality {same}."
        if rule.is_query:
            return self.query(syntax.Query(rule.body))
        if rule.is_constraint:
            how = "@constraint warn " if rule.head.predicate == syntax.WARNING else ""
            return f"{how}:- {self.body(rule.body)}."
        heads = ", ".join([self.atom(head) for head in (rule.head, *rule.also)])
        return f"{heads} :- {self.body(rule.body)}."

    def query(self, query: syntax.Query) -> str:
        return f"?- {self.body(query.body)}."

    def expiry(self, expiry: syntax.Expiry) -> str:
        name = display_predicate(expiry.predicate, self._prefixes)
        places = range(expiry.arity or 0)
        arguments = f"({', '.join(['T' if place == expiry.argument else '_' for place in places])})" if places else ""
        by = "" if expiry.argument is None else " by T"
        return f"@expire {name}{arguments} {expiry.written}{by}."

    def body(self, items: Iterable[syntax.WrittenItem]) -> str:
        return ", ".join([self._in_body(item) for item in items])

    def _in_body(self, item: syntax.WrittenItem) -> str:
        atom = item.atom if isinstance(item, syntax.Negation) else item
        if isinstance(atom, syntax.Atom) and CONDITIONS.get(atom.predicate) == atom.arity:
            # In round brackets it would be read as a call of the function.
            return f"{'' if atom is item else 'not '}{atom.predicate}[{self._list(atom.arguments)}]"
        return self.item(item)

    def choice(self, alternatives: Iterable[Iterable[syntax.WrittenItem]]) -> str:
        return f"( {' ; '.join([self.body(items) for items in alternatives])} )"

    def item(self, item: syntax.WrittenItem) -> str:
        match item:
            case syntax.Atom():
                return self.atom(item)
            case syntax.Negation(atom=atom):
                return f"not {self.atom(atom)}"
            case syntax.Comparison(operator=operator, left=left, right=right):
                return f"{self.term(left)} {operator} {self.term(right)}"
            case syntax.Disjunction(alternatives=alternatives):
                return self.choice(alternatives)

    def atom(self, atom: syntax.Atom) -> str:
        window = window_at(atom)
        if window is not None:
            by = "" if window.argument is None else f" by {self.term(atom.arguments[window.argument])}"
            return f"{self.atom(syntax.Atom(window.predicate, atom.arguments))} in last {window.written}{by}"
        if is_auxiliary(atom.predicate):
            texts = [self.term(argument) for argument in atom.arguments]
            return fill_in(atom.predicate, texts)
        name = display_predicate(atom.predicate, self._prefixes)
        return f"{name}({self._list(atom.arguments)})" if atom.arguments else name

    def term(self, term: syntax.Term, tightness: int = _BITS) -> str:
        match term:
            case syntax.Variable(name=name):
                return self._variable(name)
            case syntax.Parameter(value=name):
                return f"${name}"
            case syntax.Constant(value=IRI(value=iri)):
                return shorten(iri, self._prefixes) or render_value(term.value)
            case syntax.Constant(value=value):
                return render_value(value)
            case syntax.Aggregate(function=function, argument=argument, distinct=distinct, witness=witness, body=body):
                beside = "" if witness is None else f", {self.term(witness)}"
                name, option = syntax.with_option(function)
                lattice = syntax.joined_by(function)
                if option and lattice is None:
                    beside = f", {option}"
                function = lattice or name
                values = f"{'distinct ' if distinct else ''}{self.term(argument)}{beside}"
                return f"{function}({values})" if body is None else f"{function} {{ {values} : {self.body(body)} }}"
            case syntax.Call(function="[]", arguments=arguments):
                return f"[{self._list(arguments)}]"
            case syntax.Call(function="neg", arguments=(operand,)):
                text = self.term(operand, _UNARY)
                # `-5` is a constant, so the negation of a number needs parentheses.
                signed = f"-({text})" if isinstance(operand, syntax.Constant) or text[0].isdigit() else f"-{text}"
                return f"({signed})" if tightness > _UNARY else signed
            case syntax.Call(function="**", arguments=(base, exponent)):
                text = f"{self.term(base, _PRIMARY)} ** {self.term(exponent, _UNARY)}"
                return f"({text})" if tightness > _UNARY else text
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


class _PlainPrinter(Printer):
    """Prints rules as engines know them."""

    def atom(self, atom: syntax.Atom) -> str:
        return f"{atom.predicate}({self._list(atom.arguments)})" if atom.arguments else atom.predicate


def plain_text(rule: syntax.Rule) -> str:
    """A plain rule as text that parses back to it alone, not as it is written."""
    return _PlainPrinter(NO_PREFIXES, rule).rule(rule)


def declaration(signature: syntax.Signature, prefixes: Mapping[str, str] = NO_PREFIXES) -> str:
    """The statement that declares a predicate or a type."""
    name = type_named(signature.predicate)
    if name is not None:
        return f"@type {name} = [{_columns(signature)}]."
    return f"@predicate {_signature(signature, prefixes)}."


def _signature(signature: syntax.Signature, prefixes: Mapping[str, str]) -> str:
    name = display_predicate(signature.predicate, prefixes)
    shape = f"({_columns(signature)})" if signature.columns else f"/{signature.arity}"
    return f"{name}{shape}{f' {quote(signature.text)}' if signature.text else ''}"


def _columns(signature: syntax.Signature) -> str:
    return ", ".join([name if type_ == "any" else f"{name}: {type_}" for name, type_ in signature.named])


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
            lines += [declaration(signature, known) for signature in node.predicates]
            lines += [render(expiry, known, printer) for expiry in node.expiries]
            lines += [f"{render(fact, known, printer)}." for fact in node.facts]
            lines += [render(rule, known, printer) for rule in node.rules if rule.part == 0]
            lines += [render(query, known, printer) for query in node.queries]
            return "\n".join(lines)
        case syntax.Signature():
            return _signature(node, prefixes)
        case syntax.Expiry():
            return printer(prefixes, node).expiry(node)
        case syntax.Rule():
            return printer(prefixes, node.written).rule(node.written)
        case syntax.Query():
            return printer(prefixes, node).query(node)
        case syntax.Atom() | syntax.Negation() | syntax.Comparison() | syntax.Disjunction():
            return printer(prefixes, node).item(node)
        case syntax.Variable() | syntax.Constant() | syntax.Call() | syntax.Aggregate():
            return printer(prefixes, node).term(node)
    raise TypeError(f"{type(node).__name__} is not a node of the syntax tree")
