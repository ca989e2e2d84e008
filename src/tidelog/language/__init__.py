"""Text to syntax tree and back: grammar, parser, printer, checks.

Knows: the language, and what must hold of a single rule, query or fact. Must not know: how anything is evaluated.
"""

from tidelog.language.literals import literal_text, parse_literal
from tidelog.language.names import AGGREGATES, display_predicate, resolve_predicate
from tidelog.language.parser import is_unfinished, parse_atom, parse_program, parse_query, parse_rules
from tidelog.language.printer import render
from tidelog.language.syntaxes import DLOG, SYNTAXES, ZODIAC, convert, render_in, syntax_named, syntax_of_file

__all__ = [
    "AGGREGATES",
    "DLOG",
    "SYNTAXES",
    "ZODIAC",
    "convert",
    "display_predicate",
    "is_unfinished",
    "literal_text",
    "parse_atom",
    "parse_literal",
    "parse_program",
    "parse_query",
    "parse_rules",
    "render",
    "render_in",
    "resolve_predicate",
    "syntax_named",
    "syntax_of_file",
]
