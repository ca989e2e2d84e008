"""Programs of many rules: the work grows with their number, not with its square.

It is counted in function calls and in executed lines of tidelog, which are the same on every machine.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tidelog
from tidelog.machine.jit import JIT_DISABLED

RULES: dict[str, Callable[[int, int], str]] = {
    "a ring": lambda number, before: f"p{number}(X) :- p{before}(X).",
    "a ring of pairs": lambda number, before: f"p{number}(X, Y) :- p{before}(X, Y).",
    "a ring that turns pairs round": lambda number, before: f"p{number}(X, Y) :- p{before}(Y, X).",
    "a chain": lambda number, before: f"p{number}(X) :- p{before}(X)." if number else "p0(X) :- q(X).",
}
PROGRAMS = {
    **{name: (rule, "") for name, rule in RULES.items()},
    "a closure of many twins": (RULES["a ring of pairs"], " p0(X, Z) :- p0(X, Y), p0(Y, Z)."),
    "a module of many twins": (
        RULES["a ring of pairs"],
        " p0(X, Z) :- p0(X, Y), p0(Y, Z). p0(X, Y) :- r(X, Y). r(X, Z) :- p1(X, Y), f(Y, Z).",
    ),
}
FEW, MANY = 50, 200
SOME = 5 * MANY  # how often any line may be executed before it counts


SOURCES = str(Path(tidelog.__file__).parent)


class Work:
    """How many functions are called within, and how often each line of tidelog is executed."""

    def __init__(self) -> None:
        self.calls = 0
        self.lines: Counter[tuple[str, int]] = Counter()

    def _call(self, _frame: FrameType, event: str, _argument: Any) -> None:
        self.calls += event in ("call", "c_call")

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        return self._step if frame.f_code.co_filename.startswith(SOURCES) else None

    def _step(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.lines[frame.f_code.co_filename, frame.f_lineno] += 1
        return self._step

    def __enter__(self) -> Work:
        sys.settrace(self._enter)
        sys.setprofile(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        sys.settrace(None)


def work_with(name: str, size: int) -> dict[str, Work]:
    """The work of each step for a program of `size` rules."""
    rule, more = PROGRAMS[name]
    text = " ".join(rule(number, (number - 1) % size) for number in range(size)) + more
    row = (1, 1) if "Y" in text else (1,)
    last = f"p{size - 1}({', '.join(map(str, row))})"
    kb = tidelog.KnowledgeBase()
    found: dict[str, Work] = {}

    def counted(step: str, function: Callable[[], Any]) -> Any:
        with Work() as found[step]:
            return function()

    counted("add rules", lambda: kb.update(add_rules=text))
    counted("add a fact", lambda: kb.update(add={"p0": [row]}))
    assert last in kb
    proof = counted("explain", lambda: kb.explain(last))
    assert proof is not None
    assert str(proof).count("\n") >= (size // 2 if name == "a chain" else 1)
    counted("delete it", lambda: kb.update(delete={"p0": [row]}))
    assert len(kb) == 0
    kb.update(add={"p0": [row]})
    one = rule(size // 2, size // 2 - 1)
    counted("remove a rule", lambda: kb.update(remove_rules=one))
    counted("add it again", lambda: kb.update(add_rules=one))
    counted("remove rules", lambda: kb.update(remove_rules=text))
    assert len(kb) == 1
    return found


@pytest.mark.skipif(JIT_DISABLED, reason="what kernels call would count")
@pytest.mark.parametrize("name", PROGRAMS)
def test_work_grows_with_the_number_of_rules(name: str) -> None:
    work_with(name, 3)  # so that work done only once is not counted
    few, many = work_with(name, FEW), work_with(name, MANY)
    for step, work in many.items():
        assert work.calls < 1.5 * (MANY // FEW) * few[step].calls, step
        for line, count in work.lines.items():
            assert count < 1.5 * (MANY // FEW) * few[step].lines[line] + SOME, (step, line)
