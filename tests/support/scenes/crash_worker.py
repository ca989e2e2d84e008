"""Kills a child process with `kill -9` at every step of a save or of journalled updates, and looks at what is left.

`test_storage_failures.py` runs it in a separate process, which is small and has no threads, so that it can fork. Each
crash is then a child process, without the time that a new Python takes. Prints how many crashes there were.
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from audit import audit, fingerprint
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.storage import snapshot_files

RULES = """
    path(X, Y) :- edge(X, Y).
    path(X, Z) :- edge(X, Y), path(Y, Z).
    degree(X, count(Y)) :- edge(X, Y).
    lonely(X) :- node(X), not path(X, _).
"""
UPDATES: list[dict[str, Any]] = [
    {"add": {"edge": [("a", "b"), ("b", "c")], "node": [("a",), ("z",)]}},
    {"add": {"edge": [("c", "a")]}, "delete": {"edge": [("a", "b")]}},
    {"add_rules": "@prefix ex: <http://example.org/> . ex:loop(X) :- path(X, X)."},
    {"add": {"edge": [("a", "b")], "node": [(1.5,), (True,)]}},
    {"delete": {"node": [("a",)]}, "remove_rules": "degree(X, count(Y)) :- edge(X, Y)."},
]

# Everything that touches the disk.
STEPS: list[tuple[Any, str]] = [
    (os, "fsync"),
    (os, "pwrite"),
    (os, "ftruncate"),
    (os, "close"),
    (pathlib.Path, "replace"),
    (pathlib.Path, "mkdir"),
    (pathlib.Path, "unlink"),
    (pathlib.Path, "rmdir"),
    (snapshot_files, "write_arrays"),
]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step: int) -> None:
    """Die before step number step / 2 of all that follow, or after it where `step` is odd; in the middle of a write."""
    counter = iter(range(10**9))

    def dying(function: Callable[..., Any], tears: bool) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            number = next(counter)
            if 2 * number == step:
                if tears:
                    file, data, at = arguments
                    function(file, data[: len(data) // 2], at)
                die()
            result = function(*arguments, **options)
            if 2 * number + 1 == step:
                die()
            return result

        return call

    for owner, name in STEPS:
        setattr(owner, name, dying(getattr(owner, name), tears=name == "pwrite"))


def run_child(work: Callable[[int], None]) -> tuple[bool, list[int]]:
    """Let a child work. Returns whether it died, and the numbers that it had written to its pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(writing)
            os._exit(0)
        except BaseException as problem:
            print("the child failed:", repr(problem), file=sys.stderr, flush=True)
            os._exit(3)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        acknowledged = list(pipe.read())
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit("a child failed")
    return os.WIFSIGNALED(status), acknowledged


def states() -> list[dict[str, Any]]:
    """The state after none, one, two, … of the updates."""
    kb = KnowledgeBase(RULES)
    found = [fingerprint(kb)]
    for update in UPDATES:
        kb.update(**update)
        found.append(fingerprint(kb))
    return found


def look(folder: Path) -> dict[str, Any]:
    """What a crash left, opened for writing as the next process would do."""
    with KnowledgeBase.open(folder, journal=True) as kb:
        audit(kb)
        kb.update(add={"probe": [(1,)]})
        kb.update(delete={"probe": [(1,)]})
        found = fingerprint(kb)
        del found["arities"]["probe"]
    return found


def crash_saves(folder: Path, expected: list[dict[str, Any]]) -> int:
    """A save over a saved state with a journal: the old or the new state, and no litter that stays."""
    step = died = 0
    while True:
        home = folder / f"save-{step}"
        KnowledgeBase(RULES).save(home)
        with KnowledgeBase.open(home, journal=True) as kb:
            kb.update(**UPDATES[0])

        def save(writing: int, home: Path = home, step: int = step) -> None:
            kb = KnowledgeBase.open(home, journal=True)
            for update in UPDATES[1:3]:
                kb._knowledge.home, kept = (
                    None,
                    kb._knowledge.home,
                )  # in memory only: the save is what makes these durable
                kb.update(**update)
                kb._knowledge.home = kept
            die_at(step)
            kb.save(home)
            os.write(writing, b"\1")

        killed, acknowledged = run_child(save)
        assert look(home) in ([expected[3]] if acknowledged else [expected[1], expected[3]]), step
        KnowledgeBase.open(home).save(home)
        assert len(os.listdir(home)) == 4, os.listdir(home)
        shutil.rmtree(home)
        if not killed:
            return died
        died += 1
        step += 1


def journal_updates(home: Path, writing: int) -> None:
    kb = KnowledgeBase.open(home, journal=True)
    for number, update in enumerate(UPDATES, start=1):
        kb.update(**update)
        os.write(writing, bytes([number]))


def check_updates(home: Path, acknowledged: list[int], expected: list[dict[str, Any]]) -> None:
    last = max(acknowledged, default=0)
    assert look(home) in expected[last : last + 2], f"after update {last}"
    shutil.rmtree(home)


def crash_updates(folder: Path, expected: list[dict[str, Any]]) -> int:
    """Journalled updates: all that were acknowledged are there, and at most one more."""
    step = died = 0
    while True:
        home = folder / f"updates-{step}"
        KnowledgeBase(RULES).save(home)

        def work(writing: int, home: Path = home, step: int = step) -> None:
            die_at(step)
            journal_updates(home, writing)

        killed, acknowledged = run_child(work)
        check_updates(home, acknowledged, expected)
        if not killed:
            return died
        died += 1
        step += 1


def crash_at_random(folder: Path, expected: list[dict[str, Any]], rounds: int = 12) -> int:
    """The same with a killer that knows nothing of the steps."""
    dice = random.Random(5)
    died = 0
    for number in range(rounds):
        home = folder / f"random-{number}"
        KnowledgeBase(RULES).save(home)
        moment = dice.uniform(0.0, 0.15)

        def work(writing: int, home: Path = home, moment: float = moment) -> None:
            victim = os.getpid()
            if os.fork() == 0:
                time.sleep(moment)
                os.kill(victim, signal.SIGKILL)
                os._exit(0)
            journal_updates(home, writing)
            time.sleep(10)

        killed, acknowledged = run_child(work)
        died += killed
        check_updates(home, acknowledged, expected)
    return died


def main() -> None:
    expected = states()
    # A killed process loses nothing that it wrote, on any medium, so the fastest will do.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        counts = [crash(Path(folder), expected) for crash in (crash_saves, crash_updates, crash_at_random)]
    print(*counts)


if __name__ == "__main__":
    main()
