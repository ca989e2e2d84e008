"""Operators, functions and comparisons of the engine, on all pairs of values at the edges, against the oracle."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from naive import constant
from naive_functions import Failure, call, compare
from tidelog import IRI, KnowledgeBase, Literal
from tidelog.language.syntax import Constant
from tidelog.values import Value

EDGES: tuple[Value, ...] = (
    *(0, 1, -1, 2, 3, -7, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 3037000500, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1),
    *(0.0, 0.5, -0.5, 1.0, -1.5, 2.5, 1e-300, 5e-324, 2.0**31, 2.0**53, 2.0**63, -(2.0**63), -(2.0**63) - 2048.0),
    *(2.0**63 - 1024.0, 1e18, 1e19, -1e19, 1e300, -1e300, 1.7976931348623157e308, math.inf, -math.inf, math.nan),
    *("", "a", "1", "-7", "1e3", "é", True, False, IRI("a"), Literal("a", language="en")),
)
OPERATORS = ("+", "-", "*", "/", "%", "min2", "max2", "div", "mod", "band", "bor", "bxor", "shl", "shr", "**")
INFIX = frozenset(OPERATORS) - {"min2", "max2"}
FUNCTIONS = ("neg", "abs", "floor", "ceil", "round", "sqrt", "lower", "upper", "length", "str", "int", "float")


def written(name: str, *arguments: str) -> str:
    """A call as the language writes it."""
    if name == "neg":
        return f"-{arguments[0]}"
    return f" {name} ".join(arguments) if name in INFIX else f"{name}({', '.join(arguments)})"


def values_of(rows: Iterator[tuple[Value, ...]], function: Callable[..., Value]) -> tuple[set[object], int]:
    """Arguments and result of each call that has one, and how many have none."""
    found: set[object] = set()
    failed = 0
    for row in rows:
        try:
            found.add((*map(constant, row), constant(function(*row))))
        except Failure:
            failed += 1
    return found, failed


def answers(kb: KnowledgeBase, query: str) -> set[object]:
    return {tuple(map(constant, row)) for row in kb.query(query).rows()}


@pytest.fixture(scope="module")
def edges() -> KnowledgeBase:
    kb = KnowledgeBase()
    kb.update(add={"v": [(value,) for value in EDGES]})
    return kb


@pytest.fixture(scope="module")
def integers() -> list[int]:
    """Integers of all sizes, most of them close to powers of two."""
    choose = random.Random(53)
    sizes = [choose.randrange(64) for _ in range(2000)]
    made = [choose.choice((-1, 1)) * (choose.getrandbits(size) or 2**size) + choose.randrange(-2, 3) for size in sizes]
    return [number for number in made if number and -(2**63) <= number < 2**63][:1900]


@pytest.mark.filterwarnings("ignore::tidelog.errors.CrossProductWarning")
@pytest.mark.parametrize("name", [*OPERATORS, *FUNCTIONS])
def test_values_at_the_edges(edges: KnowledgeBase, name: str) -> None:
    names = ("X", "Y")[: 2 if name in OPERATORS else 1]
    before = edges.errors
    found = answers(edges, ", ".join([*(f"v({x})" for x in names), f"Z = {written(name, *names)}"]))
    expected, failed = values_of(product(EDGES, repeat=len(names)), lambda *row: call(name, row, {}))
    assert found == expected
    assert edges.errors - before == failed


@pytest.mark.filterwarnings("ignore::tidelog.errors.CrossProductWarning")
@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_comparisons_at_the_edges(edges: KnowledgeBase, operator: str) -> None:
    def holds(left: Value, right: Value) -> bool:
        return compare(operator, left, right)

    before = edges.errors
    found = answers(edges, f"v(X), v(Y), X {operator} Y")
    expected, failed = values_of(product(EDGES, repeat=2), holds)
    assert found == {row[:2] for row in expected if row[2] == Constant(True)}  # type: ignore[index]
    assert edges.errors - before == failed


def test_quotients_of_integers_are_rounded_once(integers: list[int]) -> None:
    """As Python divides integers. Converting them to floats first would round three times."""
    kb = KnowledgeBase()
    kb.update(add={"pair": [*zip(integers[::2], integers[1::2], strict=True)]})
    wrong = [(x, y, z) for x, y, z in kb.query("pair(X, Y), Z = X / Y").rows() if z != x / y]
    assert not wrong


def test_an_equation_of_a_variable_with_a_call_of_itself_is_a_test() -> None:
    kb = KnowledgeBase("""
        v(a). v("").
        p(Y) :- v(Y), X = concat(X, Y), X = Y.
        q(Y) :- v(Y), [X, Y] = X, X = Y.
    """)
    assert (list(kb.facts("p")), list(kb.facts("q"))) == ([("",)], [])
