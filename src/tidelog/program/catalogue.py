"""The catalogue of a program: its prefixes, the arity of each predicate, and its rules by what they say.

Every engine checks an update against it before anything changes, and commits to it what the update did.

An undeclared `ex:p` is the name as written. If `ex:` were declared later, the same text would mean another predicate
or constant, and what is there could no longer be named. The parser refuses that within a text; the catalogue refuses
it between an update and the names that facts and rules already use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from itertools import chain

from tidelog.errors import ParseError, UnknownRuleError
from tidelog.language import DLOG, display_predicate, parse_program, parse_rules, render, resolve_predicate
from tidelog.language.checks import check_arities, check_rule
from tidelog.language.names import expand, is_prefixed
from tidelog.language.parse_messages import Source
from tidelog.language.syntax import Constant, Place, Program, Query, Rule, Signature, nodes, rule_key
from tidelog.values import IRI, Literal, Value


@dataclass(frozen=True)
class NamesInUse:
    """Where names are used: predicates of facts or rules, rules, and the names in facts that begin in some way."""

    predicates: Iterable[str]
    rules: Collection[Rule]
    names_in_facts: Callable[[str], Iterable[str]]


@dataclass(slots=True)
class RuleUpdate:
    """The rules of an update, checked: those to remove, by number, and those to add, by key. `arities` holds those of
    all predicates after the update; whoever encodes its facts adds theirs. `declared` are the predicates that it
    declares.
    """

    arities: dict[str, int]
    removed: Mapping[int, Hashable] = field(default_factory=dict)
    added: Mapping[Hashable, Rule] = field(default_factory=dict)
    declared: Mapping[str, int] = field(default_factory=dict)


# What may stand among facts by mistake, and where it belongs.
_NO_FACTS: Mapping[type, tuple[str, str]] = {
    Rule: ("rule", "give rules as `add_rules`"),
    Signature: ("declaration", "declare predicates in `add_rules`"),
    Query: ("query", "ask queries apart"),
}


class Catalogue:
    """Prefixes, arities and rules, under the numbers that the rule graph gave them. `declared` are the predicates that
    the program declares, with their arities: they are known, even if nothing else mentions them.
    """

    def __init__(
        self,
        prefixes: Mapping[str, str] | None = None,
        arities: Mapping[str, int] | None = None,
        rules: Mapping[int, Rule] | None = None,
        declared: Mapping[str, int] | None = None,
    ) -> None:
        self.restore(prefixes or {}, arities or {}, rules or {}, declared or {})

    def restore(
        self,
        prefixes: Mapping[str, str],
        arities: Mapping[str, int],
        rules: Mapping[int, Rule],
        declared: Mapping[str, int],
    ) -> None:
        """Describe another program."""
        self.prefixes = dict(prefixes)
        self.arities = {**arities, **declared}
        self.declared = dict(declared)
        self.rule_numbers = numbers_by_key(rules)

    def resolve(self, name: str) -> str:
        """The predicate that a name stands for."""
        return resolve_predicate(name, self.prefixes)

    def display(self, predicate: str) -> str:
        """The name of a predicate, in its prefixed form where a prefix fits."""
        return display_predicate(predicate, self.prefixes)

    def parse_added(self, text: str, in_use: Callable[[], NamesInUse], syntax: str = DLOG) -> Program:
        """The rules to add, and the prefixes and predicates that their text declares. Most texts declare no prefixes;
        only for others does anybody have to look for the names in use.
        """
        program = parse_program(text, "<rules>", self.prefixes, syntax)
        if program.facts or program.queries:
            parse_rules(text, self.prefixes, syntax=syntax)  # refuses facts and queries, and says where they are
        self._refuse_late_prefixes(program, in_use, text)
        return program

    def parse_facts(self, text: str, part: str, in_use: Callable[[], NamesInUse]) -> Program:
        """Facts that are given as text, and the prefixes that the text declares. `part` names the text in messages."""
        program = parse_program(text, f"<{part}>", self.prefixes)
        others: tuple[Rule | Signature | Query, ...] = (*program.rules, *program.predicates, *program.queries)
        for statement in others:
            place = statement.place or Place(1, 1)
            kind, advice = _NO_FACTS[type(statement)]
            raise Source(text, f"<{part}>").error(place.line, place.column, f"a {kind} stands among facts", advice)
        self._refuse_late_prefixes(program, in_use, text)
        return program

    def _refuse_late_prefixes(self, program: Program, in_use: Callable[[], NamesInUse], text: str) -> None:
        for prefix, namespace in program.prefixes:
            # A known prefix was declared before any use; one that stands for itself changes no name.
            if prefix not in self.prefixes and namespace != f"{prefix}:":
                used = _used_name(in_use(), prefix, namespace)
                if used is not None:
                    raise _declared_too_late(prefix, used, text)

    def declare(self, prefixes: Iterable[tuple[str, str]]) -> None:
        """Add prefixes. The mapping of before stays as it is, for whoever has to restore it."""
        declared = dict(prefixes)
        if declared:
            self.prefixes = self.prefixes | declared

    def check(
        self,
        added: Iterable[Rule],
        removed: Iterable[Rule],
        functions: Set[str],
        declared: Iterable[Signature] = (),
    ) -> RuleUpdate:
        """What an update does to the rules, if it can be done. `functions` are the registered ones."""
        rules, signatures = tuple(added), tuple(declared)
        for rule in rules:
            check_rule(rule, functions, self.prefixes)
        arities = check_arities((*signatures, *rules), self.arities, self.prefixes)
        numbers: dict[int, Hashable] = {}
        for rule in removed:
            key = rule_key(rule)
            if key not in self.rule_numbers:
                shown = render(rule, self.prefixes)
                raise UnknownRuleError(f"there is no rule `{shown}`; `rules` lists those that there are")
            numbers.update(dict.fromkeys(self.rule_numbers[key], key))
        new: dict[Hashable, Rule] = {}
        for rule in rules:
            key = rule_key(rule)
            if all(number in numbers for number in self.rule_numbers.get(key, ())):
                new.setdefault(key, rule)  # a rule given twice is one rule
        return RuleUpdate(arities, numbers, new, {item.predicate: item.arity for item in signatures})

    def commit(self, update: RuleUpdate, first_number: int) -> None:
        """The update has been applied, and its new rules are numbered from `first_number` on."""
        self.arities = self.arities | update.arities  # Another update may have been committed meanwhile.
        if update.declared:
            self.declared = {**self.declared, **update.declared}
        for key in update.removed.values():
            self.rule_numbers.pop(key, None)
        for number, key in enumerate(update.added, start=first_number):
            self.rule_numbers.setdefault(key, []).append(number)


def numbers_by_key(rules: Mapping[int, Rule]) -> dict[Hashable, list[int]]:
    """The numbers of rules by what the rules say. Rules of a saved program may say the same."""
    numbers: dict[Hashable, list[int]] = {}
    for number, rule in rules.items():
        numbers.setdefault(rule_key(rule), []).append(number)
    return numbers


def name_of(value: Value) -> str:
    """The part of a constant that may have been written with a prefix: an IRI, or the datatype of a literal."""
    if isinstance(value, IRI):
        return value.value
    return value.datatype if isinstance(value, Literal) else ""


def _used_name(in_use: NamesInUse, prefix: str, namespace: str) -> str | None:
    """A name in facts or rules to which the prefix would give another meaning."""

    def conflicts(name: str) -> bool:
        return is_prefixed(name) and expand(name, {prefix: namespace}) not in (None, name)

    in_rules = (name_of(node.value) for rule in in_use.rules for node in nodes(rule) if isinstance(node, Constant))
    found = next(filter(conflicts, chain(in_use.predicates, in_rules)), None)
    return found if found is not None else next(filter(conflicts, in_use.names_in_facts(f"{prefix}:")), None)


def _declared_too_late(prefix: str, used: str, text: str) -> ParseError:
    found = re.search(rf"@?prefix\s+{re.escape(prefix)}:", text, re.IGNORECASE)
    return Source(text, "<rules>").error_at(
        found.start() if found else 0,
        f"the prefix `{prefix}:` is declared after its use: the knowledge base holds `{used}`",
        "declare a prefix before the first name that has it; choose another one, or delete what has it beforehand",
    )
