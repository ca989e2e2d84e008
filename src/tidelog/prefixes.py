"""Prefixes that are declared after names with them have come in undeclared.

An undeclared `ex:p` is the name as written. Were `ex:` declared later, the same text would mean another predicate or
constant, and what is there could no longer be named. The parser refuses that within a text; here it is refused between
an update and what the knowledge base holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from tidelog.errors import ParseError
from tidelog.language.checks import nodes
from tidelog.language.messages import Source
from tidelog.language.names import expand, is_prefixed
from tidelog.language.syntax import Constant, Rule
from tidelog.reason.engine import Engine
from tidelog.values import IRI, Literal, Value


def check_prefixes(engine: Engine, known: Mapping[str, str], declared: Mapping[str, str], text: str) -> None:
    """Refuse prefixes that a text declares where `engine` holds names that have them undeclared."""
    for prefix, namespace in declared.items():
        # A prefix that is known has been declared before any use; one of itself changes no name.
        if prefix in known or namespace == f"{prefix}:":
            continue
        used = _used_name(engine, prefix, namespace)
        if used is not None:
            raise _declared_too_late(prefix, used, text)


def _used_name(engine: Engine, prefix: str, namespace: str) -> str | None:
    """A name in facts and rules that the prefix would give another meaning."""

    def conflicts(name: str) -> bool:
        return is_prefixed(name) and expand(name, {prefix: namespace}) not in (None, name)

    names = (*_predicates(engine), *_names_in_rules(engine.graph.rules.values()))
    found = next(filter(conflicts, names), None)
    return found if found is not None else next(filter(conflicts, _names_in_facts(engine, f"{prefix}:")), None)


def _predicates(engine: Engine) -> Iterable[str]:
    return (*engine.graph.predicates, *(name for name, relation in engine.store.named().items() if len(relation)))


def _names_in_rules(rules: Iterable[Rule]) -> Iterable[str]:
    for rule in rules:
        for part in (rule.head, *rule.body):
            yield from (_name(node.value) for node in nodes(part) if isinstance(node, Constant))


def _names_in_facts(engine: Engine, start: str) -> Iterable[str]:
    """The names of constants that begin so and that facts hold now: the dictionary forgets none that ever was."""
    terms = engine.store.terms
    candidates = terms.names_from(start)
    if not candidates.size:
        return
    for relation in engine.store.named().values():
        if relation.closure is None:  # the pairs of a closure follow from another relation, its base
            rows = relation.rows()
            for term in rows[np.isin(rows, candidates)]:
                yield _name(terms.decode(int(term)))


def _name(value: Value) -> str:
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
