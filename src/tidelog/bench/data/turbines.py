"""The wind turbines of "ZodiacEdge" (§6.1, appendices A–C): data sets DS1 and DS2, rule sets RS1, RS2 and RS3.

The numbers of derived facts are determined by the data: 160,800 for RS1 with 400 turbines, 424,300 for RS2 and 423,101
for RS3 with 200 turbines to a relation.
"""

from __future__ import annotations

from tidelog.bench.data.graphs import Edges, chain

DERIVED = {"RS1": 160_800, "RS2": 424_300, "RS3": 423_101}
"""What Table 1 of the paper gives for the derived predicates."""

RS1 = {
    "r1": "hasNeighbour(X, Y) :- hasNeighbour(Y, X).",
    "r2": "hasNeighbour(X, Y) :- hasNeighbour(X, Z), hasNeighbour(Z, Y), X != Y.",
    "r3": "hasNeighbourAirTemperatureMeasurementNumber(X, count(T)) :- "
    "hasNeighbour(X, Y), hasAirTemperatureMeasurement(Y, T).",
    "r4": "hasMedianAirTemperatureMeasurementNearby(X, median(T)) :- "
    "hasNeighbour(X, Y), hasAirTemperatureMeasurement(Y, T).",
    "r5": "moreThan3Neighbours(X) :- hasNeighbourAirTemperatureMeasurementNumber(X, N), N >= 3.",
    "r6": "sensorAnomalyWindTurbine(X) :- hasMedianAirTemperatureMeasurementNearby(X, M), moreThan3Neighbours(X), "
    "hasAirTemperatureMeasurement(X, T), D = abs(T - M), D > 5.",
}

RS2 = {
    "r1": "p11(X, Y) :- p1(X, Y).",
    "r2": "p11(X, Y) :- p11(Y, X).",
    "r3": "p11(X, Y) :- p11(X, Z), p11(Z, Y), X != Y.",
    "r4": "p12(X, Y) :- p2(X, Y).",
    "r5": "p12(X, Y) :- p12(X, Z), p12(Z, Y), X != Y.",
    "r6": "p13(X, Y) :- p3(X, Y).",
    "r7": "p14(X, Y) :- p13(X, Y).",
    "r8": "p13(X, Y) :- p14(Y, X).",
    "r9": "p20(X, Y) :- p11(X, Y).",
    "r10": "p20(X, Y) :- p12(X, Y).",
    "r11": "p20(X, Y) :- p13(X, Y).",
    "r12": "p21(X, Y) :- p20(X, Y).",
    "r13": "p22(X, Y) :- p21(X, Y).",
    "r14": "p20(X, Y) :- p22(X, Y).",
    "r15": "p25(X, Z) :- p11(X, Y), p12(Y, Z), not p5(Y, Z).",
    "r16": "p26(X, Z) :- p12(X, Y), p13(Z, Y), not p5(Z, Y).",
    "r17": "p30(X, Z) :- p22(X, Y), p21(Y, Z).",
    "r18": "p31(X, Y) :- p25(X, Y), p26(Y, Z).",
}

RS3 = {**RS2, "r10": "p20(X, Y) :- p12(X, Y), not p13(Y, Z)."}

RULE_SETS = {"RS1": RS1, "RS2": RS2, "RS3": RS3}


def text(rules: dict[str, str], without: tuple[str, ...] = ()) -> str:
    """A rule set as a program, without some of its rules."""
    return "\n".join(rule for name, rule in rules.items() if name not in without)


def ds1(turbines: int) -> dict[str, Edges]:
    """A chain of turbines, and a temperature of 25 measured at each."""
    neighbours = chain(turbines) + 1
    measured = chain(turbines + 1) + 1
    measured[:, 1] = 25
    return {"hasNeighbour": neighbours, "hasAirTemperatureMeasurement": measured}


def ds2(turbines: int) -> dict[str, Edges]:
    """Four relations, each a chain of its own stretch of turbines; p5 is empty."""
    steps = chain(turbines + 1)
    return {f"p{k + 1}": steps + k * turbines for k in range(4)}
