"""Proofs in words: facts under the prefixes of a program, and instances with the values that they were tested with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tidelog.language import display_predicate, parse_atom, render
from tidelog.language.names import fill_in, is_auxiliary
from tidelog.language.syntax import (
    Aggregate,
    Atom,
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
from tidelog.language.written.windows import window_at, window_of
from tidelog.program.normal_form import NormalRule
from tidelog.values import Value

Binding = Mapping[Variable, int]
"""The term that each variable stands for."""

NO_FACT = "no fact matches "
NO_VALUE = "nothing gives "
MOST_VALUES = 10
MOST_CONDITIONS = 12


class Wording:
    """How facts and conditions are written, under the prefixes of a knowledge base.

    `decode` gives the value of a term, and `shown` the predicate that users know another one by."""

    def __init__(
        self,
        decode: Callable[[int], Value],
        prefixes: Mapping[str, str],
        shown: Callable[[str], str] = lambda predicate: predicate,
    ) -> None:
        self._decode = decode
        self._shown = shown
        self.prefixes = dict(prefixes)
        # Long proofs are about few constants.
        self._values: dict[int, str] = {}
        self._names: dict[str, str] = {}
        # By identity, since hashing a rule takes as long as printing it. The rules of a program stay alive.
        self._rules: dict[int, str] = {}

    def fact(self, predicate: str, row: Iterable[int]) -> str:
        if window_of(predicate) is not None:
            return self.text(Atom(predicate, tuple(map(self._constant, row))))
        if is_auxiliary(predicate):
            return fill_in(predicate, [self.value(term) for term in row])
        if predicate not in self._names:
            self._names[predicate] = display_predicate(self._shown(predicate), self.prefixes)
        arguments = ", ".join([self.value(term) for term in row])
        return self._names[predicate] + (f"({arguments})" if arguments else "")

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
        return Constant(self._decode(term))

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

    def conditions(self, rule: Rule, defined: Iterable[Variable], binding: Binding) -> Iterator[str]:
        """What a match rests on besides facts. `defined` are the variables that an `=` in the body binds."""
        rest = set(defined)
        for item in rule.body:
            match item:
                case Negation(atom=atom):
                    is_part = is_auxiliary(atom.predicate) and window_of(atom.predicate) is None
                    none = NO_VALUE if is_part else NO_FACT
                    yield none + self.text(self.atom(atom, binding))
                case Comparison(operator="=", left=Variable() as variable, right=other) if variable in rest:
                    rest.discard(variable)
                    yield self.definition(variable, other, binding)
                case Comparison(operator="=", left=other, right=Variable() as variable) if variable in rest:
                    rest.discard(variable)
                    yield self.definition(variable, other, binding)
                case Comparison():
                    yield self.comparison(item, binding)

    def computed(self, atom: Atom, row: Iterable[int], binding: Binding) -> Iterator[str]:
        """The expressions among an atom's arguments, with their values: `2 + 1 = 3`."""
        for term, result in zip(atom.arguments, row, strict=True):
            if isinstance(term, Call):
                yield f"{self.text(self.expression(term, binding))} = {self.value(result)}"

    def kept(self, head: Atom, row: Iterable[int], binding: Binding) -> Iterator[str]:
        """Why a value of a recursion is the best of its group: `min(D + W) = 3 + 5 = 8, the least of all`"""
        for term, result in zip(head.arguments, row, strict=True):
            if isinstance(term, Aggregate):
                offered = term.argument if term.witness is None else term.witness
                parts = [self.text(term)]
                if isinstance(offered, Call):
                    parts.append(self.text(self.expression(offered, binding)))
                parts.append(self.value(result))
                yield " = ".join(parts) + (BEST.get(term.function, "") if term.witness is None else "")

    def aggregate(self, aggregate: Aggregate, result: int, values: list[int]) -> str:
        """`sum(S) = 7 from 3 matches: S = 1, 2, 4`"""
        shown = ", ".join(self.value(term) for term in values[:MOST_VALUES])
        more = ", …" if len(values) > MOST_VALUES else ""
        count = "1 match" if len(values) == 1 else f"{len(values):,} matches"
        inner = self.text(aggregate.argument)
        return f"{self.text(aggregate)} = {self.value(result)} from {count}: {inner} = {shown}{more}"


# What is said of a value that a recursion keeps.
BEST = {
    "min": ", and no rule gives less",
    "max": ", and no rule gives more",
    "any": "",
    "all": "",
}


# --- texts of facts and atoms, read back ------------------------------------------------------------------------------

_IN_WINDOW = re.compile(r'((?:[^"]|"(?:[^"\\]|\\.)*")*?) in last .*', re.DOTALL)


def atoms_shown(text: str, prefixes: Mapping[str, str], windows: Iterable[str]) -> list[Atom]:
    """What a proof shows as a fact or an atom: itself, or atoms of those of some windows that are shown like this. The
    text names the argument that an age is counted from by its value, which several may have.
    """
    found = _IN_WINDOW.fullmatch(text)
    if found is None:
        return [parse_atom(text, prefixes)]
    atom = parse_atom(found[1], prefixes)
    candidates = [Atom(window, atom.arguments) for window in windows]
    return [each for each in candidates if window_at(each) is not None and render(each, prefixes) == text]


# --- the conditions of an instance ------------------------------------------------------------------------------------


class Matched(NamedTuple):
    """A match of a rule's body: the rows of the facts that its atoms match, and what stands for its variables."""

    rows: Sequence[Sequence[int]]
    binding: Binding


def conditions_of(rule: NormalRule, head: Sequence[int], matches: Sequence[Matched], wording: Wording) -> list[str]:
    """What an instance rests on besides facts; that of an aggregate has several matches."""
    source = rule.source
    found = list(_aggregates(rule, head, matches, wording))
    defined = [item.variable for item in rule.definitions if not item.variable.name.startswith("#")]
    atoms = [item for item in source.body if isinstance(item, Atom)]
    for rows, binding in matches:
        if not rule.aggregates:
            found += wording.computed(source.head, head, binding)
            found += wording.kept(source.head, head, binding)
        for atom, row in zip(atoms, rows, strict=True):
            found += wording.computed(atom, row, binding)
        found += wording.conditions(source, defined, binding)
    found = list(dict.fromkeys(found))
    more = len(found) - MOST_CONDITIONS
    return [*found[:MOST_CONDITIONS], f"… {more:,} more conditions"] if more > 0 else found


def has_conditions(rule: Rule) -> bool:
    """Whether a rule rests on more than facts; most steps of long proofs do not."""
    return any(
        not isinstance(item, Atom) or any(isinstance(term, Call | Aggregate) for term in item.arguments)
        for item in (rule.head, *rule.body)
    )


def _aggregates(rule: NormalRule, head: Sequence[int], matches: Sequence[Matched], wording: Wording) -> Iterator[str]:
    for written, aggregate, result in zip(rule.source.head.arguments, rule.head.arguments, head, strict=True):
        if isinstance(written, Aggregate) and isinstance(aggregate, Aggregate):
            assert isinstance(aggregate.argument, Variable)
            yield wording.aggregate(written, result, [match.binding[aggregate.argument] for match in matches])
