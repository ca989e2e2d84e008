"""Programs in parts: one text from the files of a program, which `@import`, `@module` and `$parameters` put together.

    @import "graph.dlog".   takes the statements of another file, once, however many files import it
    @module acl.            the predicates that this text defines are `acl:…` everywhere else
    hot(X) :- temp(X, T), T > $limit.       a value that is given when the program is read

A predicate is defined by a text that has a fact, a rule or a declaration for it; other names mean what they mean
outside. The result is a text without any of these, so that whatever takes programs takes those in parts. Each part is
edited in place, so that its lines and comments stay as they are, and messages name the right ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeVar

from tidelog.errors import DataError, TidelogError
from tidelog.language.actions import Parsed
from tidelog.language.checks import Spellings, check_rule, foreign_functions
from tidelog.language.literals import render_value
from tidelog.language.parse_messages import Assembled, Edit, Part, Source, told_of
from tidelog.language.parser import parse_parts, parse_program
from tidelog.language.syntax import Atom, Expiry, Node, Parameter, Place, Signature, nodes
from tidelog.language.syntaxes import DLOG
from tidelog.language.written.windows import given_predicate
from tidelog.values import checked_value

# What a text without parts does not have; one that has it in a comment or string is looked at in vain.
_HAS_PARTS = re.compile(r"@import|@module|\$")

_Kind = TypeVar("_Kind", bound=Node)

# The name and the text of a file that a path leads to, and what reads the files that are imported there.
Reader = Callable[[str], tuple[str, str, "Reader"]]


class Linked(NamedTuple):
    """The text of a whole program, and the parameters that it has used."""

    text: str
    used: frozenset[str]


def linked(text: str, name: str, read: Reader | None, values: Mapping[str, object]) -> Linked:
    """A program in one text. `name` is that of its text in messages, and `read` reads what it imports; without it,
    imports are refused.
    """
    if _HAS_PARTS.search(text) is None:
        return Linked(text, frozenset())
    linker = _Linker(values)
    linker.take(Source(text, name), read)
    return Linked(Assembled.of(linker.parts), frozenset(linker.used))


def whole_program(text: str, values: Mapping[str, object], syntax: str = DLOG) -> str:
    """A program in one text, from a text that cannot import files."""
    found = linked(text, "<program>", None, values) if syntax == DLOG else Linked(text, frozenset())
    refuse_unused(values, found.used)
    return found.text


def refuse_unused(values: Iterable[str], used: Iterable[str]) -> None:
    """Refuse values for parameters that a program does not have."""
    for name in set(values).difference(used):
        meant = Spellings(used).closest(name)
        hint = f"did you mean `{meant}`?" if meant else f"write `${name}` where the value belongs, or leave it out"
        raise TidelogError(f"the program has no parameter `${name}`; {hint}")


class _Linker:
    """The parts of a program, the first one first: so its lines keep their numbers."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values
        self._taken: set[str] = set()
        self.parts: list[Part] = []
        self.used: set[str] = set()

    def take(self, source: Source, read: Reader | None) -> None:
        """Take a part, and then those that it imports."""
        self._taken.add(os.path.normpath(source.name))
        parsed = parse_parts(source.text, source.name)
        edits = [Edit(_offset(source.text, place), len(given), _blank(given)) for place, given in parsed.directives]
        edits += self._with_values(parsed, source)
        edits += _in_module(parsed, source)
        part = Part(source, tuple(sorted(set(edits))))
        _check(Assembled.of([part]), source.name)
        self.parts.append(part)
        for path, place in parsed.imports:
            if read is None:
                hint = "`tidelog.read_program(path)` reads a file with all that it imports"
                raise source.error(*place, "only a file can import another one", hint)
            try:
                name, content, further = read(path)
            except DataError as problem:
                raise DataError(source.message(*place, str(problem), "a path begins at its file's folder")) from None
            if name not in self._taken:
                self.take(Source(content, name), further)

    def _with_values(self, parsed: Parsed, source: Source) -> Iterator[Edit]:
        """Those of facts and rules: a query may get its own when it is asked."""
        for parameter in _found((*parsed.facts, *parsed.rules), Parameter):
            name = str(parameter.value)
            self.used.add(name)
            yield Edit(_offset(source.text, parameter.place), len(name) + 1, self._value(name, parameter, source))

    def _value(self, name: str, parameter: Parameter, source: Source) -> str:
        place = parameter.place or Place(1, 1)
        if name not in self._values:
            hint = f'give it when the program is read: `parameters={{"{name}": …}}`, or `--param {name}=…`'
            raise source.error(*place, f"`${name}` has no value", hint)
        try:
            return render_value(checked_value(self._values[name]))
        except DataError as problem:
            raise DataError(source.message(*place, f"the value of `${name}` is no constant: {problem}")) from None


def _in_module(parsed: Parsed, source: Source) -> Iterator[Edit]:
    """The names of a module's own predicates get its name in front."""
    if not parsed.module:
        return
    heads = [head for rule in parsed.rules for head in (rule.head, *rule.also) if not rule.is_constraint]
    own = {atom.predicate for atom in (*heads, *parsed.facts)}
    own.update(signature.predicate for signature in parsed.predicates)
    own.update(expiry.predicate for expiry in parsed.expiries)
    atoms = _found((*parsed.facts, *parsed.rules, *parsed.queries), Atom)
    named: list[Atom | Signature | Expiry] = [*atoms, *parsed.predicates, *parsed.keys, *parsed.expiries]
    for node in named:
        predicate = given_predicate(node.predicate)
        if predicate in own and node.place is not None:
            position = _offset(source.text, node.place)
            if source.text.startswith(predicate, position):  # as a plain word, and not `acl:may` or an IRI
                yield Edit(position, 0, f"{parsed.module}:")


def _found(statements: Iterable[Node], kind: type[_Kind]) -> Iterator[_Kind]:
    return (node for statement in statements for node in nodes(statement) if isinstance(node, kind))


def _offset(text: str, place: Place | None) -> int:
    assert place is not None, "the parser places every name"
    return _line_starts(text)[place.line - 1] + place.column - 1


@lru_cache(maxsize=4)
def _line_starts(text: str) -> list[int]:
    return [0, *accumulate(len(line) + 1 for line in text.split("\n"))]


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _check(text: str, name: str) -> None:
    """Refuse what is wrong with a part by itself while its lines are known. Functions may be registered elsewhere."""
    program = parse_program(text, name)
    functions = foreign_functions(program.rules)
    with told_of(text, name):
        for rule in program.rules:
            check_rule(rule, functions, dict(program.prefixes))
