"""What a parse error says: the place, what was expected in words, the line with a caret, a hint for common mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidelog.errors import ParseError

_LINE_BEFORE_CARET = 70
_LINE_AFTER_CARET = 50

# The end of a line that ends a statement, perhaps with a comment behind it.
_LAST_LINE = re.compile(r"\.[ \t\r]*(?:[%#][^\n]*|//[^\n]*)?\n")

# What each terminal of the grammar is to a reader, in the order in which a message names them.
_IN_WORDS = {
    "_DOT": "`.`",
    "_IF": "`:-`",
    "_COMMA": "`,`",
    "CLOSE": "`)`",
    "PLAIN_FACTS": "a fact, a rule or a query",
    "PLAIN_ATOM": "an atom",
    "_NOT": "`not`",
    "COMPARE": "a comparison (`=`, `!=`, `<`, `<=`, `>`, `>=`)",
    "PLUS": "an arithmetic operator",
    "NUMBER": "a term (a variable, a constant or an expression)",
    "WORD": "a name",
    "$END": "the end of the text",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name under which messages speak of it."""

    text: str
    name: str

    def error(self, line: int, column: int, what: str, hint: str = "") -> ParseError:
        """A ParseError at a place that counts from 1."""
        message = f"{self.name}:{line}:{column}: {what}\n{self._excerpt(line, column)}"
        return ParseError(f"{message}\nhint: {hint}" if hint else message, line, column)

    def error_at(self, position: int, what: str, hint: str = "") -> ParseError:
        """A ParseError at an offset into the text."""
        line = self.text.count("\n", 0, position) + 1
        return self.error(line, position - self.text.rfind("\n", 0, position), what, hint)

    def unexpected(self, position: int, before: int, accepted: Iterable[str]) -> ParseError:
        """The text at `position` cannot stand there; `before` is where the last token ended."""
        found = _found(self.text, position)
        expected = _expected(frozenset(accepted))
        hint, position = _hint(Mistake(self.text, position, before, frozenset(accepted)))
        return self.error_at(position, f"expected {expected}, found {found}", hint)

    def _excerpt(self, line: int, column: int) -> str:
        content = _line(self.text, line)
        start = max(0, column - 1 - _LINE_BEFORE_CARET)
        end = column - 1 + _LINE_AFTER_CARET
        shown = ("…" if start else "") + content[start:end] + ("…" if end < len(content) else "")
        # Tabs stay tabs, so that the caret stands under its character whatever their width.
        padding = re.sub(r"[^\t]", " ", ("…" if start else "") + content[start : column - 1])
        margin = f"{line:>4} | "
        return f"{margin}{shown}\n{' ' * (len(margin) - 2)}| {padding}^"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A text at the place where parsing stopped, as the hints look at it."""

    text: str
    position: int
    before: int
    accepted: frozenset[str]

    @property
    def at(self) -> str:
        """The text from the place on, as far as any hint reads."""
        return self.text[self.position : self.position + 80]

    @property
    def behind(self) -> str:
        """The two characters before the place, and the text from there on."""
        return self.text[max(0, self.position - 2) : self.position + 20]

    @property
    def statement(self) -> str:
        """From the end of the last line that closes a statement up to the place."""
        return _LAST_LINE.split(self.text[max(0, self.position - 2000) : self.position])[-1]

    @property
    def on_a_new_line(self) -> bool:
        return "\n" in self.text[self.before : self.position]

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.text.rstrip())


def _unclosed_bracket(mistake: Mistake) -> bool:
    inside = re.sub(r'"[^"\n]*"|\'[^\'\n]*\'', "", mistake.statement)
    return len(re.findall(r"[(\[]", inside)) > len(re.findall(r"[)\]]", inside))


def _starts(pattern: str) -> Callable[[Mistake], bool]:
    compiled = re.compile(pattern)
    return lambda mistake: compiled.match(mistake.at) is not None


def _around(pattern: str) -> Callable[[Mistake], bool]:
    compiled = re.compile(pattern)
    return lambda mistake: compiled.search(mistake.behind) is not None


def _missing_dot(mistake: Mistake) -> bool:
    return "_DOT" in mistake.accepted and (mistake.on_a_new_line or mistake.at_end)


# The first hint whose test holds is given. A test sees the text on both sides of the place.
_HINTS: tuple[tuple[Callable[[Mistake], bool], str], ...] = (
    (_starts(r"[\"']"), 'a string is closed on its line, by the quote that opened it; inside it, write `\\"`'),
    (_starts(r"@|(?i:prefix)\b"), "a prefix is declared as `@prefix ex: <http://example.org/> .`"),
    (_starts(r":="), "a rule is written with `:-`, and a value is given with `=`"),
    (_starts(r"<--?|←|<=\s*[^\W\d]\w*[(\[]"), "a rule is written with `:-`: `head :- body.`"),
    (_starts(r"->|=>|→"), "a rule is written the other way round: `head :- body.`"),
    (_around(r"=<"), "less or equal is written `<=`"),
    (_around(r"=>"), "greater or equal is written `>=`"),
    (_around(r"=="), "equality is written `=`"),
    (_around(r"<>|=\\=|\\="), "inequality is written `!=`"),
    (_starts(r"and\b|&&?|∧|/\\"), 'the parts of a body are separated by `,`, which means "and"'),
    (_starts(r"or\b|;|\|\|?|∨"), 'there is no "or" in a body: write one rule for each alternative'),
    (_starts(r"is\b"), "a value is given with `=`: `X = Y + 1`"),
    (_starts(r"\("), "`not` stands before one atom, without parentheses around it: `not edge(X, Y)`"),
    (_starts(r"[0-9]\w*[^\W\d]"), "a word does not begin with a digit; as a string it needs quotes"),
    (_unclosed_bracket, "a parenthesis that is opened in this statement is not closed before this place"),
    (_starts(r"[)\]]"), "this parenthesis closes nothing"),
    (_missing_dot, "a fact, a rule or a query ends with `.`; is it missing here?"),
    (_starts(r":-"), "a rule has one atom before its `:-`, and a statement ends with `.`"),
    (_starts(r"\."), "a rule needs a body after its `:-`; for a fact, leave the `:-` away"),
    (_starts(r"!"), "negation is written `not edge(X, Y)` or `!edge(X, Y)`"),
    (_starts(r"\*"), "an aggregate is over a variable or an expression: `count(X)`"),
    (_starts(r"<"), "an IRI stands in angle brackets without spaces: `<http://example.org/name>`"),
    (_starts(r"-\w"), "a plain word has no `-`; as a string it needs quotes, as a predicate use `_`"),
)


def _hint(mistake: Mistake) -> tuple[str, int]:
    """The hint, and the place it speaks of: a missing dot belongs behind the last token, not before the next."""
    for test, hint in _HINTS:
        if test(mistake):
            return hint, mistake.before if test is _missing_dot else mistake.position
    return "", mistake.position


def _expected(accepted: frozenset[str]) -> str:
    words = [phrase for terminal, phrase in _IN_WORDS.items() if terminal in accepted]
    if "PLAIN_FACTS" in accepted:
        words = [_IN_WORDS["PLAIN_FACTS"]]
    elif "PLAIN_ATOM" in accepted:
        words = ["an atom, a negated atom or a comparison" if "_NOT" in accepted else "an atom"]
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else "".join(words) or "something else"


def _found(text: str, position: int) -> str:
    rest = text[position : position + 80]
    token = re.match(r"\w+(?:[:-]\w+)*|:-|:=|<-|->|&&|\|\||[^\s]", rest)
    return f"`{token[0]}`" if token else "the end of the line" if rest.strip() else "the end of the text"


def _line(text: str, number: int) -> str:
    start = 0
    for _ in range(number - 1):
        start = text.index("\n", start) + 1
    end = text.find("\n", start)
    return text[start : len(text) if end < 0 else end].rstrip("\r")
