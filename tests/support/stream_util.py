"""Streams for tests: records of random updates, programs with keys, and what must be in a sink."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from generate import Dice, make_case, make_stream
from naive import Update
from tidelog import KnowledgeBase
from tidelog.formats.files.jsonl import value_to_json
from tidelog.language.syntax import Atom, BodyItem, Negation, Rule, Variable
from tidelog.spark.streams.update_records import Entry
from tidelog.values import Value

Fact = tuple[str, str]  # a predicate, and arguments as JSON

KEY = Variable("Key")


def record(op: str, predicate: str, *arguments: object) -> str:
    return json.dumps({"op": op, "predicate": predicate, "arguments": arguments})


def entries(*bodies: str) -> list[Entry]:
    return [Entry("test", body) for body in bodies]


def records_of(update: Mapping[str, Any]) -> list[str]:
    """An update as single records, in an order with the same effect."""
    found = [record("remove_rules", "", line) for line in update["remove_rules"].splitlines()]
    found += [record("add_rules", "", line) for line in update["add_rules"].splitlines()]
    for op in ("delete", "add"):
        for name, rows in update[op].items():
            found += [record(op, name, *map(value_to_json, row)) for row in rows]
    return found


def whole(update: Mapping[str, Any]) -> str:
    """An update as one record."""
    sides = {
        op: {name: [[*map(value_to_json, row)] for row in rows] for name, rows in update[op].items()}
        for op in ("add", "delete")
    }
    return json.dumps({**sides, "add_rules": update["add_rules"], "remove_rules": update["remove_rules"]})


def facts_of(kb: KnowledgeBase) -> set[Fact]:
    """All facts of a knowledge base, in the form of a sink."""
    return {
        (name, json.dumps([*map(value_to_json, row)], ensure_ascii=False))
        for name in kb.predicates
        for row in kb.facts(name)
    }


def changes_in(sink: Path) -> dict[int, list[tuple[str, Fact]]]:
    """The changes in a sink by batch."""
    found: dict[int, list[tuple[str, Fact]]] = {}
    for path in sorted(sink.glob("batch=*/*")):
        number = int(path.parent.name.partition("=")[2])
        if path.suffix == ".parquet":
            rows = pq.ParquetFile(path).read().to_pylist()
        else:
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n")]
        for row in rows:
            arguments = row["arguments"]
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            found.setdefault(number, []).append((row["op"], (row["predicate"], text)))
    return found


def replayed(changes: Mapping[int, Iterable[tuple[str, Fact]]], before: Iterable[Fact] = ()) -> set[Fact]:
    """What holds after all changes. Each must change something: what comes was not there, what goes was."""
    state = set(before)
    for number in sorted(changes):
        for op, fact in changes[number]:
            assert (fact in state) == (op == "removed"), (number, op, fact)
            (state.remove if op == "removed" else state.add)(fact)
    return state


def refused_in(quarantine: Path) -> list[tuple[int, str]]:
    """The batch and the text of each refused record."""
    return [
        (int(path.parent.name.partition("=")[2]), json.loads(line)["record"])
        for path in sorted(quarantine.glob("batch=*/*"))
        for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    ]


# Programs with keys: every atom has one more argument in front.


def keyed_rule(rule: Rule) -> Rule:
    guard = Atom("key", (KEY,))
    return Rule(_keyed(rule.head), (guard, *map(_keyed_item, rule.body)))


def _keyed(atom: Atom) -> Atom:
    return Atom(atom.predicate, (KEY, *atom.arguments))


def _keyed_item(item: BodyItem) -> BodyItem:
    match item:
        case Atom():
            return _keyed(item)
        case Negation(atom=atom):
            return Negation(_keyed(atom))
        case _:
            return item


def keyed_stream(seed: int, keys: Sequence[Value], length: int) -> tuple[str, list[list[str]]]:
    """A random program with keys, and batches of records in which the streams of the keys are mixed."""
    case = make_case(Dice(seed))
    program = "\n".join(str(keyed_rule(rule)) for rule in case.state.rules)
    batches: list[list[str]] = [[] for _ in range(length + 1)]
    known = {predicate for rule in case.state.rules for predicate in _predicates(rule)}
    for number, key in enumerate(keys):
        first = Update(add=case.state.explicit)
        updates = [first, *soak_updates(seed, number, length)]
        batches[0].append(record("add", "key", value_to_json(key)))
        for batch, update in zip(batches, updates, strict=False):  # a stream may end sooner
            plain = update.mapping()
            for op in ("delete", "add"):
                rows: Mapping[str, Any] = plain[op]  # type: ignore[assignment]
                batch += [
                    record(op, name, value_to_json(key), *map(value_to_json, row))
                    for name, found in rows.items()
                    if name in known
                    for row in found
                ]
    return program, batches


def soak_updates(seed: int, number: int, length: int) -> list[Update]:
    """Updates of facts only, different ones for each number."""
    case = make_case(Dice(seed))
    return [Update(add=one.add, delete=one.delete) for one in make_stream(Dice(1000 * number + seed), case, length)]


def _predicates(rule: Rule) -> Iterable[str]:
    yield rule.head.predicate
    for item in rule.body:
        if isinstance(item, Atom):
            yield item.predicate
        elif isinstance(item, Negation):
            yield item.atom.predicate
