"""The order in which proofs are written: what facts rest on comes before them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Node = TypeVar("Node")


def premises_first(goals: Iterable[Node], premises: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """The goals and all that they rest on, each once, behind its own premises."""
    done: dict[Node, None] = {}
    waiting = [*goals][::-1]
    while waiting:
        missing = [premise for premise in premises(waiting[-1]) if premise not in done]
        if missing:
            waiting += missing
        else:
            done[waiting.pop()] = None
    return list(done)
