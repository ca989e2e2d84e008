"""Prefixes that are declared after names with them have come in undeclared.

An undeclared `ex:p` is the name as written. Were `ex:` declared later, the same text would mean another predicate or
constant, and what is there could no longer be named. The parser refuses that within a text; here it is refused between
an update and what a knowledge base, or a materialisation on Spark, holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from tidelog.engine.engine import Engine
from tidelog.errors import ParseError
from tidelog.language.checks import nodes
from tidelog.language.names import expand, is_prefixed
from tidelog.language.parse_messages import Source
from tidelog.language.syntax import Constant, Rule
from tidelog.values import IRI, Literal, Value


@dataclass(frozen=True)
class Held:
    """Where names are: predicates that facts or rules have, rules, and the names in facts that begin in some way."""

    predicates: Iterable[str]
    rules: Collection[Rule]
    names_in_facts: Callable[[str], Iterable[str]]


def held_by(engine: Engine) -> Held:
    """What the embedded engine holds."""
    with_facts = (name for name, relation in engine.store.named().items() if len(relation))
    return Held((*engine.graph.predicates, *with_facts), engine.graph.rules.values(), partial(_names_in_facts, engine))


def check_prefixes(held: Callable[[], Held], known: Mapping[str, str], declared: Mapping[str, str], text: str) -> None:
    """Refuse prefixes that a text declares where names are held that have them undeclared. Most texts declare none, and
    then nobody has to look for names.
    """
    for prefix, namespace in declared.items():
        # A prefix that is known has been declared before any use; one of itself changes no name.
        if prefix in known or namespace == f"{prefix}:":
            continue
        used = _used_name(held(), prefix, namespace)
        if used is not None:
            raise _declared_too_late(prefix, used, text)


def _used_name(held: Held, prefix: str, namespace: str) -> str | None:
    """A name in facts and rules that the prefix would give another meaning."""

    def conflicts(name: str) -> bool:
        return is_prefixed(name) and expand(name, {prefix: namespace}) not in (None, name)

    names = (*held.predicates, *_names_in_rules(held.rules))
    found = next(filter(conflicts, names), None)
    return found if found is not None else next(filter(conflicts, held.names_in_facts(f"{prefix}:")), None)


def _names_in_rules(rules: Iterable[Rule]) -> Iterable[str]:
    for rule in rules:
        for part in (rule.head, *rule.body):
            yield from (name_of(node.value) for node in nodes(part) if isinstance(node, Constant))


def _names_in_facts(engine: Engine, start: str) -> Iterable[str]:
    """The names of constants that begin so and that facts hold now: the dictionary forgets none that ever was."""
    terms = engine.store.terms
    candidates = terms.table.names_from(start, len(terms))
    if not candidates.size:
        return
    for relation in engine.store.named().values():
        if relation.closure is None:  # the pairs of a closure follow from another relation, its base
            rows = relation.rows()
            for term in rows[np.isin(rows, candidates)]:
                yield name_of(terms.table.decode(int(term)))


def name_of(value: Value) -> str:
    """What a prefix could have been written for: an IRI, or the datatype of a literal."""
    if isinstance(value, IRI):
        return value.value
    return value.datatype if isinstance(value, Literal) else ""


def _declared_too_late(prefix: str, used: str, text: str) -> ParseError:
    found = re.search(rf"@?prefix\s+{re.escape(prefix)}:", text, re.IGNORECASE)
    return Source(text, "<rules>").error_at(
        found.start() if found else 0,
        f"the prefix `{prefix}:` is declared after its use: the knowledge base holds `{used}`",
        "declare a prefix before the first name that has it; choose another one, or delete what has it beforehand",
    )
