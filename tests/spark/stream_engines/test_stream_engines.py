"""The engines of streams without Spark: records, batches, exactly once through every crash, keys."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from places import worker

pytest.importorskip("pyspark")

from generate import EVERYTHING, soak
from stream_util import changes_in, entries, facts_of, keyed_stream, record, records_of, refused_in, replayed, whole
from tidelog import DataError, KnowledgeBase, ParseError, StorageError, StratificationError
from tidelog.formats import Update
from tidelog.language import parse_program
from tidelog.program.graph import RuleGraph
from tidelog.spark.plan.refusals import check_fit, refuse_expiries
from tidelog.spark.streams import keyed_engine as keyed
from tidelog.spark.streams import resident
from tidelog.spark.streams.keys import CrossKeyError, Keys
from tidelog.spark.streams.memory_engine import MemoryEngine
from tidelog.spark.streams.metrics import Metrics, Totals, read_view
from tidelog.spark.streams.mqtt import Spool
from tidelog.spark.streams.queued_engine import MOST_WAITING
from tidelog.spark.streams.resident import KeyedProgram
from tidelog.spark.streams.shard_state import PagedState, ShardState, WholeState
from tidelog.spark.streams.sink import ChangedFact, Quarantine, Sink, net_facts
from tidelog.spark.streams.stream_batches import Batch, apply_batch
from tidelog.spark.streams.stream_run import Checkpoint
from tidelog.spark.streams.update_records import net, parse_entry
from tidelog.values import IRI

RULES = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z)."


# Time


def test_records_say_when_they_come(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "@expire reading 60 s.  busy(S) :- reading(S, V) in last 10 s.")
    reading = {"op": "add", "predicate": "reading", "arguments": ["hall", 7]}
    at_once = [json.dumps({**reading, "arguments": [name, 1], "at": 100}) for name in ("hall", "attic")]
    stage.engine.take(0, entries(*at_once))
    stage.engine.take(1, entries(json.dumps({"at": 110}), json.dumps({**reading, "at": "1970-01-01T00:02:00Z"})))
    stage.engine.take(2, entries(json.dumps({"at": 165})))
    stage.engine.close()
    changes = changes_in(tmp_path / "sink")
    assert len(changes[0]) == 4
    assert changes[1] == [("removed", ("busy", '["attic"]')), ("added", ("reading", '["hall", 7]'))]
    assert {fact for op, fact in changes[2] if op == "removed"} == {
        ("busy", '["hall"]'),
        ("reading", '["attic", 1]'),
        ("reading", '["hall", 1]'),
    }


def test_other_engines_refuse_time_by_name() -> None:
    with pytest.raises(DataError, match="the engine memory takes such records"):
        parse_entry('{"at": 10}', allow_times=False)
    with pytest.raises(ParseError, match="the engine `keyed` does not have facts that expire: `@expire reading 60 s"):
        Keys.of(parse_program("@expire reading 60 s."), 1, {})
    with pytest.raises(
        StratificationError, match=r"`keyed` does not have windows, such as `reading\(S\) in last 10 s`"
    ):
        Keys.of(parse_program("busy(S) :- reading(S) in last 10 s."), 1, {})
    with pytest.raises(StratificationError, match="the Spark engine does not have windows"):
        check_fit(RuleGraph(parse_program("busy(S) :- reading(S) in last 10 s.").rules))
    with pytest.raises(ParseError, match="the Spark engine does not have facts that expire"):
        refuse_expiries(parse_program("@expire reading 60 s.").expiries)


# Records


@pytest.mark.parametrize(
    ("text", "csv", "expected"),
    [
        (record("add", "edge", "a", 1), False, Update(add={"edge": [("a", 1)]})),
        ('{"op": "-", "predicate": "p", "arguments": "[true, 1]"}', False, Update(delete={"p": [(True, 1)]})),
        ('{"op": "removed", "predicate": "p", "batch": 4}', False, Update(delete={"p": [()]})),
        (record("add_rules", "", "p(X) :- q(X)."), False, Update(add_rules="p(X) :- q(X).")),
        ('{"delete": {"p": [[1.5]]}, "remove_rules": "p."}', False, Update(delete={"p": [(1.5,)]}, remove_rules="p.")),
        ('add,edge,a,"1"', True, Update(add={"edge": [("a", "1")]})),
        ("-,p,1.5,<http://e.org/a>,true", True, Update(delete={"p": [(1.5, IRI("http://e.org/a"), True)]})),
        ("+,p", True, Update(add={"p": [()]})),
        ('remove_rules,"p(X) :- q(X, Y)."', True, Update(remove_rules="p(X) :- q(X, Y).")),
    ],
)  # fmt: skip
def test_forms_of_records(text: str, csv: bool, expected: Update) -> None:
    assert parse_entry(text, csv) == expected


@pytest.mark.parametrize(
    ("text", "csv", "reason"),
    [
        ("rubbish", False, "not JSON"),
        ('{"op": "upsert", "predicate": "p", "arguments": []}', False, "`upsert` is no operation"),
        ('{"op": "add", "arguments": []}', False, "without a predicate"),
        ('{"op": "add", "predicate": "p", "argumnets": []}', False, "no `argumnets`"),
        ('{"op": "add", "predicate": "p", "arguments": [null]}', False, "null"),
        ('{"op": "add", "predicate": "p", "arguments": 3}', False, "a row is an array"),
        ('{"op": "add_rules", "arguments": [7]}', False, "takes rules"),
        ('{"added": {}}', False, "did you mean add"),
        ("[1]", False, "an update is an object"),
        ("add", True, "without a predicate"),
        ("add,p,,1", True, "empty cell"),
    ],
)
def test_records_that_are_none(text: str, csv: bool, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        parse_entry(text, csv)


def test_the_last_operation_on_a_fact_counts() -> None:
    updates = [
        Update(add={"p": [(1,), (2,)]}),
        Update(delete={"p": [(1,), (True,)]}, add={"p": [(1.0,)]}),
        Update(delete={"p": [(3,)]}, add={"p": [(3,)]}),
    ]
    combined = net(updates)
    assert [(type(row[0]), row[0]) for row in combined["add"]["p"]] == [(int, 2), (float, 1.0), (int, 3)]
    assert [(type(row[0]), row[0]) for row in combined["delete"]["p"]] == [(int, 1), (bool, True)]


# The memory engine


class Stage:
    """A memory engine in a folder, with what it wrote."""

    def __init__(self, folder: Path, rules: str = RULES) -> None:
        self.sink, self.quarantine = Sink(folder / "sink", "jsonl"), Quarantine(folder / "refused")
        self.engine = MemoryEngine(
            folder / "state", lambda: KnowledgeBase(rules), self.sink, self.quarantine, parse_entry
        )
        self.engine.start()


def test_each_batch_is_an_update(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.engine.take(0, entries(record("add", "edge", "a", "b"), record("add", "edge", "b", "c")))
    stage.engine.take(1, entries(record("delete", "edge", "a", "b"), record("add", "edge", "a", "b")))
    stage.engine.take(2, entries(record("delete", "edge", "a", "b"), record("add", "edge", "b", "d")))
    stage.engine.take(2, entries(record("add", "edge", "again", "again")))
    stage.engine.close()
    changes = changes_in(tmp_path / "sink")
    assert sorted(changes) == [0, 2]  # batch 1 changed nothing
    assert changes[2] == [
        ("removed", ("edge", '["a", "b"]')),
        ("removed", ("path", '["a", "b"]')),
        ("removed", ("path", '["a", "c"]')),
        ("added", ("edge", '["b", "d"]')),
        ("added", ("path", '["b", "d"]')),
    ]
    assert facts_of(stage.engine.kb) == replayed(changes)
    assert stage.engine.waiting == 0


def test_what_is_refused_leaves_the_others(tmp_path: Path) -> None:
    good = [record("add", "edge", number, number + 1) for number in range(20)]
    bad = [
        "rubbish",
        record("add", "edge", 1, 2, 3),
        record("add_rules", "", "path(X) :- edge(X, Y)."),
        record("remove_rules", "", "nobody(X) :- edge(X, X)."),
        record("add_rules", "", "p(X) :- edge(X, Y), not p(Y)."),
        record("add_rules", "", "p(Z) :- edge(X, Y)."),
        record("add", "edge", None),
    ]
    mixed = [*good, *bad, record("add_rules", "", "loop(X) :- path(X, X).")]
    random.Random(3).shuffle(mixed)
    stage = Stage(tmp_path)
    stage.engine.take(0, entries(*mixed))
    stage.engine.close()
    truth = KnowledgeBase(RULES + "loop(X) :- path(X, X).")
    truth.update(add={"edge": [(number, number + 1) for number in range(20)]})
    assert replayed(changes_in(tmp_path / "sink")) == facts_of(truth)
    assert refused_in(tmp_path / "refused") == [(0, body) for body in mixed if body in bad]
    assert stage.engine.kb.commit_info["done"] == str(len(mixed))


@pytest.mark.parametrize("seed", range(6))
def test_random_streams(seed: int, tmp_path: Path) -> None:
    """Facts and rules, as single records or whole updates, with restarts, against a knowledge base."""
    case, stream = soak(seed, EVERYTHING, length=8)
    rules = "\n".join(map(str, case.state.rules))
    truth = KnowledgeBase(rules)
    dice = random.Random(seed)
    stage = Stage(tmp_path, rules)
    for number, update in enumerate(stream):
        plain: Any = update.mapping()
        bodies = records_of(plain) if dice.random() < 0.5 else [whole(plain)]
        stage.engine.take(number, entries(*bodies, "poison"))
        truth.update(**plain)
        if dice.random() < 0.3:
            stage.engine.close()
            stage = Stage(tmp_path, rules)
    stage.engine.close()
    assert facts_of(stage.engine.kb) == facts_of(truth)
    assert replayed(changes_in(tmp_path / "sink"), facts_of(KnowledgeBase(rules))) == facts_of(truth)
    assert [body for _, body in refused_in(tmp_path / "refused")] == ["poison"] * len(stream)


def test_what_breaks_the_engine_reaches_who_feeds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path)

    def fail(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(stage.sink, "write", fail)
    stage.engine.take(0, entries(record("add", "edge", 1, 2)))
    with pytest.raises(StorageError, match="disk is full"):
        stage.engine.close()
    monkeypatch.undo()
    again = Stage(tmp_path)
    again.engine.close()
    assert replayed(changes_in(tmp_path / "sink")) == facts_of(again.engine.kb) != set()


def test_a_source_waits_while_too_many_batches_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path)
    go_on, write, taken = threading.Event(), stage.sink.write, []

    def write_later(*arguments: Any) -> None:
        go_on.wait()
        write(*arguments)

    def feed() -> None:
        for number in range(3 * MOST_WAITING):
            stage.engine.take(number, entries(record("add", "edge", number, number + 1)))
            taken.append(number)

    monkeypatch.setattr(stage.sink, "write", write_later)
    source = threading.Thread(target=feed)
    source.start()
    while len(taken) < MOST_WAITING:
        time.sleep(0.01)
    source.join(0.3)  # Long enough for one more, were it let in.
    assert len(taken) == stage.engine.waiting == MOST_WAITING
    go_on.set()
    source.join()
    stage.engine.close()
    assert sorted(changes_in(tmp_path / "sink")) == list(range(3 * MOST_WAITING))


def test_kill_9_at_every_step() -> None:
    """See `stream_crash_worker.py`: a process of its own, since only one without threads can be forked."""
    command = [sys.executable, worker("stream_crash_worker.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    memory, keyed = map(int, done.stdout.split())
    assert memory > 40
    assert keyed > 15


# Checkpoint, sink, metrics, spool


def test_a_checkpoint_is_of_one_stream(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "sink", "jsonl")
    checkpoint = Checkpoint(tmp_path / "state")
    checkpoint.begin(RULES, "memory", sink)
    checkpoint.begin(RULES, "memory", sink)
    sink.write(0, [ChangedFact("added", "p", "[1]")])
    checkpoint.begin(RULES, "memory", sink)
    with pytest.raises(StorageError, match="send the change of rules through the stream"):
        checkpoint.begin(RULES + "p(X) :- q(X).", "memory", sink)
    with pytest.raises(StorageError, match="its engine is memory"):
        checkpoint.begin(RULES, "keyed", sink)
    with pytest.raises(StorageError, match="holds batches of another stream"):
        Checkpoint(tmp_path / "other").begin(RULES, "memory", sink)


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_sink_takes_a_batch_once(format: str, tmp_path: Path) -> None:
    sink = Sink(tmp_path / "sink", format)
    sink.write(3, [ChangedFact("removed", "p", '["a", 1.5]'), ChangedFact("added", "p", '["ü", true]')])
    sink.write(3, [ChangedFact("added", "p", "[]")])
    sink.write(4, [])
    assert sink.batches == [3]
    expected = [("removed", ("p", '["a", 1.5]')), ("added", ("p", '["ü", true]'))]
    assert changes_in(tmp_path / "sink") == {3: expected}
    [path] = (tmp_path / "sink").rglob("part-*")
    if format == "jsonl":  # a stream can read what another one wrote
        assert [parse_entry(line) for line in path.read_text().splitlines()] == [
            Update(delete={"p": [("a", 1.5)]}),
            Update(add={"p": [("ü", True)]}),
        ]


def test_changes_that_cancel() -> None:
    came, went = ChangedFact("added", "p", "[1]"), ChangedFact("removed", "p", "[1]")
    other = ChangedFact("added", "q", "[1]")
    assert net_facts([[came, other], [went]]) == [other]
    assert net_facts([[came], [went], [came]]) == [came]


def test_metrics_can_be_read_elsewhere(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path / "metrics.json")
    with pytest.raises(DataError, match="has not run yet"):
        read_view(tmp_path / "metrics.json")
    for number in range(3):
        metrics.arrived(number)
        metrics.backlog = {"batches taken in": 2}
        metrics.finished(number, Totals(1, 10, 2, 4, 1, {"insertion": 5, "deletion": 0}))
    view = read_view(tmp_path / "metrics.json")
    assert (view.batch, view.totals.updates, view.totals.work, view.running) == (2, 30, {"insertion": 15}, True)
    assert view.updates_per_second > 0
    text = "\n".join(view.lines())
    assert "30 updates in 3 batches" in text
    assert "2 batches taken in" in text
    assert "12 came, 3 went; 6 records refused" in text


def test_a_spool_keeps_what_may_be_asked_for(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    assert spool.last == 0
    last = 0
    for part in ([("t", "1"), ("t", "2")], [("t", "3")], [("t", "4"), ("t", "5")]):
        last = spool.append(last, part)
    assert [number for number, _, _ in spool.read(1, 4)] == [2, 3, 4]
    spool.forget(3)
    assert list(spool.read(3, 5)) == [(4, "t", "4"), (5, "t", "5")]
    with pytest.raises(StorageError, match="lacks message 2"):
        list(spool.read(1, 5))
    spool.forget(5)
    assert Spool(tmp_path).last == 5


# Keys


@pytest.mark.parametrize(
    "rules",
    [
        "p(F, X) :- q(F, X), not r(F, X). p(F, Y) :- p(F, X), q(F, Y), X < Y.",
        "n(F, count(X)) :- q(F, X).",
        "p(F, X) :- q(F, X), limit(L), X > L. limit(X) :- base(X).",
        "p(F, X) :- q(F, X), limit(_).",
        'p("a", X) :- q("a", X).',
    ],
)
def test_programs_that_keep_to_their_keys(rules: str) -> None:
    Keys.of(parse_program(rules), 1, {"limit": 0, "base": 0})


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("p(F, X) :- q(F, X), r(G, X).", r"p\(F, X\) :- q\(F, X\), r\(G, X\).` joins across keys: .* is F, .* is G"),
        ("p(F, X) :- q(F, X), not r(_, X).", "joins across keys"),
        ("p(X, F) :- q(F, X).", r"the key of `p\(X, F\)` is X, and that of `q\(F, X\)` is F"),
        ("p(count(F)) :- q(F, X).", "joins across keys"),
        ("limit(X) :- q(F, X).", "has no key, but"),
        ("p(F, X) :- limit(X), F = 3.", "nothing that it follows from has one"),
        ("p(F, X) :- q(F, X), r(_, _).", r"r\(_, _\).` joins across keys: .* has no key, but `r\(_, _\)` has one"),
        ("p :- q(F, X).", "`p` has no argument 1"),
        ("t(F, X) :- q(F, X). p(F, Z) :- t(F, X), t(X, Z).", "joins across keys"),
    ],
)
def test_rules_that_join_across_keys_are_named(rules: str, reason: str) -> None:
    with pytest.raises(CrossKeyError, match=reason):
        Keys.of(parse_program(rules), 1, {"limit": 0})


def test_an_update_is_split_by_key() -> None:
    keys = Keys.of(parse_program("p(F, X) :- q(X, F), limit(X)."), 1, {"limit": 0, "q": 2})
    update = Update(add={"q": [("x", "f"), ("x", 1)], "p": [("f", 3)]}, delete={"q": [("y", "f")], "p": [(1.0, 1)]})
    assert keys.split(update) == {
        '"f"': Update(add={"q": [("x", "f")], "p": [("f", 3)]}, delete={"q": [("y", "f")]}),
        "1": Update(add={"q": [("x", 1)]}, delete={}),
        "1.0": Update(add={}, delete={"p": [(1.0, 1)]}),
    }
    for bad, reason in (
        (Update(add={"limit": [(1,)]}), "has no key"),
        (Update(add={"p": [(1,)]}), "has 2 arguments"),
        (Update(add={"unknown": [(1,)]}), "is in no rule"),
    ):
        with pytest.raises(DataError, match=reason):
            keys.split(bad)


class Whole:
    """A state of `applyInPandasWithState`."""

    def __init__(self) -> None:
        self._value: tuple[Any, ...] | None = None

    @property
    def exists(self) -> bool:
        return self._value is not None

    @property
    def get(self) -> tuple[Any, ...]:
        assert self._value is not None
        return self._value

    def update(self, value: tuple[Any, ...]) -> None:
        self._value = value

    def shard(self) -> ShardState:
        return WholeState(self)


class Pages:
    """A value and a map of `transformWithState`, which is told how often it is written and read."""

    def __init__(self) -> None:
        self._value: tuple[Any, ...] | None = None
        self._map: dict[tuple[int], tuple[str]] = {}
        self.written = self.read = 0

    def get(self) -> tuple[Any, ...] | None:
        return self._value

    def update(self, value: tuple[Any, ...]) -> None:
        self._value = value

    def values(self) -> list[tuple[str]]:
        self.read += 1
        return list(self._map.values())

    def updateValue(self, key: tuple[int], value: tuple[str]) -> None:
        self.written += 1
        self._map[key] = value

    def removeKey(self, key: tuple[int]) -> None:
        self.written += 1
        del self._map[key]

    def shard(self) -> ShardState:
        return PagedState(self, self)


@pytest.mark.parametrize("kind", [Whole, Pages])
@pytest.mark.parametrize("seed", range(4))
def test_keys_with_random_programs(seed: int, kind: type[Whole | Pages], tmp_path: Path) -> None:
    """Shards that move between workers, tasks done twice, and a change of rules, against one knowledge base."""
    text, batches = keyed_stream(seed, ["a", 1, 1.0, True], length=4)
    *kept, last = text.splitlines()
    program = KeyedProgram(tmp_path, 1, {}, shards=range(3))
    program.begin("\n".join(kept))
    program.put(3, text)
    keys = program.check(text)
    states: dict[int, Whole | Pages] = {}
    facts: dict[int, list[tuple[str, tuple[str, str]]]] = {}
    dice = random.Random(seed)
    for number, batch in enumerate([*batches, [record("add", "key", key) for key in ("a", 1, 1.0, True)]]):
        split: dict[int, list[str]] = {}
        for body in batch:
            [key] = keys.split(parse_entry(body))
            split.setdefault(program.shard(key), []).append(body)
        for shard, bodies in split.items():
            if dice.random() < 0.3:
                resident._residents.clear()  # another worker
            state = states.setdefault(shard, kind())
            if dice.random() < 0.3:
                task = deepcopy(state)  # a task whose state is not committed
                keyed.apply_to_shard(shard, entries(*bodies), task.shard(), program, program.number_for(number))
            rows = keyed.apply_to_shard(shard, entries(*bodies), state.shard(), program, program.number_for(number))
            changes = [(str(row[1]), (str(row[2]), str(row[3]))) for row in rows if row[0] == keyed.CHANGE]
            facts.setdefault(number, []).extend(sorted(changes, key=lambda change: change[0] != "removed"))
    truth = KnowledgeBase("\n".join(kept))
    for batch in batches:
        for body in batch:
            truth.update(**parse_entry(body))
    truth.add_rules(last)
    assert replayed(facts) == facts_of(truth)


def test_only_pages_that_changed_are_written(tmp_path: Path) -> None:
    program = KeyedProgram(tmp_path, 1, {}, shards=[5])
    program.begin('p(F, X) :- q(F, X). q("f", -1).')
    state = Pages()
    many = [record("add", "q", "f", number) for number in range(1000)]
    keyed.apply_to_shard(5, entries(*many), state.shard(), program, 0)
    assert state.written == 64
    rows = keyed.apply_to_shard(5, entries(record("delete", "q", "f", 3)), state.shard(), program, 0)
    assert [row[1:4] for row in rows[:2]] == [("removed", "p", '["f", 3]'), ("removed", "q", '["f", 3]')]
    assert (state.written, state.read) == (65, 0)
    held = set(state.shard().facts())
    assert len(held) == 1000
    assert '["q", "f", -1]' in held
    assert '["q", "f", 3]' not in held


def test_a_batch_goes_on_after_its_notes() -> None:
    """The notes of one run are all that the next one needs."""
    bodies = [
        record("add", "edge", 1, 2),
        record("add", "edge", 9),
        record("add_rules", "", "x(X) :- edge(X, X)."),
        record("add", "edge", 3, 3),
    ]
    kb = KnowledgeBase(RULES)
    notes: list[dict[str, str]] = []
    changes: list[Any] = []

    def update(piece: dict[str, Any]) -> Any:
        if len(notes) == 3:
            raise KeyboardInterrupt
        change = kb.update(**piece)
        notes.append(json.loads(json.dumps(piece["commit"])))
        changes.append(change)
        return change

    first = Batch(7, entries(*bodies), parse_entry)
    with pytest.raises(KeyboardInterrupt):
        apply_batch(first, update)
    second = Batch(7, entries(*bodies), parse_entry)
    second.resume(notes, changes)
    apply_batch(second, lambda piece: kb.update(**piece))
    assert [one.body for one in second.refused] == [bodies[1]]
    assert facts_of(kb) == {
        *(("edge", "[1, 2]"), ("edge", "[3, 3]"), ("path", "[1, 2]"), ("path", "[3, 3]"), ("x", "[3]")),
    }
    assert len(second.changes) == 4
