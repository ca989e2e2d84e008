"""`tidelog run --engine spark`: the same programs, answers and files, but evaluated by Spark."""

from __future__ import annotations

import shutil
import sys
import tempfile
from argparse import Namespace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidelog.cli.commands import exit_code, read_program, tell_of_errors
from tidelog.cli.console import answers_in
from tidelog.formats.display import rich_table
from tidelog.formats.folder import fact_files, types_of_files, warn_of_header
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
        answered = []
        for query in program.queries:
            answers = engine.answers(query)
            names = [name.removeprefix("?") for answer in answers[:1] for name in answer]
            for line in answers_in(options.answers, query, names, answers, prefixes, syntax):
                print(line)
            answered.append(bool(answers))
        if options.out:
            _write_derived(engine, options.out, options.format)
        if options.stats:
            _print_statistics(engine, statistics)
        tell_of_errors(statistics.total_failures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return exit_code(answered, options.query)


def _given(spark: SparkSession, program: Program, options: Namespace) -> tuple[DataFrame, Shapes]:
    """The facts of the program's text and of the folder."""
    records = records_of_atoms(spark, program.facts, options.program)
    if options.facts:
        paths = fact_files(options.facts)
        types = {str(path): found for path, found in types_of_files(paths, options.types, options.facts).items()}
        for path in paths if options.header is None else ():
            warn_of_header(path)
        if paths:
            read = partial(read_whole_file, header=bool(options.header), types=types)
            records = records.union(records_of_files(spark, list(map(str, paths)), read))
        refuse_bad_records(records)
    return records, shapes_of(records)


def _write_derived(engine: SparkEngine, folder: str, format: str) -> None:
    """Write every derived predicate to a folder of its name."""
    prefixes = dict(engine.program.prefixes)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for predicate in dict.fromkeys(rule.head.predicate for rule in engine.program.rules):
        # Triples need the IRI itself; other formats the name as people read it.
        name = predicate if format.startswith("nt") else display_predicate(predicate, prefixes)
        write_predicate(engine.values(predicate), engine.relations[predicate].arity, name, folder, format)


def _print_statistics(engine: SparkEngine, statistics: Statistics) -> None:
    from rich.console import Console

    console = Console(stderr=True)
    rows = [(done.seconds, done.new_facts, f"wave {done.wave}, {done.how}") for done in statistics.rounds]
    console.print(rich_table("rounds", ("seconds", "new facts", "what"), rows))
    counts = [(name, engine.relations.count(name)) for name in sorted(engine.relations)]
    console.print(rich_table("predicates", ("predicate", "facts"), counts))
