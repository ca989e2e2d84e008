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
from typing import Any

from tidelog.errors import ParseError, UnknownRuleError
from tidelog.language import DLOG, display_predicate, parse_program, parse_rules, render, resolve_predicate
from tidelog.language.checks import check_arities, check_rule
from tidelog.language.names import expand, is_prefixed
from tidelog.language.parse_messages import Source, told_of
from tidelog.language.printer import declaration
from tidelog.language.records.types import Declared, check_declarations, check_types, merged
from tidelog.language.syntax import (
    Constant,
    Expiry,
    Place,
    Program,
    Query,
    Rule,
    Signature,
    nodes,
    own_lattices,
    rule_key,
)
from tidelog.language.written.conditions import Names
from tidelog.program.equality import equality_of, under_equality
from tidelog.values import IRI, Literal, Value


@dataclass(frozen=True)
class NamesInUse:
    """Where names are used: predicates of facts or rules, rules, and the names in facts that begin in some way."""

    predicates: Iterable[str]
    rules: Collection[Rule]
    names_in_facts: Callable[[str], Iterable[str]]


@dataclass(slots=True)
class RuleUpdate:
    """The rules of an update, checked: those to remove, by number, and those to add, by key and by their places among
    those that an equality makes of one. `arities` holds those of all predicates after the update; whoever encodes its
    facts adds theirs. `declared` are the predicates and types that it declares, `expires` and `expires_no_longer` what
    expires from then on and what does not.
    """

    arities: dict[str, int]
    removed: Mapping[int, Hashable] = field(default_factory=dict)
    added: Mapping[tuple[Hashable, int], Rule] = field(default_factory=dict)
    declared: Declared = field(default_factory=dict)
    expires: tuple[Expiry, ...] = ()
    expires_no_longer: tuple[Expiry, ...] = ()


# What may stand among facts by mistake, and where it belongs.
_NO_FACTS: Mapping[type, tuple[str, str]] = {
    Rule: ("a rule", "give rules as `add_rules`"),
    Signature: ("a declaration", "declare predicates in `add_rules`"),
    Expiry: ("an `@expire`", "say what expires in `add_rules`"),
    Query: ("a query", "ask queries apart"),
}


class Catalogue:
    """Prefixes, arities and rules, under the numbers that the rule graph gave them. `declared` are the predicates that
    the program declares, which are known even if nothing else mentions them, and its types.
    """

    def __init__(
        self,
        prefixes: Mapping[str, str] | None = None,
        arities: Mapping[str, int] | None = None,
        rules: Mapping[int, Rule] | None = None,
        declared: Declared | None = None,
    ) -> None:
        self.lattices: frozenset[str] = frozenset()  # those of the user's own that are registered, or in rules
        self.restore(prefixes or {}, arities or {}, rules or {}, declared or {})

    def restore(
        self,
        prefixes: Mapping[str, str],
        arities: Mapping[str, int],
        rules: Mapping[int, Rule],
        declared: Declared,
    ) -> None:
        """Describe another program."""
        self.prefixes = dict(prefixes)
        self.arities = check_arities(declared.values(), arities)
        self.declared = dict(declared)
        self.rule_numbers = numbers_by_key(rules)
        self._rules = dict(rules)
        self.lattices |= own_lattices(rules.values())
        self._equality = equality_of(self._rules.values())

    def resolve(self, name: str) -> str:
        """The predicate that a name stands for."""
        if name in self.arities and ":" not in name:
            return name  # as most are
        return resolve_predicate(name, self.prefixes)

    def display(self, predicate: str) -> str:
        """The name of a predicate, in its prefixed form where a prefix fits."""
        return display_predicate(predicate, self.prefixes)

    def names(self, functions: Iterable[str]) -> Names:
        """What names mean in a text: these are the registered functions."""
        return Names.of(functions, self.arities.keys(), self.declared.values(), self.lattices)

    def described(self, predicate: str) -> dict[str, Any]:
        """What is declared of a predicate, as plain data."""
        signature = self.declared.get(predicate) or Signature(predicate, self.arities.get(predicate, 0))
        columns = [*signature.named] or [(f"c{column}", "any") for column in range(signature.arity)]
        return {"name": self.display(predicate), "columns": columns, "text": signature.text}

    @property
    def declarations(self) -> list[str]:
        """The statements that declare what is declared."""
        return [declaration(signature, self.prefixes) for signature in self.declared.values()]

    def parse_added(
        self, text: str, in_use: Callable[[], NamesInUse], syntax: str = DLOG, functions: Iterable[str] = ()
    ) -> Program:
        """The rules to add, and the prefixes and predicates that their text declares. Most texts declare no prefixes;
        only for others does anybody have to look for the names in use.
        """
        program = parse_program(text, "<rules>", self.prefixes, syntax, self.names(functions))
        if program.facts or program.queries:
            parse_rules(text, self.prefixes, syntax=syntax)  # refuses facts and queries, and says where they are
        self._refuse_late_prefixes(program, in_use, text)
        return program

    def parse_facts(self, text: str, part: str, in_use: Callable[[], NamesInUse]) -> Program:
        """Facts that are given as text, and the prefixes that the text declares. `part` names the text in messages."""
        program = parse_program(text, f"<{part}>", self.prefixes)
        declared: tuple[Signature | Expiry, ...] = (*program.predicates, *program.expiries)
        others: tuple[Rule | Signature | Expiry | Query, ...] = (*program.rules, *declared, *program.queries)
        for statement in others:
            place = statement.place or Place(1, 1)
            kind, advice = _NO_FACTS[type(statement)]
            raise Source(text, f"<{part}>").error(place.line, place.column, f"{kind} stands among facts", advice)
        self._refuse_late_prefixes(program, in_use, text)
        if part == "add":
            with told_of(text, f"<{part}>"):
                check_types(program.facts, self.declared, self.prefixes)
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
        expires: Iterable[Expiry] = (),
        expires_no_longer: Iterable[Expiry] = (),
    ) -> RuleUpdate:
        """What an update does to the rules, if it can be done. `functions` are the registered ones."""
        rules, signatures = tuple(rule.plain or rule for rule in added), tuple(declared)
        for rule in rules:
            check_rule(rule, functions, self.prefixes)
        expiring, lasting = tuple(expires), tuple(expires_no_longer)
        timed = [Signature(each.predicate, each.arity, each.place) for each in expiring if each.arity is not None]
        arities = check_arities((*signatures, *timed, *rules), self.arities, self.prefixes)
        known = merged(self.declared, signatures)
        check_declarations(signatures, self.declared, self.prefixes)
        check_types(rules, known, self.prefixes)
        numbers: dict[int, Hashable] = {}
        for rule in removed:
            key = self._key(rule)
            if key not in self.rule_numbers:
                shown = render(rule, self.prefixes)
                raise UnknownRuleError(f"there is no rule `{shown}`; `rules` lists those that there are")
            numbers.update(dict.fromkeys(self.rule_numbers[key], key))
        new: dict[Hashable, Rule] = {}
        for rule in rules:
            key = self._key(rule)
            if all(number in numbers for number in self.rule_numbers.get(key, ())):
                new.setdefault(key, rule)  # a rule given twice is one rule
        variants = self._under_equality(numbers, new)
        if self._equality is not None or len(variants) > len(new):
            arities = check_arities(variants.values(), arities, self.prefixes)
        stated = {item.predicate: known[item.predicate] for item in signatures}
        return RuleUpdate(arities, numbers, variants, stated, expiring, lasting)

    def _under_equality(
        self, numbers: dict[int, Hashable], new: dict[Hashable, Rule]
    ) -> dict[tuple[Hashable, int], Rule]:
        """New rules as the equality after the update makes them. Where that is another one than before, all rules that
        it makes anew are removed and added.
        """
        if self._equality is None and not any(rule.written.is_equality for rule in new.values()):
            return {(key, 0): rule for key, rule in new.items()}
        left = {number: rule for number, rule in self._rules.items() if number not in numbers}
        equality = equality_of((*left.values(), *new.values()))
        found = {(key, rule.variant): rule for key, plain in new.items() for rule in under_equality(plain, equality)}
        if equality != self._equality:
            for key, plain in {rule_key(rule): rule.plain or rule for rule in left.values()}.items():
                after = under_equality(plain, equality, known=True)
                if key not in new and after != under_equality(plain, self._equality):
                    numbers.update(dict.fromkeys(self.rule_numbers[key], key))
                    found.update({(key, rule.variant): rule for rule in after})
        return found

    def _key(self, rule: Rule) -> Hashable:
        """The key of a plain rule here. Parts of bodies were not checked once by the tidelog that saved some programs:
        a rule of theirs that would be several now is one.
        """
        whole = rule_key(rule.written)
        return whole if whole in self.rule_numbers else rule_key(rule)

    def commit(self, update: RuleUpdate, first_number: int) -> None:
        """The update has been applied, and its new rules are numbered from `first_number` on."""
        self.arities = self.arities | update.arities  # Another update may have been committed meanwhile.
        if update.declared:
            self.declared = {**self.declared, **update.declared}
        for number, key in update.removed.items():
            self.rule_numbers.pop(key, None)
            self._rules.pop(number, None)
        for number, ((key, _), rule) in enumerate(update.added.items(), start=first_number):
            self.rule_numbers.setdefault(key, []).append(number)
            self._rules[number] = rule
        if update.removed or update.added:
            self.lattices |= own_lattices(update.added.values())
            self._equality = equality_of(self._rules.values())


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
