"""Programs in the languages of other engines: clingo, Soufflé and Prolog write rules nearly as tidelog does.

Only what the benchmarks use is translated: atoms, stratified negation, comparisons between variables and numbers. The
rest raises `Untranslatable`, and that peer is left out there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from tidelog.bench.data.cases import Tables
from tidelog.language import parse_program, resolve_predicate
from tidelog.language.syntax import (
    Atom,
    BodyItem,
    Comparison,
    Constant,
    Negation,
    Rule,
    Term,
    Variable,
    body_atoms,
    variables,
)


class Untranslatable(Exception):
    """An engine cannot say what a program says."""


@dataclass(frozen=True)
class Dialect:
    """How an engine writes what is not an atom."""

    negation: str
    unequal: str
    text_quote: str


CLINGO = Dialect("not ", "!=", '"')
SOUFFLE = Dialect("!", "!=", '"')
PROLOG = Dialect("\\+ ", "\\==", "'")


def program_of(text: str) -> tuple[tuple[Rule, ...], dict[str, str]]:
    """The rules of a program's text and its prefixes."""
    program = parse_program(text)
    return program.rules, dict(program.prefixes)


def plain_name(predicate: str) -> str:
    """A predicate's name that any engine takes: the last part of an IRI, behind a small letter."""
    return "p_" + re.sub(r"\W", "_", re.split(r"[#/:]", predicate.strip("<>"))[-1])


def plain_tables(facts: Tables, prefixes: dict[str, str]) -> Tables:
    """Facts under plain names."""
    return {plain_name(resolve_predicate(name, prefixes)): rows for name, rows in facts.items()}


def arities(rules: Iterable[Rule], facts: Tables) -> dict[str, int]:
    """The number of arguments of every predicate, by plain name."""
    known = {name: rows.num_columns for name, rows in facts.items()}
    for rule in rules:
        for atom in (rule.head, *body_atoms(rule)):
            known[plain_name(atom.predicate)] = atom.arity
    return known


def derived_names(rules: Iterable[Rule]) -> list[str]:
    return list(dict.fromkeys(plain_name(rule.head.predicate) for rule in rules))


def rule_text(rule: Rule, dialect: Dialect) -> str:
    """A rule in a dialect. A variable that stands alone is written `_`: some engines take it under negation only so."""
    written = _Writer(dialect, Counter(variable.name for variable in variables(rule)))
    return f"{written.atom(rule.head)} :- {', '.join(map(written.item, rule.body))}."


@dataclass(frozen=True)
class _Writer:
    """Writes the parts of one rule, whose variables occur so often."""

    dialect: Dialect
    occurrences: Counter[str]

    def item(self, item: BodyItem) -> str:
        match item:
            case Atom():
                return self.atom(item)
            case Negation(atom=atom):
                return self.dialect.negation + self.atom(atom)
            case Comparison(operator="!=", left=left, right=right):
                return f"{self.term(left)} {self.dialect.unequal} {self.term(right)}"
        raise Untranslatable(f"{item} is not translated")

    def atom(self, atom: Atom) -> str:
        return f"{plain_name(atom.predicate)}({', '.join(map(self.term, atom.arguments))})"

    def term(self, term: Term) -> str:
        match term:
            case Variable(name=name):
                return "_" if self.occurrences[name] == 1 else "V" + name.strip("?")
            case Constant(value=value):
                return value_text(value, self.dialect)
        raise Untranslatable(f"{term} is not translated")


def value_text(value: object, dialect: Dialect) -> str:
    return str(value) if isinstance(value, int) else f"{dialect.text_quote}{value}{dialect.text_quote}"


def facts_text(name: str, rows: pa.Table, dialect: Dialect) -> str:
    """Facts as text, one a line."""
    columns = [[value_text(value, dialect) for value in column.to_pylist()] for column in rows.columns]
    return "\n".join(f"{name}({','.join(cells)})." for cells in zip(*columns, strict=True)) + "\n"
