"""`.dlog` files that hold facts: the language itself as a format."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

from tidelog.errors import DataError, ParseError
from tidelog.formats.batch import FLOAT, LITERAL, FactBatch
from tidelog.formats.columns.tables import columns_of_rows
from tidelog.formats.files.byte_files import SMALL_BLOCK_BYTES, Readable, check_row_length, data_error, decode, place
from tidelog.formats.files.rendering import CONSTANT_RENDERERS, Columns, RowFormat, by_cell, floats
from tidelog.language import display_predicate, parse_program
from tidelog.language.literals import parse_literal, render_value
from tidelog.language.names import is_prefixed
from tidelog.language.syntax import Atom, Constant, Program, Query, Rule, Signature
from tidelog.values import IRI

_RENDERERS = {
    **CONSTANT_RENDERERS,
    FLOAT: floats({repr(value): render_value(value) for value in (math.inf, -math.inf, math.nan)}),
    LITERAL: by_cell(lambda text: render_value(parse_literal(text))),
}


def read_dlog(stream: Readable, source: str) -> Iterator[FactBatch]:
    """The facts of a file, piece by piece and by predicate; rules and queries are refused."""
    prefixes: dict[str, str] = {}
    undeclared: set[str] = set()
    for first_line, program in _programs(stream, source, prefixes):
        _check_statements(program, source, first_line, undeclared - prefixes.keys())
        prefixes.update(program.prefixes)
        undeclared.update(_prefixes_used(program))
        facts: defaultdict[tuple[str, int], list[Atom]] = defaultdict(list)
        for atom in program.facts:
            facts[atom.predicate, atom.arity].append(atom)
        for (predicate, _), atoms in facts.items():
            lines = [first_line - 1 + (atom.place.line if atom.place else 1) for atom in atoms]
            columns = columns_of_rows([atom.row for atom in atoms], partial(place, source, lines))
            if columns is not None:
                yield FactBatch(predicate, columns, source, lines[0])


def _programs(stream: Readable, source: str, prefixes: Mapping[str, str]) -> Iterator[tuple[int, Program]]:
    """The statements of a file in pieces that end with a statement, each with its first line."""
    text, line, wanted = "", 1, 0
    for piece, last in _pieces(stream, source):
        text += decode(piece, source, line + text.count("\n"))
        if len(text) < wanted and not last:
            continue
        try:
            program = parse_program(text, source, prefixes)
        except ParseError as error:
            if not error.unfinished or last:
                raise _told_in_file(text, source, prefixes, line, error) from None
            # The dot did not end a statement. Try again with twice as much text, so that this stays rare.
            wanted = 2 * len(text)
            check_row_length(len(text), source, line)
            continue
        yield line, program
        line += text.count("\n")
        text, wanted = "", 0


def _pieces(stream: Readable, source: str) -> Iterator[tuple[bytes, bool]]:
    """Blocks of a file up to a dot at the end of a line, each with whether it is the last."""
    begun: list[bytes] = []
    length = 0
    while chunk := stream.read(SMALL_BLOCK_BYTES):
        end = max((chunk.rfind(dot) + len(dot) for dot in (b".\n", b".\r\n") if dot in chunk), default=0)
        if end:
            yield b"".join((*begun, chunk[:end])), False
            begun, length = [], 0
        begun.append(chunk[end:])
        length += len(chunk) - end
        check_row_length(length, source, 1)
    yield b"".join(begun), True


def _told_in_file(text: str, source: str, prefixes: Mapping[str, str], first_line: int, error: ParseError) -> DataError:
    """The error of a piece, with its line in the file."""
    try:
        parse_program("\n" * (first_line - 1) + text, source, prefixes)
    except ParseError as problem:
        return DataError(str(problem))
    return DataError(str(error))


def _check_statements(program: Program, source: str, first_line: int, undeclared: Collection[str]) -> None:
    others: tuple[Rule | Query | Signature, ...] = (*program.rules, *program.queries, *program.predicates)
    places = [statement.place for statement in others]
    if places:
        line = first_line - 1 + min(found.line for found in places if found)
        kind = "a rule or query" if program.rules or program.queries else "a declaration"
        raise data_error(source, line, f"{kind}; those belong in the program, a fact folder holds facts only")
    for prefix, namespace in program.prefixes:
        if prefix in undeclared and namespace != f"{prefix}:":
            reason = f"the prefix `{prefix}:` is declared after its use; declare it before the first name that has it"
            raise data_error(source, first_line, reason)


def _prefixes_used(program: Program) -> set[str]:
    """The undeclared prefixes of the names in a piece. The parser checks their order within the piece."""
    names = {atom.predicate for atom in program.facts}
    terms = (term for atom in program.facts for term in atom.arguments)
    names.update(term.value.value for term in terms if isinstance(term, Constant) and isinstance(term.value, IRI))
    return {name.partition(":")[0] for name in names if is_prefixed(name)}


def dlog_lines(predicate: str, batches: Iterable[Columns]) -> Iterator[bytes]:
    """The facts of a predicate, a fact a line."""
    name = display_predicate(predicate, {})
    rows = RowFormat(_RENDERERS, opening=f"{name}(", separator=", ", closing=").\n", nullary=f"{name}().\n")
    return rows.lines(batches)
