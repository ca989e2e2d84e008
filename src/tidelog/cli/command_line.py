"""The command line: the arguments of each command, and how every failure ends in one message and an exit code.

0 is success, 1 a negative answer (a question of `run -q` without answers, a test that fails), 2 a bad program, bad data
or bad usage, 130 an interruption. What a command does is in
`tidelog.cli.commands`, which is imported only when a command runs, so that `tidelog --help` answers at once.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from tidelog.cli.parameters import add_parameters
from tidelog.cli.terminal import OutputError, checked_output, open_closed_streams
from tidelog.engine.algorithms.names import MAINTENANCE
from tidelog.errors import TidelogError
from tidelog.language.syntaxes import SYNTAXES

SUCCESS, FAILURE, INTERRUPTED = 0, 2, 130

# The formats of facts in files, and of answers; `formats` is loaded only when a command runs.
FILE_FORMATS = ("csv", "tsv", "jsonl", "nt", "dlog", "parquet", "csv.gz", "tsv.gz", "jsonl.gz", "nt.gz", "dlog.gz")
ANSWER_FORMATS = ("text", "json", "jsonl", "csv", "tsv")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    open_closed_streams()
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
        try:
            with checked_output():
                parser = _parser()
                options = parser.parse_args(argv)
                code: int = getattr(import_module(_module(parser, options)), options.command)(options)
                return code
        except (TidelogError, OutputError) as error:
            return _fail(str(error))
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            return SUCCESS  # The reader has left.
        except MemoryError:
            return _fail("out of memory; give --max-facts to stop a rule that runs away, or use --engine spark")


def _module(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """Where a command is: with `--server`, others do the work."""
    if "server" not in options:
        return "tidelog.cli.commands"
    if options.server and options.program:
        parser.error(f"{options.program} and --server: give either a program or a server")
    if not options.server and not options.program and options.command != "shell":
        parser.error("which program? Give a file, a saved folder or -, or a server with --server URL")
    return "tidelog.cli.remote" if options.server else "tidelog.cli.commands"


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return FAILURE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidelog", description="A Datalog engine whose conclusions stay true while facts and rules change."
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for name, (description, add) in _COMMANDS.items():
        add(commands.add_parser(name, help=description, description=f"{description[0].upper()}{description[1:]}."))
    return parser


class _Version(argparse.Action):
    """`--version`, which looks up the version only when it is used."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"tidelog {version('tidelog')}")
        parser.exit()


def _add_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "program",
        metavar="PROGRAM",
        nargs="?",
        help="a file of rules and facts (in ZodiacEdge's syntax if it ends in .zodiac), a saved folder, or -",
    )
    add_parameters(parser)
    _add_server(parser)


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server", metavar="URL", help="ask a server (`tidelog serve`); its token is in the variable TIDELOG_TOKEN"
    )


def _add_engine_options(parser: argparse.ArgumentParser) -> None:
    """The options of every command that materialises a program."""
    parser.add_argument("--facts", metavar="DIR", help="a folder of facts: a CSV, TSV, Parquet, JSONL or RDF file each")
    parser.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first line of CSV and TSV files names the columns (default: it does not)",
    )
    parser.add_argument(
        "--types",
        metavar="PREDICATE=TYPE,…",
        type=_types,
        action=_Together,
        default={},
        help="the types of the columns of a CSV or TSV file: auto, string, int, float, bool, iri; for each file",
    )
    parser.add_argument("--maintenance", choices=MAINTENANCE, help="the algorithm (default: auto)")
    parser.add_argument("--no-modules", action="store_true", help="evaluate closures like any other rules")
    parser.add_argument("--max-facts", type=_positive(int), metavar="N", help="give up beyond this many facts")
    parser.add_argument("--timeout", type=_positive(float), metavar="SECONDS", help="give up after this time")


def _types(text: str) -> tuple[str, list[str]]:
    predicate, equals, types = text.rpartition("=")
    if not (equals and predicate and types):
        raise argparse.ArgumentTypeError(f"{text} is not PREDICATE=TYPE,TYPE,…, such as edge=string,int")
    return predicate, types.split(",")


class _Together(argparse.Action):
    """Pairs of an option that may be given several times, as one mapping."""

    def __call__(self, parser: argparse.ArgumentParser, options: argparse.Namespace, pair: Any, *_: object) -> None:
        setattr(options, self.dest, {**getattr(options, self.dest), pair[0]: pair[1]})


def _positive(number: type[int] | type[float]) -> Callable[[str], float]:
    def convert(text: str) -> float:
        value = number(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    convert.__name__ = "number"
    return convert


def _from_zero(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return value


_from_zero.__name__ = "number"


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_program(parser)
    _add_engine_options(parser)
    parser.add_argument(
        "-q",
        "--query",
        metavar="QUERY",
        action="append",
        default=[],
        help="ask this, too, such as 'path(a, X)'; the exit code is 1 if there is no answer; may be given again",
    )
    parser.add_argument("--out", metavar="DIR", help="write the facts of every derived predicate to a file here")
    parser.add_argument(
        "--format",
        choices=tuple(dict.fromkeys((*ANSWER_FORMATS, *FILE_FORMATS))),
        metavar="FORMAT",
        help=f"of the answers ({', '.join(ANSWER_FORMATS)}), or of --out ({', '.join(FILE_FORMATS)}); "
        "default: text, or csv",
    )
    parser.add_argument("--engine", choices=("memory", "spark"), default="memory", help="default: memory")
    _add_master(parser)
    parser.add_argument("--stats", action="store_true", help="show time, facts and rule applications per rule")
    parser.add_argument("--explain-plan", action="store_true", help="show how each rule is evaluated")


def _add_stream(parser: argparse.ArgumentParser) -> None:
    _add_program(parser)
    parser.add_argument(
        "--updates", metavar="FILE", required=True, help="JSON Lines, a folder of Prolog files, or - for standard input"
    )
    _add_engine_options(parser)
    parser.add_argument("--out", metavar="FILE", help="write a line per change here (default: standard output)")
    _add_journal(parser)
    ahead = parser.add_mutually_exclusive_group()
    ahead.add_argument(
        "--marking", type=_from_zero, default=1, metavar="K", help="how many updates to look ahead (default: 1)"
    )
    ahead.add_argument(
        "--no-marking", dest="marking", action="store_const", const=0, help="do not look ahead: --marking 0"
    )
    parser.add_argument(
        "--on-error", choices=("stop", "continue"), default="stop", help="after a bad update (default: stop)"
    )


def _add_journal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--journal", action="store_true", help="record each update in the saved folder that PROGRAM is")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _add_program(parser)
    parser.add_argument("fact", metavar="FACT", help="such as 'path(a, c)'")
    _add_engine_options(parser)


def _add_graph(parser: argparse.ArgumentParser) -> None:
    _add_program(parser)
    parser.add_argument("--format", choices=("dot", "svg", "mermaid", "json"), default="dot", help="default: dot")
    parser.add_argument("--out", metavar="FILE", help="write the drawing here (default: standard output)")
    what = "the rules of a file, or these rules,"
    parser.add_argument("--if-added", metavar="FILE", default="", help=f"show what adding {what} would touch")
    parser.add_argument("--if-removed", metavar="FILE", default="", help=f"show what removing {what} would touch")


def _add_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="FILE", help="a program, or - for standard input")
    parser.add_argument("--to", choices=tuple(SYNTAXES), help="the syntax to write (default: the other one)")
    parser.add_argument("--out", metavar="FILE", help="write the program here (default: standard output)")


def _add_shell(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="PROGRAM", nargs="?", help="a file, or a saved folder, to begin with")
    add_parameters(parser)
    _add_server(parser)
    _add_engine_options(parser)
    _add_journal(parser)
    parser.add_argument(
        "--read-only", action="store_true", help="look at the saved folder that PROGRAM is beside its writer"
    )


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", default=["."], help="*.test.dlog files, or folders of them (default: here)"
    )
    parser.add_argument("-k", metavar="TEXT", dest="match", default="", help="only tests whose names contain this")
    parser.add_argument("-v", "--verbose", action="store_true", help="name every test")


def _add_pipeline(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    for name, description, subject in (
        ("run", "read, encode, materialise, maintain and publish as a file says", "the pipeline"),
        ("stream", "maintain a materialisation under a stream", "the pipeline and its stream"),
        ("status", "show what a stream does: rates, latency, backlog, work", "the stream"),
    ):
        action = actions.add_parser(name, help=description)
        action.add_argument("config", metavar="CONFIG", help=f"the file that describes {subject}")
        if name != "status":
            _add_master(action)


def _add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", help="the Spark cluster (default: every core of this machine)")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="the folder of the knowledge base; made where it is missing")
    parser.add_argument("--program", metavar="FILE", help="the facts and rules to begin with, where STORE is new")
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to listen (default: 127.0.0.1:8765)")
    parser.add_argument("--tokens", metavar="FILE", help="who may do what: a token and its roles a line")
    parser.add_argument("--tls-certificate", metavar="FILE", help="speak TLS with this certificate (PEM)")
    parser.add_argument("--tls-key", metavar="FILE", help="the key of the certificate (PEM)")
    parser.add_argument("--insecure", action="store_true", help="let everybody in, from everywhere, unencrypted")
    parser.add_argument("--functions", metavar="MODULE", help="a Python module whose `functions` rules may call")
    parser.add_argument("--json-logs", action="store_true", help="log lines as JSON objects")
    parser.add_argument("--max-facts", type=_positive(int), metavar="N", help="refuse updates beyond this many facts")
    parser.add_argument(
        "--timeout", type=_positive(float), metavar="SECONDS", help="of an update or a query (default: 30)"
    )
    for name, what in _SERVER_LIMITS.items():
        parser.add_argument(f"--{name}", type=_positive(float if name == "stall" else int), metavar="N", help=what)


_SERVER_LIMITS = {
    "max-body": "bytes of a request",
    "max-answers": "rows of one answer, and of a subscription",
    "max-matches": "matches of a query, while all its answers are found",
    "max-subscriptions": "streams that are open at once",
    "max-waiting": "updates that wait",
    "max-backlog": "bytes that wait for the reader of a stream",
    "stall": "seconds for which a request, an answer or a stream may stand still",
    "history": "explicit facts of former updates that are kept for those who come back",
    "keys": "Idempotency-Keys that are remembered",
    "compact": "bytes of the journal from which on a snapshot is written",
}


def _add_backup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="the folder of a saved knowledge base; its writer may go on")
    parser.add_argument("file", metavar="FILE", help="the file to write, such as monday.tar")


def _add_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that `tidelog backup` wrote")
    parser.add_argument("store", metavar="STORE", help="the folder to make")


def _add_warmup(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the table; `list` shows all")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="options of the table")


_COMMANDS = {
    "run": ("materialise a program and print the answers of its queries", _add_run),
    "stream": ("maintain a program under a stream of updates", _add_stream),
    "explain": ("prove a fact", _add_explain),
    "graph": ("draw the hyper rule dependency graph", _add_graph),
    "convert": ("write a program in another syntax", _add_convert),
    "test": ("run the tests of rules in *.test.dlog files", _add_test),
    "shell": ("type facts, rules and queries", _add_shell),
    "serve": ("serve a knowledge base over HTTP, for many to share", _add_serve),
    "backup": ("copy a saved knowledge base into a file, while it is served", _add_backup),
    "restore": ("make a saved knowledge base of such a file", _add_restore),
    "pipeline": ("the Spark pipeline", _add_pipeline),
    "warmup": ("compile the kernels now, instead of at their first use", _add_warmup),
    "bench": ("measure a table of a paper, beside the paper's figures", _add_bench),
}
