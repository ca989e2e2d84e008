"""The syntaxes that a program can be written in: the language itself, `dlog`, and that of ZodiacEdge, `zodiac`.

A syntax is a way to write the one syntax tree: a grammar, the actions of its rules, and a printer. Whatever reads the
tree is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tidelog.errors import TidelogError
from tidelog.language.actions import Actions
from tidelog.language.printer import NO_PREFIXES, Printer, render
from tidelog.language.syntax import Node, Program
from tidelog.language.zodiac_actions import ZodiacActions
from tidelog.language.zodiac_forms import in_zodiac_forms
from tidelog.language.zodiac_printer import ZodiacPrinter

DLOG, ZODIAC = "dlog", "zodiac"


@dataclass(frozen=True, slots=True)
class Syntax:
    """How programs are written. `tables` are those of the grammar's automaton, which `make_tables` writes; `forms`
    brings a program into the forms that the printer can say.
    """

    grammar: str
    tables: str
    actions: type[Actions]
    printer: type[Printer]
    forms: Callable[[Program], Program] = lambda program: program


SYNTAXES: Mapping[str, Syntax] = MappingProxyType(
    {
        DLOG: Syntax("grammar.lark", "grammar.json", Actions, Printer),
        ZODIAC: Syntax("zodiac.lark", "zodiac.json", ZodiacActions, ZodiacPrinter, in_zodiac_forms),
    }
)


def syntax_named(name: str) -> Syntax:
    """The syntax of a name that a user gives; a `TidelogError` if there is none."""
    found = SYNTAXES.get(name) if isinstance(name, str) else None
    if found is None:
        raise TidelogError(f"`syntax` is one of {', '.join(SYNTAXES)}, not {name!r:.60}")
    return found


def syntax_of_file(path: str) -> str:
    """The name of the syntax that a program's file is in, by its ending; without one of these, the language."""
    return next((name for name in SYNTAXES if path.lower().endswith(f".{name}")), DLOG)


def render_in(syntax: str, node: Node, prefixes: Mapping[str, str] = NO_PREFIXES) -> str:
    """A node as text of a syntax; a `ConversionError` if it is in a form which that syntax cannot say."""
    return render(node, prefixes, syntax_named(syntax).printer)


def convert(program: Program, syntax: str) -> str:
    """A program as text of a syntax, in other forms where these say the same; a `ConversionError` if none does.

    Examples:
        >>> from tidelog.language import convert, parse_program
        >>> convert(parse_program("hot(X) :- temp(X, T), T > 5."), "zodiac")
        'hot(X) :- temp(X, T) and COMP(T, >, 5).'
    """
    return render_in(syntax, syntax_named(syntax).forms(program))
