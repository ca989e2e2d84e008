"""The running example of ZodiacEdge, and a rule dependency graph as plain sets."""

from __future__ import annotations

from tidelog.language import parse_program
from tidelog.language.syntax import Rule
from tidelog.program.graph import RuleGraph

FIGURE_1 = """
    p1(X, Y) :- p0(X, Y).
    p2(X, Z) :- p1(X, Y), p3(Y, Z).
    p3(X, Y) :- p4(X, Y).
    p4(X, Y) :- p2(X, Y).
    p5(X, Y) :- p6(Y, Z), not p2(X, Z).
    p6(X, Y) :- p5(X, Y).
    p7(X, Z) :- p3(X, Y), p5(Y, Z).
"""
RULE_8 = "p2(X, Z) :- p3(X, Y), p2(Y, Z)."
R1, R2, R3, R4, R5, R6, R7, R8 = range(1, 9)


def rules(text: str) -> tuple[Rule, ...]:
    return parse_program(text).rules


def partition(graph: RuleGraph) -> list[tuple[int, ...]]:
    return sorted(node.rules for node in graph.hyper_nodes)


def hyper_edges(graph: RuleGraph) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    positive, strict = graph.hyper_edges()
    return set(positive), set(strict)
