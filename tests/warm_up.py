"""Compile every kernel once, into the cache that all test workers read: `python tests/warm_up.py`."""

from __future__ import annotations

from tidelog import KnowledgeBase
from tidelog.engine.algorithms.names import MAINTENANCE

PROGRAM = """
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
linked(X, Y) :- edge(X, Y).
linked(X, Y) :- linked(Y, X).
linked(X, Z) :- linked(X, Y), linked(Y, Z).
even(Y) :- start(Y).
even(Z) :- even(X), edge(X, Y), edge(Y, Z).
degree(X, count(Y)) :- edge(X, Y).
busy(X, S) :- degree(X, N), N > 1, not start(X), S = concat(X, "!").
joined(X) :- path(X, Y), linked(Y, X), even(X).
"""
EDGES = [("a", "b"), ("b", "c"), ("c", "a"), ("b", "d"), ("d", "e")]


def exercise(maintenance: str, modules: bool) -> None:
    """Facts come and go, rules come and go, facts are asked for and proved."""
    kb = KnowledgeBase(PROGRAM, maintenance=maintenance, modules=modules)
    kb.update(add={"edge": EDGES, "start": [("a",)]})
    kb.update(delete={"edge": EDGES[:2]})
    kb.update(add={"edge": EDGES[:1]}, add_rules="far(Y) :- path(a, Y), not edge(a, Y).")
    kb.update(remove_rules="even(Z) :- even(X), edge(X, Y), edge(Y, Z).")
    list(kb.stream([{"delete": {"edge": [edge]}} for edge in EDGES]))
    kb.update(add={"edge": EDGES})
    kb.query("path(a, X), X != b").rows()
    kb.explain("path(a, c)")
    kb.why_not("path(e, a)")
    kb.facts("path").to_arrow()


if __name__ == "__main__":
    print("Compiling the kernels, once for this version of their sources …", flush=True)
    for algorithm in MAINTENANCE:
        for with_modules in (True, False):
            exercise(algorithm, with_modules)
