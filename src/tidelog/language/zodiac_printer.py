"""The syntax tree in the syntax of ZodiacEdge, as text that `zodiac.lark` parses back to an equal tree.

What that syntax cannot say is refused with its place: expressions outside BIND, variables of negated atoms that no
positive atom has, aggregates and groups that its section 4.5 does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from tidelog.errors import ConversionError
from tidelog.language.names import display_predicate
from tidelog.language.parse_messages import mistake
from tidelog.language.printer import Printer, render
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Disjunction,
    Expiry,
    Node,
    Query,
    Rule,
    Term,
    Variable,
    WrittenItem,
    new_names,
    variables,
)
from tidelog.language.written.windows import window_of
from tidelog.language.zodiac_actions import AGGREGATES, KEYWORDS, unsafe_variable

_OPERATORS = {function: operator.upper() for operator, function in AGGREGATES.items()}


_IN_DLOG = "say it in the language `dlog`, which has it"


class ZodiacPrinter(Printer):
    """Prints the parts of one statement."""

    def __init__(self, prefixes: Mapping[str, str], statement: Node) -> None:
        super().__init__(prefixes, statement)
        self._bindings = _bindings(statement.body if isinstance(statement, Rule | Query) else [statement])

    def rule(self, rule: Rule) -> str:
        for head in rule.also:
            self._refuse(head, "a rule with several heads", "write one rule for each of them")
        unsafe = unsafe_variable(rule, [variable for variable, _ in self._bindings])
        if unsafe is not None:
            what = f"a rule whose variable `{unsafe.shown}` is in no positive atom of its body"
            self._refuse(unsafe, what, "let an atom without `not` hold it, or give it a value by `=`")
        aggregates = dict.fromkeys(term for term in rule.head.arguments if isinstance(term, Aggregate))
        return self._aggregation(rule, *aggregates) if aggregates else super().rule(rule)

    def _aggregation(self, rule: Rule, aggregate: Aggregate, *others: Aggregate) -> str:
        self._check_aggregate(aggregate, others)
        group = dict.fromkeys(term for term in rule.head.arguments if isinstance(term, Variable))
        if len(group) != 1:
            hint = "ZodiacEdge groups by exactly one variable, that of ON"
            self._refuse(aggregate, f"an aggregate with {len(group)} variables beside it in the head", hint)
        (on,) = group
        value = Variable(next(new_names(rule, "Z")))
        head = tuple([value if isinstance(term, Aggregate) else term for term in rule.head.arguments])
        operation = f"{_OPERATORS[aggregate.function]}({self.term(aggregate.argument)})"
        body = f"AGGREGATE({self.body(rule.body)}) ON {self.term(on)} WITH {operation} AS {self.term(value)}"
        return f"{self.atom(Atom(rule.head.predicate, head))} :- {body}."

    def _check_aggregate(self, aggregate: Aggregate, others: Iterable[Aggregate]) -> None:
        for other in others:
            self._refuse(other, "a second aggregate in one head", "write one rule for each, with heads of their own")
        if aggregate.distinct:
            hint = "derive the distinct values by a rule of their own, and count those"
            self._refuse(aggregate, "`count(distinct …)`", hint)
        if aggregate.witness is not None or aggregate.function not in _OPERATORS:
            self._refuse(aggregate, f"the aggregate `{render(aggregate)}`", _IN_DLOG)
        if not isinstance(aggregate.argument, Variable):
            hint = "give the value a name: `X = …` in the body, and aggregate X"
            self._refuse(aggregate, "an aggregate of an expression or a constant", hint)

    # ---- bodies and atoms

    def body(self, items: Iterable[WrittenItem]) -> str:
        return " and ".join([self.item(item) for item in items])

    def item(self, item: WrittenItem) -> str:
        if isinstance(item, Disjunction):
            self._refuse(item, f"the alternatives `{render(item)}`", "write one rule for each of them")
        if isinstance(item, Comparison) and item.operator == "in":
            self._refuse(item, f"the range `{render(item)}`", "give its numbers as facts")
        return self._comparison(item) if isinstance(item, Comparison) else super().item(item)

    def term(self, term: Term, tightness: int = 0) -> str:
        if isinstance(term, Aggregate) and term.body is not None:
            hint = "derive it by a rule of its own, with the aggregate in the head"
            self._refuse(term, f"the aggregate `{render(term)}` in a body", hint)
        return super().term(term, tightness)

    def _comparison(self, comparison: Comparison) -> str:
        if any(comparison is binding for _, binding in self._bindings):
            return f"BIND({self.term(comparison.right)} AS {self.term(comparison.left)})"
        left, right = self._operand(comparison.left), self._operand(comparison.right)
        return f"COMP({left}, {comparison.operator}, {right})"

    def expiry(self, expiry: Expiry) -> str:
        self._refuse(expiry, "that facts expire", _IN_DLOG)

    def atom(self, atom: Atom) -> str:
        if window_of(atom.predicate) is not None:
            self._refuse(atom, f"the window `{render(atom)}`", _IN_DLOG)
        name = display_predicate(atom.predicate, self._prefixes)
        if name.lower() in KEYWORDS:
            self._refuse(atom, f"a predicate called `{name}`", "the word has a meaning of its own there")
        return f"{name}({', '.join(map(self._operand, atom.arguments))})" if atom.arguments else name

    def _operand(self, term: Term) -> str:
        """An argument of an atom or of COMP."""
        if isinstance(term, Call):
            hint = "write a variable in its place, and `X = …` in the body, which compares numbers by value"
            self._refuse(term, f"the expression `{self.term(term)}` outside BIND", hint)
        return self.term(term)

    def _refuse(self, node: Atom | Term | Comparison | Disjunction | Expiry, what: str, hint: str) -> NoReturn:
        shown = render(self._statement, self._prefixes)
        raise mistake(ConversionError, node.place, f"ZodiacEdge's syntax cannot say {what}", shown, hint)


def _bindings(body: Iterable[Node]) -> list[tuple[Variable, Comparison]]:
    """The equations to be written with BIND: those of an expression, and those that give a variable its value."""
    items = list(body)
    bound = {variable for item in items if isinstance(item, Atom) for variable in variables(item)}
    found = []
    for item in (item for item in items if isinstance(item, Comparison) and item.operator == "="):
        if isinstance(item.left, Variable) and (isinstance(item.right, Call) or item.left not in bound):
            found.append((item.left, item))
            bound.add(item.left)
    return found
