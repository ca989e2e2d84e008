"""What the rules of `grammar.lark` do: each reduction of the automaton makes a node of the syntax tree.

No parse tree is ever built, and nothing here recurses on the depth of the input.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar

from tidelog.errors import DataError, ParseError
from tidelog.language import literals, syntax
from tidelog.language.arithmetic import NoValue
from tidelog.language.checks import mistaken_call
from tidelog.language.names import (
    AGGREGATES,
    HEAD_AGGREGATES,
    RESERVED,
    TYPES,
    bracketed,
    display_predicate,
    expand,
    is_variable_name,
    type_name,
    unescape_iri,
)
from tidelog.language.parse_messages import Source
from tidelog.language.records.patterns import RECORD
from tidelog.language.syntax import Aggregate, Atom, BodyItem, Call, Constant, Expression, Place, Term, Variable
from tidelog.language.written.windows import Age, age_of, argument_named, windowed
from tidelog.values import IRI, XSD, Literal, Record, canonical

# Aggregates with a second argument, and how it is written.
_WITH_OPTIONS: Mapping[str, tuple[str, str]] = {
    "quantile": ("a value and a share", "quantile(X, 0.9)"),
    "string_agg": ("a text and a separator", 'string_agg(X, ", ")'),
}
# Aggregates that can give, instead of the value, what stands beside it.
WITNESSED = frozenset({"min", "max"})

_NESTING = (Call, Aggregate, Atom, syntax.Negation, syntax.Comparison, syntax.Disjunction)

# What to write instead of predicates with these names.
_NO_PREDICATES: Mapping[str, str] = {
    "true": "what always holds is left out: a fact has no body",
    "false": "a rule that never holds is left out; what must not hold is a constraint, `:- body.`",
    "not": "the word has a meaning of its own, as in `not edge(X, Y)`",
}
_IN_RULES_ALONE = (
    "facts call functions of the language; one that is registered is called in a rule, `p(X) :- X = twice(3).`"
)

# Deeper expressions would exhaust the Python stack wherever the tree is walked: hashing, comparing, printing.
MAX_DEPTH = 100

# The atoms, comparisons and terms inside the PLAIN_… terminals, which have checked everything else.
_PLAIN_ATOM = re.compile(r"(?:(not)\s+)?([^\s(\[<,.]+|<[^>]*>)[(\[]((?:\"[^\"]*\"|'[^']*'|<[^>]*>|[^)\]\"'<])*)[)\]]")
_PLAIN_SIDE = r"(\?\w+|[^\W\d]\w*|-?[0-9.]+)(?:\s*([-+*])\s*(\?\w+|[^\W\d]\w*|-?[0-9.]+))?"
_PLAIN_ITEM = re.compile(rf"{_PLAIN_ATOM.pattern}|{_PLAIN_SIDE}\s*([<>=!]+)\s*{_PLAIN_SIDE}")
_PLAIN_TERM = re.compile(r"\"[^\"]*\"|'[^']*'|<[^>]*>|[^\s,]+")
_PREFIX_LINE = re.compile(r"@?prefix\s+([^:]*):\s*(?:<([^>]*)>|(\S+?))\s*\.?", re.IGNORECASE)
_STRING = re.compile(r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')(?:@(.*)|\^\^(.*))", re.DOTALL)

_Node = TypeVar("_Node")
_Result = TypeVar("_Result")

_OWL = "http://www.w3.org/2002/07/owl#"
# Rule sets generated from ontologies write the empty class with two arguments where they mean the empty property, for
# which OWL 2 has a name.
_PROPERTY_OF_CLASS = {
    f"<{_OWL}Nothing>": f"<{_OWL}bottomObjectProperty>",
    f"<{_OWL}Thing>": f"<{_OWL}topObjectProperty>",
}


def atom_of(predicate: str, arguments: tuple[Term, ...], place: Place) -> Atom:
    """An atom as rule sets mean it."""
    if len(arguments) == 2:
        predicate = _PROPERTY_OF_CLASS.get(predicate, predicate)
    return Atom(predicate, arguments, place)


@dataclass(slots=True)
class Parsed:
    """What has been read of a text so far: rules and queries as they are written. If any is `special`, it has to be
    expanded into plain ones.
    """

    prefixes: dict[str, str] = field(default_factory=dict)
    facts: list[Atom] = field(default_factory=list)
    rules: list[syntax.Rule] = field(default_factory=list)
    queries: list[syntax.Query] = field(default_factory=list)
    predicates: list[syntax.Signature] = field(default_factory=list)
    expiries: list[syntax.Expiry] = field(default_factory=list)
    keys: list[syntax.Signature] = field(default_factory=list)
    atoms: list[Atom] = field(default_factory=list)
    special: bool = False
    # Of a program in parts:
    imports: list[tuple[str, Place]] = field(default_factory=list)
    module: str = ""
    directives: list[tuple[Place, str]] = field(default_factory=list)


class Actions:
    """What the grammar's rules do. A method is named after its rule and takes the values of the rule's symbols.

    One instance serves all texts in turn, because the automaton holds its methods; `begin` resets it.
    """

    aggregate_hint = (
        "an aggregate is a whole argument of a rule's head, such as `total(X, {0}(Y)) :- …`, or has a body of its own,"
        " `N = {0} {{ Y : edge(X, Y) }}`"
    )

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop the last text and its contents."""
        self.begin(Source("", ""), {})

    def begin(self, source: Source, prefixes: Mapping[str, str], in_parts: bool = False) -> Parsed:
        self.source = source
        self._in_parts = in_parts
        self.prefixes = dict(prefixes)
        self.undeclared: dict[str, Place] = {}
        self.parsed = Parsed()
        self._constants: dict[str, Constant] = {}
        self._begin_statement()
        return self.parsed

    def _begin_statement(self) -> None:
        self._aggregates: list[Aggregate] = []
        self._parameters: list[syntax.Parameter] = []
        self._unnamed: list[Variable] = []
        self._underscored: set[str] = set()

    # ---- statements

    def program(self, _: list[Any]) -> None:
        """Its statements have been collected one by one."""

    def prefix(self, children: list[Any]) -> None:
        (token,) = children
        match = _PREFIX_LINE.fullmatch(token)
        assert match is not None, "the terminal PREFIX is narrower than this"
        name, namespace = match[1], match[2] if match[2] is not None else match[3]
        if name in self.undeclared:
            line, column = self.undeclared[name]
            what = f"the prefix `{name}:` is declared after its use in line {line}, column {column}"
            raise self._error(token, what, "declare a prefix before the first name that has it")
        self.prefixes[name] = self.parsed.prefixes[name] = self._checked(unescape_iri, namespace, token)
        self._constants.clear()

    def declaration(self, children: list[Any]) -> None:
        self.parsed.predicates += children[0]

    def signature(self, children: list[Any]) -> syntax.Signature:
        name, _, arity, *text = children
        place = place_of(name)
        if not arity.isdecimal():
            hint = "how many arguments a predicate has is a whole number: `@predicate edge/2.`"
            raise self._error(arity, f"`{arity}` is no number of arguments", hint)
        count = self._checked(literals.integer, arity, arity)
        return syntax.Signature(self._predicate(str(name), place), count, place, text=self._about(text))

    def named_signature(self, children: list[Any]) -> syntax.Signature:
        name, opening, columns, closing, *text = children
        self._matching(opening, closing)
        place, own = place_of(name), self._columns(columns)
        return syntax.Signature(self._predicate(str(name), place), len(own), place, own, self._about(text))

    def record_type(self, children: list[Any]) -> None:
        name, equals, opening, columns, closing = children
        if equals != "=" or opening != "[":
            wrong = opening if equals == "=" else equals
            raise self._error(wrong, f"`{wrong}` cannot stand here", "write `@type point = [x: int, y: int].`")
        self._matching(opening, closing)
        if name in TYPES:
            raise self._error(name, f"`{name}` is a type of the language", "choose another name")
        own = self._columns(columns)
        self.parsed.predicates.append(syntax.Signature(type_name(name), len(own), place_of(name), own))

    def key(self, children: list[Any]) -> None:
        name, opening, columns, closing = children
        self._matching(opening, closing)
        for column in columns:
            if column.type != "any":
                raise self._error(column.place, "a key has names of columns alone", "write `@key edge(from, to).`")
        place, own = place_of(name), self._columns(columns)
        self.parsed.keys.append(syntax.Signature(self._predicate(str(name), place), len(own), place, own))
        self.parsed.special = True

    def column(self, children: list[Any]) -> syntax.Column:
        name, *types = children
        return syntax.Column(str(name), str(types[0]) if types else "any", place_of(name))

    def _columns(self, columns: list[syntax.Column]) -> tuple[syntax.Column, ...]:
        known: set[str] = set()
        for column in columns:
            if column.name in known:
                raise self._error(column.place, f"two columns are named `{column.name}`", "give each its own name")
            known.add(column.name)
        return tuple(columns)

    def _about(self, texts: list[Any]) -> str:
        """The text that tells about a predicate, if there is one."""
        return "".join([str(self.string([token]).value) for token in texts])

    def name(self, children: list[Any]) -> Atom:
        (name,) = children
        place = place_of(name)
        return Atom(self._predicate(str(name), place), (), place)

    def equality(self, children: list[Any]) -> None:
        same, *names = children
        atoms = (same, *(names[0] if names else ()))
        twice = next((atom for number, atom in enumerate(atoms) if atom in atoms[:number]), None)
        if twice is not None:
            what = f"`{twice.predicate}` stands twice in the equality"
            hint = "name the equality, and then each predicate that it applies to: `@equality same on person, knows.`"
            place = twice.place or Place(1, 1)
            raise self.source.error(place.line, place.column, what, hint)
        self.parsed.special = True
        self.parsed.rules.append(syntax.Rule(Atom(syntax.EQUALITY), atoms, same.place))

    def expiry(self, children: list[Any]) -> None:
        atom, token = children
        for term in atom.arguments:
            if not isinstance(term, Variable):
                hint = (
                    "all facts of a predicate expire alike: `@expire reading 60 s.`, `@expire reading(_, T) 60 s by T.`"
                )
                raise self._error(term.place or place_of(token), "an argument of `@expire` is a variable", hint)
        age, argument = self._age(str(token), token, atom)
        arity = atom.arity if atom.arguments else None
        self._end_statement()
        self.parsed.expiries.append(syntax.Expiry(atom.predicate, age.written, age.length, argument, arity, atom.place))

    def _age(self, text: str, token: Any, atom: Atom) -> tuple[Age, int | None]:
        """How old facts may become, and the place of the argument that this is counted from, if there is one."""
        age = age_of(text)
        if isinstance(age, str):
            raise self._error(token, age, "such as `60 s`, or `60 s by T`, where T is an argument that is a time")
        argument = argument_named(atom, age.by) if age.by else None
        if age.by and argument is None:
            hint = f"name an argument: `{display_predicate(atom.predicate, self.prefixes)}(…, T)` and `by T`"
            raise self._error(token, f"`{age.by}` is no variable among the arguments of the atom", hint)
        return age, argument

    def importing(self, children: list[Any]) -> None:
        (token,) = children
        path = self._checked(literals.unquote, self._directive(token), token)
        self.parsed.imports.append((path, place_of(token)))

    def module(self, children: list[Any]) -> None:
        (token,) = children
        if self.parsed.module:
            raise self._error(token, "a text is in one module", "leave one of its `@module` out")
        self.parsed.module = self._directive(token)

    def _directive(self, token: Any) -> str:
        """What a directive is about. It is noted, to be taken out of the text."""
        word, rest = token.split(None, 1)
        if not self._in_parts:
            hint = "programs in parts are read by `tidelog.read_program(path)`, or given to a new `KnowledgeBase`"
            raise self._error(token, f"`{word}` cannot stand here", hint)
        self.parsed.directives.append((place_of(token), str(token)))
        return str(rest.removesuffix(".").rstrip())

    def plain_facts(self, children: list[Any]) -> None:
        (token,) = children
        place_at = _places(token)
        known, facts = self._constants, self.parsed.facts
        for match in _PLAIN_ATOM.finditer(token):
            place = place_at(match.start())
            arguments = [known.get(text) or self._new_constant(text, place) for text in _PLAIN_TERM.findall(match[3])]
            facts.append(atom_of(self._predicate(match[2], place), tuple(arguments), place))

    def fact(self, children: list[Any]) -> None:
        (atom,) = children
        self._refuse_parameters("fact")
        if not self._in_parts and not all(isinstance(argument, Constant) for argument in atom.arguments):
            arguments = [self._ground(atom, argument) for argument in atom.arguments]
            atom = Atom(atom.predicate, tuple(arguments), atom.place)
        self._end_statement()
        self.parsed.facts.append(atom)

    def rule(self, children: list[Any]) -> None:
        heads, body = children
        self._refuse_parameters("rule")
        head, *also = map(self._with_head_aggregates, heads)
        self._end_statement(head, *also)
        self.parsed.special |= bool(also)
        self.parsed.rules.append(syntax.Rule(head, _conjunction(body), head.place, tuple(also)))

    def constraint(self, children: list[Any]) -> None:
        self._constrain(syntax.CONSTRAINT, children[0])

    def warning(self, children: list[Any]) -> None:
        self._constrain(syntax.WARNING, children[0])

    def _constrain(self, kind: str, body: list[Any]) -> None:
        self._refuse_parameters("constraint")
        self._end_statement()
        items = _conjunction(body)
        place = next((item.place for item in items if not isinstance(item, syntax.Negation)), None)
        self.parsed.special = True
        self.parsed.rules.append(syntax.Rule(Atom(kind), items, place))

    def query(self, children: list[Any]) -> None:
        *ask, body = children
        self._end_statement()
        self.parsed.queries.append(syntax.Query(_conjunction(body), place_of(ask[0]) if ask else Place(1, 1)))

    single_query = query

    def single_atom(self, children: list[Any]) -> None:
        (atom,) = children
        self._end_statement()
        self.parsed.atoms.append(atom)

    def _end_statement(self, *heads: Atom) -> None:
        if self._aggregates:
            self._refuse_aggregates(heads)
        # Turn each `_` into a variable of its own, `_1`, `_2`, …, skipping names that the statement itself uses.
        number = 0
        for variable in self._unnamed:
            number += 1
            while f"_{number}" in self._underscored:
                number += 1
            # Its name depends on the whole statement, so it is renamed here, before anybody has seen it.
            object.__setattr__(variable, "name", f"_{number}")
        self._begin_statement()

    # ---- bodies and atoms

    def first(self, children: list[_Node]) -> list[_Node]:
        return children

    def further(self, children: list[Any]) -> list[Any]:
        nodes: list[Any] = children[0]
        nodes.append(children[1])
        return nodes

    def alternatives(self, children: list[Any]) -> list[Any]:
        """Two bodies between which a `;` stands; the left one may be such a choice already."""
        left, right = children
        if len(left) == 1 and isinstance(left[0], _Choice):
            left[0].alternatives.append(tuple(right))
            return left
        self.parsed.special = True
        return [_Choice([tuple(left), tuple(right)])]

    def grouped(self, children: list[Any]) -> syntax.Disjunction:
        opening, choice, closing = children
        self._matching(opening, closing)
        self.parsed.special = True
        alternatives = choice[0].alternatives if isinstance(choice[0], _Choice) else [tuple(choice)]
        return self._shallow(syntax.Disjunction(tuple(alternatives), place_of(opening)))

    def joined(self, children: list[list[_Node]]) -> list[_Node]:
        children[0].extend(children[1])
        return children[0]

    def plain_body(self, children: list[Any]) -> list[BodyItem]:
        place_at = _places(children[0])
        return [self._plain_item(match, place_at) for match in _PLAIN_ITEM.finditer(children[0])]

    def plain_atom(self, children: list[Any]) -> BodyItem:
        (atom,) = self.plain_body(children)
        return atom

    def negation(self, children: list[Any]) -> syntax.Negation:
        return syntax.Negation(children[0])

    def window(self, children: list[Any]) -> Atom:
        atom, token = children
        age, argument = self._age(token.removeprefix("in").lstrip().removeprefix("last").lstrip(), token, atom)
        return windowed(atom, age, argument)

    def comparison(self, children: list[Any]) -> syntax.Comparison:
        left, operator, right = children
        if operator == "in":
            self.parsed.special = True
            if len(right.arguments) not in (2, 3):
                hint = "write `X in range(FIRST, END)`, without the END itself, or `range(FIRST, END, STEP)`"
                raise self._error(operator, f"`range` takes two or three arguments, not {len(right.arguments)}", hint)
        return syntax.Comparison(str(operator), self._shallow(left), self._shallow(right), place_of(operator))

    def _plain_item(self, match: re.Match[str], place_at: Callable[[int], Place]) -> BodyItem:
        if match[2] is None:
            left, right = self._plain_side(match, 4, place_at), self._plain_side(match, 8, place_at)
            return syntax.Comparison(match[7], left, right, place_at(match.start(7)))
        offset, place = match.start(3), place_at(match.start(2))
        terms = _PLAIN_TERM.finditer(match[3])
        arguments = [self._term(term[0], place_at(offset + term.start())) for term in terms]
        atom = atom_of(self._predicate(match[2], place), tuple(arguments), place)
        return syntax.Negation(atom) if match[1] else atom

    def _plain_side(self, match: re.Match[str], group: int, place_at: Callable[[int], Place]) -> Expression:
        """One operand, or two and an operator between them, from the given group on."""
        first = self._term(match[group], place_at(match.start(group)))
        operator = match[group + 1]
        if operator is None:
            return first
        second = self._term(match[group + 2], place_at(match.start(group + 2)))
        return Call(operator, (first, second), place_at(match.start(group + 1)))

    def atom(self, children: list[Any]) -> Atom:
        name, *rest = children
        place = place_of(name)
        predicate = self._predicate(str(name), place)
        if not rest:
            return Atom(predicate, (), place)
        self._matching(rest[0], rest[-1])
        arguments = tuple([self._shallow(argument) for argument in rest[1]]) if len(rest) == 3 else ()
        return atom_of(predicate, arguments, place)

    # ---- expressions

    def operation(self, children: list[Any]) -> Call:
        left, operator, right = children
        return Call(str(operator), (_operand(left), _operand(right)), place_of(operator))

    def sign(self, children: list[Any]) -> Call:
        minus, operand = children
        return Call("neg", (_operand(operand),), place_of(minus))

    def group(self, children: list[Any]) -> Expression:
        opening, expression, closing = children
        self._matching(opening, closing)
        return expression

    def record(self, children: list[Any]) -> Constant | Call:
        """A record of constants is a constant, however deep it is."""
        opening, *arguments, closing = children
        self._matching(opening, closing)
        fields, place = (tuple(arguments[0]) if arguments else ()), place_of(opening)
        if all(type(term) is Constant for term in fields):
            return Constant(self._record(fields, place), place)
        self.parsed.special = True
        return Call(RECORD, fields, place)

    def _record(self, fields: Sequence[Constant], place: Place) -> Record:
        try:
            return Record(*[field.value for field in fields])
        except DataError as problem:
            raise self._error(place, str(problem)) from None

    def call(self, children: list[Any]) -> Call | Aggregate:
        name, opening, *arguments, closing = children
        self._matching(opening, closing)
        function, place = str(name), place_of(name)
        given = tuple(arguments[0]) if arguments else ()
        if function in AGGREGATES:
            if len(given) == 2 and function in WITNESSED:
                return self._remember(Aggregate(function, given[0], place=place, witness=given[1]))
            if len(given) != 1:
                raise self._error(place, *_miscounted(function, len(given)))
            return self._remember(Aggregate(function, given[0], place=place))
        if function == "concat" and len(given) > 2:
            # `concat` of many is a chain of `concat` of two.
            return reduce(lambda chain, argument: Call("concat", (chain, argument), place), given)
        return Call(function, given, place)

    def distinct(self, children: list[Any]) -> Aggregate:
        name, opening, _, argument, closing = children
        self._matching(opening, closing)
        if name != "count":
            raise self._error(name, f"`{name}(distinct …)` is unknown", "only `count` can be of distinct values")
        return self._remember(Aggregate("count", argument, distinct=True, place=place_of(name)))

    def summary(self, children: list[Any]) -> Aggregate:
        name, *distinct, given, body = children
        function, place = str(name), place_of(name)
        if function not in AGGREGATES | HEAD_AGGREGATES:
            hint = "write `count { X : body }`, or another aggregate in place of `count`"
            raise self._error(name, f"there is no aggregate `{name}`", hint)
        if distinct and name != "count":
            raise self._error(name, f"`{name} {{ distinct … }}` is unknown", "only `count` can be of distinct values")
        if function in HEAD_AGGREGATES:
            aggregate = self._named_aggregate(function, given, place)
        elif len(given) != 1 and not (len(given) == 2 and function in WITNESSED):
            raise self._error(place, *_miscounted(function, len(given), in_braces=True))
        else:
            aggregate = Aggregate(function, given[0], bool(distinct), place, given[1] if len(given) == 2 else None)
        self.parsed.special = True
        return self._shallow(replace(aggregate, body=_conjunction(body)))

    def _with_head_aggregates(self, head: Atom) -> Atom:
        """The head, with `any(X)`, `list(X)` and their like taken for aggregates."""
        terms = [self._head_aggregate(term) for term in head.arguments]
        return head if terms == list(head.arguments) else Atom(head.predicate, tuple(terms), head.place)

    def _head_aggregate(self, term: Term) -> Term:
        if not isinstance(term, Call) or term.function not in HEAD_AGGREGATES:
            return term
        if term.function == "concat" and len(term.arguments) > 1:
            return term  # the function
        return self._remember(self._named_aggregate(term.function, term.arguments, term.place or Place(1, 1)))

    def _named_aggregate(self, name: str, arguments: Sequence[Expression], place: Place) -> Aggregate:
        """An aggregate that is written as functions are."""
        if len(arguments) != (2 if name in _WITH_OPTIONS else 1):
            raise self._error(place, *_miscounted(name, len(arguments)))
        if name == "quantile":
            return Aggregate(f"quantile {self._share(arguments[1], place)!r}", arguments[0], place=place)
        if name == "string_agg":
            return Aggregate(f"string_agg {self._separator(arguments[1], place)}", arguments[0], place=place)
        if name == "count_distinct":
            return Aggregate("count", arguments[0], distinct=True, place=place)
        return Aggregate(name, arguments[0], place=place)

    def _share(self, term: Expression, place: Place) -> float:
        value = term.value if isinstance(term, Constant) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            hint = "such as `quantile(X, 0.9)`; the share is a number of the text"
            raise self._error(term.place or place, "the second argument of `quantile` is a number from 0 to 1", hint)
        return float(value)

    def _separator(self, term: Expression, place: Place) -> str:
        if type(term) is not Constant or type(term.value) is not str:
            hint = 'such as `string_agg(X, ", ")`; the separator is a string of the text'
            raise self._error(term.place or place, "the second argument of `string_agg` is a string", hint)
        return literals.quote(term.value)

    def _remember(self, aggregate: Aggregate) -> Aggregate:
        self._aggregates.append(aggregate)
        return aggregate

    # ---- terms

    def term(self, children: list[Any]) -> Expression:
        return self._term(str(children[0]), place_of(children[0]))

    def string(self, children: list[Any]) -> Constant:
        (token,) = children
        match = _STRING.fullmatch(token) if token[-1] not in "\"'" else None
        if match is None:
            return Constant(self._checked(literals.unquote, token, token), place_of(token))
        text = self._checked(literals.unquote, match[1], token)
        datatype = self._datatype(match[3], place_of(token)) if match[3] else ""
        value = self._checked(lambda text: canonical(Literal(text, datatype, match[2] or "")), text, token)
        return Constant(value, place_of(token))

    def _expanded(self, text: str, place: Place) -> str | None:
        iri = expand(text, self.prefixes)
        if iri is None:
            self.undeclared.setdefault(text.partition(":")[0], place)
        return iri

    def _datatype(self, text: str, place: Place) -> str:
        if text[0] == "<":
            return self._checked(unescape_iri, text[1:-1], place)
        if text.startswith("xsd:") and "xsd" not in self.prefixes:
            return XSD + text[4:]
        return self._expanded(text, place) or text

    def _term(self, text: str, place: Place) -> Expression:
        """A variable or a constant; of strings, one without escapes, language and datatype."""
        initial = text[0]
        if initial == "?":
            return Variable(text, place)
        if initial == "$":
            self._parameters.append(syntax.Parameter(text[1:], place))
            return self._parameters[-1]
        if initial in "\"'":
            return Constant(text[1:-1], place)
        if initial == "<":
            return Constant(IRI(self._checked(unescape_iri, text[1:-1], place)), place)
        if initial in "-0123456789":
            digits = text.replace(" ", "").replace("\t", "")
            return Constant(self._number(digits, place), place)
        if ":" in text:
            return Constant(IRI(self._expanded(text, place) or text), place)
        if not is_variable_name(text):
            return Constant(text == "true" if text in ("true", "false") else text, place)
        variable = Variable(text, place)
        if text == "_":
            self._unnamed.append(variable)
        elif initial == "_":
            self._underscored.add(text)
        return variable

    def _number(self, digits: str, place: Place) -> int | float:
        try:
            return literals.number(digits)
        except DataError as problem:
            whole = digits.removeprefix("-").isdecimal()
            hint = f'write a larger one as a literal: `"{digits:.40}"^^xsd:integer`' if whole else ""
            raise self._error(place, str(problem), hint) from None

    def _new_constant(self, text: str, place: Place) -> Constant:
        """A constant of plain facts: one node, without a place, for all its occurrences."""
        term = self._term(text, place)
        assert isinstance(term, Constant), "the terminal PLAIN_FACTS has no variables"
        constant = self._constants[text] = Constant(term.value)
        return constant

    def _predicate(self, name: str, place: Place) -> str:
        if name[0] == "<":
            return bracketed(self._checked(unescape_iri, name[1:-1], place))
        if ":" in name:
            iri = self._expanded(name, place)
            return name if iri is None else bracketed(iri)
        if name in RESERVED:
            raise self._error(place, f"`{name}` cannot be a predicate", _NO_PREDICATES[name])
        return name

    # ---- checks that need the text

    def _error(self, at: Any, what: str, hint: str = "") -> ParseError:
        """An error at a place or at a token."""
        return self.source.error(at.line, at.column, what, hint)

    def _checked(self, convert: Callable[[str], _Result], text: str, at: Any) -> _Result:
        """A conversion whose DataError becomes an error of the text."""
        try:
            return convert(text)
        except DataError as problem:
            raise self._error(at, str(problem)) from None

    def _matching(self, opening: Any, closing: Any) -> None:
        wanted = ")" if opening == "(" else "]"
        if closing != wanted:
            hint = f"`{opening}` in line {opening.line}, column {opening.column} is closed by `{wanted}`"
            raise self._error(closing, f"expected `{wanted}`, found `{closing}`", hint)

    def _shallow(self, term: Any) -> Any:
        """The term itself, unless it is nested too deeply."""
        if not isinstance(term, _NESTING):
            return term
        level: list[Any] = [term]
        for _ in range(MAX_DEPTH):
            level = [inner for node in level for inner in syntax.children(node) if isinstance(inner, _NESTING)]
            if not level:
                return term
        what = f"an expression is nested more than {MAX_DEPTH} levels deep"
        raise self._error(level[0].place or Place(1, 1), what, "give a name to a part of it: `X = …, Y = X + …`")

    def _ground(self, atom: Atom, argument: Term) -> Constant:
        """The value of an argument of a fact."""
        if isinstance(argument, Constant):
            return argument
        if not isinstance(argument, Call):
            raise self._not_ground(atom, argument)
        place = argument.place or atom.place or Place(1, 1)
        if argument.function == RECORD:
            return Constant(self._record([self._ground(atom, inner) for inner in argument.arguments], place), place)
        mistaken = mistaken_call(argument, otherwise=_IN_RULES_ALONE)
        if mistaken is not None:
            raise self._error(place, *mistaken)
        values = tuple(self._ground(atom, inner).value for inner in argument.arguments)
        # Loaded late: few texts have such facts.
        from tidelog.language.functions.of_constants import value_of

        try:
            return Constant(value_of(argument, values), place)
        except NoValue as problem:
            words = argument.function == "-" and any(isinstance(value, str) for value in values)
            hint = 'a string such as "foo-bar" needs quotes' if words else ""
            raise self._error(place, f"the fact has no value: {problem}", hint) from None

    def _not_ground(self, atom: Atom, argument: Term) -> ParseError:
        place = argument.place or atom.place or Place(1, 1)
        if not isinstance(argument, Variable):
            return self._error(place, "a fact holds constants, not aggregates", "an aggregate needs a rule with a body")
        quoted = f'; for the string, write "{argument.name}"' if argument.name[0].isupper() else ""
        hint = f"a word with an initial in upper case, `_` or `?` is a variable{quoted}; a rule needs a body after `:-`"
        return self._error(place, f"the fact has a variable, `{argument.name}`", hint)

    def _refuse_parameters(self, kind: str) -> None:
        """Parameters are for questions, which are asked with values, and for programs in parts."""
        for parameter in self._parameters if not self._in_parts else ():
            hint = "a program gets values when it is read: `KnowledgeBase(text, parameters={…})`, `--param NAME=VALUE`"
            what = f"`${parameter.value}` cannot stand in a {kind}"
            raise self._error(parameter.place or Place(1, 1), what, hint)

    def _refuse_aggregates(self, heads: tuple[Atom, ...]) -> None:
        """An aggregate without a body is a whole argument of a rule's head, and cannot stand elsewhere."""
        allowed = {id(argument) for head in heads for argument in head.arguments}
        for aggregate in self._aggregates:
            if id(aggregate) not in allowed:
                name = aggregate.function
                two = f"; the {name} of two values is `{name}2(X, Y)`" if name in ("min", "max") else ""
                hint = self.aggregate_hint.format(name) + two
                raise self._error(aggregate.place or Place(1, 1), f"the aggregate `{name}` cannot stand here", hint)


def _operand(term: Expression) -> Expression:
    """An operand: records have no arithmetic, so that brackets around one term mean parentheses there."""
    while isinstance(term, Call) and term.function == RECORD and len(term.arguments) == 1:
        (term,) = term.arguments
    while isinstance(term, Constant) and isinstance(term.value, Record) and len(term.value) == 1:
        term = Constant(term.value[0], term.place)
    return term


@dataclass(slots=True)
class _Choice:
    """Alternatives that are being read."""

    alternatives: list[tuple[BodyItem, ...]]
    place: Place | None = None


def _conjunction(body: list[Any]) -> tuple[Any, ...]:
    """A body; one of alternatives alone is a disjunction."""
    if len(body) == 1 and isinstance(body[0], _Choice):
        return (syntax.Disjunction(tuple(body[0].alternatives)),)
    return tuple(body)


def _miscounted(function: str, given: int, in_braces: bool = False) -> tuple[str, str]:
    """What to say of an aggregate with a wrong number of values, and what to do."""
    if function in WITNESSED:
        hint = f"`{function}(X)` is a value, and `{function}(X, Y)` the Y beside it"
        return f"the aggregate `{function}` takes one value or two, not {given}", hint
    if function in _WITH_OPTIONS:
        two, written = _WITH_OPTIONS[function]
        return f"the aggregate `{function}` takes {two}, not {given} arguments", f"write `{written}`"
    what = f"the aggregate `{function}` takes one value, not {given}"
    if function != "count":
        return what, f"write `{function} {{ X : … }}`" if in_braces else f"write `{function}(X)`"
    if in_braces:
        return what, "`count { X : … }` counts each match, and `count { distinct [X, Y] : … }` different pairs"
    return what, "`count(X)` counts each match, and `count(distinct [X, Y])` different pairs"


def place_of(token: Any) -> Place:
    """Where a token begins."""
    return Place(token.line, token.column)


def _places(token: Any) -> Callable[[int], Place]:
    """The places of the offsets into a token."""
    line, column = token.line, token.column
    if "\n" not in token:
        return lambda offset: Place(line, column + offset)
    newlines = [match.start() for match in re.finditer("\n", token)]

    def place_at(offset: int) -> Place:
        before = bisect_left(newlines, offset)
        return Place(line + before, offset - newlines[before - 1] if before else column + offset)

    return place_at
