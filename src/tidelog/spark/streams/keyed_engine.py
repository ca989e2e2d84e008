"""The engine `keyed`: the facts of all keys are in Spark's state, and their consequences in the workers.

Keys are dealt to *shards* by their hash. A call from Spark into Python takes milliseconds, and so does an update of a
knowledge base, however few facts there are. So Spark's state holds shards, and all records of a batch for the keys of a
shard are one update. Executors split records by key; the records of each shard are applied to its facts, in tasks that
have its state (`shard_state.py`). Spark commits the states of all shards together with the batch; if a batch fails
before that, Spark applies it again to the states before it. So the changes of a batch are the same each time, and the
sink takes them once.

Rules hold for all keys. The driver checks a change of rules, which takes effect with the next batch; a shard moves to
the new rules with its next records, and its changes then include what the new rules add and remove.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.errors import DataError, TidelogError
from tidelog.formats import Update
from tidelog.formats.files.jsonl import value_to_json
from tidelog.formats.files.updates import Facts
from tidelog.language import parse_program
from tidelog.spark.streams.intake import Parse, order_columns
from tidelog.spark.streams.keys import Keys
from tidelog.spark.streams.metrics import Totals
from tidelog.spark.streams.resident import KeyedProgram, Resident, declarations, rules_text
from tidelog.spark.streams.shard_state import PAGES, WHOLE, WHOLE_TYPE, ShardProcessor, ShardState, WholeState
from tidelog.spark.streams.sink import ChangedFact, Quarantine, Sink, changed_facts, net_facts
from tidelog.spark.streams.spark_metrics import observe_changes
from tidelog.spark.streams.stream_batches import Batch, OnBatch, StreamEngine
from tidelog.spark.streams.update_records import Entry, changes_rules, entry_of, parse_entry

CHANGE, REFUSED, RULES, WORK = "change", "refused", "rules", "work"
_OUTPUT = ("kind", "op", "predicate", "arguments", "place", "body", "reason")
_NO_SHARD = -1  # for what belongs to no key: records that cannot be read, and changes of rules
_BATCH_ID = "streaming.sql.batchId"

Told = tuple[str | None, ...]
"""A row of `_OUTPUT`."""


class KeyedEngine(StreamEngine):
    """Writes what the keys changed, and takes new rules. `rewrite` says that the text of records is not JSON yet."""

    def __init__(
        self,
        program: KeyedProgram,
        sink: Sink,
        quarantine: Quarantine,
        on_batch: OnBatch,
        parse: Parse = parse_entry,
        rewrite: bool = False,
        state: str = WHOLE,
    ) -> None:
        super().__init__(sink, quarantine, on_batch)
        self._state = state
        self._program = program
        self._parse = parse
        self._rewrite = rewrite

    def frame(self, records: DataFrame) -> DataFrame:
        """The changes of each batch, as rows of several kinds."""
        split = _split_by_key(records, self._program, self._parse, self._rewrite)
        work = partial(_work_on_shard, program=self._program, order=order_columns(split.columns))
        schema = ", ".join(f"{name} string" for name in _OUTPUT)
        shards = split.groupBy("shard")
        if self._state == PAGES:
            return observe_changes(shards.transformWithStateInPandas(ShardProcessor(work), schema, "Update", "None"))
        whole = partial(_work_on_whole_shard, work=work)
        return observe_changes(shards.applyInPandasWithState(whole, schema, WHOLE_TYPE, "update", "NoTimeout"))

    def read(self, rows: pa.Table) -> pa.Table:
        return rows

    def take(self, number: int, rows: pa.Table) -> None:
        """Write what the shards found in a batch; it is the same if the batch is applied again."""
        refused: list[Entry] = []
        rules: list[Entry] = []
        work: Counter[str] = Counter()
        is_change = pc.equal(rows.column("kind"), CHANGE)
        told = rows.filter(pc.invert(is_change)).select(["kind", "place", "body", "reason"])
        for kind, place, body, reason in zip(*told.to_pydict().values(), strict=True):
            match kind:
                case "refused":
                    refused.append(Entry(place, body, reason))
                case "rules":
                    rules.append(Entry(place, body))
                case "work":
                    work.update(json.loads(body))
        refused.extend(self._take_rules(number, rules))
        # A batch has tens of thousands of changes, and everybody waits for this: they stay in Arrow.
        facts = rows.filter(is_change).select(ChangedFact._fields)
        self._sink.write_table(
            number, facts.sort_by([("op", "descending"), ("predicate", "ascending"), ("arguments", "ascending")])
        )
        self._quarantine.write(number, refused)
        added = pc.sum(pc.equal(facts.column("op"), "added")).as_py() or 0
        self._on_batch(number, Totals(1, work.pop("records", 0), len(refused), added, len(facts) - added, work))

    def _take_rules(self, number: int, entries: list[Entry]) -> list[Entry]:
        """Apply changes of rules to the current program, for the next batches; returns those that are refused."""
        text = self._program.text(self._program.number_for(number))
        refused = []
        for entry in entries:
            try:
                text = self._changed(text, parse_entry(entry.body))
            except TidelogError as problem:
                refused.append(replace(entry, fault=str(problem)))
        if len(refused) < len(entries):
            self._program.put(number + 1, text)
        return refused

    def _changed(self, text: str, update: Update) -> str:
        program = parse_program(text)
        kb = KnowledgeBase(rules_text(program))
        kb.update(add_rules=update.get("add_rules", ""), remove_rules=update.get("remove_rules", ""))
        if update.get("add") or update.get("delete"):
            raise DataError("rules hold for all keys: send facts in a record of their own")
        facts = [f"{fact}." for fact in program.facts]
        changed = declarations(kb.prefixes, ()) + "\n".join([*kb.declarations, *facts, *kb.expiries, *kb.rules])
        self._program.check_next(changed)
        return changed


def _current(program: KeyedProgram) -> int:
    """The number of the program that holds for the batch of this task."""
    context = TaskContext.get()
    assert context is not None
    return program.number_for(int(context.getLocalProperty(_BATCH_ID) or 0))


# ── records to keys ──────────────────────────────────────────────────────────────────────────────────────────────────


def _split_by_key(frame: DataFrame, program: KeyedProgram, parse: Parse, rewrite: bool) -> DataFrame:
    """Records, or parts of them, with the shard of their key."""
    order = order_columns(frame.columns)
    kept = "".join(f"{name} {frame.schema[name].dataType.simpleString()}, " for name in order)
    last = f"o{len(order)}"

    def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keys = program.check(program.text(_current(program)))
        count = 0
        for batch in batches:
            entries = map(entry_of, batch.column("place").to_pylist(), batch.column("body").to_pylist())
            rows = [
                (row, *part)
                for row, entry in enumerate(entries)
                for part in _parts(entry, keys, program.shard, parse, rewrite)
            ]
            taken = batch.take(pa.array([row for row, *_ in rows], pa.int64()))
            columns = [pa.array([part[1] for part in rows], pa.int32())]
            columns += [pa.array([part[place] for part in rows], pa.string()) for place in (2, 3)]
            columns += [taken.column(name) for name in ("place", *order)]
            columns.append(pa.array(range(count, count + len(rows)), pa.int64()))
            count += len(rows)
            yield pa.RecordBatch.from_arrays(columns, names=["shard", "body", "reason", "place", *order, last])

    return frame.mapInArrow(split, f"shard int, body string, reason string, place string, {kept}{last} bigint")


def _parts(
    entry: Entry, keys: Keys, shard: Callable[[str], int], parse: Parse, rewrite: bool
) -> Iterable[tuple[int, str, str | None]]:
    """Shard, text and, if it is refused, reason, for each key that a record is about."""
    body = entry.body
    if entry.fault:
        return [(_NO_SHARD, body, entry.fault)]
    if not body.strip():
        return []
    try:
        update = parse(body)
        if changes_rules(update):
            return [(_NO_SHARD, _as_json(update), None)]
        found = keys.split(update)
    except DataError as problem:
        return [(_NO_SHARD, body, str(problem))]
    if len(found) == 1 and not rewrite:
        return [(shard(next(iter(found))), body, None)]
    return [(shard(key), _as_json(part), None) for key, part in found.items()]


def _as_json(update: Update) -> str:
    def side(facts: Facts) -> dict[str, Any]:
        return {name: [[value_to_json(value) for value in row] for row in rows] for name, rows in facts.items()}

    written = {key: side(update[key]) for key in ("add", "delete") if update.get(key)}
    rules = {key: update[key] for key in ("add_rules", "remove_rules") if update.get(key)}
    return json.dumps({**written, **rules}, ensure_ascii=False)


# ── a shard ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _work_on_whole_shard(shard: tuple[Any, ...], frames: Iterator[Any], state: Any, work: Any) -> Iterator[Any]:
    return iter(work(shard, frames, WholeState(state)))


def _work_on_shard(
    shard: tuple[Any, ...], frames: Iterator[Any], state: ShardState, program: KeyedProgram, order: list[str]
) -> Iterator[Any]:
    """All records of a shard in a batch, at once."""
    import pandas

    columns = [*order, "place", "body", "reason"]
    found = [row for frame in frames for row in zip(*(frame[name].tolist() for name in columns), strict=True)]
    found.sort(key=lambda row: row[: len(order)])
    if shard[0] == _NO_SHARD:
        rows = [_told(RULES if reason is None else REFUSED, place, body, reason) for *_, place, body, reason in found]
    else:
        entries = [Entry(place, body) for *_, place, body, _ in found]
        rows = apply_to_shard(int(shard[0]), entries, state, program, _current(program))
    yield pandas.DataFrame(rows, columns=list(_OUTPUT))


def _told(kind: str, place: str | None, body: str, reason: str | None) -> Told:
    return (kind, None, None, None, place, body, reason)


def apply_to_shard(
    shard: int, entries: list[Entry], state: ShardState, program: KeyedProgram, number: int
) -> list[Told]:
    """Apply records to the facts of a shard under the program of a number; returns rows with the changes."""
    resident = program.resident(number)
    changes = [_brought_in(shard, state, program, number, resident)]
    batch = Batch(0, entries, parse_entry)
    token, facts = resident.apply(shard, batch)
    state.write(number, token, facts)
    changes.extend(list(changed_facts(change)) for change in batch.changes)
    work = {kind: count for kind, count in batch.work.items() if count}
    return [
        *((CHANGE, *fact, None, None, None) for fact in net_facts(changes)),
        *(_told(REFUSED, one.place, one.body, one.fault) for one in batch.refused),
        _told(WORK, None, json.dumps({**work, "records": len(entries)}), None),
    ]


def _brought_in(
    shard: int, state: ShardState, program: KeyedProgram, number: int, resident: Resident
) -> list[ChangedFact]:
    """Make sure that the facts of a shard are here; returns what that changes, as under a new program."""
    head = state.head
    if head is None:
        return list(changed_facts(resident.bring_in(shard, resident.first_facts(shard))))
    before, token = head
    if before == number:
        resident.catch_up(shard, token, state.facts)
        return []
    gone = changed_facts(program.resident(before).bring_in(shard, state.facts()))
    come = changed_facts(resident.bring_in(shard, state.facts()))
    return net_facts([[fact._replace(op="removed") for fact in gone], come])
