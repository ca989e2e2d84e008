"""Scale: time and memory for 10⁴ to 10⁷ explicit facts, and a fixed update as the data grow.

The program is a closure over many short chains, whose size is proportional to its input; modules are off, so that all
facts are stored.
"""

from __future__ import annotations

from tidelog.bench.data.cases import RIGHT_LINEAR, table
from tidelog.bench.data.graphs import chains
from tidelog.bench.measure import Failed, isolated, measure
from tidelog.bench.options import Options
from tidelog.bench.peers.engines import materialise
from tidelog.bench.report import Check, Plot, Report, Table
from tidelog.bench.work import percentile, timed, warm

_LENGTH = 5
_PAIRS = _LENGTH * (_LENGTH - 1) // 2


def run(options: Options) -> Report:
    report = Report("Scale: CPU seconds and megabytes as the data grow")
    made = Table(
        f"Closure of chains of {_LENGTH} nodes, modules off",
        ["explicit", "facts", "CPU s", "facts a second", "MB", "bytes a fact", "update of 10 + 10, ms"],
    )
    units = {"materialise everything": "CPU seconds", "an update of 10 + 10 facts": "CPU ms", "memory": "MB"}
    points: dict[str, list[tuple[int, float | None]]] = {title: [] for title in units}
    for power in (4, 5) if options.quick else (4, 5, 6, 7):
        count = round(10**power * options.size) // (_LENGTH - 1)
        options.progress(f"10^{power} facts")
        found = isolated(grow, count, options.seed, timeout=options.timeout * 5)
        if isinstance(found, Failed):
            made.rows.append([10**power, None, found, *[None] * 4])
            continue
        facts, cpu, megabytes, update = found
        explicit = count * (_LENGTH - 1)
        rates = [round(facts / cpu), round(megabytes), round(megabytes * 1024 * 1024 / facts)]
        made.rows.append([explicit, facts, cpu, *rates, 1000 * update])
        for series, figure in zip(points.values(), (cpu, 1000 * update, megabytes), strict=True):
            series.append((explicit, figure))
        report.checks.append(Check(f"facts of {count:,} chains", count * (_LENGTH - 1 + _PAIRS), facts))
    report.tables.append(made)
    report.plots += [
        Plot(title, "explicit facts", unit, {title: points[title]}, log_x=True, picture="As the data grow")
        for title, unit in units.items()
    ]
    return report


def grow(count: int, seed: int) -> tuple[int, float, float, float]:
    """Facts, CPU seconds, megabytes, and the median CPU seconds of an update that cuts ten chains and mends ten."""
    edges = table(chains(count, _LENGTH))
    warm(RIGHT_LINEAR, {"edge": table(chains(20, _LENGTH))}, modules=False)
    measured = measure(lambda: materialise(RIGHT_LINEAR, {"edge": edges}, modules=False))
    kb = measured.value
    facts = len(kb)
    times = []
    before: list[tuple[int, int]] = []
    for number in range(31):
        place = (number * 7919 + seed) % max(1, count - 10)
        cut = [(_LENGTH * chain + 1, _LENGTH * chain + 2) for chain in range(place, place + 10)]
        times.append(timed(kb, delete={"edge": cut}, add={"edge": before}).cpu)
        before = cut
    return facts, measured.cpu, measured.memory, percentile(times[1:], 0.5)
