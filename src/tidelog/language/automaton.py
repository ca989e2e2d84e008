"""The LALR(1) automaton of `grammar.lark`: Lark makes its tables, and here they are run.

Lark's own loop serves every grammar: it looks each rule up by its symbols, and notes of each token, blanks too, all
that anybody might ask. For a short text, such as a rule that comes with an update, that was most of the time. Here all
is looked up beforehand, and a token knows its text and where it begins.

What cannot be parsed is no business of this file: Lark, asked to parse the same text, says what it expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

_END = "$END"


class Token(str):
    """A terminal as it stands in the text; lines and columns count from 1."""

    __slots__ = ("column", "line")

    line: int
    column: int


class Reduction(NamedTuple):
    """So many symbols on top of the stack make another one."""

    size: int
    symbol: str
    make: Callable[[list[Any]], Any] | None  # None where a symbol alone only gets another name


class State:
    """A state of the automaton: what can stand next in the text, the symbols that are complete before a terminal, and
    the states that symbols lead to.
    """

    def __init__(self, terminals: Iterable[Any]) -> None:
        self._terminals = terminals
        self.reductions: dict[str, Reduction] = {}
        self.following: dict[str, State] = {}

    @cached_property
    def match(self) -> Callable[[str, int], re.Match[str] | None]:
        """Compiled when first needed: most states of most texts never are."""
        return re.compile("|".join(f"(?P<{one.name}>{one.pattern.to_regexp()})" for one in self._terminals)).match


class Stuck(Exception):
    """The text does not go on as the grammar says."""


class Automaton:
    """The tables that Lark has made of a grammar, with what its rules do."""

    def __init__(self, lark: Any) -> None:
        frontend = lark.parser
        parser = frontend.parser.parser
        table = parser.parse_table
        states = {number: State(lexer.terminals) for number, lexer in frontend.lexer.lexers.items()}
        for number, row in table.states.items():
            for symbol, (_, step) in row.items():
                if isinstance(step, int):
                    states[number].following[str(symbol)] = states[step]
                else:
                    states[number].reductions[str(symbol)] = _reduction(step, parser.callbacks)
        self._ignored = frozenset(lark.ignore_tokens)
        self._ends = {
            start: (states[table.start_states[start]], states[table.end_states[start]]) for start in table.start_states
        }

    def parse(self, text: str, start: str) -> None:
        """Do what the rules do that a text is made of; `Stuck` where it cannot be made of any."""
        first, last = self._ends[start]
        stack, values = [first], list[Any]()
        position, line, line_start = 0, 1, 0
        while position < len(text):
            found = stack[-1].match(text, position)
            if found is None:
                raise Stuck
            content, kind = found[0], found.lastgroup or ""
            if kind not in self._ignored:
                _reduce(stack, values, kind)
                token = Token(content)
                token.line, token.column = line, position - line_start + 1
                following = stack[-1].following.get(kind)
                if following is None:
                    raise Stuck
                stack.append(following)
                values.append(token)
            if "\n" in content:
                line += content.count("\n")
                line_start = position + content.rindex("\n") + 1
            position += len(content)
        _reduce(stack, values, _END)
        if stack[-1] is not last:
            raise Stuck


def _reduce(stack: list[State], values: list[Any], terminal: str) -> None:
    """Make all the symbols that are complete before a terminal."""
    while reduction := stack[-1].reductions.get(terminal):
        size, symbol, make = reduction
        if make is None:
            stack.pop()
        elif size:
            parts = values[-size:]
            del stack[-size:], values[-size:]
            values.append(make(parts))
        else:
            values.append(make([]))
        stack.append(stack[-1].following[symbol])


def _reduction(rule: Any, actions: Mapping[Any, Callable[[list[Any]], Any]]) -> Reduction:
    size, stays = len(rule.expansion), rule.options.expand1 and not rule.alias
    return Reduction(size, str(rule.origin.name), None if stays and size == 1 else actions[rule])
