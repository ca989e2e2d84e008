"""Text to syntax tree: the automaton of `grammar.lark`, with the actions of `actions.py`.

Lark is imported, and its tables are made, at the first parse. A text that the automaton cannot parse is given to Lark
itself, to find out what it expected.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

from tidelog.errors import ParseError
from tidelog.language.actions import Actions, Parsed
from tidelog.language.automaton import Automaton, Stuck
from tidelog.language.parse_messages import Source
from tidelog.language.syntax import Atom, Place, Program, Query, Rule
from tidelog.values import is_unicode


def parse_program(text: str, source: str = "<program>", prefixes: Mapping[str, str] | None = None) -> Program:
    """The program in a text. `prefixes` are declared beforehand; the result lists those of the text alone."""
    declared = tuple(prefixes.items()) if prefixes else ()
    return (_remembered if len(text) <= SHORT else _program)(text, source, declared)


def _program(text: str, source: str, prefixes: tuple[tuple[str, str], ...]) -> Program:
    parsed = _parse(text, source, dict(prefixes), "program")
    return Program(tuple(parsed.prefixes.items()), tuple(parsed.facts), tuple(parsed.rules), tuple(parsed.queries))


# A rule is mostly removed by the same text that added it: this many texts of up to this many characters are remembered.
SHORT = 500
_remembered = lru_cache(maxsize=1000)(_program)


def is_unfinished(text: str) -> bool:
    """Whether a text stops in the middle of a statement, and is correct as far as it goes."""
    try:
        parse_program(text)
    except ParseError as error:
        return error.unfinished
    return False


def parse_rules(text: str, prefixes: Mapping[str, str], source: str = "<rules>") -> tuple[Rule, ...]:
    """The rules of a text that holds nothing else but prefixes."""
    program = parse_program(text, source, prefixes)
    for kind, statements in (("fact", program.facts), ("query", program.queries)):
        for statement in statements:
            place = statement.place or Place(1, 1)
            advice = "give facts as data" if kind == "fact" else "ask queries apart"
            raise Source(text, source).error(
                place.line, place.column, f"a {kind} stands among rules", f"only rules can stand here; {advice}"
            )
    return program.rules


def parse_atom(text: str, prefixes: Mapping[str, str], source: str = "<atom>") -> Atom:
    """One atom, with or without a final dot."""
    (atom,) = _parse(text, source, prefixes, "single_atom").atoms
    return atom


def parse_query(text: str, prefixes: Mapping[str, str], source: str = "<query>") -> Query:
    """One query, with or without its `?-` and its final dot."""
    (query,) = _parse(text, source, prefixes, "single_query").queries
    return query


# Automata that are not in use. There is no lock: a parse can be interrupted by code that parses something else, such as
# a signal handler, and a child can be forked while another thread parses. Where none is idle, a new one is made.
_idle: list[tuple[Automaton, Actions]] = []


@cache
def _lark() -> Any:
    from importlib.resources import files

    from lark import Lark

    grammar = files("tidelog.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start=["program", "single_atom", "single_query"],
        maybe_placeholders=False,
    )


def _new_automaton() -> tuple[Automaton, Actions]:
    actions = Actions()
    return Automaton(_lark(), actions), actions


def _parse(text: str, source: str, prefixes: Mapping[str, str], start: str) -> Parsed:
    given = Source(text.removeprefix("\ufeff"), source)
    if not is_unicode(given.text):
        raise _no_unicode(given)
    try:
        automaton, actions = _idle.pop()
    except IndexError:
        automaton, actions = _new_automaton()
    with _no_collection():
        try:
            parsed = actions.begin(given, prefixes)
            automaton.parse(given.text, start)
        except Stuck:
            raise _mistake(given, start) from None
        finally:
            actions.forget()
            _idle.append((automaton, actions))
    return parsed


def _no_unicode(given: Source) -> ParseError:
    """The error for a text that holds half of a surrogate pair."""
    start, code = next((place, code) for place, code in enumerate(map(ord, given.text)) if 0xD800 <= code < 0xE000)
    # The message must be printable, whatever the text holds.
    readable = Source(given.text[:start] + "\ufffd", given.name)
    what = f"half of a surrogate pair (U+{code:04X}), which is no Unicode text"
    return readable.error_at(start, what, "save or decode the text as UTF-8")


def _mistake(given: Source, start: str) -> ParseError:
    """The error for a text that cannot be parsed."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    try:
        _lark().parse(given.text, start=start)
    except UnexpectedToken as problem:
        return _unexpected(given, problem, problem.token)
    except UnexpectedCharacters as problem:
        return _unexpected(given, problem, None)
    raise AssertionError("Lark parses what its own tables do not")


@contextmanager
def _no_collection() -> Iterator[None]:
    """A growing tree has no cycles: a collector that walks it again and again finds nothing and doubles the time."""
    enabled = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if enabled:
            gc.enable()


def _unexpected(source: Source, problem: Any, token: Any) -> ParseError:
    """Lark's error in our words. `token` is the one that was found, if it is a token of the language at all."""
    accepted = problem.interactive_parser.accepts()
    if token is not None and token.type == "$END":
        end = len(source.text[: token.end_pos or 0].rstrip())
        error = source.unexpected(end, end, accepted)
        error.unfinished = True
        return error
    history = problem.token_history or [None]
    return source.unexpected(problem.pos_in_stream, history[0].end_pos if history[0] else 0, accepted)
