"""The Spark engine beside the one in memory: the same program and folder of facts through the same command.

Both are whole processes, the Java machine and the loading of kernels included, so wall time is shown: Spark works on
all cores, and its Java machine is no child whose CPU time could be read.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow.dataset as arrow_dataset
import pyarrow.parquet as parquet

from tidelog.bench.data.cases import CASES, Tables
from tidelog.bench.measure import Failed, Measured, isolated, measure_command
from tidelog.bench.options import Options
from tidelog.bench.report import Check, Plot, Report, Table
from tidelog.language import parse_program, resolve_predicate

_CASES = {"dag-right": 0.3, "same-generation": 0.3, "lubm-plain": 0.1}


def run(options: Options) -> Report:
    report = Report("Spark: wall seconds of `tidelog run` on both engines")
    table = Table("the same program and facts", ["input", "size", "derived facts", "memory s", "Spark s"])
    if find_spec("pyspark") is None:
        table.note = "PySpark is not installed: pip install 'tidelog[spark]'"
    series: dict[str, list[tuple[str, float | None]]] = {"memory": [], "spark": []}
    cases = [] if table.note else list(_CASES.items())[: 1 if options.quick else None]
    for case, default in cases:
        size = default * options.scale(0.1)
        found: dict[str, Measured | Failed] = {}
        for engine in series:
            options.progress(f"{CASES[case].title}, {engine}")
            outcome = isolated(command, case, options.seed, size, engine, timeout=options.timeout * 3)
            found[engine] = outcome
            if isinstance(outcome, Measured):
                series[engine].append((CASES[case].title, outcome.wall))
        counts = [outcome.value for outcome in found.values() if isinstance(outcome, Measured)]
        walls = [outcome if isinstance(outcome, Failed) else outcome.wall for outcome in found.values()]
        table.rows.append([CASES[case].title, f"{size:g}", *(counts[:1] or [None]), *walls])
        report.checks.append(Check(f"{CASES[case].title}: facts on both engines", counts[:1] * len(counts), counts))
    report.tables.append(table)
    report.plots.append(Plot("The two engines", "", "wall seconds", series, bars=True, log_y=False))
    return report


def command(case: str, seed: int, size: float, engine: str) -> Measured:
    """`tidelog run` on an engine; the value is the number of facts that it wrote."""
    chosen = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.dlog").write_text(chosen.rules, encoding="utf-8")
        _write_facts(chosen.facts(seed, size), chosen.rules, Path(folder, "facts"))
        arguments = ["program.dlog", "--facts", "facts", "--out", "out", "--format", "parquet", "--engine", engine]
        if engine == "memory":  # Once before, so that no kernel is compiled under the clock.
            measure_command([sys.executable, "-m", "tidelog", "run", *arguments], folder)
        measured = measure_command([sys.executable, "-m", "tidelog", "run", *arguments], folder)
        count = sum(arrow_dataset.dataset(path).count_rows() for path in Path(folder, "out").glob("*.parquet"))
    return Measured(measured.cpu, measured.wall, measured.memory, count)


def _write_facts(facts: Tables, rules: str, folder: Path) -> None:
    """A Parquet file for each predicate, named as a folder of facts wants it."""
    folder.mkdir()
    prefixes = dict(parse_program(rules).prefixes)
    for name, rows in facts.items():
        resolved = resolve_predicate(name, prefixes)
        parquet.write_table(rows, folder / f"{resolved.replace('%', '%25').replace('/', '%2F')}.parquet")
