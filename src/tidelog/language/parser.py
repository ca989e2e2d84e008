"""Text to syntax tree: the LALR(1) automaton of a syntax's grammar, with the actions of its rules.

Lark made the automaton's tables (`make_tables`), which lie beside the grammars, and here they are run: making them
takes longer than loading the rest of tidelog. Lark's own loop serves every grammar: it looks each rule up by its
symbols, and records everything about each token, blanks included. For a short text, such as a rule in an update, that
took most of the time. Here everything is looked up beforehand, and a token knows only its text and where it begins.
"""

from __future__ import annotations

import gc
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

from tidelog.errors import ParseError
from tidelog.language.actions import Actions, Parsed
from tidelog.language.parse_messages import Source, told_of
from tidelog.language.records.keys import constraint_of_key
from tidelog.language.syntax import Atom, Expiry, Place, Program, Query, Rule, Signature
from tidelog.language.syntaxes import DLOG, syntax_named
from tidelog.language.written.conditions import NO_NAMES, Names, with_conditions, written_as_predicates
from tidelog.language.written.expansion import expanded, query_without_records
from tidelog.language.written.own_lattices import with_own_lattices
from tidelog.values import is_unicode

_END = "$END"
_BLANK = "BLANK"  # may follow any terminal, and no terminal begins like it


def parse_program(
    text: str,
    source: str = "<program>",
    prefixes: Mapping[str, str] | None = None,
    syntax: str = DLOG,
    names: Names = NO_NAMES,
) -> Program:
    """The program in a text. `prefixes` are declared beforehand; the result lists those of the text alone. `names` says
    what names mean beside it.

    Examples:
        >>> from tidelog.language import parse_program
        >>> program = parse_program("edge(a, b).  path(X, Y) :- edge(X, Y).  ?- path(a, X).")
        >>> len(program.facts), len(program.rules), len(program.queries)
        (1, 1, 1)
    """
    declared = tuple(prefixes.items()) if prefixes else ()
    return (_remembered if len(text) <= SHORT else _program)(text, source, declared, syntax, names)


def _program(text: str, source: str, prefixes: tuple[tuple[str, str], ...], syntax: str, names: Names) -> Program:
    parsed = _parse(text, source, dict(prefixes), "program", syntax)
    if parsed.keys:
        declared = (*parsed.predicates, *names.declared)
        parsed.rules += [constraint_of_key(key, declared, Source(text, source)) for key in parsed.keys]
    if names.lattices:
        with told_of(text, source):
            parsed.rules[:] = [with_own_lattices(rule, names.lattices) for rule in parsed.rules]
    if not names.printed and (parsed.rules or parsed.queries):
        _find_conditions(parsed, names, text)
    rules, queries = tuple(parsed.rules), tuple(parsed.queries)
    if rules:
        with told_of(text, source):
            rules = tuple([plain for rule in rules for plain in expanded(rule, parsed.special)])
    if queries and parsed.special:
        with told_of(text, source):
            queries = tuple(map(query_without_records, queries))
    prefixed, facts, expiries = tuple(parsed.prefixes.items()), tuple(parsed.facts), tuple(parsed.expiries)
    return Program(prefixed, facts, rules, queries, tuple(parsed.predicates), expiries)


def parse_parts(text: str, source: str) -> Parsed:
    """The statements of a text that is a part of a program, as they are written."""
    return _parse(text, source, {}, "program", DLOG, in_parts=True)


def _find_conditions(parsed: Parsed, names: Names, text: str) -> None:
    predicates = {head.predicate for rule in parsed.rules for head in (rule.head, *rule.also)}
    predicates |= written_as_predicates(text)
    predicates.update(fact.predicate for fact in parsed.facts)
    predicates.update(signature.predicate for signature in parsed.predicates)
    predicates.update(expiry.predicate for expiry in parsed.expiries)
    parsed.rules[:] = [with_conditions(rule, names, predicates, parsed.special) for rule in parsed.rules]
    parsed.queries[:] = [with_conditions(query, names, predicates, parsed.special) for query in parsed.queries]


# A rule is mostly removed by the same text that added it: this many texts of up to this many characters are remembered.
SHORT = 500
_remembered = lru_cache(maxsize=1000)(_program)


def is_unfinished(text: str) -> bool:
    """Whether a text stops in the middle of a statement, and is correct as far as it goes.

    Examples:
        >>> from tidelog.language import is_unfinished
        >>> is_unfinished("path(X, Y) :-"), is_unfinished("edge(a, b).")
        (True, False)
    """
    try:
        parse_program(text)
    except ParseError as error:
        return error.unfinished
    return False


def parse_rules(
    text: str,
    prefixes: Mapping[str, str],
    source: str = "<rules>",
    syntax: str = DLOG,
    names: Names = NO_NAMES,
) -> tuple[Rule, ...]:
    """The rules of a text that holds nothing else but prefixes.

    Examples:
        >>> from tidelog.language import parse_rules
        >>> [str(rule) for rule in parse_rules("p(X):-q(X),not r(X).", {})]
        ['p(X) :- q(X), not r(X).']
    """
    program = parse_changes(text, prefixes, source, syntax, names)
    _refuse_statements(program.expiries, text, source)
    return program.rules


def parse_changes(
    text: str,
    prefixes: Mapping[str, str],
    source: str = "<rules>",
    syntax: str = DLOG,
    names: Names = NO_NAMES,
) -> Program:
    """A text that holds nothing but rules, what expires, and prefixes."""
    program = parse_program(text, source, prefixes, syntax, names)
    _refuse_statements((*program.facts, *program.queries, *program.predicates), text, source)
    return program


def _refuse_statements(others: Iterable[Atom | Query | Signature | Expiry], text: str, source: str) -> None:
    """Refuse what is no rule where only rules can stand."""
    for statement in others:
        kind, advice = _NO_RULES[type(statement)]
        place = statement.place or Place(1, 1)
        hint = f"only rules can stand here; {advice}"
        raise Source(text, source).error(place.line, place.column, f"{kind} stands among rules", hint)


_NO_RULES: Mapping[type, tuple[str, str]] = {
    Atom: ("a fact", "give facts as data"),
    Query: ("a query", "ask queries apart"),
    Signature: ("a declaration", "it stays, and is given with rules to add"),
    Expiry: ("an `@expire`", "it is for a knowledge base in memory"),
}


def parse_atom(text: str, prefixes: Mapping[str, str], source: str = "<atom>", syntax: str = DLOG) -> Atom:
    """One atom, with or without a final dot.

    Examples:
        >>> from tidelog.language import parse_atom
        >>> atom = parse_atom("edge(a, 1)", {})
        >>> atom.predicate, atom.row
        ('edge', ('a', 1))
    """
    (atom,) = _question(text, source, prefixes, "single_atom", syntax).atoms
    return atom


def parse_query(
    text: str,
    prefixes: Mapping[str, str],
    source: str = "<query>",
    syntax: str = DLOG,
    names: Names = NO_NAMES,
) -> Query:
    """One query, with or without its `?-` and its final dot.

    Examples:
        >>> from tidelog.language import parse_query
        >>> str(parse_query("edge(a,X),X!=b", {}))
        '?- edge(a, X), X != b.'
    """
    asked = _question(text, source, prefixes, "single_query", syntax)
    (query,) = asked.queries
    query = with_conditions(query, names, written_as_predicates(text), asked.special)
    if not asked.special:
        return query
    with told_of(text, source):
        return query_without_records(query)


def _question(text: str, source: str, prefixes: Mapping[str, str], start: str, syntax: str) -> Parsed:
    declared = tuple(prefixes.items())
    return (_remembered_question if len(text) <= SHORT else _parsed)(text, source, declared, start, syntax)


def _parsed(text: str, source: str, prefixes: tuple[tuple[str, str], ...], start: str, syntax: str) -> Parsed:
    return _parse(text, source, dict(prefixes), start, syntax)


# The same questions are asked again and again, with other values in the place of their parameters.
_remembered_question = lru_cache(maxsize=1000)(_parsed)


# ---- the automaton


class Token(str):
    """A terminal as written in the text; lines and columns count from 1."""

    __slots__ = ("column", "line")

    line: int
    column: int


class Reduction(NamedTuple):
    """The `size` symbols on top of the stack become another one, made from the last `values` values."""

    size: int
    values: int
    symbol: str
    make: Callable[[list[Any]], Any] | None  # None where a single symbol only changes its name


class State:
    """A state of the automaton: which terminals can come next, which symbols are complete before a terminal, and the
    states that symbols lead to.
    """

    def __init__(self, terminals: Mapping[str, str], blank: str) -> None:
        self._terminals = terminals
        self._blank = blank
        self.reductions: dict[str, Reduction] = {}
        self.following: dict[str, State] = {}

    @cached_property
    def match(self) -> Callable[[str, int], re.Match[str] | None]:
        """Matches a terminal and the blanks after it. Compiled when first needed: most texts need few states."""
        terminals = "|".join(f"(?P<{name}>{pattern})" for name, pattern in self._terminals.items())
        return re.compile(f"(?:{terminals})(?:{self._blank})?").match


class Stuck(Exception):
    """The text does not follow the grammar: at a position in the text, one of the `accepted` terminals was expected.
    The last one before ended at `last_end`.
    """

    def __init__(self, position: int, last_end: int, accepted: Iterable[str]) -> None:
        self.position = position
        self.last_end = last_end
        self.accepted = accepted


class Automaton:
    """The automaton of a grammar, from its tables; a rule does what the method of `actions` of the same name does."""

    def __init__(self, tables: Mapping[str, Any], actions: Actions) -> None:
        self.actions = actions
        patterns = tables["terminals"]
        rules = [
            Reduction(size, values, symbol, None if action is None else getattr(actions, action))
            for size, values, symbol, action in tables["rules"]
        ]
        rows = tables["states"]
        states = [State({name: patterns[name] for name in row["terminals"]}, patterns[_BLANK]) for row in rows]
        for state, row in zip(states, rows, strict=True):
            state.reductions = {terminal: rules[number] for terminal, number in row["reductions"].items()}
            state.following = {symbol: states[number] for symbol, number in row["following"].items()}
        self._ignored = frozenset(tables["ignored"])
        self._ends = {start: (states[first], states[last]) for start, (first, last) in tables["starts"].items()}

    def parse(self, text: str, start: str) -> None:
        """Perform the actions of the rules that make up a text; `Stuck` where it does not follow the grammar."""
        first, last = self._ends[start]
        stack, values = [first], list[Any]()
        position, line, line_start, last_end = 0, 1, 0, 0
        while position < len(text):
            found = stack[-1].match(text, position)
            if found is None:
                raise Stuck(position, last_end, _accepted(stack, last))
            kind, end = found.lastgroup or "", found.end()
            if kind not in self._ignored:
                _reduce(stack, values, kind)
                following = stack[-1].following.get(kind)
                if following is None:
                    raise Stuck(position, last_end, _accepted(stack, last))
                stack.append(following)
                last_end = found.end(kind)
                if has_value(kind):
                    token = Token(found[kind])
                    token.line, token.column = line, position - line_start + 1
                    values.append(token)
            newlines = text.count("\n", position, end)
            if newlines:
                line += newlines
                line_start = text.rindex("\n", position, end) + 1
            position = end
        before = stack.copy()  # More can come next than after the symbols that are complete at the end.
        _reduce(stack, values, _END)
        if stack[-1] is not last:
            raise Stuck(len(text), last_end, _accepted(before, last))


def has_value(terminal: str) -> bool:
    """Whether the text of a terminal is needed; for the others it is enough that they are there."""
    return terminal[0] != "_"


def _reduce(stack: list[State], values: list[Any], terminal: str) -> None:
    """Reduce all the symbols that are complete before a terminal."""
    while reduction := stack[-1].reductions.get(terminal):
        size, count, symbol, make = reduction
        del stack[len(stack) - size :]
        stack.append(stack[-1].following[symbol])
        if make is not None:
            first = len(values) - count
            parts = values[first:]
            del values[first:]
            values.append(make(parts))


def _accepted(stack: list[State], last: State) -> set[str]:
    """The terminals that can come next."""
    here = stack[-1]
    terminals = (symbol for symbol in (*here.reductions, *here.following) if symbol.isupper())
    return {terminal for terminal in terminals if _leads_on(stack.copy(), terminal, last)}


def _leads_on(stack: list[State], terminal: str, last: State) -> bool:
    """Whether a terminal can come next: a state also reduces before some that are an error only afterwards."""
    while reduction := stack[-1].reductions.get(terminal):
        del stack[len(stack) - reduction.size :]
        stack.append(stack[-1].following[reduction.symbol])
    return stack[-1] is last if terminal == _END else terminal in stack[-1].following


# By syntax, the automata that are not in use. There is no lock: a parse can be interrupted by code that parses
# something else, such as a signal handler, and a child can be forked while another thread parses. Where none is idle, a
# new one is made.
_idle: defaultdict[str, list[Automaton]] = defaultdict(list)


@cache
def _tables(syntax: str) -> Mapping[str, Any]:
    with open(os.path.join(os.path.dirname(__file__), syntax_named(syntax).tables), encoding="utf-8") as file:
        tables: Mapping[str, Any] = json.load(file)
    return tables


def _parse(
    text: str, source: str, prefixes: Mapping[str, str], start: str, syntax: str, in_parts: bool = False
) -> Parsed:
    actions = syntax_named(syntax).actions
    # A text that begins otherwise stays what it is: it may know which texts it was made of.
    given = Source(text.removeprefix("\ufeff") if text.startswith("\ufeff") else text, source)
    if not is_unicode(given.text):
        raise _no_unicode(given)
    try:
        automaton = _idle[syntax].pop()
    except IndexError:
        automaton = Automaton(_tables(syntax), actions())
    # A growing tree has no cycles: a collector that walks it again and again finds nothing and doubles the time.
    collects = gc.isenabled()
    try:
        gc.disable()
        parsed = automaton.actions.begin(given, prefixes, in_parts)
        automaton.parse(given.text, start)
    except Stuck as stuck:
        raise _mistake(given, stuck) from None
    finally:
        automaton.actions.forget()
        _idle[syntax].append(automaton)
        if collects:
            gc.enable()
    return parsed


# ---- errors


def _no_unicode(given: Source) -> ParseError:
    """The error for a text that holds half of a surrogate pair."""
    start, code = next((place, code) for place, code in enumerate(map(ord, given.text)) if 0xD800 <= code < 0xE000)
    # The message must be printable, whatever the text holds.
    readable = Source(given.text[:start] + "\ufffd", given.name)
    what = f"half of a surrogate pair (U+{code:04X}), which is no Unicode text"
    return readable.error_at(start, what, "save or decode the text as UTF-8")


def _mistake(given: Source, stuck: Stuck) -> ParseError:
    """The error for a text that does not follow the grammar."""
    if stuck.position < len(given.text):
        return given.unexpected(stuck.position, stuck.last_end, stuck.accepted)
    end = len(given.text[: stuck.last_end].rstrip())
    error = given.unexpected(end, end, stuck.accepted)
    error.unfinished = True
    return error
