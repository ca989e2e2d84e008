"""An equality, `@equality same on p, q.`: what it does to the rules of the predicates that it applies to.

`same` is an equivalence (its two rules are made by `language.written.expansion`, and kept as a closure). A predicate
that it applies to is closed under replacement: with `p(a)` and `same(a, b)` there is `p(b)`. Such copies are not
derived. The relation of `p` holds its rows as they were given or derived, and a row stands for all that replacement
makes of it: those who read facts see them, see `facts.equality`. Rules that read `p` find the copies by joining `same`:

    r(X, Z) :- p(X, Y), q(Y, Z).      becomes       r(X, Z) :- p(X, Y), q(Y, Z).
                                                    r(X, Z) :- p(X, Y), same(Y, E), q(E, Z).

There is no copy of a constant that `same` does not mention, and `same(a, a)` holds for all others: so each term that is
met by equality makes two *variants* of a rule, one in which all its occurrences are the same constant, and one in which
all of them are joined by `same`. They are plain rules, for which every algorithm is right as it is, and under which the
rows of `p`, closed under replacement, are what the replacement rules would yield. Which terms are met by equality:

- A variable that occurs only where an equality applies may stand for any member of its class. If it occurs once,
  nothing has to be done, not even in the head: the row that is derived stands for the others.
- Elsewhere (in other predicates, comparisons, expressions, below `not`) a variable has one value, and all members of a
  class are gone through: `same(E, X)`, with E at each place where the equality applies.
- So it is for constants and expressions: `p(a)` matches a row of each member of the class of `a`.

Below `not`, and in a rule that aggregates, where each match counts once, an auxiliary predicate has the copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from tidelog.errors import ParseError
from tidelog.language.checks import bound_variables
from tidelog.language.names import auxiliary, is_hidden
from tidelog.language.parse_messages import mistake
from tidelog.language.printer import render
from tidelog.language.syntax import (
    QUERY,
    Aggregate,
    Atom,
    BodyItem,
    Call,
    Negation,
    Place,
    Query,
    Rule,
    Term,
    Variable,
    body_atoms,
    new_names,
    variables,
)
from tidelog.language.written.expansion import digest, expanded_query, is_plain, said

# Each of so many terms doubles the number of rules.
MOST_MET = 10


@dataclass(frozen=True)
class Equality:
    """An equality as it is written: its predicate, and those that it applies to; None where it applies to all."""

    written: Rule

    @property
    def predicate(self) -> str:
        return self._names[0]

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(atom.predicate for atom in self.written.body if isinstance(atom, Atom))

    def applies_to(self, predicate: str) -> bool:
        """Whether a predicate is closed under replacement. What engines and rules have for themselves is not."""
        first, *others = self._names
        return predicate != first and not is_hidden(predicate) and (not others or predicate in others)


def equality_of(rules: Iterable[Rule]) -> Equality | None:
    """The equality among some rules; two are refused."""
    found = list(dict.fromkeys(rule.written for rule in rules if rule.written.is_equality))
    if len(found) > 1:
        hint = f"one equality can apply to several predicates; `{render(found[0])}` is there already"
        raise mistake(ParseError, found[-1].place, "a program has one equality", render(found[-1]), hint)
    return Equality(found[0]) if found else None


def under_equality(rule: Rule, equality: Equality | None, known: bool = False) -> list[Rule]:
    """What a plain rule becomes under an equality: its variants, or itself. A rule that is `known` from before is not
    in the text that declares the equality.
    """
    if equality is None or rule.written.is_equality:
        return [rule]
    if any(isinstance(term, Aggregate) for term in rule.head.arguments) and equality.applies_to(rule.head.predicate):
        raise _aggregated(rule, equality, equality.written.place if known else rule.place)
    found = _Rewriting(rule, equality).rules()
    if len(found) == 1 and found[0].body == rule.body:
        return [rule]
    return [
        replace(each, place=rule.place, origin=rule.origin, part=rule.part, plain=rule, variant=variant)
        for variant, each in enumerate(found)
    ]


def answer_variables(query: Query) -> tuple[Variable, ...]:
    """The named variables of a query in the order of the text, without those that occur only in negated atoms."""
    positive = {v for item in query.body if not isinstance(item, Negation) for v in variables(item)}
    found = dict.fromkeys(variable for item in query.body for variable in variables(item))
    return tuple(variable for variable in found if variable in positive and not variable.anonymous)


def answer_rules(query: Query, equality: Equality | None) -> tuple[Atom, list[Rule]]:
    """An atom for an answer of a query, and plain rules that derive it."""
    if is_plain(query):
        head = Atom(QUERY, answer_variables(query))
        rules = [Rule(head, query.body, query.place)]
    else:
        head, rules = expanded_query(query)
        origin = Rule(Atom(QUERY), query.body, query.place)  # what messages show
        rules = [replace(rule, origin=origin, part=part) for part, rule in enumerate(rules)]
    return head, [variant for rule in rules for variant in under_equality(rule, equality)]


def refuse_copies(query: Query, equality: Equality | None) -> None:
    """Refuse to follow a query that reads facts which rows stand for under an equality."""
    for atom in body_atoms(query):
        if equality is not None and equality.applies_to(atom.predicate):
            shown, name = render(equality.written), render(Atom(atom.predicate))
            what = f"a query that is followed cannot have `{render(atom)}`: `{shown}` applies to `{name}`"
            hint = "write a rule for another predicate, to which the equality does not apply, and follow that one"
            refusal = mistake(ParseError, atom.place or query.place, what, render(query), hint)
            refusal.names_others = True
            raise refusal


def _aggregated(rule: Rule, equality: Equality, place: Place | None) -> ParseError:
    name = render(Atom(rule.head.predicate))
    what = f"`{name}` has an aggregate in its head, and `{render(equality.written)}` applies to it"
    hint = f"list the predicates that it applies to, without `{name}`: `@equality {equality.predicate} on …`"
    return mistake(ParseError, place, what, render(rule), hint)


class _Rewriting:
    """The variants of one plain rule, after the rules of its auxiliary predicates."""

    def __init__(self, rule: Rule, equality: Equality) -> None:
        self._rule = rule
        self._equality = equality
        self._names = new_names(rule, "E")
        self._parts: list[Rule] = []

    def rules(self) -> list[Rule]:
        counts = any(isinstance(term, Aggregate) for term in self._rule.head.arguments)
        bound = bound_variables(self._rule.body)
        body: list[BodyItem] = []
        for item in self._rule.body:
            if isinstance(item, Negation) and self._applies(item.atom):
                item = Negation(self._with_copies(item.atom, bound))
            elif counts and isinstance(item, Atom) and self._applies(item):
                item = self._with_copies(item, None)
            body.append(item)
        own = list(self._variants(self._rule.head, tuple(body)))
        return [*self._parts, *own]

    def _applies(self, atom: Atom) -> bool:
        return self._equality.applies_to(atom.predicate)

    def _with_copies(self, atom: Atom, bound: frozenset[str] | None) -> Atom:
        """An atom of an auxiliary predicate, which has the copies that replacement makes: of those terms of an atom
        whose values are known there, or of all its variables.
        """
        inner: list[Term] = []
        outer: dict[Variable, Term] = {}
        for term in atom.arguments:
            own = Variable(next(self._names)) if isinstance(term, Call) else term
            inner.append(own)
            if isinstance(own, Variable) and (own is not term or bound is None or own.name in bound):
                outer[own] = term
        own_atom = Atom(atom.predicate, tuple(inner), atom.place)
        key = f"{digest(self._rule)}-{self._rule.part}-equal-{len(self._parts)}"
        head = Atom(auxiliary(key, said((own_atom,), tuple(outer))), tuple(outer))
        self._parts += self._variants(head, (own_atom,))
        return Atom(head.predicate, tuple(outer.values()), atom.place)

    def _variants(self, head: Atom, body: tuple[BodyItem, ...]) -> Iterator[Rule]:
        met = self._met(head, body)
        if len(met) > MOST_MET:
            shown = render(self._equality.written)
            what = f"`{shown}` meets {len(met)} terms of the rule, more than {MOST_MET}"
            hint = "give a part of the body a predicate of its own, or list fewer predicates in the equality"
            raise mistake(ParseError, self._rule.place, what, render(self._rule), hint)
        for joined in product((False, True), repeat=len(met)):
            chosen = {term: single for (term, single), choice in zip(met.items(), joined, strict=True) if choice}
            yield Rule(head, tuple(self._joined(body, chosen)))

    def _met(self, head: Atom, body: tuple[BodyItem, ...]) -> dict[Term, bool]:
        """The terms that are met by equality, and whether each has one value."""
        single = {variable for item in body for variable in self._single(item)}
        single.update(self._single(head))
        places = [term for item in body if isinstance(item, Atom) and self._applies(item) for term in item.arguments]
        met: dict[Term, bool] = {}
        for term in places:
            if not isinstance(term, Variable) or term in single:
                met[term] = True
            elif places.count(term) > 1:
                met[term] = False
        return met

    def _single(self, item: BodyItem) -> list[Variable]:
        """The variables that have one value because of where they are in a part of a rule."""
        if isinstance(item, Atom) and (self._applies(item) or item.predicate == self._equality.predicate):
            return [variable for term in item.arguments if isinstance(term, Call) for variable in variables(term)]
        return variables(item)

    def _joined(self, body: tuple[BodyItem, ...], chosen: dict[Term, bool]) -> Iterator[BodyItem]:
        """A body with some terms joined by the equality at each place where it applies. One that has no single value
        may stay where it is first.
        """
        stays = {term for term, single in chosen.items() if not single}
        for item in body:
            if not isinstance(item, Atom) or not self._applies(item):
                yield item
                continue
            arguments: list[Term] = []
            pairs: list[Atom] = []
            for term in item.arguments:
                if term in stays:
                    stays.remove(term)
                elif term in chosen:
                    other = Variable(next(self._names))
                    pairs.append(Atom(self._equality.predicate, (other, term), item.place))
                    term = other
                arguments.append(term)
            yield replace(item, arguments=tuple(arguments))
            yield from pairs
