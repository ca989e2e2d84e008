"""The LALR(1) automaton of `grammar.lark`: Lark makes its tables, and here they are run.

Lark's own loop serves every grammar: it looks each rule up by its symbols, and records everything about each token,
blanks included. For a short text, such as a rule in an update, that took most of the time. Here everything is looked up
beforehand, and a token knows only its text and where it begins.

Errors are not handled here: Lark, asked to parse the same text, says what it expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

_END = "$END"
_BLANK = "BLANK"  # may follow any terminal, and no terminal begins like it


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

    def __init__(self, terminals: Iterable[Any], blank: str) -> None:
        self._terminals = terminals
        self._blank = blank
        self.reductions: dict[str, Reduction] = {}
        self.following: dict[str, State] = {}

    @cached_property
    def match(self) -> Callable[[str, int], re.Match[str] | None]:
        """Matches a terminal and the blanks after it. Compiled when first needed: most texts need few states."""
        terminals = "|".join(f"(?P<{one.name}>{one.pattern.to_regexp()})" for one in self._terminals)
        return re.compile(f"(?:{terminals})(?:{self._blank})?").match


class Stuck(Exception):
    """The text does not follow the grammar."""


class Automaton:
    """Lark's tables for a grammar; a rule does what the method of `actions` of the same name does."""

    def __init__(self, lark: Any, actions: object) -> None:
        frontend = lark.parser
        table = frontend.parser.parser.parse_table
        blank = lark.get_terminal(_BLANK).pattern.to_regexp()
        states = {number: State(lexer.terminals, blank) for number, lexer in frontend.lexer.lexers.items()}
        for number, row in table.states.items():
            for symbol, (_, step) in row.items():
                if isinstance(step, int):
                    states[number].following[str(symbol)] = states[step]
                else:
                    states[number].reductions[str(symbol)] = _reduction(step, actions)
        self._ignored = frozenset(lark.ignore_tokens)
        self._ends = {
            start: (states[table.start_states[start]], states[table.end_states[start]]) for start in table.start_states
        }

    def parse(self, text: str, start: str) -> None:
        """Perform the actions of the rules that make up a text; `Stuck` where it does not follow the grammar."""
        first, last = self._ends[start]
        stack, values = [first], list[Any]()
        position, line, line_start = 0, 1, 0
        while position < len(text):
            found = stack[-1].match(text, position)
            if found is None:
                raise Stuck
            kind, end = found.lastgroup or "", found.end()
            if kind not in self._ignored:
                _reduce(stack, values, kind)
                following = stack[-1].following.get(kind)
                if following is None:
                    raise Stuck
                stack.append(following)
                if _has_value(kind):
                    token = Token(found[kind])
                    token.line, token.column = line, position - line_start + 1
                    values.append(token)
            newlines = text.count("\n", position, end)
            if newlines:
                line += newlines
                line_start = text.rindex("\n", position, end) + 1
            position = end
        _reduce(stack, values, _END)
        if stack[-1] is not last:
            raise Stuck


def _has_value(terminal: str) -> bool:
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


def _reduction(rule: Any, actions: object) -> Reduction:
    size = len(rule.expansion)
    values = sum(not symbol.is_term or _has_value(symbol.name) for symbol in rule.expansion)
    stays = rule.options.expand1 and not rule.alias and size == 1
    symbol = str(rule.origin.name)
    return Reduction(size, values, symbol, None if stays else getattr(actions, rule.alias or symbol))
