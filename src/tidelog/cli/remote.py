"""The commands with `--server URL`: they ask a server instead of materialising a program."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from tidelog import formats
from tidelog.cli.commands import choose_format
from tidelog.cli.console import answers_in
from tidelog.cli.parameters import bind_queries
from tidelog.cli.terminal import output
from tidelog.errors import TidelogError
from tidelog.extras import needing
from tidelog.language import parse_query
from tidelog.language.parse_messages import Source

if TYPE_CHECKING:
    from tidelog.client.connection import Connection
    from tidelog.client.results import RemoteChange

TOKEN = "TIDELOG_TOKEN"

# Options that concern the materialisation, which the server has.
_LOCAL = ("facts", "maintenance", "no_modules", "max_facts", "timeout", "out", "stats", "explain_plan", "journal")
# And those that do not concern it with some commands only.
_REMOTE = {"out": ("stream", "graph"), "param": ("run", "explain")}


def connected(options: Namespace) -> Connection:
    """A connection to the server that the options name."""
    for name in (*_LOCAL, "param"):
        if getattr(options, name, None) and options.command not in _REMOTE.get(name, ()):
            raise TidelogError(f"--{name.replace('_', '-')} is for programs, and does not go with --server")
    with needing("--server", "client"):
        from tidelog.client.connection import connect
    return connect(options.server, os.environ.get(TOKEN) or None)


def run(options: Namespace) -> int:
    """`tidelog run --server`"""
    if not options.query:
        raise TidelogError("a server has no queries of its own; ask some with -q")
    choose_format(options)
    with connected(options) as kb:
        prefixes = kb.prefixes
        parsed = [(parse_query(text, prefixes, "--query"), Source(text, "--query")) for text in options.query]
        answered = []
        for query in bind_queries(parsed, options.param):
            answers = kb.query(query)
            lines = answers_in(options.answers, query, answers.variables, answers, prefixes)
            print("\n".join(lines))
            answered.append(len(answers) > 0)
    return 0 if all(answered) else 1


def explain(options: Namespace) -> int:
    """`tidelog explain --server`"""
    with connected(options) as kb:
        proof = kb.explain(options.fact, **options.param)
        print(proof if proof is not None else kb.why_not(options.fact, **options.param))
    return 0


def graph(options: Namespace) -> int:
    """`tidelog graph --server`"""
    if options.if_added or options.if_removed:
        raise TidelogError("--if-added and --if-removed are for programs, and do not go with --server")
    with connected(options) as kb:
        drawn = kb.graph.draw(options.format)
    with output(options.out) as out:
        out.write(drawn)
    return 0


def stream(options: Namespace) -> int:
    """`tidelog stream --server`"""
    with connected(options) as kb, output(options.out) as out:
        for unread in formats.open_updates(options.updates):
            try:
                change = _sent(kb, unread)
            except TidelogError as error:
                if options.on_error == "stop":
                    raise
                print(f"error: {error}", file=sys.stderr)
                continue
            print(formats.change_to_json(change), file=out, flush=True)
    return 0


def _sent(kb: Connection, unread: formats.Unread) -> RemoteChange:
    """The change that an update makes. An error names its place, as one in reading it does by itself."""
    update = unread.read()
    try:
        return kb.update(**update)
    except TidelogError as error:
        raise TidelogError(f"{unread.place}: {error}") from None


def shell(options: Namespace) -> int:
    """`tidelog shell --server`"""
    from tidelog.cli.shell import Shell, interact

    if options.read_only:
        raise TidelogError("--read-only is for saved folders, and does not go with --server")
    with connected(options) as kb:
        return interact(Shell(kb))  # type: ignore[arg-type]
