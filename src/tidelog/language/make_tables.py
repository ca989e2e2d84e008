"""Writes the tables of the LALR(1) automata of all grammars, as JSON beside them.

`python -m tidelog.language.make_tables` is to be run after each edit of a grammar. Lark is needed here, and nowhere
else. Its numbers of states differ from run to run; here states and rules are numbered in the order of a walk from the
start, so that a grammar always gives the same file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidelog.extras import needing
from tidelog.language.parser import has_value
from tidelog.language.syntaxes import SYNTAXES

STARTS = ("program", "single_atom", "single_query")


def tables_of(grammar: str) -> dict[str, Any]:
    """The tables of a grammar:

    - `terminals`: regular expressions by name; `ignored`: those that mean nothing;
    - `rules`: how many symbols a rule takes, how many of them have values, the symbol that it makes, and its action,
      null where a single symbol only changes its name;
    - `states`: in each, the terminals in the order in which they are tried, the rule that is complete before a
      terminal, and the state that a symbol leads to;
    - `starts`: for each symbol that a text can be, the first state and the last.
    """
    with needing("reading a grammar"):
        from lark import Lark

    lark = Lark.open_from_package(
        __package__, grammar, parser="lalr", lexer="contextual", start=list(STARTS), maybe_placeholders=False
    )
    frontend = lark.parser
    table, lexers = frontend.parser.parser.parse_table, frontend.lexer.lexers
    first = [table.start_states[start] for start in STARTS]
    order = _walk(table.states, first)
    rules: dict[Any, int] = {}
    states = []
    for state in order:
        row = {str(symbol): step for symbol, (_, step) in sorted(table.states[state].items())}
        complete = {symbol: rule for symbol, rule in row.items() if not isinstance(rule, int)}
        states.append(
            {
                "terminals": [str(terminal.name) for terminal in lexers[state].terminals],
                "reductions": {symbol: rules.setdefault(rule, len(rules)) for symbol, rule in complete.items()},
                "following": {symbol: order[next_] for symbol, next_ in row.items() if symbol not in complete},
            }
        )
    return {
        "terminals": {str(terminal.name): terminal.pattern.to_regexp() for terminal in lark.terminals},
        "ignored": sorted(map(str, lark.ignore_tokens)),
        "rules": list(map(_rule, rules)),
        "states": states,
        "starts": {start: [order[table.start_states[start]], order[table.end_states[start]]] for start in STARTS},
    }


def _walk(rows: Mapping[int, Mapping[Any, tuple[Any, Any]]], first: list[int]) -> dict[int, int]:
    """The states that can be reached, each with its new number."""
    order = {state: number for number, state in enumerate(first)}
    waiting = list(first)
    for state in waiting:
        for _, (_, step) in sorted(rows[state].items()):
            if isinstance(step, int) and step not in order:
                order[step] = len(order)
                waiting.append(step)
    return order


def _rule(rule: Any) -> list[Any]:
    size = len(rule.expansion)
    values = sum(not symbol.is_term or has_value(symbol.name) for symbol in rule.expansion)
    stays = rule.options.expand1 and not rule.alias and size == 1
    symbol = str(rule.origin.name)
    # What a grammar imports has the name of the other grammar before its own: `grammar__operation`.
    return [size, values, symbol, None if stays else (rule.alias or symbol).rpartition("__")[2]]


def text_of(tables: Mapping[str, Any]) -> str:
    """The tables as the text of a file: a line for each terminal, rule and state."""
    parts = []
    for name, content in tables.items():
        items = content.items() if isinstance(content, dict) else [(None, item) for item in content]
        lines = [(f"{json.dumps(key)}: " if key is not None else "") + json.dumps(item) for key, item in items]
        brackets = "{}" if isinstance(content, dict) else "[]"
        parts.append(f"{json.dumps(name)}: {brackets[0]}\n" + ",\n".join(lines) + f"\n{brackets[1]}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    for syntax in SYNTAXES.values():
        Path(__file__).with_name(syntax.tables).write_text(text_of(tables_of(syntax.grammar)), "utf-8")


if __name__ == "__main__":
    main()
