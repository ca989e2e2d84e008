"""The facts of many keys in one knowledge base of a Python worker.

The state of a key, which Spark keeps, is its explicit facts. A worker that has worked on a key before need not
materialise them again: it still has them, under the token that it gave that state. Any other token, as after a
restart, a retry or when a key moves to another worker, makes it replace what it has by what the state says. No rule
joins two keys, so that one knowledge base holds all of them, its rules compiled once, and a change of a key's facts
changes nothing of another key.
"""

from __future__ import annotations

import json
import warnings
from typing import Any
from uuid import uuid4

from tidelog.formats import Update
from tidelog.formats.jsonl import row_from_json, value_to_json
from tidelog.formats.updates import Facts
from tidelog.knowledge_base import KnowledgeBase
from tidelog.language import parse_program
from tidelog.language.syntax import Program
from tidelog.results import Change, row_identity
from tidelog.spark.streams.batches import Batch, apply_batch
from tidelog.spark.streams.keys import Keys, facts_by_key
from tidelog.spark.streams.records import ADD, operations
from tidelog.values import Row

# A knowledge base forgets no constant, and keys that have moved to another worker stay: beyond this it is begun anew.
MOST_TERMS = 5_000_000
MOST_FACTS = 5_000_000

Held = dict[str, dict[tuple[object, ...], Row]]


class KeyFacts:
    """The explicit facts of a key."""

    def __init__(self, facts: Facts) -> None:
        self._held: Held = {}
        self.apply(Update(add=facts))

    def apply(self, update: Update) -> None:
        for op, predicate, row in operations(update):
            rows = self._held.setdefault(predicate, {})
            if op == ADD:
                rows[row_identity(row)] = row
            else:
                rows.pop(row_identity(row), None)

    @property
    def facts(self) -> Facts:
        return {predicate: list(rows.values()) for predicate, rows in self._held.items() if rows}

    def without(self, others: KeyFacts) -> Facts:
        """The facts that are not among others."""
        return {
            predicate: [row for key, row in rows.items() if key not in others._held.get(predicate, {})]
            for predicate, rows in self._held.items()
        }

    def to_json(self) -> str:
        rows = {name: [[value_to_json(value) for value in row] for row in found] for name, found in self.facts.items()}
        return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> KeyFacts:
        return cls({name: [row_from_json(row) for row in rows] for name, rows in json.loads(text).items()})


class Resident:
    """A program, and the keys that this process has materialised under it."""

    def __init__(self, text: str, keys: Keys) -> None:
        self._text = text
        self._facts = facts_by_key(parse_program(text), keys)
        self._known: dict[str, tuple[str, KeyFacts]] = {}
        self._kb = self._begin()

    def _begin(self) -> KnowledgeBase:
        kb = KnowledgeBase()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of cross products: the driver has said so
            kb.update(add=self._facts[0], add_rules=rules_text(parse_program(self._text)))
        self._known.clear()
        return kb

    def holds(self, key: str, token: str) -> bool:
        """Whether the facts of a key are here as that token says."""
        return key in self._known and self._known[key][0] == token

    def first_facts(self, key: str) -> KeyFacts:
        """The facts of a key that nothing was heard of yet."""
        return KeyFacts(self._facts[1].get(key, {}))

    def bring_in(self, key: str, facts: KeyFacts) -> Change:
        """Hold these facts of a key, and no others of it; all that follows from them."""
        self._let_go(key)
        if len(self._kb._engine.store.terms) > MOST_TERMS or len(self._kb) > MOST_FACTS:
            self._kb = self._begin()
        change = self._kb.update(add=facts.facts)
        self._known[key] = ("", facts)
        return change

    def catch_up(self, key: str, facts: KeyFacts) -> None:
        """Hold these facts of a key, where others may be held from when it was here before."""
        known = self._known.get(key)
        if known is None:
            self.bring_in(key, facts)
            return
        self._kb.update(delete=known[1].without(facts), add=facts.without(known[1]))
        self._known[key] = ("", facts)

    def _let_go(self, key: str) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._kb.update(delete=known[1].facts)

    def apply(self, key: str, batch: Batch) -> tuple[str, KeyFacts]:
        """Apply a batch to the facts of a key, which are here; the new token and the new facts."""
        facts = self._known.pop(key)[1]

        def update(piece: dict[str, Any]) -> Change:
            change = self._kb.update(**piece)
            facts.apply(Update(add=piece.get("add", {}), delete=piece.get("delete", {})))
            return change

        apply_batch(batch, update)
        token = uuid4().hex
        self._known[key] = (token, facts)
        return token, facts


def rules_text(program: Program) -> str:
    """The rules of a program with its prefixes, and without its facts."""
    prefixes = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in program.prefixes)
    return prefixes + "\n".join(map(str, program.rules))
