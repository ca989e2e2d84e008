"""Rule instances in words: facts, and conditions with the values they were tested with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidelog.language import display_predicate, render
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    BodyItem,
    Call,
    Comparison,
    Constant,
    Expression,
    Negation,
    Node,
    Rule,
    Term,
    Variable,
)
from tidelog.store.term_table import TermTable

Binding = Mapping[Variable, int]
"""The term that each variable stands for."""

MOST_VALUES = 10
MOST_CONDITIONS = 12


class Wording:
    """How facts and conditions are written, under the prefixes of a knowledge base."""

    def __init__(self, terms: TermTable, prefixes: Mapping[str, str]) -> None:
        self.terms = terms
        self.prefixes = dict(prefixes)
        # Long proofs are about few constants.
        self._values: dict[int, str] = {}
        self._names: dict[str, str] = {}
        # By identity, since hashing a rule takes as long as printing it. The rules of a program stay alive.
        self._rules: dict[int, str] = {}

    def fact(self, predicate: str, row: Iterable[int]) -> str:
        if predicate not in self._names:
            self._names[predicate] = display_predicate(predicate, self.prefixes)
        name = self._names[predicate]
        arguments = ", ".join([self.value(term) for term in row])
        return f"{name}({arguments})" if arguments else name

    def rule(self, rule: Rule) -> str:
        if id(rule) not in self._rules:
            self._rules[id(rule)] = self.text(rule)
        return self._rules[id(rule)]

    def text(self, node: Node) -> str:
        return render(node, self.prefixes)

    def value(self, term: int) -> str:
        if term not in self._values:
            self._values[term] = self.text(self._constant(term))
        return self._values[term]

    def _constant(self, term: int) -> Constant:
        return Constant(self.terms.decode(term))

    # --- values in place of variables -------------------------------------------------------------------------------

    def expression(self, expression: Expression, binding: Binding) -> Expression:
        match expression:
            case Variable() if expression in binding:
                return self._constant(binding[expression])
            case Call(function=function, arguments=arguments):
                return Call(function, tuple(self.expression(argument, binding) for argument in arguments))
        return expression

    def atom(self, atom: Atom, binding: Binding) -> Atom:
        """The atom with known values put in; variables without a name are numbered anew, so that they print as `_`."""
        arguments: list[Term] = []
        unnamed = 0
        for term in atom.arguments:
            if isinstance(term, Aggregate):
                arguments.append(term)
                continue
            known = self.expression(term, binding)
            if isinstance(known, Variable) and known.name.startswith(("_", "#")):
                unnamed += 1
                known = Variable(f"_{unnamed}")
            arguments.append(known)
        return Atom(atom.predicate, tuple(arguments))

    def comparison(self, item: Comparison, binding: Binding) -> str:
        left, right = self.expression(item.left, binding), self.expression(item.right, binding)
        return self.text(Comparison(item.operator, left, right))

    def definition(self, variable: Variable, expression: Expression, binding: Binding) -> str:
        """`D = abs(3 - 8) = 5`, without the name where the variable has none."""
        parts = [] if variable.name.startswith(("#", "_")) else [self.text(variable)]
        if isinstance(expression, Call):
            parts.append(self.text(self.expression(expression, binding)))
        if variable in binding:
            parts.append(self.value(binding[variable]))
        return " = ".join(parts)

    # --- conditions of a match --------------------------------------------------------------------------------------

    def conditions(self, body: Iterable[BodyItem], defined: frozenset[Variable], binding: Binding) -> Iterator[str]:
        """What a match rests on besides facts. `defined` are the variables that an `=` in the body binds."""
        rest = set(defined)
        for item in body:
            match item:
                case Negation(atom=atom):
                    yield f"no fact matches {self.text(self.atom(atom, binding))}"
                case Comparison(operator="=", left=Variable() as variable, right=other) if variable in rest:
                    rest.discard(variable)
                    yield self.definition(variable, other, binding)
                case Comparison(operator="=", left=other, right=Variable() as variable) if variable in rest:
                    rest.discard(variable)
                    yield self.definition(variable, other, binding)
                case Comparison():
                    yield self.comparison(item, binding)
                case Atom():
                    pass

    def computed(self, atom: Atom, row: Iterable[int], binding: Binding) -> Iterator[str]:
        """The expressions among an atom's arguments, with their values: `2 + 1 = 3`."""
        for term, result in zip(atom.arguments, row, strict=True):
            if isinstance(term, Call):
                yield f"{self.text(self.expression(term, binding))} = {self.value(result)}"

    def aggregate(self, aggregate: Aggregate, result: int, values: list[int]) -> str:
        """`sum(S) = 7 from 3 matches: S = 1, 2, 4`"""
        shown = ", ".join(self.value(term) for term in values[:MOST_VALUES])
        more = ", …" if len(values) > MOST_VALUES else ""
        count = "1 match" if len(values) == 1 else f"{len(values):,} matches"
        inner = self.text(aggregate.argument)
        return f"{self.text(aggregate)} = {self.value(result)} from {count}: {inner} = {shown}{more}"


def shortened(conditions: Iterable[str]) -> list[str]:
    """Each condition once; of many, only the first ones."""
    found = list(dict.fromkeys(conditions))
    if len(found) > MOST_CONDITIONS:
        return [*found[:MOST_CONDITIONS], f"… {len(found) - MOST_CONDITIONS:,} more conditions"]
    return found
