"""A second oracle: the same program, evaluated by clingo, for what both can say.

Integers and strings; recursion, stratified negation, comparisons, `+ - *`, sign and `abs`, and the aggregates `count`,
`sum`, `min` and `max`. Where clingo means something else, the translation says what tidelog means:

- clingo orders integers before strings, where tidelog has no order between them. Since `""` is the least string,
  `X < ""` says "X is an integer". An order comparison becomes two rules, one for each type.
- a variable found only under `not` is unsafe in clingo: each negated atom is first projected to its bound variables.
- an aggregate counts sets of tuples: the matches of the body become facts of an auxiliary predicate that holds every
  variable. A group with a value that the aggregate cannot take is dropped, which clingo would not do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

import clingo

from naive import Database, is_aggregate, without_empty
from tidelog.language.names import is_hidden
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    BodyItem,
    Call,
    Comparison,
    Constant,
    Expression,
    Negation,
    Rule,
    Term,
    Variable,
    variables,
)

AGGREGATES = {"count": "#count", "sum": "#sum", "min": "#min", "max": "#max"}


def materialise(rules: Iterable[Rule], facts: Database) -> Database:
    """The only stable model of the program, which a stratified program has."""
    translation = Translation(rules, facts)
    control = clingo.Control(["--warn=none"], logger=lambda code, message: None)
    control.add("base", [], "\n".join(translation.lines))
    control.ground([("base", [])])
    found: Database = {name: set() for name in translation.names}
    original = {number: name for name, number in translation.names.items()}
    with control.solve(yield_=True) as models:
        for model in models:
            for symbol in model.symbols(atoms=True):
                if symbol.name in original:
                    found[original[symbol.name]].add(tuple(map(_constant, symbol.arguments)))
    return without_empty({name: rows for name, rows in found.items() if not is_hidden(name)})


def _constant(symbol: clingo.Symbol) -> Constant:
    return Constant(symbol.number if symbol.type is clingo.SymbolType.Number else symbol.string)


class Translation:
    """The lines of a clingo program, and the clingo name of each predicate."""

    def __init__(self, rules: Iterable[Rule], facts: Database) -> None:
        self.names: dict[str, str] = {}
        self.lines: list[str] = []
        self._auxiliaries = 0
        for predicate, rows in facts.items():
            for row in rows:
                self.lines.append(f"{self._atom(Atom(predicate, row), {})}.")
        for rule in rules:
            self._rule(rule)

    def _rule(self, rule: Rule) -> None:
        names = {name: f"V{i}" for i, name in enumerate(dict.fromkeys(v.name for v in variables(rule)))}
        bodies = self._bodies(rule.body, names)
        if is_aggregate(rule):
            self._aggregate(rule, bodies, names)
        else:
            head = self._atom(rule.head, names)
            self.lines += [f"{head} :- {body}." for body in bodies]

    def _aggregate(self, rule: Rule, bodies: Iterable[str], names: Mapping[str, str]) -> None:
        row = self._auxiliary()
        terms = [_expression(t.argument if isinstance(t, Aggregate) else t, names) for t in rule.head.arguments]
        assigned = [names[name] for name in _assigned(rule.body)]
        self.lines += [f"{row}({', '.join([*terms, *assigned])}) :- {body}." for body in bodies]
        is_group = [not isinstance(term, Aggregate) for term in rule.head.arguments]
        rest = [f"R{i}" for i in range(len(assigned))]
        group = [f"G{i}" for i, grouped in enumerate(is_group) if grouped]

        def members(suffix: str) -> str:
            cells = [f"G{i}" if grouped else f"A{i}{suffix}" for i, grouped in enumerate(is_group)]
            return f"{row}({', '.join([*cells, *(name + suffix for name in rest)])})"

        bad = self._auxiliary()
        body, head = [members("_"), f"not {bad}{_tuple(group)}"], [f"G{i}" for i in range(len(is_group))]
        for i, term in enumerate(rule.head.arguments):
            if isinstance(term, Aggregate):
                tuples = [f"A{i}", *([] if term.distinct else rest)]
                body.append(f"G{i} = {_aggregate_name(term)} {{ {', '.join(tuples)} : {members('')} }}")
                self.lines += [f"{bad}{_tuple(group)} :- {reject}." for reject in _rejections(term, i, members)]
        self.lines.append(f"{self._name(rule.head.predicate)}{_tuple(head)} :- {', '.join(body)}.")
        self.lines.append(f"#defined {bad}/{len(group)}.")

    def _bodies(self, items: Iterable[BodyItem], names: Mapping[str, str]) -> list[str]:
        """The body for each combination of types that its order comparisons can have."""
        items = list(items)
        bound = _assigned(items)
        choices = [list(self._item(item, names, bound)) for item in items]
        return [", ".join(choice) for choice in product(*choices)]

    def _item(self, item: BodyItem, names: Mapping[str, str], bound: Iterable[str]) -> Iterator[str]:
        match item:
            case Atom():
                yield self._atom(item, names)
            case Negation(atom=atom):
                yield f"not {self._projected(atom, names, bound)}"
            case Comparison(operator=operator, left=left, right=right):
                first, second = _expression(left, names), _expression(right, names)
                if operator in ("=", "!="):
                    yield f"{first} {operator} {second}"
                else:
                    yield f'{first} {operator} {second}, {first} < "", {second} < ""'
                    yield f'{first} {operator} {second}, {first} >= "", {second} >= ""'

    def _projected(self, atom: Atom, names: Mapping[str, str], bound: Iterable[str]) -> str:
        kept = [names[name] for name in dict.fromkeys(v.name for v in variables(atom)) if name in bound]
        projection = f"{self._auxiliary()}{_tuple(kept)}"
        self.lines.append(f"{projection} :- {self._atom(atom, names)}.")
        return projection

    def _atom(self, atom: Atom, names: Mapping[str, str]) -> str:
        return f"{self._name(atom.predicate)}{_tuple([_expression(term, names) for term in atom.arguments])}"

    def _name(self, predicate: str) -> str:
        return self.names.setdefault(predicate, f"p{len(self.names)}")

    def _auxiliary(self) -> str:
        self._auxiliaries += 1
        return f"aux{self._auxiliaries}"


def _assigned(items: Iterable[BodyItem]) -> list[str]:
    """The variables that a match assigns: all but those found only in negated atoms."""
    return list(dict.fromkeys(v.name for item in items if not isinstance(item, Negation) for v in variables(item)))


def _aggregate_name(term: Aggregate) -> str:
    if term.function not in AGGREGATES:
        raise ValueError(f"clingo has no aggregate {term.function}")
    return AGGREGATES[term.function]


def _rejections(term: Aggregate, position: int, members: Callable[[str], str]) -> Iterator[str]:
    """Bodies that find a group whose values the aggregate cannot take."""
    if term.function == "sum":
        yield f'{members("a")}, A{position}a >= ""'
    elif term.function in ("min", "max"):
        yield f'{members("a")}, {members("b")}, A{position}a < "", A{position}b >= ""'


def _tuple(terms: Iterable[str]) -> str:
    return f"({', '.join(terms)})" if terms else ""


def _expression(term: Term, names: Mapping[str, str]) -> str:
    match term:
        case Variable(name=name):
            return names[name]
        case Constant(value=str() as value):
            return str(clingo.String(value))
        case Constant(value=int() as value) if not isinstance(value, bool) and abs(value) < 2**31:
            return f"({value})"
        case Call(function=function, arguments=arguments):
            return _call(function, arguments, names)
    raise ValueError(f"clingo has no {term!r}")


def _call(function: str, arguments: tuple[Expression, ...], names: Mapping[str, str]) -> str:
    terms = [_expression(argument, names) for argument in arguments]
    match function, terms:
        case (("+" | "-" | "*"), [left, right]):
            return f"({left} {function} {right})"
        case "neg", [operand]:
            return f"(-{operand})"
        case "abs", [operand]:
            return f"|{operand}|"
    raise ValueError(f"clingo has no function {function} of {len(terms)}")
