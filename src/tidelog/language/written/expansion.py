"""From rules as they are written to plain rules, which are what engines know: one head, a conjunction for a body.

- A rule with several heads is one rule for each.
- A rule with alternatives, `( a(X) ; b(X) )`, is one rule for each choice of them. Below an aggregate, where each match
  counts once, the choices derive an auxiliary predicate, and the aggregate is over that. Not so where a rule reads its
  own head: what can be in a recursion keeps the best value, however often it is offered.
- An aggregate in a body, `N = count { Y : edge(X, Y) }`, is an auxiliary predicate, `part(X, count(Y)) :- edge(X, Y).`
  Where it has a value over nothing, as a count has, the rule is two: one reads the value, and one takes the value over
  nothing where there is nothing. If the inner body does not bind all variables of the outer one that it has, an
  auxiliary predicate brings their values in.
- `X in range(A, B)` halves the interval until its parts have one number each: a recursion of logarithmic depth.
- A constraint, `:- body.`, is a rule for an auxiliary predicate whose facts violate it.
- A part of a body that has nothing to do with the rest is checked once (`independent_parts`).
- An equality, `@equality same.`, is the two rules by which `same` is symmetric and transitive. What it does to rules of
  other predicates is the business of `program.equality`.

Auxiliary predicates have names that no user gives, made of a digest of the rule, so that the same text always gives the
same names; what they say is in them, too (`names.auxiliary`), which is how proofs and messages show them. Each plain
rule knows the one that it comes from, which is what is printed, saved, listed and removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import product
from typing import Any, TypeVar

from tidelog.errors import ParseError, TidelogError, UnsafeRuleError
from tidelog.language.checks import bound_variables
from tidelog.language.names import auxiliary, blank, checked_once, constraint
from tidelog.language.parse_messages import mistake
from tidelog.language.printer import render
from tidelog.language.records import patterns
from tidelog.language.syntax import (
    WARNING,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Disjunction,
    Expression,
    Negation,
    Node,
    Place,
    Program,
    Query,
    Rule,
    Term,
    Variable,
    WrittenItem,
    new_names,
    nodes,
    rebuilt,
    variables,
)
from tidelog.language.written import ranges
from tidelog.language.written.independent_parts import independent_parts, with_atoms_for
from tidelog.values import INTEGER_MAX, Value

# More choices than these are a mistake, or want predicates of their own.
MOST_CHOICES = 1000

# What aggregates give over nothing; the others have no value then.
_OVER_NOTHING: Mapping[str, Value] = {"count": 0, "sum": 0, "any": False, "all": True}

# What most statements consist of.
_NEVER_SPECIAL = frozenset((Atom, Constant, Negation, Variable))

_Items = tuple[Any, ...]  # of a body as it is written
_Error = TypeVar("_Error", bound=TidelogError)


def is_plain(statement: Node) -> bool:
    """Whether a statement, or a part of one, is as engines know them."""
    if isinstance(statement, Rule) and statement.also:
        return False
    return not any(_is_special(node) for node in nodes(statement) if type(node) not in _NEVER_SPECIAL)


def _is_special(node: Node) -> bool:
    match node:
        case Disjunction() | Comparison(operator="in") | Call(function="[]"):
            return True
    return _has_body(node)


def _has_body(node: Node) -> bool:
    return isinstance(node, Aggregate) and node.body is not None


def expanded(rule: Rule, special: bool = True) -> list[Rule]:
    """The plain rules that say the same as a rule; an error for what cannot be evaluated, and has no plain form. If it
    is not `special`, the rule is known to have no form of its own.
    """
    found = [rule]
    if rule.is_equality:
        found = _equivalence(rule.body[0])
    elif rule.is_constraint:
        found = _Expansion(rule).violations()
    elif special and not is_plain(rule):
        found = _Expansion(rule).rules()
    found = _with_parts_apart(found, rule)
    if len(found) == 1 and found[0] is rule:
        return found
    return [replace(each, place=rule.place, origin=rule, part=part) for part, each in enumerate(found)]


def _with_parts_apart(rules: Sequence[Rule], written: Rule) -> list[Rule]:
    """The plain rules of a written one, and those of the parts of their bodies that are checked once."""
    known: dict[str, Rule] = {}
    own: list[Rule] = []
    for rule in rules:
        parts = independent_parts(rule)
        texts = [said(part, ()) for part in parts]
        for text, part in zip(texts, parts, strict=True):
            if text not in known:
                known[text] = Rule(Atom(checked_once(f"{digest(written)}-{len(known)}", text)), part)
        own.append(with_atoms_for(rule, parts, [known[text].head for text in texts]) if parts else rule)
    return [*known.values(), *own]


def _equivalence(same: Any) -> list[Rule]:
    """The rules by which a predicate is symmetric and transitive."""
    x, y, z = map(Variable, "XYZ")

    def pair(one: Variable, other: Variable) -> Atom:
        return Atom(same.predicate, (one, other), same.place)

    return [Rule(pair(x, y), (pair(y, x),)), Rule(pair(x, z), (pair(x, y), pair(y, z)))]


def expanded_query(query: Query) -> tuple[Atom, list[Rule]]:
    """An atom for an answer of a query, with the variables whose values these are, and plain rules that derive it."""
    found = _Expansion(Rule(Atom("#"), query.body, query.place), query).answers()
    head = Atom(auxiliary(f"{digest(query)}-answers", "an answer"), found)
    rules = _Expansion(Rule(head, query.body, query.place), query).rules()
    return head, [replace(rule, place=query.place) for rule in rules]


def query_without_records(query: Query) -> Query:
    """A query whose records are taken apart by equations, if that makes it plain; else the query as it is."""
    expansion = _Expansion(Rule(Atom("#"), query.body, query.place), query)
    plain = expansion.plain_body()
    return query if plain is None else replace(query, body=plain)


def with_plain_queries(program: Program) -> Program:
    """A program whose queries are plain: its rules derive what others ask for."""
    rules, queries = list(program.rules), list(program.queries)
    for number, query in enumerate(queries):
        if not is_plain(query):
            head, derived = expanded_query(query)
            queries[number] = Query((head,), query.place)
            rules += derived
    return replace(program, rules=tuple(rules), queries=tuple(queries))


def refuse_special(query: Query, who: str) -> None:
    """Refuse a query that is no conjunction, and name the part for which it is none. `who` cannot have it."""
    part = next((item for item in query.body if not is_plain(item)), None)
    if part is not None:
        hint = "write a rule with it, and ask for the head of the rule"
        place = None if isinstance(part, Negation) else part.place
        raise mistake(ParseError, place or query.place, f"{who} `{render(part)}`", render(query), hint)


def digest(statement: Node) -> str:
    return sha256(render(statement).encode()).hexdigest()[:16]


def plain_forms(statement: Rule | Query) -> Sequence[Rule | Query]:
    """A rule or query as engines know them, to be checked."""
    if is_plain(statement):
        return [statement]
    return expanded(statement) if isinstance(statement, Rule) else expanded_query(statement)[1]


class _Expansion:
    """The plain rules of one rule: those of its auxiliary predicates, and then its own."""

    def __init__(self, written: Rule, shown: Query | None = None) -> None:
        self._written = written
        self._shown = shown or written
        self._key = digest(written)
        self._names = new_names(written, "V")
        self._hidden = new_names(written, "_V")
        self._parts: list[Rule] = []
        self._known: dict[object, str] = {}  # auxiliary predicates, by what they stand for
        self._body = patterns.matched(written.body, self._unnamed, self._absent)

    def rules(self) -> list[Rule]:
        heads = (self._written.head, *self._written.also)
        plain = [patterns.head_without_records(head, self._unnamed, self._absent) for head in heads]
        own = [rule for head in plain for rule in self._plain(head, self._body)]
        return [*self._parts, *own]

    def plain_body(self) -> _Items | None:
        """The body without records, if it is plain then and needs no further rules."""
        return self._body if not self._parts and all(map(is_plain, self._body)) else None

    def _absent(self, atom: Atom) -> Negation:
        """A negated atom with records: if they have variables of their own, a part of the rule says what there is."""
        everywhere, here = Counter(variables(self._written)), Counter(variables(atom))
        group = tuple(variable for variable in here if everywhere[variable] > here[variable])
        inside = [variable for term in atom.arguments if patterns.has_records(term) for variable in variables(term)]
        if all(variable in group for variable in inside):
            return Negation(patterns.made(atom))
        predicate = self._auxiliary(("present", atom), said((atom,), group))
        self._parts.append(Rule(Atom(predicate, group), patterns.matched((atom,), self._unnamed, self._absent)))
        return Negation(Atom(predicate, group, atom.place))

    def violations(self) -> list[Rule]:
        """The rules of a constraint: its matches are facts of a predicate that says so."""
        written = self._written
        found = self.answers()
        text = f":- {said(written.body, found)}"
        predicate = constraint(self._key, text, written.head.predicate == WARNING)
        self._written = replace(written, head=Atom(predicate, found, written.place))
        return self.rules()

    def answers(self) -> tuple[Variable, ...]:
        """The named variables of the body itself that are bound whichever alternatives are chosen."""
        body = self._body
        outer = _outer(*body)
        names = frozenset(variable.name for variable in outer)
        bound = frozenset.intersection(*[_bound(choice, names) for choice in self._choices(body)])
        return tuple(variable for variable in outer if variable.name in bound and not variable.anonymous)

    def _plain(self, head: Atom, body: _Items) -> list[Rule]:
        """The plain rules of a head and a body."""
        head, items = self._with_named_aggregates(head)
        body += items
        found = [plain for choice in self._choices(body) for plain in self._resolved(head, choice)]
        if len(found) > 1 and _counts_matches(head, found):
            found = [(self._match(head, body, found),)]
        return [Rule(head, plain) for plain in found]

    def _match(self, head: Atom, body: _Items, found: Sequence[_Items]) -> Atom:
        """An atom for a match of a body, in whichever way it comes about: below an aggregate it counts once."""
        common = frozenset.intersection(*map(bound_variables, found))
        own = tuple(variable for variable in _outer(head, *body) if variable.name in common)
        predicate = self._auxiliary(("match", body), said(body, own))
        self._parts += [Rule(Atom(predicate, own), plain) for plain in found]
        return Atom(predicate, own, head.place)

    def _with_named_aggregates(self, head: Atom) -> tuple[Atom, _Items]:
        """A head with variables in the place of aggregates that have bodies, and the equations of these variables."""
        items: list[WrittenItem] = []

        def named(term: Any) -> Variable | None:
            if not _has_body(term):
                return None
            variable = self._fresh()
            items.append(Comparison("=", variable, term, term.place))
            return variable

        return rebuilt(head, named), tuple(items)

    # ---- alternatives

    def _choices(self, body: _Items) -> list[_Items]:
        """The bodies without alternatives that a body stands for."""
        ways = [self._ways(item) for item in body]
        count = 1
        for way in ways:
            count *= len(way)
        if count > MOST_CHOICES:
            what = f"the alternatives make {count:,} combinations, more than {MOST_CHOICES:,},"
            raise self._error(ParseError, None, what, "give some of them predicates of their own")
        return [tuple(item for part in chosen for item in part) for chosen in product(*ways)]

    def _ways(self, item: WrittenItem) -> list[_Items]:
        if not isinstance(item, Disjunction):
            return [(item,)]
        return [choice for alternative in item.alternatives for choice in self._choices(alternative)]

    # ---- what is left: aggregates and ranges

    def _resolved(self, head: Atom, body: _Items) -> list[_Items]:
        """The plain bodies of a body without alternatives."""
        outer = frozenset(variable.name for variable in _outer(head, *body))
        special = [item for item in body if not is_plain(item)]
        if not special:
            return [body]
        item = next((each for each in special if not _unbound(each, body, outer)), None)
        if item is None:
            raise self._unsafe(special[0], _unbound(special[0], body, outer)[0])
        place = next(number for number, each in enumerate(body) if each is item)
        before, after = body[:place], body[place + 1 :]
        ways = self._without_special(item, before + after, outer)
        return [plain for way in ways for plain in self._resolved(head, (*before, *way, *after))]

    def _without_special(self, item: WrittenItem, others: _Items, outer: frozenset[str]) -> Iterable[_Items]:
        """What an item stands for, without its first aggregate or range."""
        aggregate = next((node for node in nodes(item) if _has_body(node)), None)
        if aggregate is None:
            assert isinstance(item, Comparison)
            return [self._range(item, others, outer)]
        assert isinstance(aggregate, Aggregate)
        variable = _defined(item, aggregate)
        if variable is not None and variable.name not in _bound(others, outer):
            return self._aggregate(aggregate, variable, others, outer)
        value = self._fresh()
        rest = rebuilt(item, lambda node: value if node is aggregate else None)
        return [(*way, rest) for way in self._aggregate(aggregate, value, others, outer)]

    def _aggregate(
        self, aggregate: Aggregate, value: Variable, others: _Items, outer: frozenset[str]
    ) -> Iterator[_Items]:
        """What gives a variable the value of an aggregate: reading it, or finding that it is over nothing."""
        assert aggregate.body is not None
        group = _group(aggregate, outer)
        inner = frozenset.intersection(*[_bound(choice, outer) for choice in self._choices(aggregate.body)])
        given = () if inner.issuperset(variable.name for variable in group) else self._values(group, others, outer)
        body = (*given, *aggregate.body)
        predicate = self._known.get((aggregate, body, group))
        if predicate is None:
            text = f"{blank(len(group))} = {said((aggregate,), group)}"
            predicate = self._auxiliary((aggregate, body, group), text)
            own = replace(aggregate, body=None)
            self._parts += self._plain(Atom(predicate, (*group, own), aggregate.place), body)
        yield (Atom(predicate, (*group, value), aggregate.place),)
        if aggregate.function in _OVER_NOTHING:
            nothing = Constant(_OVER_NOTHING[aggregate.function])
            yield (self._nothing(aggregate, predicate, group, body), Comparison("=", value, nothing, aggregate.place))

    def _nothing(self, aggregate: Aggregate, predicate: str, group: tuple[Variable, ...], body: _Items) -> Negation:
        """What says that an aggregate is over nothing. A count has a value wherever there is something; the others may
        have none, as a sum of texts, and then what they are over is a predicate of its own.
        """
        if aggregate.function == "count":
            return Negation(Atom(predicate, (*group, self._unnamed()), aggregate.place))
        something = self._known.get(("something", aggregate, body, group))
        if something is None:
            something = self._auxiliary(("something", aggregate, body, group), said(body, group))
            each = () if isinstance(aggregate.argument, Variable) else (self._each(aggregate),)
            self._parts += self._plain(Atom(something, group, aggregate.place), (*body, *each))
        return Negation(Atom(something, group, aggregate.place))

    def _each(self, aggregate: Aggregate) -> Comparison:
        """What says that there is a value to aggregate."""
        return Comparison("=", self._fresh(), aggregate.argument, aggregate.place)

    def _values(self, wanted: tuple[Variable, ...], others: _Items, outer: frozenset[str]) -> _Items:
        """What binds variables as the rest of a body does, for a body inside it that has no atom of its own for them.
        More values than those of a match do no harm: nobody asks for the others.
        """
        binding = _binding_items(others, outer)
        predicate = self._known.get((binding, wanted))
        if predicate is None:
            predicate = self._auxiliary((binding, wanted), said(binding, wanted))
            self._parts.append(Rule(Atom(predicate, wanted), binding))
        return (Atom(predicate, wanted, wanted[0].place),)

    # ---- ranges

    def _range(self, item: Comparison, others: _Items, outer: frozenset[str]) -> _Items:
        """A range that gives a variable its values, or the tests of a value that is known."""
        assert isinstance(item.right, Call)
        first, end, *steps = item.right.arguments
        step = self._step(steps)
        if not isinstance(item.left, Variable) or item.left.name in _bound(others, outer):
            return tuple(ranges.tests(item.left, first, end, step, item.place))
        predicate = self._numbers(first, end, step, others, outer)
        return (Atom(predicate, (first, end, item.left), item.place),)

    def _step(self, steps: Sequence[Expression]) -> int:
        if not steps:
            return 1
        (step,) = steps
        if isinstance(step, Constant) and type(step.value) is int and 0 < abs(step.value) <= INTEGER_MAX:
            return step.value
        hint = "write a whole number, as in `range(0, 10, 2)` or `range(10, 0, -1)`"
        raise self._error(ParseError, step.place, f"`{render(step)}` is no step of a range", hint)

    def _numbers(self, low: Expression, high: Expression, step: int, others: _Items, outer: frozenset[str]) -> str:
        """A predicate of the numbers of a range, between its ends. They come from an interval of as many places, which
        is halved until each half has one place.
        """
        context = _binding_items(others, outer) if variables(low) or variables(high) else ()
        meaning = ("range", low, high, step, context)
        if meaning in self._known:
            return self._known[meaning]
        shown = f"range({blank(0)}, {blank(1)}{'' if step == 1 else f', {step}'})"
        places = self._auxiliary(("places", *meaning), shown, evident=True)
        predicate = self._auxiliary(meaning, f"{blank(2)} in {shown}", evident=True)
        first, last, begin, end, middle = (self._fresh() for _ in range(5))
        count = (Comparison("=", end, ranges.count(low, high, step)), Comparison(">", end, Constant(0)))
        length = Call("-", (end, begin))
        halves = (
            Atom(places, (first, last, begin, end)),
            Comparison(">", length, Constant(1)),
            Comparison("=", middle, Call("+", (begin, Call("div", (length, Constant(2)))))),
        )
        self._parts += [
            Rule(Atom(places, (low, high, Constant(0), end)), (*context, *count)),
            Rule(Atom(places, (first, last, begin, middle)), halves),
            Rule(Atom(places, (first, last, middle, end)), halves),
            Rule(
                Atom(predicate, (first, last, ranges.number_at(first, begin, step))),
                (Atom(places, (first, last, begin, end)), Comparison("=", length, Constant(1))),
            ),
        ]
        return predicate

    # ---- names and errors

    def _fresh(self) -> Variable:
        return Variable(next(self._names))

    def _unnamed(self) -> Variable:
        """A variable that no answer shows."""
        return Variable(next(self._hidden))

    def _auxiliary(self, meaning: object, text: str, evident: bool = False) -> str:
        predicate = self._known[meaning] = auxiliary(f"{self._key}-{len(self._known)}", text, evident)
        return predicate

    def _unsafe(self, item: WrittenItem, variable: Variable) -> UnsafeRuleError:
        hint = "an atom outside of the braces binds it, as `node(X)` in `node(X), N = count { Y : edge(X, Y) }`"
        if not any(map(_has_body, nodes(item))):
            hint = "the ends of a range are numbers, or variables that atoms of the body bind"
        return self._error(UnsafeRuleError, variable.place, f"variable `{variable.shown}` is not bound", hint)

    def _error(self, kind: type[_Error], place: Place | None, what: str, hint: str) -> _Error:
        kind_of_statement = "rule" if isinstance(self._shown, Rule) else "query"
        where = place or self._written.place
        return mistake(kind, where, f"{what} in the {kind_of_statement}", render(self._shown), hint)


def _counts_matches(head: Atom, bodies: Iterable[_Items]) -> bool:
    """Whether it matters how many matches bodies have: below an aggregate that is not over its own values."""
    if not any(isinstance(term, Aggregate) for term in head.arguments):
        return False
    return not any(isinstance(item, Atom) and item.predicate == head.predicate for body in bodies for item in body)


# ---- variables: those of a body itself are the outer ones of the bodies inside it


def _outer(*parts: Node) -> list[Variable]:
    """The variables of parts of a rule, without those that are only within the braces of aggregates. Each once."""
    bare = [rebuilt(part, lambda node: Constant(0) if _has_body(node) else None) for part in parts]
    return list(dict.fromkeys(variable for part in bare for variable in variables(part)))


def _group(aggregate: Aggregate, outer: frozenset[str]) -> tuple[Variable, ...]:
    """The variables of an aggregate that the body around it has as well."""
    return tuple(dict.fromkeys(variable for variable in variables(aggregate) if variable.name in outer))


def _bound(items: Iterable[WrittenItem], outer: frozenset[str]) -> frozenset[str]:
    """The names of the variables that a body without alternatives binds."""

    def seen(node: Node) -> Node | None:
        if isinstance(node, Aggregate) and _has_body(node):
            return Call("aggregate", _group(node, outer))
        if isinstance(node, Comparison) and node.operator == "in":
            return Comparison("=", rebuilt(node.left, seen), rebuilt(node.right, seen))
        return None

    return bound_variables([rebuilt(item, seen) for item in items])


def _unbound(item: WrittenItem, body: _Items, outer: frozenset[str]) -> list[Variable]:
    """The variables that the first special part of an item needs, and that the rest of the body does not bind."""
    bound = _bound([other for other in body if other is not item], outer)
    aggregate = next((node for node in nodes(item) if isinstance(node, Aggregate) and _has_body(node)), None)
    if aggregate is not None:
        needed = list(_group(aggregate, outer))
    else:
        assert isinstance(item, Comparison)
        needed = variables(item.right)
    return [variable for variable in needed if variable.name not in bound]


def _binding_items(items: _Items, outer: frozenset[str]) -> _Items:
    """The positive atoms and equations of a body that can be evaluated by themselves."""
    plain = [item for item in items if is_plain(item) and not isinstance(item, Negation)]
    while True:
        bound = _bound(plain, outer)
        kept = [item for item in plain if all(variable.name in bound for variable in variables(item))]
        if len(kept) == len(plain):
            return tuple(plain)
        plain = kept


def _defined(item: WrittenItem, aggregate: Aggregate) -> Variable | None:
    """The variable that is alone on the other side of an equation with an aggregate."""
    if not isinstance(item, Comparison) or item.operator != "=":
        return None
    sides: tuple[tuple[Node, Node], ...] = ((item.left, item.right), (item.right, item.left))
    return next((one for one, other in sides if other is aggregate and isinstance(one, Variable)), None)


def said(parts: Sequence[WrittenItem | Term], arguments: Sequence[Variable]) -> str:
    """Parts of a rule as text, with blanks for some variables."""
    blanks = {variable: Variable(blank(place)) for place, variable in enumerate(arguments)}

    def shown(part: WrittenItem | Term) -> str:
        unnamed = dict.fromkeys(variable for variable in variables(part) if variable.shown == "_")
        names = {variable: Variable(f"_{number}") for number, variable in enumerate(unnamed, start=1)} | blanks
        return render(rebuilt(part, lambda node: names.get(node) if isinstance(node, Variable) else None))

    return ", ".join(map(shown, parts))
