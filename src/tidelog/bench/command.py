"""`tidelog bench NAME`: runs a benchmark, prints its tables, writes JSON and plots."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from rich.console import Console

from tidelog.bench.options import Options
from tidelog.bench.report import Report, show, write_json
from tidelog.errors import DataError
from tidelog.extras import needing
from tidelog.machine.kernels.libraries import warm_up

BENCHMARKS = {
    "materialise": "materialisation beside DuckDB, clingo, Soufflé, SWI-Prolog and plain Python",
    "updates": "the latency of small updates, deletions against materialising again",
    "bf": "Backward/Forward against DRed: Table 2 of the B/F paper, with the equilibrium",
    "marking": "streams with and without marking: Tables 1–3 of B/F with Marking",
    "streams": "public update streams in every mode, under every algorithm, against materialising again",
    "modular": "closure modules: Tables 1 and 2 of Modular Materialisation",
    "choice": "`auto` beside every fixed algorithm, for updates from one fact to all of E",
    "rules": "rule updates: Fig. 6–10 and Tables 2 and 3 of ZodiacEdge",
    "dynamic": "fully dynamic against one update at a time",
    "scale": "time and memory from 10⁴ to 10⁷ facts; a fixed update as the data grow",
    "spark": "the Spark engine beside the one in memory",
    "spark_updates": "updates of LUBM against a materialisation in Parquet, beside materialising again",
    "pipeline": "LUBM through the pipeline on Spark, by stage, size and cores",
    "fixpoint": "a closure on Spark beside the plain DataFrame loop and WITH RECURSIVE",
    "streaming": "update streams through Structured Streaming: memory, and keyed on one and two cores",
    "server": "a server over loopback: updates, queries beside them, a thousand subscribers",
    "aggregates": "shortest paths by recursion through `min`, beside SciPy and Floyd–Warshall",
    "functions": "strings, conversions, dates, JSON and numbers: each function over a column of new values",
    "peers": "materialisation, and 1, 10 and 100 changed facts, beside the other engines",
}
SUCCESS, UNSOUND = 0, 1


class _Output(Console):
    """Standard output. A reader that has seen enough is told to whoever runs the command, as everywhere else."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a benchmark by name; returns the exit code, 1 where a figure that is determined exactly came out
    otherwise."""
    console = _Output()
    if name == "list":
        argparse.ArgumentParser(prog="tidelog bench list").parse_args(arguments)
        for known, description in BENCHMARKS.items():
            console.print(f"[bold]{known:12}[/bold] {description}", highlight=False, soft_wrap=True)
        return SUCCESS
    if name not in BENCHMARKS:
        raise DataError(f"there is no benchmark `{name}`; there are: {', '.join(BENCHMARKS)}")
    parsed = _parser(name).parse_args(arguments)
    if parsed.plot:
        with needing("--plot"):
            import_module("matplotlib")
    options = Options(parsed.quick, parsed.seed, parsed.size, parsed.repeat, parsed.timeout, parsed.data)
    warm_up()  # On a machine's first run that takes longer than any measurement may.
    report = benchmark(name)(options)
    show(report, console)
    if parsed.json:
        write_json(report, parsed.json, asdict(options))
    if parsed.plot:
        from tidelog.bench.plotting import write_plots

        for path in write_plots(report.plots, parsed.plot):
            console.print(f"wrote {path}", highlight=False)
    return SUCCESS if report.sound else UNSOUND


def benchmark(name: str) -> Callable[[Options], Report]:
    """The function of a benchmark."""
    function: Callable[[Options], Report] = import_module(f"tidelog.bench.runs.{name}").run
    return function


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _times(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"tidelog bench {name}", description=BENCHMARKS[name])
    parser.add_argument("--quick", action="store_true", help="small sizes, under a minute")
    parser.add_argument("--seed", type=int, default=0, help="of the generated data (default: 0)")
    parser.add_argument("--size", type=_positive, default=1.0, help="a factor for all sizes (default: 1)")
    parser.add_argument("--repeat", type=_times, default=1, help="measure so often and keep the least (default: 1)")
    parser.add_argument("--timeout", type=_positive, default=120.0, help="seconds for each engine (default: 120)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="public data in the layout of M-Illich/inc-mat-mark")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    parser.add_argument("--plot", type=Path, metavar="PREFIX", help="write plots as PREFIX.png and PREFIX.svg")
    return parser
