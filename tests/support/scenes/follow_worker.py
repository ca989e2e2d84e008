"""A reader beside a writer in another process, which updates, saves, closes, opens again, and is killed: at any moment
the reader sees exactly one committed state, never an older one than before, and its changes lead from each to the next.

`test_follower.py` runs it in a separate process, which has no threads, so that it can fork: the parent reads, children
write. Update number k is the same whoever makes it, and replaces the fact `version(k - 1)` by `version(k)`; so the
state that a reader sees names itself. Prints how many updates there were, how many kills, and how many refreshes that
brought something.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tidelog.api.knowledge_base import KnowledgeBase

RULES = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z)."
LOOP = "loop(X) :- path(X, X)."
LATE = "@prefix ex: <http://e.org/> . ex:far(X) :- path(n0, X), not edge(n0, X)."
NODES = 6

State = dict[str, set[tuple[Any, ...]]]


class Course:
    """The updates of a seed, and the state after each."""

    def __init__(self, seed: int, length: int) -> None:
        dice = random.Random(seed)
        edges: set[tuple[Any, ...]] = set()
        loop = False
        late = dice.randrange(1, length)
        self.updates: list[dict[str, Any]] = []
        self.states = [_state(0, edges, loop, False)]
        for number in range(1, length + 1):
            came = {(f"n{dice.randrange(NODES)}", f"n{dice.randrange(NODES)}") for _ in range(dice.randrange(3))}
            went = set(dice.sample(sorted(edges), min(len(edges), dice.randrange(3))))
            update: dict[str, Any] = {
                "delete": {"version": [(number - 1,)], "edge": went},
                "add": {"version": [(number,)], "edge": came},
                "commit": {"number": str(number)},
            }
            if dice.random() < 0.2:
                update["remove_rules" if loop else "add_rules"] = LOOP
                loop = not loop
            if number == late:
                update["add_rules"] = update.get("add_rules", "") + LATE
            edges = (edges - went) | came
            self.updates.append(update)
            self.states.append(_state(number, edges, loop, number >= late))


def _state(version: int, edges: set[tuple[Any, ...]], loop: bool, late: bool) -> State:
    paths = set(edges)
    while more := {(x, z) for x, y in paths for w, z in edges if w == y} - paths:
        paths |= more
    found: State = {"version": {(version,)}, "edge": set(edges), "path": paths}
    found["loop"] = {(x,) for x, y in paths if x == y} if loop else set()
    found["<http://e.org/far>"] = {(y,) for x, y in paths if x == "n0" and (x, y) not in edges} if late else set()
    return found


def write(folder: Path, course: Course, seed: int, last: int) -> None:
    """Make the updates that are missing, with saves and new beginnings in between; wait for the end after `last`."""
    dice = random.Random(seed)
    kb = KnowledgeBase.open(folder, journal=True)
    [(version,)] = kb.facts("version")
    for update in course.updates[version:last]:
        kb.update(**update)
        if dice.random() < 0.15:
            kb.save(folder)
        if dice.random() < 0.05:
            kb.close()
            kb = KnowledgeBase.open(folder, journal=True)
        time.sleep(dice.random() * 0.004)
    while last < len(course.updates):
        time.sleep(1)
    kb.close()


def writer(folder: Path, course: Course, seed: int, kill_at: list[int]) -> int:
    """A process that writes: to the end, or until a little after the version at which it will be killed."""
    last = kill_at[0] + 5 if kill_at else len(course.updates)
    child = os.fork()
    if child == 0:
        try:
            write(folder, course, seed, last)
            os._exit(0)
        except BaseException as problem:
            print("the writer failed:", repr(problem), file=sys.stderr, flush=True)
            os._exit(3)
    return child


def seen(kb: KnowledgeBase) -> tuple[int, State]:
    [(version,)] = kb.facts("version")
    return version, {name: set(kb.facts(name)) for name in ("version", "edge", "path", "loop", "<http://e.org/far>")}


def follow(folder: Path, seed: int, length: int, kills: int) -> tuple[int, int]:
    """Read until the last update is there; how many writers were killed, and how many refreshes brought something."""
    course = Course(seed, length)
    KnowledgeBase(RULES + "version(0).").save(folder)
    dice = random.Random(seed)
    kill_at = sorted(dice.sample(range(1, length - 5), kills))
    child, brought = writer(folder, course, dice.randrange(1 << 30), kill_at), 0
    kb = KnowledgeBase.open(folder, read_only=True)
    version, state = seen(kb)
    deadline = time.monotonic() + 120
    while version < length:
        assert time.monotonic() < deadline, f"stuck at {version}"
        if kill_at and version >= kill_at[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            kill_at.pop(0)
            child = writer(folder, course, dice.randrange(1 << 30), kill_at)
        if dice.random() < 0.05:  # somebody else comes and reads from the beginning
            fresh = seen(KnowledgeBase.open(folder, read_only=True))
            assert fresh == (fresh[0], course.states[fresh[0]])
            assert fresh[0] >= version
        change = kb.refresh()
        after, new = seen(kb)
        assert after >= version, f"back from {version} to {after}"
        assert new == course.states[after], f"at {after}: {new}, not {course.states[after]}"
        for name in new:
            shown = "ex:far" if name.startswith("<") and kb.prefixes else name
            assert set(change.added.get(shown, ())) == new[name] - state[name], (name, version, after)
            assert set(change.removed.get(shown, ())) == state[name] - new[name], (name, version, after)
        assert bool(change) == (after > version)
        assert kb.commit_info == ({"number": str(after)} if after else {})
        brought += after > version
        version, state = after, new
        time.sleep(dice.random() * 0.02)
    _, status = os.waitpid(child, 0)
    assert status == 0, "the writer failed"
    assert not kb.refresh()
    return kills - len(kill_at), brought


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        length = int(sys.argv[2])
        print(length, *follow(Path(place) / "home", int(sys.argv[1]), length, kills=int(sys.argv[3])))
