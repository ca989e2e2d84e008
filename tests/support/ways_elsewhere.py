"""Another process that opens what tests have saved: reads courses and folders, and says what is wrong with them.

It lives as long as somebody has courses for it, since it takes seconds to begin.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from typing import BinaryIO

from courses import FUNCTIONS, Course


class Elsewhere:
    """The other process, seen from here. It begins with the first course that it gets."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, course: Course, folder: Path) -> None:
        """Let it open the folder and check it; it also applies the last update of the course."""
        if self._process is None:
            self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((course, folder), self._process.stdin)
        self._process.stdin.flush()
        try:
            problem = pickle.load(self._process.stdout)
        except EOFError:
            code = self._process.wait()
            self._process = None
            raise AssertionError(f"the process that opened the folder ended with {code}") from None
        if problem is not None:
            raise AssertionError(f"in another process:\n{problem}")

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Look at one folder after the other."""
    while True:
        try:
            course, folder = pickle.load(requests)
        except EOFError:
            return
        try:
            examine(course, folder)
            problem = None
        except Exception:
            problem = traceback.format_exc()
        pickle.dump(problem, replies)
        replies.flush()


def examine(course: Course, folder: Path) -> None:
    from generate import Dice
    from moments import Onlooker
    from tidelog import KnowledgeBase
    from ways import Moment

    with KnowledgeBase.open(folder, journal=True, functions=FUNCTIONS) as kb:
        onlooker = Onlooker(course, Dice(0))
        onlooker.look(Moment(kb, course.end))
        onlooker.examine(kb, course.end)


if __name__ == "__main__":
    import faulthandler
    import warnings

    faulthandler.enable()
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # Printed text must not get mixed up with the replies.
    serve(sys.stdin.buffer, out)
