"""What to do about common mistakes, many of them habits of other languages: Prolog, Soufflé, DDlog, clingo, SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass

_QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")

# The end of a line that ends a statement, perhaps with a comment behind it.
_LAST_LINE = re.compile(r"\.[ \t\r]*(?:[%#][^\n]*|//[^\n]*)?\n")


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


NO_DOT = "a fact, a rule or a query ends with `.`; is it missing here?"
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
_RULE = "a rule is written with `:-`: `head :- body.`"
_IMPORT = 'a file is imported by `@import "graph.dlog".`'
_PREFIX = "a prefix is declared as `@prefix ex: <http://example.org/> .`"
_PREFIXED = "a prefixed name is a word, a colon and a word, without blanks, as in `ex:name`; an IRI stands in `< >`"
_VALUE = "a value is given with `=`: `X = Y + 1`"
_CASES = "there is no if-then-else: write a rule for each case, or `( a(X), b(X) ; not a(X), c(X) )`"
_NO_CUT = "there is no cut: a rule says what holds, and not how to look for it"
_NO_SQL = "this is no SQL: a rule is written `head(X) :- body(X, Y), Y > 1.`, and a question `?- body(X, Y).`"
_ORDER = "facts have no order; what an aggregate is grouped by stands beside it: `degree(X, count(Y)) :- edge(X, Y).`"
_QUANTIFIER = 'a variable of the body alone means "there is one"; "for all" is `not` before what would be an exception'
_ONE_FACT = "each fact stands by itself: `p(a). p(b).`"
_NO_CHOICE = "a head has no alternatives; of several heads, `p(X), q(X) :- r(X).`, all hold"
_NOT = "negation is written `not`: `not edge(X, Y)`"
_BITS = "bits are `X band Y`, `X bor Y`, `X bxor Y`, `X shl 1`, `X shr 1`; conditions are joined by `,`"
_AGE = "the facts of the last minute are written `reading(S, V) in last 60 s`"
_EXPIRE = "facts expire by `@expire reading 60 s.`, or `@expire reading(_, T) 60 s by T.`"
_COMMENT = "a comment begins with `%`, `#` or `//`"
_BRACED = "braces belong to an aggregate, as in `count { Y : edge(X, Y) }`; parts of a body are grouped by `( … )`"
_HASH = "`#` begins a comment; an aggregate is written `N = count { Y : edge(X, Y) }`"
_FIELDS = "a record is taken apart by a pattern, `X = [A, B]`, and the arguments of an atom by their places"
_TEXTS = "texts are tested by `starts_with(S, T)`, `contains(S, T)`, `ends_with(S, T)` and `matches(S, R)`"
_NO_COMMA = "the `,` before this place is one too many, or its part is missing"

_ZODIAC_COMP = "a comparison is written `comp(X, >, 5)`, and a value is given by `bind(X + 1 as Y)`"
_ZODIAC_BIND = "the value of an expression is given a name by `bind(X + 1 as Y)`, and Y stands in its place"
ZODIAC_AGGREGATE = "an aggregate is written `p(X, Z) :- aggregate(q(X, Y)) on X with count(Y) as Z.`"

# The first hint that fits is given. Those for habits of other languages come first, then those for ZodiacEdge's syntax,
# which are told by its own terminals.
HINTS = (
    Hint(_NO_BLOCK, ahead=r"/\*"),
    Hint(_NO_BLOCK, behind="/", ahead=r"\*"),
    Hint(_IMPORT, ahead=r"\.[ \t]*include\b|@(?:include|load|use)\b"),
    Hint(
        _NO_DIRECTIVE, ahead=r"\.[ \t]*(?:decl|input|output|type|printsize|limitsize|pragma|plan|functor|comp|init)\b"
    ),
    Hint(_NO_DIRECTIVE, behind=r"(?:^|\n)\s*(?:input|output|internal|relation|typedef|:-\s*\w+)\s*", ahead=r"\w"),
    Hint(_IMPORT, behind=r"(?:^|\n)\s*(?:import|include|use|load|consult)\s*", ahead=r"[\"'<\w]", accepted="_IF"),
    Hint(_NO_SQL, behind=r"(?:^|\n)\s*(?i:select|insert|create|drop|with)\s*", accepted="_IF"),
    Hint(_HASH, ahead=r"[ \t]*#[ \t]*(?:count|sum|min|max|avg)\b"),
    Hint(_HASH, behind=r"#[ \t]*(?:count|sum|min|max|avg)\b[^\n]*\n\s*"),
    Hint("strings stand in `\"` or `'`, as keyboards write them", ahead="[“”„‘’«»]"),
    Hint("a comparison is written `!=`, `<=` or `>=`", ahead="[≠≤≥]"),
    Hint("`:-`, `,`, `;` and `.` are the plain characters of that look", ahead=r":[−–—]|[：；，。]"),
    Hint(_QUANTIFIER, ahead="[∃∀]"),
    Hint(_QUANTIFIER, behind=r"[,:(-]\s*(?:for|exists|forall)\s*", ahead=r"(?:all\b|each\b|[A-Z?])"),
    Hint("`//` begins a comment; the quotient of integers is `X div Y`", behind=r"[\w)]", ahead=r"[ \t]*//"),
    Hint(_NO_RANGE, ahead=r"\.\."),
    Hint(_NO_RANGE, behind=r"\.", ahead=r"\.[ \t]*-?\w"),
    Hint(_NOT, ahead=r"\\\+|~|¬"),
    Hint(_NOT, behind=r"(?:,|:-\s)\s*-\s*\w+\([^()]*\)\s*", ahead=r"[.,]", accepted="COMPARE"),
    Hint(_NO_CUT, behind=r"!\s*", ahead=r"[.,;]"),
    Hint(_CASES, behind="-", ahead=">", accepted="NUMBER"),
    Hint(_CASES, behind=r"\bif\s*\([^()]*", ahead=r"[<>=!)]"),
    Hint("a number goes on after its point: `5.0`", behind="[0-9]", ahead=r"\.(?:\s*[,)\]*/+-]|[eE])"),
    Hint(_FIELDS, behind=r"\w", ahead=r"\.[a-z]", accepted="CLOSE"),
    Hint(_FIELDS, behind=r"[(,]\s*", ahead=r"\.[a-z]"),
    Hint("a number begins with a digit: `0.5`", ahead=r"\.[0-9]"),
    Hint("a number has no sign `+`", ahead=r"\+\s*[0-9.]", accepted="NUMBER"),
    Hint("a power is written `X ** Y`, the exclusive or of bits `X bxor Y`", ahead=r"\^", accepted="COMPARE"),
    Hint(_BITS, behind=">", ahead=">"),
    Hint(_BITS, behind="<", ahead="<"),
    Hint(_BITS, ahead=r"(?:bshl|bshru?|land|lor|lxor|lnot)\b"),
    Hint(
        "a comparison has no value; write a rule for each case", behind=r"=\s*\([^()]*", ahead="[<>=]", accepted="CLOSE"
    ),
    Hint(
        "a comparison has two sides: `1 < X, X < 3`", behind=r"[<>=]\s*[\w.\"]+\s*", ahead="[<>=]|!=", accepted="_COMMA"
    ),
    Hint("different pairs are counted by `count(distinct [X, Y])`", behind=r"\(\s*distinct\b[^()]*", ahead=","),
    Hint("there is no null: a fact has all its values", ahead=r"is\s+(?:not\s+)?(?i:null)\b"),
    Hint(_TEXTS, ahead=r"(?i:i?like|matches|contains|regexp)\b", accepted="COMPARE"),
    Hint("write both ends: `X >= 1, X <= 3`", ahead=r"(?i:between)\b", accepted="COMPARE"),
    Hint("what X cannot be is written `X != red, X != blue`", ahead=r"(?i:not\s+in)\b", accepted="COMPARE"),
    Hint(_ORDER, ahead=r"(?i:(?:order|group)\s+by|having|limit)\b", accepted="_COMMA"),
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
    Hint(_PREFIX, behind=r"(?:^|\n)\s*@?(?i:prefix)\s+"),
    Hint(_PREFIXED, behind=r"\bhttps?", ahead=":"),
    Hint(_PREFIXED, behind=r":[\w-]+|[,([=]\s*\w+", ahead=r":(?!-)"),
    Hint(_PREFIXED, behind=r"(?:^|\n)\s*\w+\s*", ahead=r":\s*\w", accepted="_IF"),
    Hint(_IMPORT, ahead="@import"),
    Hint("a text is in a module by `@module acl.`", ahead="@module"),
    Hint("violations are recorded by `@constraint warn :- body.`, and refused by `:- body.`", ahead="@constraint"),
    Hint(_EXPIRE, ahead="@expire"),
    Hint(_EXPIRE, behind=r"@expire\b[^.\n]*"),
    Hint("an equality is `@equality same.`, or `@equality same on person, knows.`", behind=r"@equality\b[^.\n]*"),
    Hint("a parameter is `$` and a name, as in `may($user, write)`", ahead="@", accepted="NUMBER"),
    Hint(_PREFIX, ahead="@"),
    Hint(_NOT_IN_RANGE, behind=r"(?:\bnot\s|!)\s*\??\w+\s*", ahead=r"in\b(?!\s*last)", accepted="WINDOW"),
    Hint(_NO_LIST, behind=r"\w\s*", ahead=r"in\b(?!\s*last)", accepted="WINDOW"),
    Hint(_AGE, ahead=r"(?:in|within|over|during|since|last)\b", accepted="WINDOW"),
    Hint(_AGE, behind=r"\bin\s+last\s*", ahead=r"\w"),
    Hint(_NO_PREDICATE, ahead=_CLOSED_STRING, accepted="PLAIN_ATOM"),
    Hint(_NO_PREDICATE, behind=_CLOSED_STRING, ahead=r"\("),
    Hint('a string is closed on its line, by the quote that opened it; inside it, write `\\"`', ahead="[\"']"),
    Hint("an IRI stands in angle brackets without spaces: `<http://example.org/name>`", ahead=r"<\w+:"),
    Hint("less or equal is written `<=`", behind="=", ahead="<"),
    Hint("greater or equal is written `>=`", behind="=", ahead=">"),
    Hint("equality is written `=`", behind="=", ahead="="),
    Hint("inequality is written `!=`", behind="<", ahead=">"),
    Hint("inequality is written `!=`", ahead=r"\\?=?\\="),
    Hint("equality is written `=`", behind="=", ahead=":="),
    Hint(_VALUE, ahead=r":=|is\b", accepted="COMPARE"),
    Hint(f"{_VALUE}; a variable begins in upper case", behind=r"\b(?:var|let)\s*", ahead=r"\w"),
    Hint(_RULE, ahead=r":+=|:(?!-)|<-|←|<=|=(?!>)|(?:if|when)\b", accepted="_IF"),
    Hint("a rule is written the other way round: `head :- body.`", ahead="->|=>|→", accepted="_IF"),
    Hint("the head of a rule cannot be negated", behind=r"(?:^|\n|[.,])\s*not\s+", accepted="_IF"),
    Hint("the head of a rule cannot be negated", ahead="!", accepted="PLAIN_FACTS"),
    Hint(
        "the head of a rule cannot be negated; a predicate such as `no_edge` can say that",
        ahead=r"-\w",
        accepted="PLAIN_FACTS",
    ),
    Hint(_COMMENT, ahead="--|;", accepted="PLAIN_FACTS"),
    Hint("one `.` ends a statement", behind=r"\.\s*", ahead=r"\.", accepted="PLAIN_FACTS"),
    Hint("a query is written `?- edge(X, Y).`", ahead=r"\?(?!\w)", accepted="PLAIN_FACTS"),
    Hint("a query is written `?- edge(X, Y).`", ahead=r"\?", accepted="_IF"),
    Hint(_NO_CHOICE, ahead=r"[;|∨]|or\b", accepted="_IF"),
    Hint(_ONE_FACT, behind=r"(?:^|[.\n])\s*\w+\([^():\[]*", ahead="[;|]", accepted="CLOSE"),
    Hint(_AND, ahead=r"and\b|&|∧|/\\"),
    Hint(_NO_CELLS, behind=r"\[[^\[\]]*", ahead=r"\|"),
    Hint(_BRACES, behind=r"\{[^{}:]*", ahead=r"[}|]"),
    Hint(_OR, ahead=r"or\b|;|\||∨"),
    Hint(_BRACES, behind=r"\b(?:count|sum|min|max|avg|any|all)\s*(?:\([^()]*\)?\s*)?", ahead=r":|[A-Z?]\w*"),
    Hint("blanks around the colon: `count { Y : edge(X, Y) }`", behind=r"\{[^{}]*\w*:\w+", ahead=r"\("),
    Hint(
        f"{_ONE_ATOM}, without parentheses; several parts are given a name by a rule, `both(X) :- a(X), b(X).`",
        behind=r"(?:\bnot|!)\s*",
        ahead=r"\(",
    ),
    Hint(f"{_ONE_ATOM}; to negate a comparison, write its opposite", behind=r"(?:\bnot\s|!).*", ahead="!?=|[<>{]"),
    Hint(f"{_ONE_ATOM}, and stands there once", behind=r"(?:\bnot|!)\s*(?:\bnot|!)\s*"),
    Hint("a word does not begin with a digit; as a string it needs quotes", ahead=r"[0-9]\w*[^\W\d]"),
    Hint("a plain word has no `-`: as a predicate write it with `_`", ahead=r"-\w", accepted="_IF"),
    Hint("a parenthesis of this statement is not closed before this place", ahead=r"\s*(?:\.|:-|\Z)", open=True),
    Hint(_NO_COMMA, behind=r",\s*", ahead=r"[)\]]"),
    Hint("this parenthesis closes nothing", ahead=r"[)\]]"),
    Hint(NO_DOT, ahead=r"\s*\Z", accepted="_DOT"),
    Hint(NO_DOT, behind=r"\n\s*", accepted="_DOT"),
    Hint(NO_DOT, ahead=r"[^\W\d]|[<@]|\?-", accepted="_IF"),
    Hint("a rule needs a body after its `:-`; for a fact, leave out the `:-`", behind=r":-\s*", ahead=r"\."),
    Hint("a rule has an atom before its `:-`; a query is written `?- edge(X, Y).`", ahead=":-"),
    Hint("a term alone says nothing in a body; compare it with something: `X = 3`", ahead=r"[.,]", accepted="COMPARE"),
    Hint(_NO_COMMA, r"[.,)\]]|\s*\Z", r",\s*"),
    Hint("before this `,` a part is missing", behind=r":-\s*", ahead=","),
    Hint(_BRACED, ahead=r"[{}]"),
    Hint("an aggregate is over a variable or an expression: `count(X)`", behind=r"\(\s*", ahead=r"\*"),
    Hint(_AND, ahead=r"[^\W\d]|[<!]", accepted="_COMMA"),
)
