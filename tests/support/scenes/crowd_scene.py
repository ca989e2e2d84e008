"""A knowledge base whose every state describes itself, for threads to use at once.

Its facts are in *lanes*. A lane has versions: all constants of a version carry its number, an update replaces one
version by the next as a whole, and every version has facts of the same shape. So the first constant that a reader of a
lane's predicate sees says what the rest must be; mixed versions, missing rows and garbled texts show up. Texts are
long, so that the memory of texts moves, and paths are a closure.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from tidelog import Change, KnowledgeBase, TidelogError
from tidelog.facts.results import Answers
from tidelog.live.fully_dynamic import Live, Snapshot
from tidelog.values import Value

Rows = set[tuple[Value, ...]]

# Lanes that updates move, and lanes that are moved by what is submitted and worked on later.
UPDATED, SUBMITTED = ("a", "b"), ("c", "d")
LANES = UPDATED + SUBMITTED

# Updates that wait: a thread that submits without end must not be faster than the one that works.
BACKLOG = 20

PATHS = """
path_{0}(X, Y) :- edge_{0}(X, Y).
path_{0}(X, Z) :- path_{0}(X, Y), path_{0}(Y, Z).
"""
MORE = """
reach_{0}(X, Y) :- edge_{0}(X, Y).
reach_{0}(X, Z) :- edge_{0}(X, Y), reach_{0}(Y, Z).
far_{0}(X, Y) :- path_{0}(X, Y), not edge_{0}(X, Y).
pairs_{0}(count(X)) :- reach_{0}(X, Y).
"""
KINDS = ("doc", "edge", "path", "reach", "far", "pairs")
PREDICATES = (
    *(f"{kind}_{lane}" for kind in KINDS for lane in UPDATED),
    *(f"{kind}_{lane}" for kind in KINDS[:3] for lane in SUBMITTED),
)
RULES = "".join((PATHS if lane in SUBMITTED else PATHS + MORE).format(lane) for lane in LANES)


@dataclass(frozen=True)
class Sizes:
    """How many nodes a lane's chain has, and how often its label stands in the text of each."""

    nodes: int
    repeats: int

    def node(self, lane: str, version: int, place: int) -> str:
        return f"{lane} {version} {place}"

    @lru_cache(maxsize=256)  # noqa: B019 - sizes are few
    def rows(self, predicate: str, version: int) -> Rows:
        """The facts of a predicate of a lane."""
        kind, lane = predicate.split("_")
        nodes = [self.node(lane, version, place) for place in range(self.nodes)]
        match kind:
            case "doc":
                return {(node, f"{node} été " * self.repeats) for node in nodes}
            case "edge" | "extra":
                return set(pairwise(nodes))
            case "far":
                return {(x, y) for i, x in enumerate(nodes) for y in nodes[i + 2 :]}
            case "pairs":
                return {(self.nodes * (self.nodes - 1) // 2,)}
        return {(x, y) for i, x in enumerate(nodes) for y in nodes[i + 1 :]}

    def count(self, predicate: str) -> int:
        return len(self.rows(predicate, 0))

    def given(self, lane: str, version: int) -> dict[str, list[tuple[Value, ...]]]:
        return {f"{kind}_{lane}": sorted(self.rows(f"{kind}_{lane}", version)) for kind in ("doc", "edge")}

    def step(self, lane: str, version: int) -> dict[str, dict[str, list[tuple[Value, ...]]]]:
        """The update from one version to the next."""
        return {"delete": self.given(lane, version), "add": self.given(lane, version + 1)}


@dataclass
class Lane:
    """The current version of a lane; only one thread at a time moves it."""

    name: str
    version: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def save_first_versions(folder: Path, sizes: Sizes) -> None:
    """Save a knowledge base with the first version of each lane, for scenes to start from."""
    kb = KnowledgeBase(RULES)
    for lane in LANES:
        kb.update(add=sizes.given(lane, 0))
    kb.save(folder)


class Scene:
    """What two threads share: a knowledge base and one of each thing that it gives out."""

    def __init__(self, folder: Path, saved: Path, sizes: Sizes, journal: bool) -> None:
        self.folder = folder
        self.sizes = sizes
        self.journal = journal
        self.closed = False
        self.lanes = {name: Lane(name) for name in LANES}
        shutil.copytree(saved, folder / "own")
        self.kb = KnowledgeBase.open(folder / "own", journal=journal)
        self.views = {predicate: self.kb.facts(predicate) for predicate in PREDICATES}
        self.answers: Answers = self.kb.query("doc_a(X, T), path_a(X, Y)")
        self.change: Change = self.advance("a")
        self.live: Live = self.kb.live(backlog=BACKLOG)
        self.snapshot: Snapshot = self.live.snapshot()
        self.snapshot_versions = {name: lane.version for name, lane in self.lanes.items()}
        self.stream = self.kb.stream([{"add": {"item": [(number,)]}} for number in range(5000)])

    # Moving

    def advance(self, name: str) -> Change:
        """Move a lane by one update."""
        lane = self.lanes[name]
        with lane.lock:
            change = self.kb.update(**self.sizes.step(name, lane.version))
            lane.version += 1
            self.change = change
        return change

    def submit(self, name: str, live: Live) -> None:
        """Move a lane by an update that is worked on later."""
        lane = self.lanes[name]
        with lane.lock:
            live.submit(**self.sizes.step(name, lane.version))
            lane.version += 1

    # Looking

    def version_of(self, rows: Iterable[tuple[Value, ...]]) -> int:
        for row in rows:
            return int(str(row[0]).split()[1])
        raise AssertionError("nothing holds")

    def whole(self, predicate: str, rows: Iterable[tuple[Value, ...]]) -> None:
        """The rows are all that a predicate has in some version, and nothing else."""
        found = list(rows)
        kind = predicate.split("_")[0]
        version = 0 if kind == "pairs" else self.version_of(found)
        wanted = self.sizes.rows(predicate, version)
        assert len(found) == len(set(found)), f"{predicate}: a row twice"
        assert set(found) == wanted, f"{predicate}: {_difference(set(found), wanted)}"

    def whole_change(self, change: Change) -> None:
        """A change is that of one step of one lane, or of rules."""
        for facts in (change.added, change.removed):
            for name, rows in facts.items():
                if name.split("_")[0] in (*KINDS, "extra"):
                    assert len(rows) == self.sizes.count(name), f"len of a change of {name}"
                    self.whole(name, rows)

    def check(self) -> None:
        """Once all is quiet, every lane is where it was moved to, on disk as well."""
        try:
            self.live.settle()
        except TidelogError:
            # What was submitted is refused when the knowledge base has been closed.
            assert self.closed
        self._check(self.kb)
        self.kb.close()
        if self.journal:
            stored = KnowledgeBase.open(self.folder / "own")
            self._check(stored)
            for predicate in self.views:
                assert set(stored.facts(predicate)) == set(self.kb.facts(predicate)), f"{predicate} on the disk"

    def _check(self, kb: KnowledgeBase) -> None:
        for predicate in self.views:
            found = set(kb.facts(predicate))
            lane = predicate.split("_")[1]
            if self.closed and lane in SUBMITTED:
                self.whole(predicate, found)
                continue
            wanted = self.sizes.rows(predicate, self.lanes[lane].version)
            assert found == wanted, f"in the end, {predicate}: {_difference(found, wanted)}"
        items = sorted(kb.facts("item"))
        assert items == [(number,) for number in range(len(items))], "an update of a shared stream is lost"


def _difference(found: Rows, wanted: Rows) -> str:
    lacks, has = sorted(map(str, wanted - found)), sorted(map(str, found - wanted))
    return f"lacks {len(lacks)}, such as {lacks[:1]!s:.80}, and has {len(has)} too, such as {has[:1]!s:.80}"
