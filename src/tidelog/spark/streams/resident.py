"""The facts of many shards of keys in one knowledge base of a Python worker.

The state of a shard, which Spark keeps, is the explicit facts of its keys. A worker that has worked on a shard before
need not materialise them again: it still has them, under the token that it gave that state. If the token differs, as
after a restart, after a retry or when a shard moves to another worker, the worker replaces its facts by those of the
state. No rule joins two keys, so one knowledge base holds all of them, with its rules compiled once, and a change of
the facts of one key changes nothing for another key.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import uuid4

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.facts.results import Change
from tidelog.formats import Update
from tidelog.formats.jsonl import row_from_json, value_to_json
from tidelog.formats.updates import Facts
from tidelog.language import parse_program, resolve_predicate
from tidelog.language.syntax import Program
from tidelog.spark.streams.keys import Keys, facts_by_key
from tidelog.spark.streams.stream_batches import Batch, apply_batch
from tidelog.spark.streams.update_records import ADD, operations
from tidelog.values import canonical

# A knowledge base forgets no constant, and keeps shards that moved to another worker: beyond this, a new one begins.
MOST_TERMS = 5_000_000
MOST_FACTS = 5_000_000


class ShardFacts:
    """The explicit facts of a shard, each as a JSON array of its predicate and its arguments.

    The same constant always has the same text, so texts tell facts apart, and states are compared without parsing."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._held = dict.fromkeys(texts)

    @classmethod
    def of_state(cls, state: str) -> ShardFacts:
        return cls(state.split("\n") if state else ())

    @property
    def state(self) -> str:
        """What Spark keeps: one fact in each line."""
        return "\n".join(self._held)

    def apply(self, update: Update, prefixes: Mapping[str, str]) -> None:
        for op, name, row in operations(update):
            cells = [resolve_predicate(name, dict(prefixes)), *(value_to_json(canonical(value)) for value in row)]
            if op == ADD:
                self._held[json.dumps(cells)] = None
            else:
                self._held.pop(json.dumps(cells), None)

    def without(self, others: ShardFacts) -> Facts:
        """The facts that are not among others."""
        found: Facts = {}
        for text in self._held:
            if text not in others._held:
                predicate, *row = json.loads(text)
                found.setdefault(predicate, []).append(row_from_json(row))
        return found

    @property
    def facts(self) -> Facts:
        return self.without(ShardFacts())


class Resident:
    """A program, and the shards that this process has materialised under it."""

    def __init__(self, text: str, keys: Keys, shard: Callable[[str], int]) -> None:
        self._text = text
        self._prefixes = keys.prefixes
        self._common, by_key = facts_by_key(parse_program(text), keys)
        self._first: dict[int, list[Facts]] = {}
        for key, facts in by_key.items():
            self._first.setdefault(shard(key), []).append(facts)
        self._known: dict[int, tuple[str, ShardFacts]] = {}
        self._kb = self._begin()

    def _begin(self) -> KnowledgeBase:
        kb = KnowledgeBase()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about cross products: the driver has warned
            kb.update(add=self._common, add_rules=rules_text(parse_program(self._text)))
        self._known.clear()
        return kb

    def holds(self, shard: int, token: str) -> bool:
        """Whether the facts of a shard are here, in the state of this token."""
        return shard in self._known and self._known[shard][0] == token

    def first_facts(self, shard: int) -> ShardFacts:
        """The facts of a shard without any records so far: those that the program has for its keys."""
        facts = ShardFacts()
        for of_key in self._first.get(shard, []):
            facts.apply(Update(add=of_key), self._prefixes)
        return facts

    def bring_in(self, shard: int, facts: ShardFacts) -> Change:
        """Hold these facts of a shard and no others of it; returns all that follows from them."""
        self._let_go(shard)
        if len(self._kb._engine.store.terms) > MOST_TERMS or len(self._kb) > MOST_FACTS:
            self._kb = self._begin()
        change = self._kb.update(add=facts.facts)
        self._known[shard] = ("", facts)
        return change

    def catch_up(self, shard: int, facts: ShardFacts) -> None:
        """Hold these facts of a shard, which may have been here before with other facts."""
        known = self._known.get(shard)
        if known is None:
            self.bring_in(shard, facts)
            return
        self._kb.update(delete=known[1].without(facts), add=facts.without(known[1]))
        self._known[shard] = ("", facts)

    def _let_go(self, shard: int) -> None:
        known = self._known.pop(shard, None)
        if known is not None:
            self._kb.update(delete=known[1].facts)

    def apply(self, shard: int, batch: Batch) -> tuple[str, ShardFacts]:
        """Apply a batch to the facts of a shard, which are here; returns the new token and the new facts."""
        facts = self._known.pop(shard)[1]

        def update(piece: dict[str, Any]) -> Change:
            change = self._kb.update(**piece)
            facts.apply(Update(add=piece.get("add", {}), delete=piece.get("delete", {})), self._prefixes)
            return change

        apply_batch(batch, update)
        token = uuid4().hex
        self._known[shard] = (token, facts)
        return token, facts


def rules_text(program: Program) -> str:
    """The rules of a program with its prefixes, and without its facts."""
    prefixes = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in program.prefixes)
    return prefixes + "\n".join(map(str, program.rules))
