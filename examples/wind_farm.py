"""A wind farm that watches its own sensors: rule set RS1 of "ZodiacEdge", on generated turbines.

Turbines of one row are neighbours of each other, through any number of steps. Each one compares the air temperature
that it measures with the median of its neighbours: a turbine that is more than five degrees off, and has at least three
neighbours to compare with, has a broken sensor. Readings change, a rule is added while all of this runs, and only what
follows from the change is computed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tidelog import Change, KnowledgeBase

RULES = """
hasNeighbour(X, Y) :- hasNeighbour(Y, X).
hasNeighbour(X, Y) :- hasNeighbour(X, Z), hasNeighbour(Z, Y), X != Y.
measurementsNearby(X, count(T)) :- hasNeighbour(X, Y), hasTemperature(Y, T).
medianNearby(X, median(T)) :- hasNeighbour(X, Y), hasTemperature(Y, T).
MoreThan3Neighbours(X) :- measurementsNearby(X, N), N >= 3.
SensorAnomaly(X) :- medianNearby(X, M), MoreThan3Neighbours(X), hasTemperature(X, T), D = abs(T - M), D > 5.
"""
SERVICE = "sendTechnician(R) :- SensorAnomaly(X), inRow(X, R)."
ROWS, PER_ROW = 12, 25
BROKEN = {"t3_07": 31.5, "t9_24": -4.0}

console = Console(highlight=False)


def turbine(row: int, place: int) -> str:
    return f"t{row}_{place:02}"


def farm(seed: int = 1) -> dict[str, list[tuple[object, ...]]]:
    """Rows of turbines, each next to the following one, in a breeze of about twelve degrees."""
    dice = random.Random(seed)
    places = [(row, place) for row in range(1, ROWS + 1) for place in range(1, PER_ROW + 1)]
    return {
        "inRow": [(turbine(row, place), f"row {row}") for row, place in places],
        "hasNeighbour": [(turbine(row, place), turbine(row, place + 1)) for row, place in places if place < PER_ROW],
        "hasTemperature": [
            (name, BROKEN.get(name, round(dice.gauss(12, 0.8), 1))) for name in (turbine(*place) for place in places)
        ],
    }


def step(title: str, explanation: str) -> None:
    console.print(f"\n[bold cyan]{title}[/]  [dim]{explanation}[/]")


def timed(work: Callable[[], Change]) -> Change:
    begin = time.perf_counter()
    change = work()
    console.print(f"  [green]{1000 * (time.perf_counter() - begin):.1f} ms[/]")
    return change


def show(change: Change, only: Iterable[str]) -> None:
    """How many facts of each predicate came and went, and those of some predicates one by one."""
    shown = set(only)
    for sign, colour, facts in (("+", "green", change.added), ("−", "red", change.removed)):
        for name, rows in sorted(facts.items()):
            if name in shown:
                for row in sorted(rows, key=str):
                    console.print(f"  [{colour}]{sign} {escape(name)}({', '.join(map(str, row))})[/]")
            else:
                console.print(f"  [dim]{sign} {len(rows):,} × {escape(name)}[/]")


def anomalies(kb: KnowledgeBase) -> None:
    table = Table("turbine", "measures", "median nearby", box=None, padding=(0, 2))
    answers = kb.query("SensorAnomaly(X), hasTemperature(X, T), medianNearby(X, M)")
    for answer in sorted(answers, key=lambda answer: str(answer["X"])):
        table.add_row(str(answer["X"]), f"{answer['T']} °C", f"{float(str(answer['M'])):.1f} °C")
    console.print(table)


def proof(kb: KnowledgeBase, fact: str, depth: int) -> None:
    """The top of a proof: levels of the drawing are four characters wide."""
    for line in str(kb.explain(fact)).splitlines():
        stem = len(line) - len(line.lstrip("│├└─ "))
        if stem <= 4 * depth:
            console.print("  " + line, markup=False, no_wrap=True, overflow="ellipsis", crop=True)


def warm_up() -> None:
    """Run everything once, so that times below are those of the work. A machine's first run compiles the kernels."""
    kb = KnowledgeBase(RULES)
    kb.update(add=farm())
    kb.update(delete={"hasNeighbour": [("t9_22", "t9_23")], "hasTemperature": [("t3_07", 31.5)]})


def main() -> None:
    warm_up()
    step("A farm", f"{ROWS} rows of {PER_ROW} turbines; who is near whom follows from the rules.")
    kb = KnowledgeBase(RULES)
    timed(lambda: kb.update(add=farm()))
    console.print(f"  {len(kb):,} facts, {len(kb.facts('hasNeighbour')):,} of them pairs of neighbours")

    step("Anomalies", "?- SensorAnomaly(X), hasTemperature(X, T), medianNearby(X, M).")
    anomalies(kb)

    step("Why t3_07?", "A proof of least height, found when asked for.")
    proof(kb, "SensorAnomaly(t3_07)", depth=1)
    proof(kb, "hasNeighbour(t3_07, t3_10)", depth=9)

    step("The sensor is repaired", "One reading changes; what followed from it goes.")
    show(
        timed(
            lambda: kb.update(delete={"hasTemperature": [("t3_07", 31.5)]}, add={"hasTemperature": [("t3_07", 12.1)]})
        ),
        only=["SensorAnomaly", "hasTemperature"],
    )

    step("A rule at run time", SERVICE)
    show(timed(lambda: kb.add_rules(SERVICE)), only=["sendTechnician"])

    step("A cable breaks", "t9_22 and t9_23 are neighbours no more: row 9 falls apart.")
    show(
        timed(lambda: kb.update(delete={"hasNeighbour": [("t9_22", "t9_23")]})),
        only=["SensorAnomaly", "sendTechnician"],
    )


if __name__ == "__main__":
    main()
