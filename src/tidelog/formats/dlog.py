"""`.dlog` files that hold facts: the language itself as a format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial

from tidelog.errors import DataError, ParseError
from tidelog.formats.batch import FLOAT, LITERAL, FactBatch
from tidelog.formats.constants import parse_literal
from tidelog.formats.files import Readable, data_error, decode, place
from tidelog.formats.rendering import CONSTANT_RENDERERS, Columns, RowFormat, by_cell, floats
from tidelog.formats.tables import columns_of_rows
from tidelog.language import display_predicate, parse_program
from tidelog.language.literals import render_value
from tidelog.language.syntax import Atom, Constant
from tidelog.values import Row

_RENDERERS = {
    **CONSTANT_RENDERERS,
    FLOAT: floats({repr(value): render_value(value) for value in (float("inf"), float("-inf"), float("nan"))}),
    LITERAL: by_cell(lambda text: render_value(parse_literal(text))),
}


def read_dlog(stream: Readable, source: str) -> Iterator[FactBatch]:
    """The facts of a file, by predicate; rules and queries have no place among facts."""
    try:
        program = parse_program(decode(stream.read(), source, 1), source)
    except ParseError as error:
        raise DataError(str(error)) from None
    places = [statement.place for statement in program.rules] + [statement.place for statement in program.queries]
    if places:
        line = min(found.line for found in places if found)
        raise data_error(source, line, "a rule or query; those belong into the program, a fact folder holds facts only")
    facts: defaultdict[tuple[str, int], list[Atom]] = defaultdict(list)
    for atom in program.facts:
        facts[atom.predicate, atom.arity].append(atom)
    for (predicate, _), atoms in facts.items():
        lines = [atom.place.line if atom.place else 1 for atom in atoms]
        columns = columns_of_rows([_row(atom) for atom in atoms], partial(place, source, lines))
        if columns is not None:
            yield FactBatch(predicate, columns, source, lines[0])


def _row(atom: Atom) -> Row:
    return tuple(argument.value for argument in atom.arguments if isinstance(argument, Constant))


def dlog_lines(predicate: str, batches: Iterable[Columns]) -> Iterator[bytes]:
    """The facts of a predicate, a fact a line."""
    name = display_predicate(predicate, {})
    rows = RowFormat(_RENDERERS, opening=f"{name}(", separator=", ", closing=").\n", nullary=f"{name}().\n")
    return rows.lines(batches)
