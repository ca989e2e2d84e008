"""Writes the data of this example: sensor readings of wind farms, a few of them damaged as such data is."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FARMS, TURBINES, HOURS = 20, 25, 24
FOLDER = Path(__file__).parent / "data"


def main() -> None:
    dice = random.Random(7)
    FOLDER.mkdir(exist_ok=True)
    turbines = {f"T{farm:02d}-{number:02d}": f"farm {farm}" for farm in range(FARMS) for number in range(TURBINES)}
    broken = set(dice.sample(sorted(turbines), 15))
    write_readings(dice, turbines, broken)
    rows = [json.dumps({"turbine": name, "farm": farm}) for name, farm in turbines.items()]
    (FOLDER / "turbines.jsonl").write_text("\n".join(rows) + "\n")
    names = list(turbines)
    pairs = [(a, b) for a, b in pairwise(names) if turbines[a] == turbines[b]]
    table = {"one": [a for a, _ in pairs], "other": [b for _, b in pairs]}
    pq.write_table(pa.table(table), FOLDER / "neighbours.parquet")
    serviced = [f"{name},{hour}" for name in sorted(broken)[:3] for hour in range(HOURS)]
    (FOLDER / "serviced.csv").write_text("\n".join(serviced) + "\n")


def write_readings(dice: random.Random, turbines: dict[str, str], broken: set[str]) -> None:
    """A file for every six hours; one row in five hundred is damaged."""
    for start in range(0, HOURS, 6):
        lines = ["turbine,hour,power,unit"]
        for hour in range(start, start + 6):
            for name in turbines:
                power = 0.0 if name in broken and hour > 10 else round(dice.uniform(200, 2000), 1)
                damaged = dice.random() < 0.002
                lines.append(f"{name},{hour},{'n/a' if damaged else power},kW")
        (FOLDER / f"readings-{start:02d}.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
