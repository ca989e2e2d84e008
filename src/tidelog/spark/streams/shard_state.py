"""Where Spark keeps the explicit facts of a shard of keys: as a whole, or in pages.

As a whole, a shard is one entry of `applyInPandasWithState`, which any state store keeps and which is written again
with each change. In pages, it is a map of `transformWithState`: a batch writes those pages whose facts it changed, and
reads none while the worker has them. That needs RocksDB as the state store, and `protobuf`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any, Protocol
from zlib import crc32

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor

from tidelog.formats import Update
from tidelog.formats.files.jsonl import row_from_json, value_to_json
from tidelog.formats.files.updates import Facts
from tidelog.language import resolve_predicate
from tidelog.spark.streams.update_records import ADD, operations
from tidelog.values import canonical

WHOLE, PAGES = "whole", "pages"
WHOLE_TYPE = "program bigint, token string, facts string"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"

# Pages of a shard. States refer to them by number, so that this must stay as it is.
_PAGES = 64


class ShardFacts:
    """The explicit facts of a shard, each as a JSON array of its predicate and its arguments, in pages by their hash.

    The same constant always has the same text, so texts tell facts apart, and states are compared without parsing.
    `changed` has the numbers of the pages that differ from those in Spark's state."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.changed: set[int] = set()
        self._pages: dict[int, dict[str, None]] = {}
        for text in texts:
            self._page(_number(text))[text] = None

    @classmethod
    def of_state(cls, *pages: str) -> ShardFacts:
        """Facts from the texts that Spark keeps: one fact in each line."""
        return cls(line for page in pages if page for line in page.split("\n"))

    @property
    def state(self) -> str:
        """All pages as one."""
        return "\n".join(self)

    def _page(self, number: int) -> dict[str, None]:
        return self._pages.setdefault(number, {})

    def __iter__(self) -> Iterator[str]:
        return (text for page in self._pages.values() for text in page)

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and text in self._pages.get(_number(text), ())

    def page(self, number: int) -> str:
        """A page as Spark keeps it."""
        return "\n".join(self._pages.get(number, ()))

    def apply(self, update: Update, prefixes: dict[str, str]) -> None:
        for op, name, row in operations(update):
            text = json.dumps([resolve_predicate(name, prefixes), *(value_to_json(canonical(value)) for value in row)])
            number = _number(text)
            page = self._page(number)
            if (text in page) == (op == ADD):
                continue
            self.changed.add(number)
            if op == ADD:
                page[text] = None
            else:
                del page[text]

    def without(self, others: ShardFacts) -> Facts:
        """The facts that are not among others."""
        found: Facts = {}
        for text in self:
            if text not in others:
                predicate, *row = json.loads(text)
                found.setdefault(predicate, []).append(row_from_json(row))
        return found

    @property
    def facts(self) -> Facts:
        return self.without(ShardFacts())


def _number(text: str) -> int:
    return crc32(text.encode()) % _PAGES


class ShardState(Protocol):
    """What Spark keeps of a shard."""

    @property
    def head(self) -> tuple[int, str] | None:
        """The number of the program that the shard was last worked on under, and its token; None if it is new."""

    def facts(self) -> ShardFacts:
        """The facts of a shard that is not new."""

    def write(self, program: int, token: str, facts: ShardFacts) -> None:
        """Keep these facts, which differ from those here in the pages that they call changed."""


class WholeState:
    """A shard as one entry of `applyInPandasWithState`."""

    def __init__(self, state: Any) -> None:
        self._state = state

    @property
    def head(self) -> tuple[int, str] | None:
        return self._state.get[:2] if self._state.exists else None

    def facts(self) -> ShardFacts:
        return ShardFacts.of_state(self._state.get[2])

    def write(self, program: int, token: str, facts: ShardFacts) -> None:
        self._state.update((program, token, facts.state))
        facts.changed.clear()


class PagedState:
    """A shard as a value and a map of `transformWithState`."""

    def __init__(self, head: Any, pages: Any) -> None:
        self._head = head
        self._pages = pages

    @property
    def head(self) -> tuple[int, str] | None:
        found = self._head.get()
        return (int(found[0]), str(found[1])) if found is not None else None

    def facts(self) -> ShardFacts:
        return ShardFacts.of_state(*(page for (page,) in self._pages.values()))

    def write(self, program: int, token: str, facts: ShardFacts) -> None:
        for number in sorted(facts.changed):
            page = facts.page(number)
            if page:
                self._pages.updateValue((number,), (page,))
            else:
                self._pages.removeKey((number,))
        self._head.update((program, token))
        facts.changed.clear()


class ShardProcessor(StatefulProcessor):  # type: ignore[misc]
    """Works on shards in pages; `work` is given a shard, the frames of its records, and its state."""

    def __init__(self, work: Any) -> None:
        self._work = work

    def init(self, handle: Any) -> None:
        self._head = handle.getValueState("head", "program bigint, token string")
        self._pages = handle.getMapState("pages", "page int", "facts string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        return iter(self._work(key, rows, PagedState(self._head, self._pages)))

    def close(self) -> None:
        """There is nothing to tidy up."""


def kind_for(spark: SparkSession) -> str:
    """How a new stream of a session keeps its shards: in pages, where the session can."""
    store = spark.conf.get(STATE_STORE, "") or ""
    return PAGES if "RocksDB" in store and find_spec("google.protobuf") else WHOLE
