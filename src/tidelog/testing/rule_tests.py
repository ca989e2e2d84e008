"""Files of tests, `*.test.dlog`: the language, with directives that say what is expected.

    @use "access.dlog".                        % a program
    @use "roles.csv", header.                  % a file of facts, or a folder of them; CSV files may have a header
    guest(eve).                                % facts and rules for all tests of the file

    @test "a ban wins".
    banned(eve, write).                        % facts and rules of this test
    @expect may(eve, A): (read), (list).       % all answers, in any order; `none` if there are none
    @holds may(eve, read), guest(eve).         % the query has an answer
    @fails may(eve, write).                    % the query has no answer
    @proof may(eve, read) :- guest(eve), not banned(eve, write).     % what the lowest proof rests on, and what not
    @delete banned(eve, write).                % an update; `@add` is the other one
    @holds may(eve, write).

A directive begins a line and reaches to the next one. So the text between two directives is parsed as it stands, by the
parser of the language, and only `@expect` has to be taken apart beforehand. A file without `@test` is a single test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import NoReturn, TypeVar

from tidelog.api.programs import read_program
from tidelog.errors import DataError, ParseError
from tidelog.formats.files.byte_files import data_error, decode, io_errors
from tidelog.language import parse_atom, parse_program, parse_query, syntax_of_file
from tidelog.language.checks import check_statement
from tidelog.language.literals import unquote
from tidelog.language.parse_messages import Source, told_of
from tidelog.language.syntax import Atom, Constant, Negation, Program, Query, Rule, variables
from tidelog.language.written.expansion import plain_forms
from tidelog.values import Row

SUFFIX = ".test.dlog"
PROGRAM_SUFFIXES = (".dlog", ".zodiac")
DIRECTIVES = ("use", "test", "expect", "holds", "fails", "proof", "add", "delete")

_OF_PROGRAMS = "prefix|predicate|type|key|constraint|equality|expire"
_DIRECTIVE = re.compile(rf"^[ \t]*@(?!(?:{_OF_PROGRAMS})\b)(\w+)[ \t]*", re.MULTILINE | re.IGNORECASE)
_COMMENT = r"(?:%|#|//)[^\n]*"
_QUOTED = r'"(?:[^"\\\n]|\\[^\n])*"' + r"|'(?:[^'\\\n]|\\[^\n])*'"
_NAME = re.compile(rf"({_QUOTED})[ \t]*\.")
_FILE = re.compile(rf"({_QUOTED})[ \t]*(?:,[ \t]*(header|no header)[ \t]*)?\.")
# What `:` and brackets may stand in without a meaning.
_OPAQUE = rf'{_QUOTED}|<[^\s<>"]*>'
_COLON = re.compile(rf"{_OPAQUE}|({{)|(}})|(:)(?=[\s(])")
_BRACKETS = re.compile(rf"{_OPAQUE}|{_COMMENT}|([(\[])|([)\]])")
_SKIPPED = re.compile(rf"(?:\s|{_COMMENT})*")
_LAST_DOT = re.compile(rf"\.{_SKIPPED.pattern}\Z")
_NO_ROWS = re.compile(rf"{_SKIPPED.pattern}none\s*\.{_SKIPPED.pattern}")

Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class Step:
    """A part of a test: the directive as it is written, and its line."""

    line: int
    text: str


@dataclass(frozen=True)
class Update(Step):
    """Facts and rules that come or go."""

    program: Program
    deletes: bool


@dataclass(frozen=True)
class Expect(Step):
    """All answers of a query."""

    query: Query
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Holds(Step):
    """A query that has an answer, or none."""

    query: Query
    holds: bool


@dataclass(frozen=True)
class Rests(Step):
    """A fact whose proof rests on some facts and not on others."""

    fact: Atom
    on: tuple[Atom, ...]
    not_on: tuple[Atom, ...]


@dataclass
class Given:
    """What a test starts with: programs, folders and files of facts, and the prefixes that they declare."""

    programs: list[Program] = field(default_factory=list)
    files: list[tuple[Path, bool | None]] = field(default_factory=list)  # each with whether it has a header
    prefixes: dict[str, str] = field(default_factory=dict)

    def copy(self) -> Given:
        return Given(list(self.programs), list(self.files), dict(self.prefixes))

    def take(self, program: Program) -> None:
        self.programs.append(program)
        self.prefixes.update(program.prefixes)


@dataclass
class RuleTest:
    """One test of a file. It starts from nothing but what is given to it."""

    name: str
    path: Path
    line: int
    given: Given
    steps: list[Step] = field(default_factory=list)


def read_tests(path: Path) -> list[RuleTest]:
    """The tests of a file."""
    with io_errors(str(path)):
        text = decode(path.read_bytes(), str(path), 1).removeprefix("\ufeff")
    return _Reader(path, text).tests()


class _Reader:
    """Reads a file from one directive to the next."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text
        self._source = Source(text, str(path))
        self._common = Given()
        self._tests: list[RuleTest] = []

    def tests(self) -> list[RuleTest]:
        found = list(_DIRECTIVE.finditer(self._text))
        starts = [directive.start() for directive in found]
        self._plain(0, starts[0] if starts else len(self._text))
        for directive, (_, end) in zip(found, pairwise([*starts, len(self._text)]), strict=True):
            name = directive[1]
            if name not in DIRECTIVES:
                close = get_close_matches(name, DIRECTIVES, 1)
                hint = f"did you mean `@{close[0]}`?" if close else f"there are {', '.join(DIRECTIVES)}"
                self._fail(directive.start(1), f"there is no directive `@{name}`", hint)
            getattr(self, f"_{name}")(directive.start(1) - 1, directive.end(), end)
        if not self._tests:
            reason = "there is no test in it; write what is expected, such as `@holds path(a, b).`"
            raise data_error(str(self._path), None, reason)
        return self._tests

    # --- what a test starts with ---

    def _plain(self, start: int, end: int) -> None:
        """Facts and rules."""
        program = self._parsed(start, end, lambda text: parse_program(text, "", self._given.prefixes))
        self._refuse_queries(program, start)
        self._given.take(program)

    def _use(self, begin: int, start: int, end: int) -> None:
        self._refuse_after_steps(begin)
        found = self._match(_FILE, start, '@use "rules.dlog".` or `@use "edges.csv", header.')
        path = self._path.parent / unquote(found[1])
        if path.suffix in PROGRAM_SUFFIXES:
            try:
                text = read_program(path)
            except DataError as problem:
                raise DataError(f"{self._path}, {problem}") from None
            self._given.take(parse_program(text, str(path), self._given.prefixes, syntax_of_file(str(path))))
        elif path.exists():
            self._given.files.append((path, None if found[2] is None else found[2] == "header"))
        else:
            self._fail(start, f"there is no {path}", "a path begins at the folder of the test file")
        self._plain(found.end(), end)

    def _test(self, begin: int, start: int, end: int) -> None:
        found = self._match(_NAME, start, '@test "what it shows".')
        if self._tests and self._tests[0].line == 0:
            self._fail(begin, "a step stands before the first `@test`", "begin with `@test`, or have none")
        self._tests.append(RuleTest(unquote(found[1]), self._path, self._line(begin), self._common.copy()))
        self._plain(found.end(), end)

    def _match(self, pattern: re.Pattern[str], start: int, form: str) -> re.Match[str]:
        """The name behind a directive, with what belongs to it."""
        found = pattern.match(self._text, start)
        if found is None:
            self._fail(start, "expected a name in quotes, and a dot", f"write `{form}`")
        return found

    @property
    def _given(self) -> Given:
        return self._tests[-1].given if self._tests else self._common

    # --- its steps ---

    def _step(self, step: Step) -> None:
        if not self._tests:  # a file without `@test`
            self._tests.append(RuleTest(self._path.name.removesuffix(SUFFIX), self._path, 0, self._common))
        self._tests[-1].steps.append(step)

    def _add(self, begin: int, start: int, end: int) -> None:
        self._update(begin, start, end, deletes=False)

    def _delete(self, begin: int, start: int, end: int) -> None:
        self._update(begin, start, end, deletes=True)

    def _update(self, begin: int, start: int, end: int, deletes: bool) -> None:
        program = self._parsed(start, end, lambda text: parse_program(text, "", self._given.prefixes))
        self._refuse_queries(program, start)
        if not (program.facts or program.rules or program.expiries):
            self._fail(begin, "an update without facts and rules", "write `@add edge(a, b).`")
        self._step(Update(*self._shown(begin, end), program, deletes))

    def _holds(self, begin: int, start: int, end: int) -> None:
        self._step(Holds(*self._shown(begin, end), self._query(start, end), holds=True))

    def _fails(self, begin: int, start: int, end: int) -> None:
        self._step(Holds(*self._shown(begin, end), self._query(start, end), holds=False))

    def _expect(self, begin: int, start: int, end: int) -> None:
        colon = self._colon(start, end)
        if colon is None:
            self._fail(begin, "expected answers are missing", "write `@expect path(a, X): (b), (c).`, or `: none.`")
        query, rows = self._query(start, colon), tuple(self._rows(colon + 1, end))
        self._step(Expect(*self._shown(begin, end), query, rows))

    def _proof(self, begin: int, start: int, end: int) -> None:
        program = self._parsed(start, end, lambda text: parse_program(text, "", self._given.prefixes))
        form = "write `@proof may(ada, read) :- has_role(ada, reader), not banned(ada, read).`"
        if len(program.rules) != 1 or program.facts or program.queries:
            self._fail(begin, "expected a fact and what its proof rests on", form)
        [rule] = program.rules
        on, not_on = _split(rule)
        if len(on) + len(not_on) < len(rule.body) or variables(rule):
            self._fail(begin, "a proof rests on facts, without variables and comparisons", form)
        self._step(Rests(*self._shown(begin, end), rule.head, on, not_on))

    # --- texts ---

    def _query(self, start: int, end: int) -> Query:
        return self._parsed(start, end, lambda text: _checked_query(text, self._given.prefixes))

    def _colon(self, start: int, end: int) -> int | None:
        """Where a query ends and its answers begin. A colon within braces belongs to an aggregate."""
        depth = 0
        for found in _COLON.finditer(self._text, start, end):
            depth += bool(found[1]) - bool(found[2])
            if found[3] and depth == 0:
                return found.start()
        return None

    def _rows(self, start: int, end: int) -> Iterator[Row]:
        """Answers in brackets, with commas between them."""
        text, at, expects_row = self._text[:end], start, True
        if _NO_ROWS.fullmatch(text, start):
            return
        while (at := _skipped(text, at)) < end:
            if expects_row and text[at] in "([":
                close = self._closing(at, end)
                yield self._row(at, close)
                at, expects_row = close, False
            elif not expects_row and text[at] == ".":
                if (at := _skipped(text, at + 1)) == end:
                    return
                self._fail(at, "expected the next directive", "the facts of a test come before its steps")
            elif not expects_row and text[at] == ",":
                at, expects_row = at + 1, True
            else:
                break
        hint = "answers stand in brackets, with commas between them: `(b), (c).`"
        self._fail(min(at, len(text.rstrip()) - 1), f"expected {'an answer' if expects_row else '`,` or `.`'}", hint)

    def _closing(self, start: int, end: int) -> int:
        """Where the brackets that open at `start` are closed."""
        depth = 0
        for found in _BRACKETS.finditer(self._text, start, end):
            depth += bool(found[1]) - bool(found[2])
            if depth == 0:
                return found.end()
        self._fail(start, "this bracket is never closed")

    def _row(self, start: int, end: int) -> Row:
        # The blank before a row becomes the name of an atom.
        atom = self._parsed(start, end, lambda text: parse_atom(_named_row(text), self._given.prefixes, ""))
        if not all(isinstance(term, Constant) for term in atom.arguments):
            self._fail(start, "an answer holds constants", "put texts that begin with a capital letter in quotes")
        return atom.row

    def _parsed(self, start: int, end: int, parse: Callable[[str], Parsed]) -> Parsed:
        """A piece of the file, parsed at its place; errors show the file as it is."""
        line_start = self._text.rfind("\n", 0, start) + 1
        padding = "\n" * self._text.count("\n", 0, start) + " " * (start - line_start)
        try:
            with told_of(self._text, str(self._path)):
                return parse(padding + self._text[start:end])
        except ParseError as error:
            if error.mistake is not None:
                raise
            told, _, hint = str(error).partition("\nhint: ")
            what = told.partition("\n")[0].partition(f":{error.line}:{error.column}: ")[2]
            raise self._source.error(error.line, error.column, what, hint) from None

    def _refuse_queries(self, program: Program, start: int) -> None:
        for query in program.queries:
            place = query.place
            line, column = (place.line, place.column) if place else (self._line(start), 1)
            raise self._source.error(line, column, "a query in a test", "write `@expect`, `@holds` or `@fails`")

    def _refuse_after_steps(self, begin: int) -> None:
        if self._tests and self._tests[-1].steps:
            self._fail(begin, "`@use` stands after a step of the test", "what a test starts with comes first")

    def _shown(self, begin: int, end: int) -> tuple[int, str]:
        """The line of a directive, and its text up to its dot, without comments behind."""
        found = _LAST_DOT.search(self._text, begin, end)
        return self._line(begin), self._text[begin : found.start() + 1 if found else end].rstrip()

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1

    def _fail(self, at: int, what: str, hint: str = "") -> NoReturn:
        raise self._source.error_at(at, what, hint)


def _checked_query(text: str, prefixes: Mapping[str, str]) -> Query:
    """A query that can be evaluated. Parts that only rules derive are checked as these rules are."""
    query = parse_query(text, prefixes, "")
    for statement in plain_forms(query):
        check_statement(statement, prefixes=prefixes)
    return query


def _skipped(text: str, at: int) -> int:
    """Where blanks and comments end."""
    found = _SKIPPED.match(text, at)
    assert found is not None
    return found.end()


def _named_row(padded: str) -> str:
    """A row as an atom, its columns where they were unless it begins a line."""
    blank, row = padded[: len(padded) - len(padded.lstrip())], padded.lstrip()
    return (blank[:-1] if blank.endswith(" ") else blank) + "r" + row


def _split(rule: Rule) -> tuple[tuple[Atom, ...], tuple[Atom, ...]]:
    """The atoms of a body, and those under `not`."""
    on = tuple(item for item in rule.body if isinstance(item, Atom))
    return on, tuple(item.atom for item in rule.body if isinstance(item, Negation))
