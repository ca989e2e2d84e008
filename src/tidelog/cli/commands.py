"""What the commands of the command line do."""

from __future__ import annotations

import sys
import time
import warnings
from argparse import Namespace
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

from tidelog import errors, formats, language
from tidelog.cli.command_line import ANSWER_FORMATS, FILE_FORMATS
from tidelog.cli.console import answers_in, failure_lines, plan_lines
from tidelog.cli.parameters import parameters_of
from tidelog.cli.programs import errors_in, name_of, read_program, read_text, with_queries
from tidelog.cli.terminal import output, reading, working
from tidelog.errors import TidelogError
from tidelog.extras import FILES, needing
from tidelog.formats.display import counted, rich_table
from tidelog.language import (
    SYNTAXES,
    display_predicate,
    parse_program,
    parse_rules,
    resolve_predicate,
    syntax_of_file,
)
from tidelog.language.checks import check_arities, check_rule, foreign_functions, suggest
from tidelog.language.names import is_hidden
from tidelog.language.parse_messages import Source
from tidelog.language.records.types import merged
from tidelog.language.syntax import Atom, Program, Rule, Signature, rule_key
from tidelog.program.catalogue import Catalogue
from tidelog.program.graph import RuleGraph
from tidelog.values import Value

if TYPE_CHECKING:
    from tidelog.api.knowledge_base import KnowledgeBase
    from tidelog.facts.results import Change


def open_knowledge_base(options: Namespace, text: str) -> KnowledgeBase:
    """A knowledge base of a program's text and a folder of facts, as the options say."""
    from tidelog.api.knowledge_base import KnowledgeBase

    with working("materialising"), errors_in(name_of(options.program), text):
        kb = KnowledgeBase(
            text,
            maintenance=options.maintenance or "auto",
            modules=not options.no_modules,
            max_facts=options.max_facts,
            timeout=options.timeout,
            syntax=syntax_of_file(options.program or ""),
        )
    _load_facts(kb, options)
    return kb


def _load_facts(kb: KnowledgeBase, options: Namespace) -> None:
    if options.facts:
        with needing(FILES):
            from tidelog.api.files import declared_types

        with reading(options.facts, formats.total_bytes(options.facts)) as on_bytes:
            declared = declared_types(kb)
            kb.load(formats.read_facts(options.facts, options.header, on_bytes, options.types, declared))


def is_saved(path: str | None) -> bool:
    """Whether a path leads to the folder of a saved knowledge base."""
    if path is None or not Path(path).is_dir():
        return False
    from tidelog.storage.home import is_home

    return is_home(Path(path))


def open_saved(options: Namespace, journal: bool = False, read_only: bool = False) -> KnowledgeBase:
    """The knowledge base in a folder, and a folder of facts."""
    from tidelog.api.knowledge_base import KnowledgeBase

    own = {"--maintenance": options.maintenance, "--no-modules": options.no_modules, "--max-facts": options.max_facts}
    for option, value in {**own, "--timeout": options.timeout}.items():
        if value:
            raise TidelogError(f"{option} is saved with a knowledge base; leave it out for {options.program}")
    with working("opening"):
        kb = KnowledgeBase.open(options.program, journal, read_only=read_only)
    _load_facts(kb, options)
    return kb


def _program_of(kb: KnowledgeBase, options: Namespace) -> tuple[str, Program]:
    """The rules of a saved knowledge base as a program, with the queries that are asked."""
    source = options.program
    prefixes = [f"@prefix {name}: <{namespace}> ." for name, namespace in kb.prefixes.items()]
    text = "\n".join([*prefixes, *kb.declarations, *kb.rules])
    return text, with_queries(parse_program(text, source), *_asked(options), Source(text, source))


def _asked(options: Namespace) -> tuple[Sequence[str], Mapping[str, Value]]:
    """The queries of a command, and the values of parameters, which may also be those of the program."""
    return options.query if "query" in options else (), options.param


def _materialised(options: Namespace, journal: bool = False) -> tuple[KnowledgeBase, Program]:
    """The knowledge base of a program, with a warning for each name that looks like a misspelling of another; or the
    one that is saved in a folder, which another process may be writing to.
    """
    if is_saved(options.program):
        changes = options.command == "stream" or options.facts
        kb = open_saved(options, journal, read_only=not changes)
        text, program = _program_of(kb, options)
    else:
        refuse_journal(journal, options.program)
        text, program = read_program(options.program, *_asked(options), parameters_of(getattr(options, "fact", "")))
        kb = open_knowledge_base(options, text)
    prefixes = dict(program.prefixes)
    given = [resolve_predicate(name, prefixes) for name in kb.explicit_predicates]
    given += [signature.predicate for signature in program.predicates]
    for warning in suggest(program.rules, given, prefixes):
        warnings.warn(Source(text, options.program).with_places(warning), stacklevel=2)
    return kb, program


# ── run ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run(options: Namespace) -> int:
    """`tidelog run`"""
    choose_format(options)
    if options.engine == "spark":
        if is_saved(options.program):
            raise TidelogError(f"{options.program} is a saved knowledge base, which --engine memory reads")
        return _delegate("spark.pipeline.run_command", "run_program", options)
    for option, package in (("out", "pyarrow"), ("stats", "rich")):
        if getattr(options, option):
            with needing(f"--{option}"):  # which is told before the work that it comes after
                import_module(package)
    from tidelog.machine.jit import working_time

    started, began = time.perf_counter(), working_time()
    kb, program = _materialised(options)
    seconds, worked = time.perf_counter() - started, working_time() - began
    prefixes = dict(program.prefixes)
    if options.explain_plan:
        _print(plan_lines(RuleGraph(program.rules), lambda name: len(kb.facts(name)), prefixes))
    answered = []
    for query in program.queries:
        answers = kb.query(query)
        _print(
            answers_in(options.answers, query, answers.variables, answers, prefixes, syntax_of_file(options.program))
        )
        answered.append(len(answers) > 0)
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
    return exit_code(answered, options.query)


def choose_format(options: Namespace) -> None:
    """`--format` is that of the files where there are any, and otherwise that of the answers."""
    known, what = (FILE_FORMATS, "files (--out)") if options.out else (ANSWER_FORMATS, "answers")
    if options.format not in (None, *known):
        raise TidelogError(f"{options.format} is no format of {what}; use one of {', '.join(known)}")
    options.answers = "text" if options.out else options.format or "text"
    options.format = options.format or "csv"


def exit_code(answered: Sequence[bool], asked: Sequence[str]) -> int:
    """1 if one of the queries that were asked on the command line, the last ones, has no answer."""
    return 0 if all(answered[len(answered) - len(asked) :]) else 1


def tell_of_errors(errors: int) -> None:
    """Tell the user of rule instances that failed in an expression and were left out, and of the first ones in full."""
    if errors:
        from tidelog.engine.update.failures import Failures

        failures = errors if isinstance(errors, Failures) else Failures(errors)
        print("note:", "\n".join(failure_lines(failures)), file=sys.stderr)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _write_derived(kb: KnowledgeBase, program: Program, folder: str, format: str) -> None:
    from tidelog.api.files import sorted_facts

    prefixes = dict(program.prefixes)
    derived = dict.fromkeys(rule.head.predicate for rule in program.rules if not is_hidden(rule.head.predicate))
    # Triples need the IRI itself; other formats get the name as people read it.
    names = {name: name if format.startswith("nt") else display_predicate(name, prefixes) for name in derived}
    with working("writing"):
        formats.write_folder(folder, ((shown, sorted_facts(kb.facts(name))) for name, shown in names.items()), format)


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
    kb, _ = _materialised(options, journal=options.journal)
    with kb, output(options.out) as out:
        updates, go_on = formats.open_updates(options.updates), options.on_error == "continue"
        for change in _changes(kb, updates, options.marking, go_on, live=options.updates == "-"):
            print(formats.change_to_json(change), file=out, flush=True)
    tell_of_errors(kb.errors)
    return 0


def _changes(
    kb: KnowledgeBase, updates: Iterable[formats.Unread], marking: int, go_on: bool, live: bool
) -> Iterator[Change]:
    """One change per good update. A bad one turns out when its line is read or when it is applied; either way the error
    names its place. Without `go_on`, the first error is raised after the changes before it.

    The updates of a file are available: the stream always sees those that follow, so its work is the same every time.
    Those of live input may not be: the stream checks whether they have arrived, and does not wait for them.
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


# ── explain, graph and convert ───────────────────────────────────────────────────────────────────────────────────────


def explain(options: Namespace) -> int:
    """`tidelog explain`"""
    kb, _ = _materialised(options)
    values = {name: options.param[name] for name in parameters_of(options.fact) if name in options.param}
    proof = kb.explain(options.fact, **values)
    print(proof if proof is not None else kb.why_not(options.fact, **values))
    return 0


def graph(options: Namespace) -> int:
    """`tidelog graph`"""
    from tidelog.api.dependencies import DependencyGraph, Drawn

    text, program = _program_to_draw(options)
    prefixes = dict(program.prefixes)
    with errors_in(name_of(options.program), text):
        arities = _checked_arities([*program.predicates, *program.facts], program.rules, {}, prefixes)
        rules = RuleGraph(program.rules)
    declared = merged({}, program.predicates)
    whole = DependencyGraph.of(rules, Catalogue(prefixes, arities, declared=declared), ())
    drawn: Drawn = whole
    if options.if_added or options.if_removed:
        added, given = _rules_of_option("--if-added", options.if_added, prefixes)
        with errors_in(given.name, given.text):
            _checked_arities((), added, arities, prefixes)
        removed, _ = _rules_of_option("--if-removed", options.if_removed, prefixes)
        known = set(map(rule_key, rules.rules.values()))
        fresh = tuple(rule for rule in added if rule_key(rule) not in known)
        drawn = whole.impact(fresh, [_number(rules, rule) for rule in removed])
    with output(options.out) as out:
        out.write(drawn.draw(options.format))
    return 0


def _program_to_draw(options: Namespace) -> tuple[str, Program]:
    if not is_saved(options.program):
        return read_program(options.program, *_asked(options))
    from tidelog.api.knowledge_base import KnowledgeBase

    return _program_of(KnowledgeBase.open(options.program, read_only=True), options)


def _checked_arities(
    given: Sequence[Atom | Signature], rules: tuple[Rule, ...], arities: Mapping[str, int], prefixes: Mapping[str, str]
) -> dict[str, int]:
    """The arities of all predicates, if an update would accept the rules. Functions may be registered elsewhere."""
    functions = foreign_functions(rules)
    for rule in rules:
        check_rule(rule, functions, prefixes)
    return check_arities([*given, *rules], arities, prefixes)


def _rules_of_option(option: str, value: str, prefixes: dict[str, str]) -> tuple[tuple[Rule, ...], Source]:
    """The rules of a file, or rules given on the command line, and where they stand."""
    if not value or ":-" in value or (value.rstrip().endswith(".") and not Path(value).exists()):
        return parse_rules(value, prefixes, option), Source(value, option)
    source, text = read_text(value)
    return parse_rules(text, prefixes, source, syntax_of_file(value)), Source(text, source)


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
    source, text = read_text(options.program)
    program = parse_program(text, source, syntax=_other(wanted) if options.program == "-" else written)
    with errors_in(source, text):
        converted = language.convert(program, wanted)
    with output(options.out) as out:
        print(converted, file=out)
    return 0


def _other(syntax: str) -> str:
    return next(name for name in SYNTAXES if name != syntax)


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def shell(options: Namespace) -> int:
    """`tidelog shell`"""
    from tidelog.cli.shell import Shell, interact

    if is_saved(options.program):
        kb = open_saved(options, options.journal, options.read_only)
        if sys.stdin.isatty() and not (options.journal or options.read_only):
            print(f"a copy of {options.program}: `:save {options.program}` writes it back", file=sys.stderr)
    else:
        refuse_journal(options.journal or options.read_only, options.program)
        text = read_program(options.program, *_asked(options))[0] if options.program else ""
        kb = open_knowledge_base(options, text)
    with kb:
        return interact(Shell(kb))


def refuse_journal(wanted: bool, program: str | None) -> None:
    """Refuse options that concern saved folders alone."""
    if wanted:
        raise TidelogError(f"{name_of(program)} is no saved knowledge base; --journal and --read-only are for those")


def test(options: Namespace) -> int:
    """`tidelog test`"""
    from tidelog.testing.report import run_tests

    return run_tests(options.paths, options.match, options.verbose)


def pipeline(options: Namespace) -> int:
    """`tidelog pipeline`"""
    match options.action:
        case "run":
            return _delegate("spark.pipeline.pipeline", "run_pipeline", options.config, options.master)
        case "stream":
            return _delegate("spark.streams.stream_run", "run_stream", options.config, options.master)
    return _delegate("spark.streams.stream_run", "show_status", options.config)


def serve(options: Namespace) -> int:
    """`tidelog serve`"""
    with needing("this command", "server"):
        from tidelog.server.running.start import run

    return run(options)


def backup(options: Namespace) -> int:
    """`tidelog backup`"""
    from tidelog.storage import backups

    updates = backups.backup(Path(options.store), Path(options.file))
    print(f"{options.file}: a snapshot, and {counted(updates, 'update')} since")
    return 0


def restore(options: Namespace) -> int:
    """`tidelog restore`"""
    from tidelog.api.knowledge_base import KnowledgeBase
    from tidelog.storage import backups

    backups.restore(Path(options.file), Path(options.store))
    print(f"{options.store}: {counted(len(KnowledgeBase.open(options.store)), 'fact')}")
    return 0


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
    extra = module.partition(".")[0]
    with needing("this command", extra):
        called = getattr(import_module(f"tidelog.{module}"), function)
    result: int = called(*arguments)
    return result
