"""Questions on their way in: queries and facts as users ask for them, with values, checked against a catalogue.

A fact is a text, a tuple of its predicate and its values, or an atom of the syntax tree. A predicate with another
number of arguments is an `ArityError`, as it is in rules. One that nothing mentions has no facts, which is no error,
but probably a mistake: it is warned of, unless the program declares it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from tidelog.errors import DataError, ParseError, TidelogError, UnknownPredicateWarning, warn
from tidelog.facts.arguments import checked_text
from tidelog.language import DLOG, parse_atom, parse_query, render
from tidelog.language.arithmetic import NoValue
from tidelog.language.checks import Spellings, check_arities, check_statement, mistaken_call, unknown_predicate
from tidelog.language.functions.of_constants import value_of
from tidelog.language.names import is_hidden
from tidelog.language.parameters import bind
from tidelog.language.parse_messages import Source, at, mistake, told_of
from tidelog.language.records.patterns import RECORD
from tidelog.language.syntax import Aggregate, Atom, Call, Constant, Place, Query, Term, Variable, body_atoms, nodes
from tidelog.language.written.expansion import plain_forms
from tidelog.language.written.windows import windows_in
from tidelog.program.catalogue import Catalogue
from tidelog.runtime.signals import interruptible
from tidelog.values import Record, checked_value

Fact = str | tuple[Any, ...] | Atom
Values = Mapping[str, object]


def query_of(asked: str | Query, values: Values, catalogue: Catalogue, functions: Set[str]) -> Query:
    """A query with values in the place of its parameters."""
    prefixes = catalogue.prefixes
    if isinstance(asked, Query):
        text, query = render(asked, prefixes), asked
    else:
        text = checked_text(asked, "text")
        query = interruptible(parse_query, text, prefixes, "<query>", DLOG, catalogue.names(functions))
    # The places of a query that has been parsed belong to another text.
    with nullcontext() if isinstance(asked, Query) else told_of(text, "<query>"):
        query = bind(query, values, Source(text, "<query>"))
        plain = plain_forms(query)
        for statement in plain:
            check_statement(statement, functions, prefixes)
        check_arities(plain, catalogue.arities, prefixes)
    for atom in (atom for statement in plain for atom in body_atoms(statement)):
        if not is_hidden(atom.predicate):
            warn_of_unknown(catalogue, atom.predicate, atom.arity, atom.place if isinstance(asked, Query) else None)
    return query


def refuse_new_windows(query: Query, readers: Callable[[str], Collection[int]]) -> None:
    """What is in a window is known as long as a rule has the same one; `readers` gives the rules with a predicate."""
    for statement in plain_forms(query):
        for atom, _ in windows_in(statement.body):
            if not readers(atom.predicate):
                hint = "write a rule with it, and ask for the head of the rule"
                raise mistake(ParseError, atom.place, f"no rule has the window `{render(atom)}`", render(query), hint)


def fact_of(asked: object, values: Values, catalogue: Catalogue) -> Atom:
    """The fact that is asked for, with values in the place of its parameters."""
    if isinstance(asked, tuple | list):
        return _checked(_of_tuple(asked, catalogue), catalogue)
    if isinstance(asked, Atom):
        return _checked(asked, catalogue)
    text = checked_text(asked, "fact")
    with told_of(text, "<fact>"):
        atom = bind(parse_atom(text, catalogue.prefixes, "<fact>"), values, Source(text, "<fact>"))
        if not any(isinstance(node, Variable | Aggregate) for node in nodes(atom)):
            atom = replace(atom, arguments=tuple([_computed(term, atom) for term in atom.arguments]))
        return _checked(atom, catalogue)


def _computed(term: Term, atom: Atom) -> Constant:
    """The value of an argument of a fact, as a fact of a program would have it."""
    if isinstance(term, Constant):
        return term
    assert isinstance(term, Call), "an expression without variables and aggregates"
    mistaken = mistaken_call(term) if term.function != RECORD else None
    if mistaken is not None:
        raise mistake(ParseError, term.place, mistaken[0], render(atom), mistaken[1])
    values = tuple(_computed(argument, atom).value for argument in term.arguments)
    try:
        return Constant(Record(*values) if term.function == RECORD else value_of(term, values))
    except NoValue as problem:
        raise mistake(ParseError, term.place, f"the fact has no value: {problem}", render(atom), "") from None


def _of_tuple(asked: Sequence[Any], catalogue: Catalogue) -> Atom:
    if not asked:
        raise DataError('a fact as a tuple begins with its predicate, as in ("may", "ada", "write")')
    name, *row = asked
    predicate = catalogue.resolve(name)
    try:
        return Atom(predicate, tuple([Constant(checked_value(value)) for value in row]))
    except DataError as problem:
        raise DataError(f"`{name}`: {problem}") from None


def _checked(atom: Atom, catalogue: Catalogue) -> Atom:
    if not all(isinstance(term, Constant) for term in atom.arguments):
        text = render(atom, catalogue.prefixes)
        raise TidelogError(
            f"`{text}` is no fact: it has variables or expressions; a query such as `?- {text}.` asks for all"
        )
    check_arities([atom], catalogue.arities, catalogue.prefixes)
    return atom


def warn_of_unknown(catalogue: Catalogue, predicate: str, arity: int | None = None, place: Place | None = None) -> None:
    """Warn of a question about a predicate that nothing mentions; its name may be misspelt. `place` is where it stands
    in a program.
    """
    if predicate not in catalogue.arities:
        meant = Spellings(catalogue.arities).closest(predicate)
        warn(at(place) + unknown_predicate(predicate, arity, meant, catalogue.prefixes), UnknownPredicateWarning)
