"""A process in which two threads use one knowledge base: every operation of the table against every other.

    python crowd_worker.py SHARE SHARES SECONDS SEED

does its share of the pairs, each a few times, or keeps running pairs in random order for that many seconds. It prints
each pair before it runs, so that a crash can be traced, and ends with a line for each thing that went wrong. Freed
memory is overwritten or gone (see `ENVIRONMENT`), so that whoever still reads it is caught.
"""

from __future__ import annotations

import faulthandler
import itertools
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path

from crowd import CLOSING, OPERATIONS, TIMED, WRITING, different_operations
from crowd_scene import Scene, Sizes, save_first_versions
from tidelog import TidelogError

# The C library overwrites freed memory, and returns large blocks to the system at once.
ENVIRONMENT = {"MALLOC_PERTURB_": "165", "MALLOC_MMAP_THRESHOLD_": "65536"}

# Seconds until two threads that do not finish count as dead, however slow the machine is.
PATIENCE = 120

# Pairs that share a scene, whose dictionary grows with every text.
A_SCENE = 25

JOURNALLED = {
    *("KnowledgeBase.update", "KnowledgeBase.save", "KnowledgeBase.open", "KnowledgeBase.stream", "KnowledgeBase.live"),
    *("KnowledgeBase.add_rules", "KnowledgeBase.load", "Live.settle"),
}

# Operations during which others are repeated many times.
SLOW = {"KnowledgeBase.save", "KnowledgeBase.open", "Live.snapshot"}

SMALL = Sizes(10, 200)

Pair = tuple[str, str]


def run(scene: Scene, pair: Pair, rounds: int) -> list[str]:
    """Let two threads repeat an operation each until both have done it often enough. Returns what went wrong."""
    done = [0, 0]
    problems: list[str] = []
    together = threading.Barrier(2)

    def work(thread: int) -> None:
        together.wait()
        while min(done) < rounds and not problems:
            try:
                OPERATIONS[pair[thread]](scene, thread)
            except TidelogError:
                pass  # refused, clearly
            except BaseException:
                problems.append(f"{pair[0]} × {pair[1]}, in {pair[thread]}:\n{traceback.format_exc()}")
            done[thread] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


class Stage:
    """Where scenes are set up, from what is saved once for each size."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._scenes = 0

    def scene(self, sizes: Sizes, journal: bool) -> Scene:
        saved = self._folder / f"saved {sizes}"
        if not saved.exists():
            save_first_versions(saved, sizes)
        self._scenes += 1
        return Scene(self._folder / f"scene {self._scenes}", saved, sizes, journal)

    def run(self, pairs: list[Pair], journal: bool, sizes: Sizes, rounds: int) -> list[str]:
        """Run pairs on one scene, and check it once all is quiet."""
        scene = self.scene(sizes, journal)
        for pair in pairs:
            print(f"{pair[0]} × {pair[1]}", flush=True)
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            if problems := run(scene, pair, 1 if SLOW.intersection(pair) else rounds):
                return problems
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        try:
            scene.check()
        except Exception:
            return [f"after {' and '.join(' × '.join(pair) for pair in pairs)}:\n{traceback.format_exc()}"]
        shutil.rmtree(scene.folder)
        return []


def _usual(pairs: list[Pair]) -> list[Pair]:
    """All pairs that write, a quarter of those of which one writes, where that is quick, and some of the others; a soak
    does all.
    """
    dear = SLOW | {CLOSING}
    both = [pair for pair in pairs if WRITING.issuperset(pair)]
    one = [pair for pair in pairs if pair not in both and not WRITING.isdisjoint(pair) and dear.isdisjoint(pair)]
    others = [pair for pair in pairs if pair not in both and pair not in one]
    return [*both, *one[::4], *others[::40]]


def groups(pairs: list[Pair]) -> list[tuple[list[Pair], bool]]:
    """Pairs that share a scene, and whether it has a journal. Those that close theirs have one each. Where time
    matters, nothing is worked off together, so those that let it pass have scenes of their own.
    """
    closing = [pair for pair in pairs if CLOSING in pair]
    timed = [pair for pair in pairs if TIMED in pair and CLOSING not in pair]
    others = [pair for pair in pairs if pair not in closing and pair not in timed]
    writing = [pair for pair in others if JOURNALLED.issuperset(pair)]
    found = [([pair], True) for pair in closing]
    for chosen, journal in ((writing, True), (timed, False), (others, False)):
        found += [(chosen[first : first + A_SCENE], journal) for first in range(0, len(chosen), A_SCENE)]
    return found


def main(share: int, shares: int, seconds: float, seed: int) -> int:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    sys.setswitchinterval(1e-5)
    _make_changes_late()
    os.fsync = lambda _: None  # Nothing here is about a loss of power, and disks are slow.
    dice = random.Random(seed)
    pairs = list(itertools.combinations_with_replacement(different_operations(), 2))
    dice.shuffle(pairs)
    problems: list[str] = []
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        for group, journal in groups(_usual(pairs)[share::shares]) if not seconds else ():
            problems += stage.run(group, journal, SMALL, 2)
        while time.monotonic() < end:
            sizes = dice.choice((SMALL, Sizes(30, 2000), Sizes(150, 20)))
            group, journal = dice.choice(groups(dice.sample(pairs, 40)))
            problems += stage.run(group, journal, sizes, dice.choice((2, 5, 20)))
    print("\n".join(["end", *problems]), flush=True)
    return 1 if problems else 0


def _make_changes_late() -> None:
    """Make even small changes wait until somebody lists them."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tidelog") and hasattr(module, "LAZY_FROM"):
            module.LAZY_FROM = 20


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
