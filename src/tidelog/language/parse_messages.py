"""What a parse error says: the place, what was expected in words, the line with a caret, a hint for common mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tidelog.errors import Mistake, ParseError, TidelogError
from tidelog.language.hints import HINTS, NO_DOT
from tidelog.language.syntax import Place

Error = TypeVar("Error", bound=TidelogError)

_LINE_BEFORE_CARET = 70
_LINE_AFTER_CARET = 50

# How much of the text before and after the place hints look at.
_HINTS_LOOK = 1000

# A place within a message.
_PLACE = re.compile(r"line ([0-9]+), column ([0-9]+)")
_LINE = re.compile(r"\(line ([0-9]+)\)")

# The terminals of the grammar in a reader's words. A phrase is used where all its terminals are accepted, and stands
# for all of them; terminals without a phrase are not mentioned.
_PHRASES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"PLAIN_FACTS", "PLAIN_ATOM", "PREFIX", "ASK", "$END"}), "a fact, a rule, a query or a prefix"),
    (frozenset({"PLAIN_BODY", "PLAIN_ATOM", "_NOT", "WORD", "NUMBER"}), "an atom, a negated atom or a comparison"),
    (frozenset({"PREFIX", "_LABEL", "ASK", "$END"}), "a fact, a rule, a query or a prefix"),
    (frozenset({"_NOT", "_COMP", "_BIND"}), "an atom, a negated atom, `comp` or `bind`"),
    (frozenset({"PLAIN_ATOM", "WORD"}), "an atom"),
    (frozenset({"NUMBER", "WORD"}), "a variable, constant or expression"),
    (frozenset({"_COMMA"}), "`,`"),
    (frozenset({"CLOSE"}), "`)`"),
    (frozenset({"_CLOSE"}), "`)`"),
    (frozenset({"_AND"}), "`and`"),
    (frozenset({"_AS"}), "`as`"),
    (frozenset({"_ON"}), "`on`"),
    (frozenset({"_WITH"}), "`with`"),
    (frozenset({"COMPARATOR"}), "a comparator"),
    (frozenset({"_DOT"}), "`.`"),
    (frozenset({"_IF"}), "`:-`"),
    (frozenset({"AGE"}), "an age such as `60 s`"),
    (frozenset({"COMPARE"}), "an operator"),
    (frozenset({"$END"}), "the end of the text"),
)


def at(place: Place | None) -> str:
    """The beginning of a message about a place in a text whose name is not known."""
    return f"line {place.line}, column {place.column}: " if place else ""


def mistake(kind: type[Error], place: Place | None, what: str, statement: str, hint: str) -> Error:
    """An error about a statement, which its message shows as it is printed: the text is not at hand."""
    error = _made(kind, f"{at(place)}{what}\n    {statement}\nhint: {hint}", place or Place(1, 1))
    error.mistake = Mistake(*place, what, hint) if place else None
    return error


def _made(kind: type[Error], message: str, place: tuple[int, int]) -> Error:
    return kind(message, *place) if issubclass(kind, ParseError) else kind(message)


@contextmanager
def told_of(text: str, name: str) -> Iterator[None]:
    """Errors about statements of a text show the line with a caret, as those of the parser do."""
    try:
        yield
    except TidelogError as error:
        if error.mistake is None:
            if isinstance(text, Assembled):  # rules of a cycle are told by their lines alone
                error.args = tuple([Source(text, name).with_lines(said) for said in error.args])
            raise
        line, column, what, hint = error.mistake
        source = Source(text, name)
        told = _made(type(error), source.message(line, column, what, hint), source.located(line, column)[1:])
        told.mistake = error.mistake
        raise told from None


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name that messages give it."""

    text: str
    name: str

    def message(self, line: int, column: int, what: str, hint: str = "") -> str:
        """What to say about a place that counts from 1."""
        source, line, column = self.located(line, column)
        what = self.with_places(what)
        message = f"{source.name}:{line}:{column}: {what}\n{source._excerpt(line, column)}"
        return f"{message}\nhint: {hint}" if hint else message

    def located(self, line: int, column: int) -> tuple[Source, int, int]:
        """The source that a place was written in, and where that is."""
        if not isinstance(self.text, Assembled):
            return self, line, column
        part, line, column = self.text.origin(line, column)
        return part.located(line, column)

    def with_places(self, said: str) -> str:
        """What is said about places, said about those of the sources."""
        return _PLACE.sub(self._place_elsewhere, said) if isinstance(self.text, Assembled) else said

    def with_lines(self, said: object) -> object:
        """What is said about lines, said about those of the sources."""

        def line_elsewhere(found: re.Match[str]) -> str:
            source, line, _ = self.located(int(found[1]), 1)
            return f"({source.name}:{line})"

        return _LINE.sub(line_elsewhere, said) if isinstance(said, str) else said

    def _place_elsewhere(self, said: re.Match[str]) -> str:
        source, line, column = self.located(int(said[1]), int(said[2]))
        return f"{source.name}:{line}:{column}"

    def error(self, line: int, column: int, what: str, hint: str = "") -> ParseError:
        """A ParseError at a place that counts from 1."""
        return ParseError(self.message(line, column, what, hint), *self.located(line, column)[1:])

    def error_at(self, position: int, what: str, hint: str = "") -> ParseError:
        """A ParseError at an offset into the text."""
        line = self.text.count("\n", 0, position) + 1
        return self.error(line, position - self.text.rfind("\n", 0, position), what, hint)

    def unexpected(self, position: int, last_end: int, accepted: Iterable[str]) -> ParseError:
        """The text at `position` cannot stand there; the token before it ended at `last_end`."""
        behind = self.text[max(0, position - _HINTS_LOOK) : position]
        ahead = self.text[position : position + _HINTS_LOOK]
        terminals = frozenset(accepted)
        hint = next((hint.text for hint in HINTS if hint.fits(behind, ahead, terminals)), "")
        found = re.match(r"\w+(?:[:-]\w+)*|:-|:=|<-|->|=>|&&|\|\||\?-|\?\w+|\\\+|/\*|\.[a-z]\w*|\.\.|\S", ahead)
        what = f"expected {_expected(terminals)}, found {f'`{found[0]}`' if found else 'the end of the text'}"
        # A missing dot belongs after the last token, not before the next.
        return self.error_at(last_end if hint is NO_DOT else position, what, hint)

    def _excerpt(self, line: int, column: int) -> str:
        content = self.text.split("\n", line)[line - 1].rstrip("\r")
        start = max(0, column - 1 - _LINE_BEFORE_CARET)
        end = column - 1 + _LINE_AFTER_CARET
        shown = ("…" if start else "") + content[start:end] + ("…" if end < len(content) else "")
        # Tabs stay tabs, so that the caret stands under its character whatever their width.
        padding = re.sub(r"[^\t]", " ", ("…" if start else "") + content[start : column - 1])
        margin = f"{line:>4} | "
        return f"{margin}{shown}\n{' ' * (len(margin) - 2)}| {padding}^"


class Edit(NamedTuple):
    """Other characters in the place of those of a text."""

    start: int
    length: int
    text: str


class Part(NamedTuple):
    """A text with edits that leave its lines where they are."""

    source: Source
    edits: tuple[Edit, ...]

    def edited(self) -> str:
        """The text after the edits."""
        text, parts, end = self.source.text, [], 0
        for start, length, new in self.edits:
            parts += [text[end:start], new]
            end = start + length
        return "".join([*parts, text[end:]])

    def column_before(self, line: int, column: int) -> int:
        """The column, before the edits, of a place after them."""
        line_start = sum(len(each) + 1 for each in self.source.text.split("\n", line - 1)[: line - 1])
        shift = 0
        for start, length, new in self.edits:
            place = start - line_start + 1  # before the edit, which moves what is behind it
            if not 0 < place <= column - shift:
                continue
            if column - shift < place + len(new):
                return place
            shift += len(new) - length
        return column - shift


class Assembled(str):
    """A text that was put together from others. What is said about it is said about those."""

    __slots__ = ("_parts",)

    _parts: tuple[Part, ...]

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Assembled:
        """The texts, each of which begins a line."""
        parts = tuple(parts)
        whole = cls("\n".join([part.edited() for part in parts]))
        whole._parts = parts
        return whole

    def origin(self, line: int, column: int) -> tuple[Source, int, int]:
        """The text that a place comes from, and the place there."""
        for part in self._parts[:-1]:
            lines = part.source.text.count("\n") + 1
            if line <= lines:
                return part.source, line, part.column_before(line, column)
            line -= lines
        return self._parts[-1].source, line, self._parts[-1].column_before(line, column)


# What can follow in `@predicate edge/2.`, and nothing else can where only these can.
_OF_SIGNATURES = frozenset({"WORD", "PREFIXED", "IRI", "DIVIDE", "NUMBER", "OPEN"})


def _expected(accepted: frozenset[str]) -> str:
    if accepted == {"WORD"}:
        return "a name"
    if accepted == {"OPEN"}:
        return "`(`"
    if accepted <= _OF_SIGNATURES:
        return "a predicate and its number of arguments"
    words: list[str] = []
    rest = set(accepted)
    if "_IF" in rest:
        rest.discard("_COMMA")  # Most rules have one head.
    for terminals, phrase in _PHRASES:
        if terminals <= rest:
            words.append(phrase)
            rest -= terminals
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
