"""What a parse error says: the place, what was expected in words, the line with a caret, a hint for common mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tidelog.errors import Mistake, ParseError, TidelogError
from tidelog.language.syntax import Place

Error = TypeVar("Error", bound=TidelogError)

_LINE_BEFORE_CARET = 70
_LINE_AFTER_CARET = 50

# How much of the text before and after the place hints look at.
_HINTS_LOOK = 1000

_QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")

# The end of a line that ends a statement, perhaps with a comment behind it.
_LAST_LINE = re.compile(r"\.[ \t\r]*(?:[%#][^\n]*|//[^\n]*)?\n")

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
            raise
        line, column, what, hint = error.mistake
        told = _made(type(error), Source(text, name).message(line, column, what, hint), (line, column))
        told.mistake = error.mistake
        raise told from None


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name that messages give it."""

    text: str
    name: str

    def message(self, line: int, column: int, what: str, hint: str = "") -> str:
        """What to say about a place that counts from 1."""
        message = f"{self.name}:{line}:{column}: {what}\n{self._excerpt(line, column)}"
        return f"{message}\nhint: {hint}" if hint else message

    def error(self, line: int, column: int, what: str, hint: str = "") -> ParseError:
        """A ParseError at a place that counts from 1."""
        return ParseError(self.message(line, column, what, hint), line, column)

    def error_at(self, position: int, what: str, hint: str = "") -> ParseError:
        """A ParseError at an offset into the text."""
        line = self.text.count("\n", 0, position) + 1
        return self.error(line, position - self.text.rfind("\n", 0, position), what, hint)

    def unexpected(self, position: int, last_end: int, accepted: Iterable[str]) -> ParseError:
        """The text at `position` cannot stand there; the token before it ended at `last_end`."""
        behind = self.text[max(0, position - _HINTS_LOOK) : position]
        ahead = self.text[position : position + _HINTS_LOOK]
        terminals = frozenset(accepted)
        hint = next((hint.text for hint in _HINTS if hint.fits(behind, ahead, terminals)), "")
        found = re.match(r"\w+(?:[:-]\w+)*|:-|:=|<-|->|=>|&&|\|\||\?-|\?\w+|\\\+|/\*|\.[a-z]\w*|\.\.|\S", ahead)
        what = f"expected {_expected(terminals)}, found {f'`{found[0]}`' if found else 'the end of the text'}"
        # A missing dot belongs after the last token, not before the next.
        return self.error_at(last_end if hint is _NO_DOT else position, what, hint)

    def _excerpt(self, line: int, column: int) -> str:
        content = self.text.split("\n", line)[line - 1].rstrip("\r")
        start = max(0, column - 1 - _LINE_BEFORE_CARET)
        end = column - 1 + _LINE_AFTER_CARET
        shown = ("…" if start else "") + content[start:end] + ("…" if end < len(content) else "")
        # Tabs stay tabs, so that the caret stands under its character whatever their width.
        padding = re.sub(r"[^\t]", " ", ("…" if start else "") + content[start : column - 1])
        margin = f"{line:>4} | "
        return f"{margin}{shown}\n{' ' * (len(margin) - 2)}| {padding}^"


@dataclass(frozen=True, slots=True)
class Hint:
    """What to do about a common mistake, recognised by the text before and after the place."""

    text: str
    ahead: str = ""
    behind: str = ""
    accepted: str = ""
    open: bool = False

    def fits(self, behind: str, ahead: str, accepted: frozenset[str]) -> bool:
        return (
            (not self.accepted or self.accepted in accepted)
            and re.match(self.ahead, ahead) is not None
            and re.search(f"(?:{self.behind})$", behind) is not None
            and (not self.open or _leaves_open(behind))
        )


def _leaves_open(behind: str) -> bool:
    """Whether the statement has more opening than closing brackets up to here."""
    statement = _QUOTED.sub("", _LAST_LINE.split(behind)[-1])
    return len(re.findall(r"[(\[]", statement)) > len(re.findall(r"[)\]]", statement))


_NO_DOT = "a fact, a rule or a query ends with `.`; is it missing here?"
_AND = 'the parts of a body are separated by `,`, which means "and"'
_CLOSED_STRING = r"""(?:"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')"""
_NO_PREDICATE = "a string names no predicate: write a word, an IRI or a prefixed name"
_OR = 'alternatives are written `( a(X) ; b(X) )`; the `;` means "or"'
_ONE_ATOM = "`not` stands before one atom, as in `not edge(X, Y)`"
_NOT_IN_RANGE = f"{_ONE_ATOM}; outside of a range is `( X < 1 ; X >= 10 )`"
_NO_LIST = "what X can be is written `X in range(1, 10)`, or `( X = red ; X = blue )`"
_NO_CELLS = "a list is made of records of two, `[HEAD, TAIL]`"
_BRACES = "before the colon stands what is aggregated: `N = count { Y : edge(X, Y) }`"
_NO_RANGE = "the numbers from 1 to 9 are written `X in range(1, 10)`, in the body of a rule"
_COLUMNS = "columns are declared as `@predicate edge(from: string, weight: float).`"
_TYPE = "a type is declared as `@type point = [x: int, y: int].`"
_KEY = "a key names some of the columns: `@key edge(from, to).`"
_NO_BLOCK = "a comment begins with `%`, `#` or `//` and ends with its line; there is no `/* … */`"
_NO_DIRECTIVE = "there are no directives: predicates need no declaration, and `?- edge(X, Y).` prints facts"

_ZODIAC_COMP = "a comparison is written `comp(X, >, 5)`, and a value is given by `bind(X + 1 as Y)`"
_ZODIAC_BIND = "the value of an expression is given a name by `bind(X + 1 as Y)`, and Y stands in its place"
ZODIAC_AGGREGATE = "an aggregate is written `p(X, Z) :- aggregate(q(X, Y)) on X with count(Y) as Z.`"

# The first hint that fits is given. Those for habits of other languages come first, then those for ZodiacEdge's syntax,
# which are told by its own terminals.
_HINTS = (
    Hint(_NO_BLOCK, ahead=r"/\*"),
    Hint(_NO_BLOCK, behind="/", ahead=r"\*"),
    Hint(_NO_DIRECTIVE, ahead=r"\.[ \t]*(?:decl|input|output|type|printsize|pragma|functor|comp|init)\b"),
    Hint("`//` begins a comment; the quotient of integers is `X div Y`", behind=r"[\w)]", ahead=r"[ \t]*//"),
    Hint(_NO_RANGE, ahead=r"\.\."),
    Hint(_NO_RANGE, behind=r"\.", ahead=r"\.[ \t]*-?\w"),
    Hint("negation is written `not`: `not edge(X, Y)`", ahead=r"\\\+|~|¬"),
    Hint("a parameter is `$` and a name, as in `may($user, write)`", ahead=r"\$"),
    Hint("a parameter stands for a value, and cannot name a predicate", behind=r"\$\w+\s*", ahead=r"[(\[]"),
    Hint(_COLUMNS, behind=r"@predicate\s[^.\n]*\([^.\n]*"),
    Hint("a predicate is declared as `@predicate edge/2.`", behind=r"@predicate\b[^.\n]*"),
    Hint("a predicate is declared as `@predicate edge/2.`", ahead="@pred"),
    Hint(_TYPE, behind=r"@type\b[^.\n]*"),
    Hint(_TYPE, ahead="@type"),
    Hint(_KEY, behind=r"@key\b[^.\n]*"),
    Hint(_KEY, ahead="@key"),
    Hint("the parts of a body are joined by `and` or `∧`", ahead=r",|&|/\\", accepted="_AND"),
    Hint(_ZODIAC_COMP, ahead=r"[-+*/%<>=!]|:=|is\b", accepted="_AND"),
    Hint(ZODIAC_AGGREGATE, behind=r"\b(?i:count|sum|min|max|avg|med(?:ian)?)\s*", ahead=r"\(", accepted="_CLOSE"),
    Hint(_ZODIAC_BIND, ahead=r"[-+*/%(]", accepted="_CLOSE"),
    Hint(_ZODIAC_BIND, behind=r"\b(?i:comp)\s*\([^),]*", ahead=r"[-+*/%(]"),
    Hint(_ZODIAC_BIND, ahead=r"\)", accepted="_AS"),
    Hint("a prefix is declared as `@prefix ex: <http://example.org/> .`", behind=r"(?:^|\n)\s*@?(?i:prefix)\s+"),
    Hint('a file is imported by `@import "graph.dlog".`', ahead="@import"),
    Hint("a text is in a module by `@module acl.`", ahead="@module"),
    Hint("violations are recorded by `@constraint warn :- body.`, and refused by `:- body.`", ahead="@constraint"),
    Hint("facts expire by `@expire reading 60 s.`, or `@expire reading(_, T) 60 s by T.`", ahead="@expire"),
    Hint("a prefix is declared as `@prefix ex: <http://example.org/> .`", ahead="@"),
    Hint(_NOT_IN_RANGE, behind=r"(?:\bnot\s|!)\s*\??\w+\s*", ahead=r"in\b(?!\s*last)", accepted="WINDOW"),
    Hint(_NO_LIST, behind=r"\w\s*", ahead=r"in\b(?!\s*last)", accepted="WINDOW"),
    Hint("the facts of the last minute are written `reading(S, V) in last 60 s`", ahead=r"in\b", accepted="WINDOW"),
    Hint(_NO_PREDICATE, ahead=_CLOSED_STRING, accepted="PLAIN_ATOM"),
    Hint(_NO_PREDICATE, behind=_CLOSED_STRING, ahead=r"\("),
    Hint('a string is closed on its line, by the quote that opened it; inside it, write `\\"`', ahead="[\"']"),
    Hint("an IRI stands in angle brackets without spaces: `<http://example.org/name>`", ahead=r"<\w+:"),
    Hint("less or equal is written `<=`", behind="=", ahead="<"),
    Hint("greater or equal is written `>=`", behind="=", ahead=">"),
    Hint("equality is written `=`", behind="=", ahead="="),
    Hint("inequality is written `!=`", behind="<", ahead=">"),
    Hint("inequality is written `!=`", ahead=r"\\?=?\\="),
    Hint("a value is given with `=`: `X = Y + 1`", ahead=r":=|is\b", accepted="COMPARE"),
    Hint("a rule is written with `:-`: `head :- body.`", ahead=r":=|<-|←|<=", accepted="_IF"),
    Hint("a rule is written the other way round: `head :- body.`", ahead="->|=>|→", accepted="_IF"),
    Hint("the head of a rule cannot be negated", behind=r"(?:^|\n|[.,])\s*not\s+", accepted="_IF"),
    Hint("the head of a rule cannot be negated", ahead="!", accepted="PLAIN_FACTS"),
    Hint(_AND, ahead=r"and\b|&|∧|/\\"),
    Hint(_NO_CELLS, behind=r"\[[^\[\]]*", ahead=r"\|"),
    Hint(_OR, ahead=r"or\b|;|\||∨"),
    Hint(_BRACES, behind=r"\{[^{}:]*", ahead=r"\}"),
    Hint(_BRACES, behind=r"\b(?:count|sum|min|max|avg|any|all)\s*", ahead=":"),
    Hint("blanks around the colon: `count { Y : edge(X, Y) }`", behind=r"\{[^{}]*\w*:\w+", ahead=r"\("),
    Hint(f"{_ONE_ATOM}, without parentheses around it", behind=r"(?:\bnot|!)\s*", ahead=r"\("),
    Hint(f"{_ONE_ATOM}; to negate a comparison, write its opposite", behind=r"(?:\bnot\s|!).*", ahead="!?=|[<>{]"),
    Hint(f"{_ONE_ATOM}, and stands there once", behind=r"(?:\bnot|!)\s*(?:\bnot|!)\s*"),
    Hint("a word does not begin with a digit; as a string it needs quotes", ahead=r"[0-9]\w*[^\W\d]"),
    Hint("a plain word has no `-`: as a predicate write it with `_`", ahead=r"-\w", accepted="_IF"),
    Hint("a parenthesis of this statement is not closed before this place", ahead=r"\s*(?:\.|:-|\Z)", open=True),
    Hint("this parenthesis closes nothing", ahead=r"[)\]]"),
    Hint(_NO_DOT, ahead=r"\s*\Z", accepted="_DOT"),
    Hint(_NO_DOT, behind=r"\n\s*", accepted="_DOT"),
    Hint(_NO_DOT, ahead=r"[^\W\d]|[<@]|\?-", accepted="_IF"),
    Hint("a rule needs a body after its `:-`; for a fact, leave out the `:-`", behind=r":-\s*", ahead=r"\."),
    Hint("a rule has an atom before its `:-`; a query is written `?- edge(X, Y).`", ahead=":-"),
    Hint("a term alone says nothing in a body; compare it with something: `X = 3`", ahead=r"[.,]", accepted="COMPARE"),
    Hint("the `,` before this place is one too many, or its part is missing", r"[.,)\]]|\s*\Z", r",\s*"),
    Hint("an aggregate is over a variable or an expression: `count(X)`", behind=r"\(\s*", ahead=r"\*"),
    Hint(_AND, ahead=r"[^\W\d]|[<!]", accepted="_COMMA"),
)


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
