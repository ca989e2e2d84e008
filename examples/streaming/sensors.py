"""Sensors of many wind farms: a file of records for each tick, in which every turbine's reading replaces the last one.

Some sensors break and show nonsense, and are repaired some ticks later. A few records are damaged on their way.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

FARMS, TURBINES, TICKS = 60, 12, 7
INCOMING = Path(__file__).parent / "incoming"

Turbine = tuple[str, str]


def ticks(seed: int = 5) -> Iterator[list[str]]:
    """The records of one tick after the other."""
    dice = random.Random(seed)
    turbines = [(f"farm {farm:02}", f"t{number:02}") for farm in range(FARMS) for number in range(TURBINES)]
    broken = {turbine: (start, start + 3) for start in range(1, 4) for turbine in dice.sample(turbines, 2)}
    broken[turbines[0]] = broken[turbines[1]] = (2, 5)
    shown: dict[Turbine, float] = {}
    for tick in range(TICKS):
        yield list(records(dice, tick, turbines, broken, shown))


def records(
    dice: random.Random,
    tick: int,
    turbines: list[Turbine],
    broken: dict[Turbine, tuple[int, int]],
    shown: dict[Turbine, float],
) -> Iterator[str]:
    for turbine in turbines:
        start, end = broken.get(turbine, (0, 0))
        value = round(dice.gauss(12, 0.8) + (25 if start <= tick < end else 0), 1)
        if turbine in shown:
            yield record("delete", turbine, shown[turbine])
        yield record("add", turbine, value)
        shown[turbine] = value
    yield '{"op": "add", "predicate": "temperature", "argum'


def record(op: str, turbine: Turbine, value: float) -> str:
    return json.dumps({"op": op, "predicate": "temperature", "arguments": [*turbine, value]})


def send(number: int, lines: list[str]) -> None:
    """A file appears under its name only when it is complete."""
    INCOMING.mkdir(exist_ok=True)
    beside = INCOMING / f".{number}"
    beside.write_text("\n".join(lines) + "\n")
    os.rename(beside, INCOMING / f"{number:03}.jsonl")


def main() -> None:
    for number, lines in enumerate(ticks()):
        send(number, lines)
        time.sleep(1)


if __name__ == "__main__":
    main()
