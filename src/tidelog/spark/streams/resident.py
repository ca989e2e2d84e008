"""A program over keys in a worker: its rules, and the facts of many shards of keys in one knowledge base.

All keys must see the same program in the same batch, also when a batch is applied again. So each program is a file,
named after the first batch that it holds for, and never changes; a change of rules takes effect with the next batch.

The state of a shard, which Spark keeps, is the explicit facts of its keys. A worker that has worked on a shard before
need not materialise them again: it still has them, under the token that it gave that state. If the token differs, as
after a restart, after a retry or when a shard moves to another worker, the worker replaces its facts by those of the
state. No rule joins two keys, so one knowledge base holds all of them, with its rules compiled once, and a change of
the facts of one key changes nothing for another key.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4
from zlib import crc32

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.facts.results import Change
from tidelog.formats import Update
from tidelog.formats.files.updates import Facts
from tidelog.language import parse_program
from tidelog.language.checks import check_arities
from tidelog.language.printer import declaration
from tidelog.language.syntax import Program, Signature
from tidelog.spark.streams.keys import Keys
from tidelog.spark.streams.shard_state import ShardFacts
from tidelog.spark.streams.stream_batches import Batch, apply_batch
from tidelog.storage.durable_files import replace_file, storage_errors

# A knowledge base forgets no constant, and keeps shards that moved to another worker: beyond this, a new one begins.
MOST_TERMS = 5_000_000
MOST_FACTS = 5_000_000

_NAME = re.compile(r"(\d+)\.dlog")

# By folder and number of the program: a worker outlives a task.
_residents: dict[tuple[str, int], Resident] = {}


@dataclass(frozen=True)
class KeyedProgram:
    """What a task needs to know: the folder of the programs, which all executors can reach, which arguments are keys,
    and the numbers of the shards.
    """

    folder: Path
    key: int
    keys: Mapping[str, int]
    shards: Sequence[int]

    def begin(self, text: str) -> None:
        """The program of the first batch, unless there is one."""
        if not (self.folder / "0.dlog").exists():
            self.put(0, text)

    def put(self, first_batch: int, text: str) -> None:
        with storage_errors("write", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self.folder / f"{first_batch}.dlog", text.encode())

    def number_for(self, batch: int) -> int:
        """The number of the program that holds for a batch."""
        with storage_errors("read", self.folder):
            return max(number for number in self._numbers if number <= batch)

    @property
    def _numbers(self) -> list[int]:
        return sorted(int(found[1]) for path in self.folder.iterdir() if (found := _NAME.fullmatch(path.name)))

    def text(self, number: int) -> str:
        with storage_errors("read", self.folder):
            return (self.folder / f"{number}.dlog").read_text(encoding="utf-8")

    def check(self, text: str) -> Keys:
        """The keys of a program, which is refused if it joins across them."""
        return Keys.of(parse_program(text), self.key, self.keys)

    def check_next(self, text: str) -> None:
        """Refuse a program that joins across keys, or that the facts of an earlier one would no longer fit."""
        self.check(text)
        arities: dict[str, int] = {}
        for known in (*map(self.text, self._numbers), text):
            program = parse_program(known)
            prefixes = dict(program.prefixes)
            arities |= check_arities((*program.predicates, *program.facts, *program.rules), arities, prefixes)

    def resident(self, number: int) -> Resident:
        """What this process holds of a program."""
        place = (str(self.folder), number)
        if place not in _residents:
            text = self.text(number)
            _residents[place] = Resident(parse_program(text), self.check(text), self.shard)
        return _residents[place]

    def shard(self, key: str) -> int:
        """The shard of a key: always the same, in every process."""
        return self.shards[crc32(key.encode()) % len(self.shards)]


class Resident:
    """A program, and the shards that this process has materialised under it."""

    def __init__(self, program: Program, keys: Keys, shard: Callable[[str], int]) -> None:
        self._prefixes = keys.prefixes
        self._rules = rules_text(program)
        self._common: Facts = {}
        self._first: dict[int, Facts] = {}
        for atom in program.facts:
            key = keys.key(atom.predicate, atom.row)
            target = self._common if key is None else self._first.setdefault(shard(key), {})
            target.setdefault(atom.predicate, []).append(atom.row)
        self._known: dict[int, tuple[str, ShardFacts]] = {}
        self._kb = self._begin()

    def _begin(self) -> KnowledgeBase:
        kb = KnowledgeBase()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about cross products: the driver has warned
            kb.update(add=self._common, add_rules=self._rules)
        self._known.clear()
        return kb

    def first_facts(self, shard: int) -> ShardFacts:
        """The facts of a shard without any records so far: those that the program has for its keys."""
        facts = ShardFacts()
        facts.apply(Update(add=self._first.get(shard, {})), self._prefixes)
        return facts

    def bring_in(self, shard: int, facts: ShardFacts) -> Change:
        """Hold these facts of a shard and no others of it; returns all that follows from them."""
        known = self._known.pop(shard, None)
        if known is not None:
            self._kb.update(delete=known[1].facts)
        if self._kb.constants > MOST_TERMS or len(self._kb) > MOST_FACTS:
            self._kb = self._begin()
        change = self._kb.update(add=facts.facts)
        self._known[shard] = ("", facts)
        return change

    def catch_up(self, shard: int, token: str, read: Callable[[], ShardFacts]) -> None:
        """Hold the facts of a shard as they are in the state of a token, whatever is here of them; `read` reads it."""
        known = self._known.get(shard)
        if known is None:
            self.bring_in(shard, read())
        elif known[0] != token:
            facts = read()
            self._kb.update(delete=known[1].without(facts), add=facts.without(known[1]))
            self._known[shard] = ("", facts)

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
    """The rules of a program with all that it declares, and without its facts."""
    return declarations(dict(program.prefixes), program.predicates) + "\n".join(map(str, program.rules))


def declarations(prefixes: Mapping[str, str], predicates: Iterable[Signature]) -> str:
    """The lines that declare prefixes and predicates."""
    lines = [f"@prefix {name}: <{iri}> .\n" for name, iri in prefixes.items()]
    return "".join([*lines, *(f"{declaration(signature)}\n" for signature in predicates)])
