"""What the commands of the command line do."""

from __future__ import annotations

import sys
import time
import warnings
from argparse import Namespace
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from queue import Queue
from typing import IO, TYPE_CHECKING, Any

from tidelog import errors, formats, language
from tidelog.cli.console import answer_lines, plan_lines
from tidelog.cli.terminal import reading, working
from tidelog.errors import TidelogError
from tidelog.formats.byte_files import decode, io_errors
from tidelog.formats.display import counted, rich_table
from tidelog.language import (
    SYNTAXES,
    display_predicate,
    parse_program,
    parse_rules,
    resolve_predicate,
    syntax_of_file,
)
from tidelog.language.checks import check_arities, check_query, check_rule, foreign_functions, suggest
from tidelog.language.syntax import Atom, Program, Rule, rule_key
from tidelog.program.catalogue import Catalogue
from tidelog.program.graph import RuleGraph

if TYPE_CHECKING:
    from tidelog.api.knowledge_base import KnowledgeBase
    from tidelog.facts.results import Change


def read_program(path: str) -> tuple[str, Program]:
    """The text of a program and its syntax tree; queries are checked before any work is done for them."""
    source, text = _read_text(path)
    program = parse_program(text, source, syntax=syntax_of_file(path))
    prefixes = dict(program.prefixes)
    with _errors_in(source):
        check_arities([*program.facts, *program.rules, *program.queries], {}, prefixes)
        for query in program.queries:
            check_query(query, prefixes=prefixes)
    return text, program


def _read_text(path: str) -> tuple[str, str]:
    """The name of a file in messages, and its content."""
    source = _name_of(path)
    with io_errors(source):
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    return source, decode(data, source, 1).removeprefix("\ufeff")


def _name_of(path: str | None) -> str:
    """The name of a program in messages."""
    return "<standard input>" if path == "-" else path or "<program>"


@contextmanager
def _errors_in(source: str) -> Iterator[None]:
    """Begin errors about a program with its file, as those of the parser do."""
    try:
        yield
    except (errors.ArityError, errors.ConversionError, errors.StratificationError, errors.UnsafeRuleError) as error:
        raise type(error)(f"{source}: {error}") from None
    except errors.ParseError as error:
        raise errors.ParseError(f"{source}: {error}", error.line, error.column) from None


def open_knowledge_base(options: Namespace, text: str) -> KnowledgeBase:
    """A knowledge base of a program's text and a folder of facts, as the options say."""
    from tidelog.api.knowledge_base import KnowledgeBase

    with working("materialising"), _errors_in(_name_of(options.program)):
        kb = KnowledgeBase(
            text,
            maintenance=options.maintenance,
            modules=not options.no_modules,
            max_facts=options.max_facts,
            timeout=options.timeout,
            syntax=syntax_of_file(options.program or ""),
        )
    if options.facts:
        with reading(options.facts, formats.total_bytes(options.facts)) as on_bytes:
            kb.load(formats.read_facts(options.facts, options.header, on_bytes))
    return kb


def _materialised(options: Namespace) -> tuple[KnowledgeBase, Program]:
    """The knowledge base of a program, with a warning for each name that looks like a misspelling of another."""
    text, program = read_program(options.program)
    kb = open_knowledge_base(options, text)
    prefixes = dict(program.prefixes)
    given = [resolve_predicate(name, prefixes) for name in kb.explicit_predicates]
    for warning in suggest(program.rules, given, program.queries, prefixes):
        warnings.warn(warning, stacklevel=2)
    return kb, program


# ── run ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run(options: Namespace) -> int:
    """`tidelog run`"""
    if options.engine == "spark":
        return _delegate("spark.pipeline.run_command", "run_program", options)
    from tidelog.machine.jit import working_time

    started, began = time.perf_counter(), working_time()
    kb, program = _materialised(options)
    seconds, worked = time.perf_counter() - started, working_time() - began
    prefixes = dict(program.prefixes)
    if options.explain_plan:
        _print(plan_lines(RuleGraph(program.rules), lambda name: len(kb.facts(name)), prefixes))
    for query in program.queries:
        _print(answer_lines(query, kb.query(str(query)), prefixes, syntax_of_file(options.program)))
    if options.out:
        _write_derived(kb, program, options.out, options.format)
    if options.stats:
        _print_statistics(kb, seconds, worked)
    elif not (options.out or program.queries or options.explain_plan):
        print(
            f"{counted(len(kb), 'fact')} in all. Ask for some with `?- …` in the program, or write them with --out.",
            file=sys.stderr,
        )
    tell_of_errors(kb.errors)
    return 0


def tell_of_errors(errors: int) -> None:
    """Tell the user of rule instances that failed in an expression and were left out."""
    if errors:
        failed = counted(errors, "rule instance")
        print(f"note: {failed} failed because an expression had no value, such as a division by zero", file=sys.stderr)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _write_derived(kb: KnowledgeBase, program: Program, folder: str, format: str) -> None:
    prefixes = dict(program.prefixes)
    with working("writing"):
        for predicate in dict.fromkeys(rule.head.predicate for rule in program.rules):
            facts = kb.facts(predicate)
            columns = [column.chunk(0) for column in facts.to_arrow().columns]
            batches = [formats.sorted_columns(columns)] if len(facts) else []
            # Triples need the IRI itself; other formats get the name as people read it.
            name = predicate if format == "nt" else display_predicate(predicate, prefixes)
            formats.write_facts(folder, name, batches, format)


def _print_statistics(kb: KnowledgeBase, seconds: float, worked: float) -> None:
    from rich.console import Console

    console = Console(stderr=True)
    rows = [(item.seconds, item.applications, item.facts, item.rule) for item in kb.rule_statistics()]
    rows.sort(key=lambda row: row[:3], reverse=True)
    console.print(rich_table("rules", ("seconds", "applications", "facts", "rule"), rows))
    predicates = ((name, len(kb.explicit(name)), len(kb.facts(name))) for name in sorted(kb.predicates))
    console.print(rich_table("predicates", ("predicate", "explicit", "facts"), predicates))
    console.print(f"{len(kb):,} facts in {seconds:.3f} s, {seconds - worked:.3f} of them to get the kernels ready")


# ── stream ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def stream(options: Namespace) -> int:
    """`tidelog stream`"""
    kb, _ = _materialised(options)
    with _output(options.out) as out:
        updates, go_on = formats.open_updates(options.updates), options.on_error == "continue"
        for change in _changes(kb, updates, not options.no_marking, go_on, live=options.updates == "-"):
            print(formats.change_to_json(change), file=out, flush=True)
    tell_of_errors(kb.errors)
    return 0


def _changes(
    kb: KnowledgeBase, updates: Iterable[formats.Unread], marking: bool, go_on: bool, live: bool
) -> Iterator[Change]:
    """One change per good update. A bad one turns out when its line is read or when it is applied; either way the error
    names its place. Without `go_on`, the first error is raised after the changes before it.

    The updates of a file are available: the stream always sees the next one, so its work is the same every time. Those
    of live input may not be: the stream checks whether the next one has arrived, and does not wait for it.
    """
    places: deque[str] = deque()
    unreadable: list[TidelogError] = []

    def readable() -> Iterator[formats.Update]:
        lines = iter(updates)
        while not unreadable:
            try:
                unread = next(lines, None)
                if unread is None:
                    return
                update = unread.read()
            except TidelogError as error:
                if go_on:
                    print(f"error: {error}", file=sys.stderr)
                else:
                    unreadable.append(error)
                continue
            places.append(unread.place)
            yield update

    stream = kb.stream(readable() if live else _Available(readable()), marking=marking)
    while True:
        try:
            change = next(stream, None)
        except TidelogError as error:
            refused = TidelogError(f"{places.popleft()}: {error}")
            if not go_on:
                raise refused from None
            print(f"error: {refused}", file=sys.stderr)
            continue
        if change is None:
            break
        places.popleft()
        yield change
    if unreadable:
        raise unreadable[0]


class _Available(Queue[Any]):
    """A queue that never waits: its next update is read when it is asked for; None ends it."""

    def __init__(self, updates: Iterator[formats.Update]) -> None:
        super().__init__()
        self._updates = updates

    def get(self, block: bool = True, timeout: float | None = None) -> formats.Update | None:
        return next(self._updates, None)


@contextmanager
def _output(path: str | None) -> Iterator[IO[str]]:
    """A file to write text to, or standard output."""
    if path is None:
        yield sys.stdout
        return
    with io_errors(path), open(path, "w", encoding="utf-8") as file:
        yield file


# ── explain, graph and convert ───────────────────────────────────────────────────────────────────────────────────────


def explain(options: Namespace) -> int:
    """`tidelog explain`"""
    kb, _ = _materialised(options)
    proof = kb.explain(options.fact)
    print(proof if proof is not None else kb.why_not(options.fact))
    return 0


def graph(options: Namespace) -> int:
    """`tidelog graph`"""
    from tidelog.api.dependencies import DependencyGraph, Drawn

    _, program = read_program(options.program)
    prefixes = dict(program.prefixes)
    with _errors_in(_name_of(options.program)):
        arities = _checked_arities(program.facts, program.rules, {}, prefixes)
        rules = RuleGraph(program.rules)
    whole = DependencyGraph.of(rules, Catalogue(prefixes, arities), ())
    drawn: Drawn = whole
    if options.if_added or options.if_removed:
        added = _rules_of_option("--if-added", options.if_added, prefixes)
        with _errors_in("--if-added"):
            _checked_arities((), added, arities, prefixes)
        removed = _rules_of_option("--if-removed", options.if_removed, prefixes)
        known = set(map(rule_key, rules.rules.values()))
        fresh = tuple(rule for rule in added if rule_key(rule) not in known)
        drawn = whole.impact(fresh, [_number(rules, rule) for rule in removed])
    with _output(options.out) as out:
        out.write(drawn.draw(options.format))
    return 0


def _checked_arities(
    facts: tuple[Atom, ...], rules: tuple[Rule, ...], arities: Mapping[str, int], prefixes: Mapping[str, str]
) -> dict[str, int]:
    """The arities of all predicates, if an update would accept the rules. Functions may be registered elsewhere."""
    functions = foreign_functions(rules)
    for rule in rules:
        check_rule(rule, functions, prefixes)
    return check_arities([*facts, *rules], arities, prefixes)


def _rules_of_option(option: str, value: str, prefixes: dict[str, str]) -> tuple[Rule, ...]:
    """The rules of a file, or rules given on the command line."""
    if not value or ":-" in value or (value.rstrip().endswith(".") and not Path(value).exists()):
        return parse_rules(value, prefixes, option)
    source, text = _read_text(value)
    return parse_rules(text, prefixes, source, syntax_of_file(value))


def _number(graph: RuleGraph, wanted: Rule) -> int:
    """The number of a rule, whose variables may have other names."""
    key = rule_key(wanted)
    for number, rule in graph.rules.items():
        if rule_key(rule) == key:
            return number
    raise errors.UnknownRuleError(f"there is no rule `{wanted}` in the program to remove; give it as it stands there")


def convert(options: Namespace) -> int:
    """`tidelog convert`"""
    written = syntax_of_file(options.program)
    wanted = options.to or _other(written)
    source, text = _read_text(options.program)
    program = parse_program(text, source, syntax=_other(wanted) if options.program == "-" else written)
    with _errors_in(source):
        converted = language.convert(program, wanted)
    with _output(options.out) as out:
        print(converted, file=out)
    return 0


def _other(syntax: str) -> str:
    return next(name for name in SYNTAXES if name != syntax)


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def shell(options: Namespace) -> int:
    """`tidelog shell`"""
    from tidelog.cli.shell import Shell, interact

    text = read_program(options.program)[0] if options.program else ""
    return interact(Shell(open_knowledge_base(options, text)))


def pipeline(options: Namespace) -> int:
    """`tidelog pipeline`"""
    match options.action:
        case "run":
            return _delegate("spark.pipeline.pipeline", "run_pipeline", options.config, options.master)
        case "stream":
            return _delegate("spark.streams.stream_run", "run_stream", options.config, options.master)
    return _delegate("spark.streams.stream_run", "show_status", options.config)


def warmup(_options: Namespace) -> int:
    """`tidelog warmup`"""
    from tidelog.machine.kernels.libraries import warm_up

    print(f"compiled kernels: {warm_up()}")
    return 0


def bench(options: Namespace) -> int:
    """`tidelog bench`"""
    return _delegate("bench.command", "run", options.name, options.arguments)


def _delegate(module: str, function: str, *arguments: Any) -> int:
    """Call a part of tidelog that needs extra packages, which may not be installed."""
    try:
        called = getattr(import_module(f"tidelog.{module}"), function)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("tidelog"):
            raise
        extra = module.partition(".")[0]
        raise errors.DataError(
            f"this needs the package {error.name}; install it with: pip install 'tidelog[{extra}]'"
        ) from None
    result: int = called(*arguments)
    return result
