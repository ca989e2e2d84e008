"""`tidelog run --engine spark`: the same programs, answers and files, but evaluated by Spark."""

from __future__ import annotations

import shutil
import sys
import tempfile
from argparse import Namespace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidelog.cli.commands import read_program, tell_of_errors
from tidelog.cli.console import answer_lines
from tidelog.formats.display import rich_table
from tidelog.formats.folder import fact_files
from tidelog.language import display_predicate, syntax_of_file
from tidelog.language.syntax import Program
from tidelog.spark.data.fact_parts import Shapes, shapes_of
from tidelog.spark.data.fact_records import read_whole_file, records_of_atoms, records_of_files
from tidelog.spark.data.part_files import write_predicate
from tidelog.spark.materialise.spark_engine import SparkEngine, refuse_bad_records
from tidelog.spark.options import Options, Statistics
from tidelog.spark.session import open_session


def run_program(options: Namespace) -> int:
    """Materialise a program on Spark, print the answers of its queries, and write what it derives."""
    _, program = read_program(options.program, options.query, options.param)
    spark = open_session(options.master)
    folder = tempfile.mkdtemp(prefix="tidelog-")
    try:
        limits = Options(max_facts=options.max_facts, timeout=options.timeout)
        progress = partial(print, file=sys.stderr, flush=True) if sys.stderr.isatty() else lambda _: None
        engine = SparkEngine(spark, program, folder, options=limits, on_progress=progress)
        engine.load(*_given(spark, program, options))
        statistics = engine.materialise()
        for done in statistics.rounds if options.explain_plan else ():
            print(f"wave {done.wave}, {done.how}: {', '.join(done.predicates)}")
        prefixes, syntax = dict(program.prefixes), syntax_of_file(options.program)
        for query in program.queries:
            for line in answer_lines(query, engine.answers(query), prefixes, syntax):
                print(line)
        if options.out:
            _write_derived(engine, options.out, options.format)
        if options.stats:
            _print_statistics(engine, statistics)
        tell_of_errors(statistics.total_failures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _given(spark: SparkSession, program: Program, options: Namespace) -> tuple[DataFrame, Shapes]:
    """The facts of the program's text and of the folder."""
    records = records_of_atoms(spark, program.facts, options.program)
    if options.facts:
        paths = [str(path) for path in fact_files(options.facts)]
        if paths:
            read = partial(read_whole_file, header=options.header)
            records = records.union(records_of_files(spark, paths, read))
        refuse_bad_records(records)
    return records, shapes_of(records)


def _write_derived(engine: SparkEngine, folder: str, format: str) -> None:
    """Write every derived predicate to a folder of its name."""
    prefixes = dict(engine.program.prefixes)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for predicate in dict.fromkeys(rule.head.predicate for rule in engine.program.rules):
        # Triples need the IRI itself; other formats the name as people read it.
        name = predicate if format == "nt" else display_predicate(predicate, prefixes)
        write_predicate(engine.values(predicate), engine.relations[predicate].arity, name, folder, format)


def _print_statistics(engine: SparkEngine, statistics: Statistics) -> None:
    from rich.console import Console

    console = Console(stderr=True)
    rows = [(done.seconds, done.new_facts, f"wave {done.wave}, {done.how}") for done in statistics.rounds]
    console.print(rich_table("rounds", ("seconds", "new facts", "what"), rows))
    counts = [(name, engine.relations.count(name)) for name in sorted(engine.relations)]
    console.print(rich_table("predicates", ("predicate", "facts"), counts))
