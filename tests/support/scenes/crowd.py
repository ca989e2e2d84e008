"""What can be done to a knowledge base and to all that it gives out: a table of operations for threads.

Each operation calls one public method or property, named `Class.method`, and checks that what it gives is exact for
some state. It may be refused with a `TidelogError`, and may raise nothing else. `public_names` finds the methods that
the table must hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

import pyarrow as pa

from crowd_scene import RULES, SUBMITTED, UPDATED, Scene
from plugins import LiteralModule
from tidelog import Change, KnowledgeBase, TidelogError
from tidelog.facts.reading import Facts
from tidelog.facts.results import Answers, FactSet
from tidelog.formats.batch import FactBatch
from tidelog.live.async_streams import AsyncStream
from tidelog.live.fully_dynamic import Live, Snapshot
from tidelog.live.streams import Stream

Operation = Callable[[Scene, int], None]

CLASSES = (KnowledgeBase, Facts, Answers, FactSet, Change, Stream, AsyncStream, Live, Snapshot)

# What Python and its libraries look for in a class, but nobody calls.
_NOT_CALLED = {
    *("__init__", "__new__", "__module__", "__doc__", "__abstractmethods__", "__dict__", "__weakref__"),
    *("__annotations__", "__hash__", "__subclasshook__", "__class_getitem__", "__slots__", "__match_args__"),
    *("__parameters__", "__orig_bases__", "__qualname__", "__setattr__", "__delattr__", "__dataclass_fields__"),
    *("__dataclass_params__", "__replace__", "__static_attributes__", "__firstlineno__", "__annotate_func__"),
    *("__annotations_cache__", "__classdictcell__", "__get_pydantic_core_schema__"),
}


def public_names(kind: type) -> set[str]:
    """The public methods and properties of a class, and the special methods that it has beyond those of `object`."""
    names = {name for parent in kind.__mro__ if parent is not object for name in vars(parent)}
    names |= {item.name for item in fields(kind)} if is_dataclass(kind) else set()
    special = {name for name in names if name.startswith("__") and name.endswith("__")} - _NOT_CALLED
    return {name for name in names if not name.startswith("_")} | special | (names & {"_repr_html_"})


OPERATIONS: dict[str, Operation] = {}

# Those that change something, or take away what others use.
WRITING = {
    *("KnowledgeBase.update", "KnowledgeBase.add_rules", "KnowledgeBase.remove_rules", "KnowledgeBase.load"),
    *("KnowledgeBase.stream", "KnowledgeBase.live", "KnowledgeBase.register", "KnowledgeBase.save"),
    "KnowledgeBase.register_lattice",
    *("KnowledgeBase.open", "KnowledgeBase.close", "KnowledgeBase.query", "KnowledgeBase.what_if", "Change.explain"),
    *("Stream.__next__", "AsyncStream.__anext__"),
    *("KnowledgeBase.live_async", "KnowledgeBase.advance", "KnowledgeBase.add_module", "Live.take"),
    *("Live.submit", "Live.step", "Live.settle", "Live.settle_all", "Live.__enter__", "Live.__exit__", "Live.snapshot"),
}

# Those after which a knowledge base with a journal takes no more updates.
CLOSING = "KnowledgeBase.close"

# Those after which time matters.
TIMED = "KnowledgeBase.advance"


def different_operations() -> list[str]:
    """One name for each operation, since some call several methods at once."""
    first: dict[Operation, str] = {}
    for name, function in OPERATIONS.items():
        first.setdefault(function, name)
    return list(first.values())


def operation(*names: str) -> Callable[[Operation], Operation]:
    def note(function: Operation) -> Operation:
        OPERATIONS.update(dict.fromkeys(names, function))
        return function

    return note


def _mine(thread: int) -> str:
    """The lane that a thread moves with updates."""
    return UPDATED[thread]


def _extra(thread: int) -> str:
    return "extra_{0}(X, Y) :- edge_{0}(X, Y).".format(_mine(thread))


# Knowledge bases


@operation("KnowledgeBase.update")
def _update(scene: Scene, thread: int) -> None:
    scene.whole_change(scene.advance(_mine(thread)))


@operation("KnowledgeBase.add_rules")
def _add_rules(scene: Scene, thread: int) -> None:
    scene.whole_change(scene.kb.add_rules(_extra(thread)))


@operation("KnowledgeBase.remove_rules")
def _remove_rules(scene: Scene, thread: int) -> None:
    scene.whole_change(scene.kb.remove_rules(_extra(thread)))


@operation("KnowledgeBase.load")
def _load(scene: Scene, thread: int) -> None:
    texts = [f"loaded {number} " * 50 for number in range(20)]
    change = scene.kb.load([FactBatch(f"loaded_{_mine(thread)}", [pa.array(texts)], "a test", 1)])
    assert all(set(rows) == {(text,) for text in texts} for rows in change.added.values())


@operation("KnowledgeBase.export")
def _export(scene: Scene, thread: int) -> None:
    folder = scene.folder / f"exported-{thread}"
    scene.kb.export(folder, "jsonl", ["doc_a", "path_a"])
    read = KnowledgeBase()
    read.load(folder)
    for predicate in ("doc_a", "path_a"):
        scene.whole(predicate, read.facts(predicate))


@operation("KnowledgeBase.stream")
def _stream(scene: Scene, thread: int) -> None:
    lane = scene.lanes[_mine(thread)]
    with lane.lock:
        steps = [scene.sizes.step(lane.name, lane.version + number) for number in range(2)]
        for change in scene.kb.stream(steps):
            lane.version += 1
            scene.change = change
            scene.whole_change(change)


@operation("KnowledgeBase.live")
def _live(scene: Scene, thread: int) -> None:
    lane = scene.lanes[_mine(thread)]
    with lane.lock:
        live = scene.kb.live()
        live.submit(**scene.sizes.step(lane.name, lane.version))
        scene.whole_change(live.settle())
        lane.version += 1


@operation("KnowledgeBase.register")
def _register(scene: Scene, thread: int) -> None:
    scene.kb.register("doubled", lambda text: text + text)
    rows = scene.kb.query(f"edge_{_mine(thread)}(X, Y), D = doubled(X)").rows()
    assert all(row[2] == row[0] + row[0] for row in rows)
    assert len(rows) == scene.sizes.nodes - 1


@operation("KnowledgeBase.register_lattice")
def _register_lattice(scene: Scene, thread: int) -> None:
    scene.kb.register_lattice("later", max)
    rows = scene.kb.query(f"edge_{_mine(thread)}(X, Y), D = later(X, Y)").rows()
    assert all(row[2] == max(row[:2]) for row in rows)
    assert len(rows) == scene.sizes.nodes - 1


@operation("KnowledgeBase.add_module")
def _add_module(scene: Scene, thread: int) -> None:
    scene.kb.add_module(LiteralModule(f"turned_{thread}(X, Y) :- turned_{thread}(Y, X)."))
    scene.whole("path_a", scene.kb.query("path_a(X, Y)").rows())


@operation("KnowledgeBase.advance", "KnowledgeBase.time")
def _advance(scene: Scene, thread: int) -> None:
    change = scene.kb.advance(thread)
    assert (change.added, change.removed) == ({}, {})
    assert scene.kb.time is not None


@operation("KnowledgeBase.query")
def _query(scene: Scene, thread: int) -> None:
    scene.whole("path_a", scene.kb.query("path_a(X, Y)").rows())
    scene.whole("doc_b", scene.kb.query("doc_b(X, T)").rows())
    assert scene.kb.query("path_a($first, X)", first="nowhere") == []


@operation("KnowledgeBase.facts")
def _facts(scene: Scene, thread: int) -> None:
    for predicate in scene.views:
        scene.whole(predicate, scene.kb.facts(predicate))


@operation("KnowledgeBase.explicit")
def _explicit(scene: Scene, thread: int) -> None:
    scene.whole("doc_a", scene.kb.explicit("doc_a"))
    scene.whole("edge_b", scene.kb.explicit("edge_b"))
    assert not list(scene.kb.explicit("path_a"))


@operation("KnowledgeBase.predicates")
def _predicates(scene: Scene, thread: int) -> None:
    assert set(scene.views) <= set(scene.kb.predicates)


@operation("KnowledgeBase.explicit_predicates")
def _explicit_predicates(scene: Scene, thread: int) -> None:
    wanted = {f"{kind}_{lane}" for kind in ("doc", "edge") for lane in scene.lanes}
    assert set(scene.kb.explicit_predicates) - {"item", "loaded_a", "loaded_b"} == wanted


@operation("KnowledgeBase.rules")
def _rules(scene: Scene, thread: int) -> None:
    rules = [rule for rule in scene.kb.rules if not rule.startswith("extra")]
    assert len(rules) == RULES.count(":-")
    assert all(rule.facts >= 0 for rule in rules)


@operation("KnowledgeBase.rule_statistics")
def _rule_statistics(scene: Scene, thread: int) -> None:
    assert len(scene.kb.rule_statistics()) >= RULES.count(":-")


@operation("KnowledgeBase.explain", "KnowledgeBase.proofs")
def _explain(scene: Scene, thread: int) -> None:
    first, last = (scene.sizes.node("a", scene.lanes["a"].version, place) for place in (0, 2))
    proof = scene.kb.explain(f'path_a("{first}", "{last}")')
    found = list(scene.kb.proofs(f'path_a("{first}", "{last}")', limit=2))
    for item in (*found, *([proof] if proof is not None else [])):
        assert [step.rule is None for step in item.steps()].count(True) == 2


@operation("KnowledgeBase.why_not")
def _why_not(scene: Scene, thread: int) -> None:
    assert "does not hold" in scene.kb.why_not("path_a(nowhere, nowhere)")


@operation("KnowledgeBase.what_if")
def _what_if(scene: Scene, thread: int) -> None:
    change = scene.kb.what_if(add={"tried": [(thread,)]}, add_rules="tried_too(X) :- tried(X).")
    assert change.added == {"tried": {(thread,)}, "tried_too": {(thread,)}}
    assert "tried" not in scene.kb.predicates


@operation("KnowledgeBase.graph")
def _graph(scene: Scene, thread: int) -> None:
    assert len(scene.kb.graph.hyper_nodes) >= RULES.count(":-") // 2


@operation("KnowledgeBase.save")
def _save(scene: Scene, thread: int) -> None:
    folder = scene.folder / ("own" if scene.journal else f"saved-{thread}")
    scene.kb.save(folder)
    if not scene.journal:
        _whole_base(scene, KnowledgeBase.open(folder))


@operation("KnowledgeBase.refresh")
def _refresh(scene: Scene, thread: int) -> None:
    beside = KnowledgeBase.open(scene.folder / "own", read_only=True)
    _whole_base(scene, beside)
    beside.refresh()
    _whole_base(scene, beside)
    scene.kb.refresh()  # It follows nobody, and is refused.


@operation("KnowledgeBase.open")
def _open(scene: Scene, thread: int) -> None:
    _whole_base(scene, KnowledgeBase.open(scene.folder / "own"))


def _whole_base(scene: Scene, kb: KnowledgeBase) -> None:
    for predicate in scene.views:
        scene.whole(predicate, kb.facts(predicate))


@operation("KnowledgeBase.close", "KnowledgeBase.__enter__", "KnowledgeBase.__exit__")
def _close(scene: Scene, thread: int) -> None:
    scene.closed = scene.journal
    with scene.kb as kb:
        assert kb is scene.kb
    scene.kb.close()


@operation("KnowledgeBase.__len__")
def _len(scene: Scene, thread: int) -> None:
    least = sum(map(scene.sizes.count, scene.views))
    assert len(scene.kb) >= least


@operation("KnowledgeBase.__contains__")
def _contains(scene: Scene, thread: int) -> None:
    assert "edge_a(nowhere, nowhere)" not in scene.kb
    assert ("edge_a", "nowhere", "nowhere") not in scene.kb
    assert f"pairs_a({scene.sizes.count('path_a')})" in scene.kb


@operation("KnowledgeBase.__reduce__")
def _reduce(scene: Scene, thread: int) -> None:
    scene.kb.__reduce__()


@operation(
    *(f"KnowledgeBase.{name}" for name in ("prefixes", "errors", "constants", "commit_info", "missing_functions")),
    "KnowledgeBase.declared",
    *(f"KnowledgeBase.{name}" for name in ("violations", "declarations", "describe", "expiries")),
)
def _small(scene: Scene, thread: int) -> None:
    kb = scene.kb
    assert (kb.prefixes, kb.errors, kb.commit_info, kb.missing_functions, kb.declared) == ({}, 0, {}, [], {})
    assert kb.constants > 0
    assert (kb.violations, list(kb.declarations), list(kb.expiries)) == ([], [], [])
    assert "edge_a" in str(kb.describe("edge_a"))


def _add_shown(kind: str, things: Callable[[Scene], Iterable[Any]]) -> None:
    """Whatever terminals and notebooks show."""
    for name in ("__repr__", "__rich__", "_repr_html_"):

        def show(scene: Scene, thread: int, name: str = name) -> None:
            assert all(getattr(thing, name)() for thing in things(scene))

        operation(f"{kind}.{name}")(show)


_add_shown("KnowledgeBase", lambda scene: [scene.kb])
_add_shown("Facts", lambda scene: [scene.views[name] for name in ("path_a", "doc_b", "far_a")])
_add_shown("Answers", lambda scene: [scene.answers])
_add_shown("FactSet", lambda scene: changed(scene).values())
_add_shown("Change", lambda scene: [scene.change])


# Tables


def _columns(name: str, things: Callable[[Scene], Iterable[tuple[str, Any]]]) -> Operation:
    def read(scene: Scene, thread: int) -> None:
        for predicate, table in things(scene):
            frame = getattr(table, name)()
            match name:
                case "to_arrow":
                    rows = zip(*(column.to_pylist() for column in frame.columns), strict=True)
                case "to_pandas":
                    rows = frame.itertuples(index=False, name=None)
                case "to_dicts":
                    rows = (tuple(row.values()) for row in frame)
                case _:
                    rows = iter(frame.rows())
            scene.whole(predicate, ((row[0],) if predicate.startswith("pairs") else row[:2] for row in rows))

    return read


def held(scene: Scene) -> Iterator[tuple[str, Any]]:
    """Facts with long texts, of a closure, and above one."""
    return ((name, scene.views[name]) for name in ("doc_a", "path_b", "far_a", "reach_b"))


def changed(scene: Scene) -> dict[str, FactSet]:
    """What the last change removed or added."""
    change = scene.change
    return {name: rows for name, rows in {**change.removed, **change.added}.items() if "_" in name}


@operation("Facts.keys", "FactSet.keys", "Answers.keys")
def _no_keys(scene: Scene, thread: int) -> None:
    for table in (scene.views["path_a"], scene.answers, *changed(scene).values()):
        try:
            table.keys()
        except TypeError:
            continue
        raise AssertionError("rows are no mapping")


for _name in ("to_arrow", "to_pandas", "to_polars", "to_dicts"):
    operation(f"Facts.{_name}")(_columns(_name, held))
    operation(f"FactSet.{_name}")(_columns(_name, lambda scene: changed(scene).items()))


@operation("Facts.__iter__")
def _iterate(scene: Scene, thread: int) -> None:
    for predicate, view in held(scene):
        scene.whole(predicate, view)


@operation("Facts.__len__")
def _count(scene: Scene, thread: int) -> None:
    for predicate, view in scene.views.items():
        assert len(view) == scene.sizes.count(predicate), predicate


@operation("Facts.__contains__")
def _has(scene: Scene, thread: int) -> None:
    assert ("nowhere", "nowhere") not in scene.views["path_a"]
    assert (scene.sizes.count("reach_a"),) in scene.views["pairs_a"]


@operation(*(f"Facts.__{name}__" for name in ("eq", "le", "lt", "ge", "gt")), "Facts.isdisjoint")
def _view_compared(scene: Scene, thread: int) -> None:
    none: set[object] = set()
    for _, view in held(scene):
        comparisons = (view == none, view <= none, view < none, view >= none, view > none, view.isdisjoint(none))
        assert comparisons == (False, False, False, True, True, True)


@operation(*(f"Facts.__{side}{name}__" for side in ("", "r") for name in ("and", "or", "sub", "xor")))
def _view_combined(scene: Scene, thread: int) -> None:
    none: set[object] = set()
    for predicate, view in held(scene):
        assert view & none == none & view == none - view == none
        for combined in (view | none, none | view, view - none):
            scene.whole(predicate, combined)
        assert view ^ none != none
        assert none ^ view != none


# Answers: they stay as they were, whatever happens afterwards.


def _whole_answers(scene: Scene, rows: Iterable[tuple[Any, ...]]) -> None:
    found = list(rows)
    texts = dict(scene.sizes.rows("doc_a", 0))
    assert len(found) == scene.sizes.count("path_a")
    assert {(x, y) for x, _, y in found} == scene.sizes.rows("path_a", 0)
    assert all(texts[x] == text for x, text, _ in found)


@operation("Answers.rows")
def _answer_rows(scene: Scene, thread: int) -> None:
    _whole_answers(scene, scene.answers.rows())


@operation("Answers.__iter__")
def _answer_iterate(scene: Scene, thread: int) -> None:
    _whole_answers(scene, (tuple(answer.values()) for answer in scene.answers))


@operation("Answers.__reversed__")
def _answer_reversed(scene: Scene, thread: int) -> None:
    _whole_answers(scene, (tuple(answer.values()) for answer in reversed(scene.answers)))


@operation("Answers.to_arrow")
def _answer_arrow(scene: Scene, thread: int) -> None:
    _whole_answers(scene, zip(*(column.to_pylist() for column in scene.answers.to_arrow().columns), strict=True))


@operation("Answers.to_pandas")
def _answer_pandas(scene: Scene, thread: int) -> None:
    _whole_answers(scene, scene.answers.to_pandas().itertuples(index=False, name=None))


@operation("Answers.to_dicts", "Answers.__eq__", "Answers.errors")
def _answer_dicts(scene: Scene, thread: int) -> None:
    rows = scene.answers.to_dicts()
    _whole_answers(scene, (tuple(row.values()) for row in rows))
    assert scene.answers == rows
    assert scene.answers.errors == 0


@operation("Answers.to_polars")
def _answer_polars(scene: Scene, thread: int) -> None:
    _whole_answers(scene, scene.answers.to_polars().rows())


@operation(*(f"Answers.{name}" for name in ("__getitem__", "__len__", "__contains__", "count", "index", "variables")))
def _answer_places(scene: Scene, thread: int) -> None:
    answers = scene.answers
    assert answers.variables == ("X", "T", "Y")
    assert len(answers) == scene.sizes.count("path_a")
    first = answers[0]
    assert first["T"] == dict(scene.sizes.rows("doc_a", 0))[first["X"]]
    assert (first in answers, answers.count(first), answers.index(first)) == (True, 1, 0)
    _whole_answers(scene, [*answers[:5].rows(), *answers[5:].rows()])


# Changes


@operation("FactSet.__iter__", "FactSet.__len__", "FactSet.__contains__")
def _change_rows(scene: Scene, thread: int) -> None:
    for predicate, rows in changed(scene).items():
        assert len(rows) == scene.sizes.count(predicate), f"len of {predicate}"
        found = list(rows)
        scene.whole(predicate, found)
        assert found[0] in rows


@operation(*(f"FactSet.__{name}__" for name in ("eq", "le", "lt", "ge", "gt")), "FactSet.isdisjoint")
def _change_compared(scene: Scene, thread: int) -> None:
    for rows in changed(scene).values():
        same = set(rows)
        comparisons = (rows == same, rows <= same, rows < same, rows >= same, rows > same, rows.isdisjoint(same))
        assert comparisons == (True, True, False, True, False, False)


@operation(*(f"FactSet.__{side}{name}__" for side in ("", "r") for name in ("and", "or", "sub", "xor")))
def _change_combined(scene: Scene, thread: int) -> None:
    for rows in changed(scene).values():
        same = set(rows)
        assert rows & same == same & rows == rows | same == same | rows == same
        assert rows - same == same - rows == rows ^ same == same ^ rows == set()


_READ = ("added", "removed", "work", "errors", "trace", "to_dict", "__bool__", "__str__", "__eq__")


@operation(*(f"Change.{name}" for name in _READ))
def _change(scene: Scene, thread: int) -> None:
    change = scene.change
    scene.whole_change(change)
    assert change
    assert change == change
    assert {name: len(rows) for name, rows in change.to_dict()["added"].items()} == {
        name: len(rows) for name, rows in change.added.items()
    }
    assert change.errors == 0
    assert "path_" in str(change)
    assert all(count >= 0 for count in change.work.values())
    assert change.trace is None


@operation("Change.explain")
def _explain_change(scene: Scene, thread: int) -> None:
    change = scene.change
    name, rows = next((name, rows) for name, rows in change.added.items() if name.startswith("path_"))
    first, last = next(iter(rows))
    with suppress(TidelogError):  # Somebody may have updated the knowledge base since.
        found = change.explain(f'{name}("{first}", "{last}")')
        assert found is not None
        assert found.came


# Streams


@operation("Stream.__next__", "Stream.__iter__")
def _shared_stream(scene: Scene, thread: int) -> None:
    for change in scene.stream:
        assert len(change.added["item"]) == 1
        return


@operation("AsyncStream.__anext__", "AsyncStream.__aiter__")
def _async_stream(scene: Scene, thread: int) -> None:
    lane = scene.lanes[_mine(thread)]

    async def steps() -> AsyncIterator[dict[str, Any]]:
        yield scene.sizes.step(lane.name, lane.version)

    async def run() -> None:
        async for change in scene.kb.stream(steps(), marking=False):
            lane.version += 1
            scene.whole_change(change)

    with lane.lock:
        asyncio.run(run())


# Live


def _submitted(scene: Scene, thread: int) -> None:
    scene.submit(SUBMITTED[thread], scene.live)


operation("Live.submit")(_submitted)


@operation("Live.step")
def _step(scene: Scene, thread: int) -> None:
    _submitted(scene, thread)
    assert scene.live.step(3) >= 0


@operation("Live.settle")
def _settle(scene: Scene, thread: int) -> None:
    _submitted(scene, thread)
    change = scene.live.settle()
    assert all(len(set(rows)) == len(rows) for rows in (*change.added.values(), *change.removed.values()))


@operation("Live.settle_all")
def _settle_all(scene: Scene, thread: int) -> None:
    _submitted(scene, thread)
    scene.live.settle_all()


@operation("Live.pending", "Live.settled", "Live.is_settled", "Live.has_room", "Live.refuse_if_full")
def _pending(scene: Scene, thread: int) -> None:
    settled = scene.live.settled
    assert scene.live.pending >= 0
    assert scene.live.settled >= settled
    assert scene.live.is_settled(settled)
    if not scene.live.has_room():
        scene.live.refuse_if_full()


@operation("Live.take", "Live.take_change")
def _take(scene: Scene, thread: int) -> None:
    lane = scene.lanes[SUBMITTED[thread]]
    with lane.lock:
        scene.live.take(scene.sizes.step(lane.name, lane.version))
        lane.version += 1
    scene.live.take_change()


@operation("KnowledgeBase.subscribe", "Live.subscribe", "KnowledgeBase.version", "Answers.read_later")
def _subscribe(scene: Scene, thread: int) -> None:
    told: list[Any] = []
    for subscribe in (scene.kb.subscribe, scene.live.subscribe):
        with subscribe("doc_a(X, T)", told.append):
            assert scene.kb.version >= told[-1].update
            assert told[-1].first
    scene.whole("doc_a", (row for row in told[0].added.rows()))


@operation("KnowledgeBase.live_async")
def _live_async(scene: Scene, thread: int) -> None:
    lane = scene.lanes[_mine(thread)]

    async def run() -> None:
        async with scene.kb.live_async() as live:
            await live.update(**scene.sizes.step(lane.name, lane.version))
            lane.version += 1

    with lane.lock:
        asyncio.run(run())


@operation("Live.snapshot")
def _snapshot(scene: Scene, thread: int) -> None:
    _whole_snapshot(scene, scene.live.snapshot())


@operation("Live.__enter__", "Live.__exit__", "Live.leave")
def _live_context(scene: Scene, thread: int) -> None:
    with scene.live as live:
        scene.submit(SUBMITTED[thread], live)


# Snapshots: they stay as they were.


def _whole_snapshot(scene: Scene, snapshot: Snapshot) -> None:
    for predicate in scene.views:
        rows = snapshot.facts(predicate)
        assert len(rows) == scene.sizes.count(predicate)
        scene.whole(predicate, rows)


@operation("Snapshot.facts", "Snapshot.predicates", "Snapshot.__len__", "Snapshot.updates", "Snapshot.includes")
def _snapshot_facts(scene: Scene, thread: int) -> None:
    snapshot = scene.snapshot
    _whole_snapshot(scene, snapshot)
    assert snapshot.updates == 0
    assert not snapshot.includes(1)
    assert snapshot.predicates == sorted(scene.views)
    assert len(snapshot) == sum(map(scene.sizes.count, scene.views))


@operation("Snapshot.query", "Snapshot.__contains__")
def _snapshot_query(scene: Scene, thread: int) -> None:
    rows = scene.snapshot.query("doc_a(X, T)").rows()
    assert set(rows) == scene.sizes.rows("doc_a", scene.snapshot_versions["a"])
    assert f"pairs_b({scene.sizes.count('path_b')})" in scene.snapshot
