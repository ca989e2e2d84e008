"""The programs of commands: their files, the queries that are asked beside them, and values for their parameters."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tidelog import errors
from tidelog.api.programs import program_in
from tidelog.cli.parameters import bind_queries
from tidelog.formats.files.byte_files import decode, io_errors
from tidelog.language import parse_program, parse_query, syntax_of_file
from tidelog.language.checks import check_arities, check_statement
from tidelog.language.parse_messages import Source, told_of
from tidelog.language.parts import Linked, linked
from tidelog.language.syntax import Program
from tidelog.language.written.expansion import plain_forms
from tidelog.values import Value

NO_PARAMETERS: Mapping[str, Value] = {}


def read_program(
    path: str, asked: Sequence[str] = (), values: Mapping[str, Value] = NO_PARAMETERS, elsewhere: Sequence[str] = ()
) -> tuple[str, Program]:
    """The text of a program and its syntax tree, with the queries that are asked beside it, and values for the
    parameters of all of them; queries are checked before any work is done for them. Some values are for something
    `elsewhere`.
    """
    source = name_of(path)
    text, used = program_in(path, values) if path != "-" else _standard_input(source, values)
    program = parse_program(text, source, syntax=syntax_of_file(path))
    return text, with_queries(program, asked, values, Source(text, source), [*used, *elsewhere])


def _standard_input(source: str, values: Mapping[str, Value]) -> Linked:
    return linked(read_text("-")[1], source, None, values)


def with_queries(
    program: Program,
    asked: Sequence[str],
    values: Mapping[str, Value],
    written_in: Source,
    elsewhere: Sequence[str] = (),
) -> Program:
    """A program with the queries that are asked beside it, all of them checked and with their values. Some values are
    for something `elsewhere`, too.
    """
    source, text = written_in.name, written_in.text
    prefixes = dict(program.prefixes)
    queries = [(query, written_in) for query in program.queries]
    queries += [(parse_query(query, prefixes, "--query"), Source(query, "--query")) for query in asked]
    with errors_in(source, text):
        arities = check_arities((*program.predicates, *program.facts, *program.rules), {}, prefixes)
    for query, written in queries:
        with errors_in(written.name, written.text):
            plain = plain_forms(query)
            check_arities(plain, arities, prefixes)
            for statement in plain:
                check_statement(statement, prefixes=prefixes)
    return replace(program, queries=tuple(bind_queries(queries, values, elsewhere)))


def read_text(path: str) -> tuple[str, str]:
    """The name of a file in messages, and its content."""
    source = name_of(path)
    with io_errors(source):
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    return source, decode(data, source, 1).removeprefix("\ufeff")


def name_of(path: str | None) -> str:
    """The name of a program in messages."""
    return "<standard input>" if path == "-" else path or "<program>"


@contextmanager
def errors_in(source: str, text: str) -> Iterator[None]:
    """Begin errors about a program with its file, as those of the parser do, and show the line."""
    with told_of(text, source):
        try:
            yield
        except (errors.ArityError, errors.StratificationError) as error:
            if error.mistake is not None:
                raise
            raise type(error)(f"{source}: {error}") from None
