"""The example programs of `tests/whole/programs`: a folder each, with `program.dlog`, facts, and what must come out.

`facts/PREDICATE.csv` gives facts, `expected/PREDICATE.csv` all facts of each derived predicate in ascending order, and
`expected/answers.txt` what `tidelog run` prints for the queries. The text of a cell and of an answer is written down
here once more, apart from `tidelog.formats`, so that a mistake there cannot hide in the expectation.

`python tests/support/programs/programs_util.py [NAME …]` writes the expected files anew from the oracle. Read the
difference before you believe it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from naive import Database, Row, answers, database, materialise, union
from naive_functions import INTEGER, kind
from places import ROOT
from tidelog.language import display_predicate, parse_program, render, resolve_predicate
from tidelog.language.names import is_hidden
from tidelog.language.syntax import Constant, Program, Query, Rule
from tidelog.values import IRI, Value

FOLDER = ROOT / "tests" / "whole" / "programs"
NULLARY = "()"

_CELL = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n|$)')
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?[0-9]+[eE][+-]?[0-9]+|-?inf|nan")
_IRI = re.compile(r"<[^\s<>]*>")
_NOT_IN_FILE_NAMES = re.compile(r'[%/\\<>"|?*\x00-\x1f]')


@dataclass(frozen=True)
class Example:
    """One folder."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def program_path(self) -> Path:
        return self.folder / "program.dlog"

    @property
    def facts_path(self) -> Path | None:
        path = self.folder / "facts"
        return path if path.is_dir() else None

    @property
    def text(self) -> str:
        return self.program_path.read_text(encoding="utf-8")

    @cached_property
    def program(self) -> Program:
        return parse_program(self.text)

    @property
    def prefixes(self) -> dict[str, str]:
        return dict(self.program.prefixes)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.program.rules

    @cached_property
    def file_facts(self) -> Database:
        """The facts of the folder `facts`, by resolved predicate."""
        return self._read(self.folder / "facts")

    @cached_property
    def facts(self) -> Database:
        """All explicit facts: those of the text and those of the folder."""
        return union(database(self.program.facts), self.file_facts)

    @cached_property
    def expected(self) -> Database:
        """All facts of each derived predicate."""
        return self._read(self.folder / "expected")

    @property
    def expected_answers(self) -> str:
        return (self.folder / "expected" / "answers.txt").read_text(encoding="utf-8")

    @property
    def derived(self) -> list[str]:
        return sorted({rule.head.predicate for rule in self.rules if not is_hidden(rule.head.predicate)})

    def file_name(self, predicate: str) -> str:
        return f"{file_stem(display_predicate(predicate, self.prefixes))}.csv"

    def oracle_files(self) -> dict[str, str]:
        """The name and content of each expected file, by the oracle."""
        facts = materialise(self.rules, self.facts)
        files = {self.file_name(name): write_csv(facts.get(name, ())) for name in self.derived}
        if self.program.queries:
            files["answers.txt"] = "".join(answer_text(query, facts, self.prefixes) for query in self.program.queries)
        return files

    def _read(self, folder: Path) -> Database:
        found = {
            resolve_predicate(unquote(path.stem), self.prefixes): list(read_csv(path.read_text(encoding="utf-8")))
            for path in sorted(folder.glob("*.csv"))
        }
        return database(found)


def examples() -> list[Example]:
    return [Example(path) for path in sorted(FOLDER.iterdir()) if (path / "program.dlog").is_file()]


# Cells and rows


def file_stem(predicate: str) -> str:
    """The name of a predicate's file: as it reads, but for characters that file names cannot hold."""
    return _NOT_IN_FILE_NAMES.sub(lambda found: f"%{ord(found[0]):02X}", predicate)


def read_csv(text: str) -> Iterator[tuple[Value, ...]]:
    row: list[Value] = []
    position = 0
    while position < len(text):
        cell = _CELL.match(text, position)
        assert cell is not None, f"no cell at {text[position : position + 40]!r}"
        quoted, plain, end = cell.groups()
        position = cell.end()
        if (row, plain, end) == ([], NULLARY, "\n"):
            yield ()
            continue
        row.append(read_cell(plain) if quoted is None else quoted.replace('""', '"'))
        if end != ",":
            yield tuple(row)
            row = []


def read_cell(text: str) -> Value:
    """The value of a cell without quotes."""
    if text in ("true", "false"):
        return text == "true"
    if INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return IRI(text[1:-1]) if _IRI.fullmatch(text) else text


def write_csv(rows: Iterable[Row]) -> str:
    return "".join((",".join(write_cell(cell.value) for cell in row) or NULLARY) + "\n" for row in in_order(rows))


def write_cell(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case IRI():
            return f"<{value}>"
        case str():
            plain = value and value != NULLARY and not re.search(r'[",\r\n]', value) and read_cell(value) == value
            return value if plain else '"' + value.replace('"', '""') + '"'
    raise ValueError(f"the examples hold no {value!r}")


# Answers


def answer_text(query: Query, facts: Database, prefixes: Mapping[str, str]) -> str:
    """The query, then a line for each answer in ascending order, or `no`; `yes` where it asks for no variable."""
    found = sorted(answers(query, facts), key=lambda answer: row_key(tuple(answer.values())))
    lines = [", ".join(f"{name} = {render(value, prefixes)}" for name, value in row.items()) or "yes" for row in found]
    return "\n".join([render(query, prefixes), *(lines or ["no"]), ""])


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=row_key)


def row_key(row: Sequence[Constant]) -> tuple[tuple[int, Value, bool], ...]:
    """Booleans before numbers before strings before IRIs; an integer before the float of the same value."""
    ranks = ("boolean", "number", "string", "iri")
    return tuple((ranks.index(kind(cell.value)), cell.value, isinstance(cell.value, float)) for cell in row)


def main(names: Sequence[str]) -> None:
    for example in examples():
        if names and example.name not in names:
            continue
        folder = example.folder / "expected"
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        for name, content in example.oracle_files().items():
            (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
