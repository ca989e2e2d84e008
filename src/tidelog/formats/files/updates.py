"""Update streams: JSON Lines with an update per line, changes in the same form, and folders of Prolog files.

    {"add": {"edge": [["a", "b"]]}, "delete": {…}, "add_rules": "…", "remove_rules": "…", "at": "2026-11-18T12:00:00Z"}
    {"added": {"edge": [["a", "b"]]}, "removed": {…}, "work": {…}}

The public evaluation data of the papers on marking holds a stream as files `00.pl`, `01.pl`, …, with a line
`add(edge(12, 16)).` or `delete(…).` for each fact. Quoted atoms there are strings; a functor that is an IRI names the
predicate with that IRI.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypedDict

from tidelog.errors import DataError
from tidelog.formats.columns.cell_numbers import parse_float, parse_integer
from tidelog.formats.columns.order import sorted_rows
from tidelog.formats.files.byte_files import data_error, decode, io_errors, open_input, read_lines, split_lines
from tidelog.formats.files.jsonl import parse_json, row_from_json, value_to_json
from tidelog.language.names import bracketed
from tidelog.moments import microseconds
from tidelog.values import Row, Value

Facts = dict[str, list[Row]]
KEYS = ("add", "delete", "add_rules", "remove_rules", "at")


class Update(TypedDict, total=False):
    """One transaction, as `KnowledgeBase.update` and `stream` take it.

    Examples:
        >>> from tidelog.formats import Update
        >>> tidelog.KnowledgeBase().update(**Update(add={"edge": [("a", "b")]}))
        <Change: + edge: 1>
    """

    add: Facts
    delete: Facts
    add_rules: str
    remove_rules: str
    at: float | str


class ChangeLike(Protocol):
    """The parts of a change that are written."""

    @property
    def added(self) -> Mapping[str, Iterable[Row]]: ...
    @property
    def removed(self) -> Mapping[str, Iterable[Row]]: ...
    @property
    def work(self) -> Mapping[str, int]: ...


class Unread(NamedTuple):
    """An update that is still text: its place, and a function that returns it or raises `DataError`."""

    place: str
    read: Callable[[], Update]


def read_updates(lines: Iterable[str | bytes], source: str = "<updates>") -> Iterator[Update]:
    """The updates of a JSON Lines stream, as its lines arrive; a bad line is reported with its number.

    Examples:
        >>> from tidelog.formats import read_updates
        >>> updates = read_updates(['{"add": {"edge": [["a", "b"]]}}', '{"delete": {"edge": [["a", "b"]]}}'])
        >>> [repr(change) for change in tidelog.KnowledgeBase().stream(updates)]
        ['<Change: + edge: 1>', '<Change: - edge: 1>']
    """
    return (unread.read() for unread in unread_updates(lines, source))


def unread_updates(lines: Iterable[str | bytes], source: str = "<updates>") -> Iterator[Unread]:
    """The updates of a JSON Lines stream, for readers that go on after a bad line; blank lines are skipped."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield Unread(f"{source}, line {number}", partial(parse_update, line, number, source))


def parse_update(line: str | bytes, number: int, source: str = "<updates>") -> Update:
    """One update from one line."""
    text = line if isinstance(line, str) else decode(line, source, number)
    try:
        return update_from_json(parse_json(text.removeprefix("\ufeff") if number == 1 else text))
    except DataError as error:
        raise data_error(source, number, str(error)) from None


def update_from_json(value: Any) -> Update:
    """An update from its JSON form."""
    if not isinstance(value, dict):
        raise DataError('an update is an object, such as {"add": {"edge": [["a", "b"]]}}')
    update = Update()
    for key, content in value.items():
        if key not in KEYS:
            close = get_close_matches(key, KEYS, 1)
            hint = f"did you mean {close[0]}?" if close else f"use {', '.join(KEYS)}"
            raise DataError(f"an update has no key {key!r}; {hint}")
        if key.endswith("_rules") and not isinstance(content, str):
            raise DataError(f'"{key}" is a string of rules, such as "path(X, Y) :- edge(X, Y)."')
        if key == "at" and microseconds(content) is None:
            raise DataError('"at" is a time, such as "2026-11-18T12:00:00Z", or a number of seconds since 1970')
        is_facts = key in ("add", "delete")
        update[key] = _facts(content, key) if is_facts else content  # type: ignore[literal-required]
    return update


def _facts(content: Any, key: str) -> Facts:
    if not isinstance(content, dict) or not all(isinstance(rows, list) for rows in content.values()):
        raise DataError(f'"{key}" is an object of predicates and their rows, such as {{"edge": [["a", "b"]]}}')
    facts: Facts = {}
    for predicate, rows in content.items():
        facts[predicate] = []
        for number, row in enumerate(rows, 1):
            try:
                facts[predicate].append(row_from_json(row))
            except DataError as error:
                raise DataError(f"{key} {predicate}, row {number}: {error}") from None
    return facts


def change_to_json(change: ChangeLike) -> str:
    """A change as one line of JSON, its predicates and rows in a fixed order.

    Examples:
        >>> from tidelog.formats import change_to_json
        >>> change_to_json(tidelog.KnowledgeBase().update(add={"edge": [("a", "b")]}))[:47]
        '{"added": {"edge": [["a", "b"]]}, "removed": {}'
    """
    return json.dumps(
        {"added": json_facts(change.added), "removed": json_facts(change.removed), "work": dict(change.work)},
        ensure_ascii=False,
    )


def json_facts(facts: Mapping[str, Iterable[Row]]) -> dict[str, Any]:
    """Facts by predicate as plain data, in order."""
    return {name: [list(map(value_to_json, row)) for row in sorted_rows(facts[name])] for name in sorted(facts)}


def open_updates(path: str) -> Iterator[Unread]:
    """The updates of a stream: standard input (`-`), a folder of Prolog files, or a file of JSON Lines or Prolog.

    Examples:
        >>> from pathlib import Path
        >>> from tidelog.formats import open_updates
        >>> _ = Path("updates.jsonl").write_text('{"add": {"edge": [["a", "b"]]}}\\n')
        >>> [unread.read() for unread in open_updates("updates.jsonl")]
        [{'add': {'edge': [('a', 'b')]}}]
    """
    if path == "-":
        # Lines as they arrive, not through Python's buffer: a waiting thread would still hold its lock at exit.
        blocks = split_lines(iter(_arrived, b""), _STANDARD_INPUT)
        yield from unread_updates(chain.from_iterable(blocks), _STANDARD_INPUT)
    elif Path(path).is_dir() or path.endswith(_PROLOG_SUFFIXES):
        for file in _prolog_files(Path(path)) if Path(path).is_dir() else [Path(path)]:
            yield Unread(str(file), partial(read_prolog_update, file))
    else:
        with open_input(Path(path)) as stream:
            lines = (line for _, block in read_lines(stream, path) for line in block)
            yield from unread_updates(lines, path)


def _arrived() -> bytes:
    with io_errors(_STANDARD_INPUT):
        return os.read(0, 1 << 16)


def _prolog_files(folder: Path) -> list[Path]:
    with io_errors(str(folder)):
        files = sorted(entry for entry in folder.iterdir() if entry.name.endswith(_PROLOG_SUFFIXES))
    if not files:
        raise data_error(str(folder), None, "a folder without updates; it should hold files 00.pl, 01.pl, …")
    return files


_PROLOG_SUFFIXES = (".pl", ".pl.gz")
_STANDARD_INPUT = "<standard input>"
_ATOM = r"'(?:[^'\\\n]|''|\\.)*'|[a-z]\w*"
_ARGUMENT = rf'{_ATOM}|"(?:[^"\\\n]|""|\\.)*"|[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?'
_PROLOG_LINE = re.compile(rf"\s*(add|delete)\s*\(\s*({_ATOM})\s*(?:\(\s*(.*?)\s*\))?\s*\)\s*\.\s*(?:%.*)?")
_PROLOG_ARGUMENT = re.compile(rf"\s*({_ARGUMENT})\s*(,|\Z)")
_PROLOG_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_prolog_update(path: Path) -> Update:
    """One update from a file of `add(…).` and `delete(…).` lines."""
    facts: dict[str, Facts] = {"add": {}, "delete": {}}
    with open_input(path) as stream:
        for first_line, block in read_lines(stream, str(path)):
            for number, line in enumerate(block, first_line):
                text = decode(line, str(path), number).strip()
                if text and not text.startswith("%"):
                    _take_prolog_line(text, facts, path, number)
    return Update(add=facts["add"], delete=facts["delete"])


def _take_prolog_line(text: str, facts: dict[str, Facts], path: Path, number: int) -> None:
    found = _PROLOG_LINE.fullmatch(text)
    if found is None:
        raise data_error(str(path), number, f"{text[:60]!r} is no update; write add(edge(12, 16)). or delete(…).")
    action, functor, arguments = found.groups()
    try:
        row = tuple(_prolog_arguments(arguments or ""))
        name = str(_prolog_value(functor))
    except DataError as error:
        raise data_error(str(path), number, str(error)) from None
    facts[action].setdefault(bracketed(name) if "://" in name else name, []).append(row)


def _prolog_arguments(text: str) -> Iterator[Value]:
    position = 0
    while position < len(text):
        found = _PROLOG_ARGUMENT.match(text, position)
        if found is None or (found[2] == "," and found.end() == len(text)):
            raise DataError(f"{text[position:][:60]!r} is no argument; put text in single quotes")
        yield _prolog_value(found[1])
        position = found.end()


def _prolog_value(token: str) -> Value:
    quote = token[0]
    if quote in "'\"":
        inner = token[1:-1].replace(quote * 2, quote)
        return re.sub(r"\\(.)", lambda found: _PROLOG_ESCAPES.get(found[1], found[1]), inner)
    if token[0].isalpha():
        return token
    return parse_float(token) if any(character in ".eE" for character in token) else parse_integer(token)
