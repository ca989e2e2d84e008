"""`tidelog run --engine spark`: the same programs, answers and files, but evaluated by Spark."""

from __future__ import annotations

import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from tidelog.cli.commands import exit_code, tell_of_errors
from tidelog.cli.console import answers_in
from tidelog.cli.programs import read_program
from tidelog.formats.display import rich_table
from tidelog.formats.files.folder import fact_files, file_of_predicate, types_of_files, warn_of_header
from tidelog.language import display_predicate, syntax_of_file
from tidelog.language.names import is_hidden
from tidelog.spark.data.decoded_files import Target, write_decoded
from tidelog.spark.data.fact_records import batches_of_atoms
from tidelog.spark.data.taking_in import Piece
from tidelog.spark.data.text_sources import read_whole_file
from tidelog.spark.materialise.spark_engine import SparkEngine
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
        engine.load(_given(options), batches_of_atoms(program.facts, options.program))
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


def _given(options: Namespace) -> list[FolderFile]:
    """The files of the folder of facts."""
    if not options.facts:
        return []
    paths = fact_files(options.facts)
    types = {str(path): found for path, found in types_of_files(paths, options.types, options.facts).items()}
    for path in paths if options.header is None else ():
        warn_of_header(path)
    return [FolderFile(path, bool(options.header), types) for path in paths]


@dataclass(frozen=True)
class FolderFile:
    """A file of a folder of facts, which is read or refused as a whole."""

    path: Path
    header: bool
    types: Mapping[str, Sequence[str]]

    def pieces(self, _: SparkSession) -> list[Piece]:
        size = sum(part.stat().st_size for part in (self.path.iterdir() if self.path.is_dir() else [self.path]))
        return [Piece(partial(read_whole_file, str(self.path), self.header, self.types), size)]


def _write_derived(engine: SparkEngine, folder: str, format: str) -> None:
    """Write every derived predicate to a folder of its name."""
    prefixes = dict(engine.program.prefixes)
    targets = {}
    for predicate in dict.fromkeys(rule.head.predicate for rule in engine.program.rules):
        if is_hidden(predicate):
            continue
        # Triples need the IRI itself; other formats the name as people read it.
        name = predicate if format.startswith("nt") else display_predicate(predicate, prefixes)
        targets[predicate] = Target(Path(folder) / file_of_predicate(name, format), name)
        shutil.rmtree(targets[predicate].folder, ignore_errors=True)
    write_decoded(engine.relations, engine.dictionary, targets, f"{engine.relations.folder}/decoded", format)


def _print_statistics(engine: SparkEngine, statistics: Statistics) -> None:
    from rich.console import Console

    console = Console(stderr=True)
    rows = [(done.seconds, done.new_facts, f"wave {done.wave}, {done.how}") for done in statistics.rounds]
    console.print(rich_table("rounds", ("seconds", "new facts", "what"), rows))
    counts = [(name, engine.relations.count(name)) for name in sorted(engine.relations)]
    console.print(rich_table("predicates", ("predicate", "facts"), counts))
