"""`tidelog shell`: facts, rules and queries as they are typed, and what follows from them.

A statement may span lines and ends with its dot. A line that begins with a colon and a word is a command. An error is
shown and changes nothing; the shell goes on.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tidelog.cli.console import answer_lines, change_lines, fact_text, failure_lines
from tidelog.errors import TidelogError
from tidelog.extras import needing
from tidelog.formats.columns.order import sorted_rows
from tidelog.formats.display import counted
from tidelog.formats.files.byte_files import io_errors
from tidelog.language import is_unfinished, parse_program, render
from tidelog.language.parameters import bind
from tidelog.language.parse_messages import Source, told_of
from tidelog.language.printer import declaration
from tidelog.language.syntax import Atom, Program
from tidelog.values import Row

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from tidelog.api.knowledge_base import KnowledgeBase
    from tidelog.engine.update.failures import Failures
    from tidelog.facts.results import Change

PROMPT, CONTINUATION = "tidelog> ", "    ...> "
GREETING = "tidelog: type facts, rules and queries, each with its final dot. `help` for help, `exit` to leave."
HELP = """\
edge(a, b).                        add a fact
path(X, Y) :- edge(X, Y).          add a rule
?- path(a, X).                     ask
@prefix ex: <http://e.org/> .      declare a prefix
@predicate edge/2.                 declare a predicate that may have no facts
:delete edge(a, b).                delete facts
:remove path(X, Y) :- edge(X, Y).  remove rules
:what_if edge(c, d).               show what this would change, also with :delete and :remove, without doing it
:explain path(a, b)                prove a fact, or say why it does not hold
:load FILE                         load a program (.dlog, .zodiac), a file of facts or a folder of them; for CSV also
                                   --predicate edge, --header or --no-header, --types string,int
:export FOLDER [FORMAT]            write all facts, a file for each predicate: csv, tsv, jsonl, nt, dlog, parquet
:rules                             list the rules
:facts [PREDICATE]                 list the facts, of all predicates or of one
:predicates                        list the predicates with their numbers of facts
:save FOLDER                       save everything; `tidelog shell FOLDER` opens it again
:refresh                           take in what the writer of a folder that is open with --read-only has done
:help, help                        this
:quit, quit, exit                  leave (or Ctrl-D)"""

_BARE = re.compile(r"\s*(help|exit|quit)\s*")
_COMMAND = re.compile(r"\s*:(\w+)(?:\s+(.*?))?\s*", re.DOTALL)


class Leave(Exception):
    """The user leaves the shell."""


class Shell:
    """Executes statements and commands on a knowledge base, and yields the lines to print. `ask` asks the user whether
    something is so, where there is one.
    """

    def __init__(self, kb: KnowledgeBase, ask: Callable[[str], bool] | None = None) -> None:
        self.kb = kb
        self.ask = ask

    def execute(self, text: str) -> Iterator[str]:
        """Execute a statement or a command; raises `TidelogError` where it fails, and `Leave` at the end."""
        command = _COMMAND.fullmatch(_as_command(text))
        if command is None:
            yield from self._take(parse_program(text, "<shell>", self.kb.prefixes), text)
            return
        name, argument = command[1], command[2] or ""
        if name not in _COMMANDS:
            raise TidelogError(f"there is no command :{name}; :help lists them")
        yield from getattr(self, f"_do_{name}")(argument)

    def _take(self, program: Program, text: str) -> Iterator[str]:
        if any((program.prefixes, program.predicates, program.expiries, program.rules, program.facts)):
            with told_of(text, "<shell>"):
                change = self.kb.update(**_addition(program))
            yield from self._changed(change)
        for query in program.queries:
            answers = self.kb.query(bind(query, {}, Source(text, "<shell>")))
            yield from list(answer_lines(query, answers, self.kb.prefixes))[1:]
            if answers.errors:
                yield from failure_lines(_failures(answers.errors))

    def _changed(self, change: Change) -> Iterator[str]:
        yield from change_lines(change.added, change.removed, self.kb.prefixes)
        if change.errors:
            yield from failure_lines(_failures(change.errors))

    def _do_delete(self, text: str) -> Iterator[str]:
        return self._changed(self.kb.update(**self._deletion(text)))

    def _deletion(self, text: str) -> dict[str, Any]:
        """The update that deletes facts."""
        program = parse_program(_with_dot(text), "<shell>", self.kb.prefixes)
        if program.rules:
            raise TidelogError(":delete takes facts, such as `:delete edge(a, b).`; rules go with :remove")
        if program.queries or not program.facts:
            raise TidelogError(":delete takes facts, such as `:delete edge(a, b).`")
        return {"delete": _rows(program)}

    def _do_remove(self, text: str) -> Iterator[str]:
        return self._changed(self.kb.remove_rules(_with_dot(text)))

    def _do_what_if(self, text: str) -> Iterator[str]:
        return self._changed(self.kb.what_if(**self._update(text)))

    def _update(self, text: str) -> dict[str, Any]:
        """The update that a statement or a command stands for."""
        command = _COMMAND.fullmatch(text)
        if command is None and text:
            program = parse_program(_with_dot(text), "<shell>", self.kb.prefixes)
            if (program.facts or program.rules or program.expiries) and not program.queries:
                return _addition(program)
        elif command and command[1] == "delete":
            return self._deletion(command[2] or "")
        elif command and command[1] == "remove":
            return {"remove_rules": _with_dot(command[2] or "")}
        raise TidelogError(":what_if takes facts and rules, `:delete FACTS` or `:remove RULES`")

    def _do_explain(self, text: str) -> Iterator[str]:
        proof = self.kb.explain(text.removesuffix("."))
        yield str(proof if proof is not None else self.kb.why_not(text.removesuffix(".")))

    def _do_load(self, argument: str) -> Iterator[str]:
        given = _LOAD.parse_args(_words("load", argument, "FILE"))
        path = Path(given.path).expanduser()
        if path.suffix in (".dlog", ".zodiac"):
            from tidelog.cli.programs import read_program

            text, program = read_program(str(path))
            return self._take(program, text)
        header, types = given.header, given.types and given.types.split(",")
        if header is None and self.ask is not None:
            header = self._asked_for_header(path)
        return self._changed(self.kb.load(path, given.predicate, header, types))

    def _asked_for_header(self, path: Path) -> bool | None:
        """What the user says of a first line that looks like a header; None if none does."""
        from tidelog.formats.files.folder import likely_header_of

        first = likely_header_of(path)
        if first is None or self.ask is None:
            return None
        return self.ask(f"The first line of {path} is `{first[:60]}`. Does it name the columns?")

    def _do_export(self, argument: str) -> Iterator[str]:
        given = _EXPORT.parse_args(_words("export", argument, "FOLDER [FORMAT]"))
        written = self.kb.export(Path(given.folder).expanduser(), given.format)
        yield f"wrote {counted(len(written), 'file')} to {given.folder}"

    def _do_refresh(self, _: str) -> Iterator[str]:
        return self._changed(self.kb.refresh())

    def _do_rules(self, _: str) -> Iterator[str]:
        return iter([str(rule) for rule in self.kb.rules])

    def _do_facts(self, argument: str) -> Iterator[str]:
        for predicate in [argument] if argument else sorted(self.kb.predicates):
            for row in sorted_rows(self.kb.facts(predicate)):
                yield fact_text(predicate, row, self.kb.prefixes) + "."

    def _do_predicates(self, _: str) -> Iterator[str]:
        for predicate in sorted(self.kb.predicates):
            yield f"{predicate}  {len(self.kb.facts(predicate)):,}"

    def _do_save(self, argument: str) -> Iterator[str]:
        [name] = _words("save", argument, "FOLDER", most=1)
        path = Path(name).expanduser()
        self.kb.save(path)
        yield f"saved in {path}"

    def _do_help(self, _: str) -> Iterator[str]:
        return iter(HELP.splitlines())

    def _do_quit(self, _: str) -> Iterator[str]:
        raise Leave

    _do_exit = _do_quit


_COMMANDS = sorted(name.removeprefix("_do_") for name in vars(Shell) if name.startswith("_do_"))


def _failures(count: int) -> Failures:
    """What has failed; a server tells how often alone."""
    from tidelog.engine.update.failures import Failures

    return Failures() + count


def _addition(program: Program) -> dict[str, Any]:
    """The update that adds the facts and rules of a program, and its prefixes."""
    rules = [f"@prefix {name}: <{namespace}> ." for name, namespace in program.prefixes]
    rules += map(declaration, program.predicates)
    rules += [str(statement) for statement in (*program.expiries, *program.rules)]
    return {"add": _rows(program), "add_rules": "\n".join(rules)}


def _rows(program: Program) -> dict[str, list[Row]]:
    """The facts of a program, under names that `update` resolves to their predicates."""
    return {render(Atom(name)).removesuffix("()"): rows for name, rows in program.rows.items()}


def _words(command: str, argument: str, what: str, most: int | None = None) -> list[str]:
    """The words of a command's argument, as a command line has them; there may be quotes."""
    try:
        words = shlex.split(argument)
    except ValueError as problem:
        raise TidelogError(f":{command}: {problem}; close the quote") from None
    if not words:
        raise TidelogError(f":{command} needs a path: `:{command} {what}`")
    if most is not None and len(words) > most:
        raise TidelogError(f":{command} takes one path: `:{command} {what}`; put a path with blanks in quotes")
    return words


class _Options(argparse.ArgumentParser):
    """The options of a command. What is wrong with them does not end the shell."""

    def error(self, message: str) -> NoReturn:
        raise TidelogError(f":{self.prog}: {message}; :help shows how to write it")


_LOAD = _Options(prog="load", add_help=False, allow_abbrev=False)
_LOAD.add_argument("path")
_LOAD.add_argument("--predicate")
_LOAD.add_argument("--header", action=argparse.BooleanOptionalAction)
_LOAD.add_argument("--types")
_EXPORT = _Options(prog="export", add_help=False, allow_abbrev=False)
_EXPORT.add_argument("folder")
_EXPORT.add_argument("format", nargs="?", default="csv")


def _with_dot(text: str) -> str:
    return text if text.endswith(".") else text + "."


def _as_command(text: str) -> str:
    """A word that newcomers type, as the command that it is meant to be; without a dot it cannot be a statement."""
    bare = _BARE.fullmatch(text)
    return text if bare is None else f":{bare[1]}"


def is_complete(text: str) -> bool:
    """Whether a text can be executed: it is a command, or holds complete statements."""
    return _COMMAND.fullmatch(_as_command(text).split("\n", 1)[0]) is not None or not is_unfinished(text)


# ── the session ──────────────────────────────────────────────────────────────────────────────────────────────────────


def interact(shell: Shell) -> int:
    """Read, execute and print until the end of the input."""
    interactive = sys.stdin.isatty()
    if interactive:
        print(GREETING)
    read_line = _prompt(shell) if interactive else _read_plain_line
    if interactive:
        shell.ask = lambda question: read_line(f"{question} [y/n] ").strip().lower().startswith("y")
    for text in statements(read_line):
        try:
            for line in shell.execute(text):
                print(line, flush=True)
        except Leave:
            break
        except TidelogError as error:
            print(f"error: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            if not interactive:
                raise
            print("interrupted; nothing was changed", file=sys.stderr)
    return 0


def statements(read_line: Callable[[str], str]) -> Iterator[str]:
    """Whole statements and commands from lines; `read_line` takes a prompt and raises EOFError at the end."""
    pending: list[str] = []
    while True:
        try:
            pending.append(read_line(CONTINUATION if pending else PROMPT))
        except KeyboardInterrupt:
            pending.clear()
            continue
        except EOFError:
            if pending:
                yield "\n".join(pending)
            return
        text = "\n".join(pending)
        if is_complete(text):
            pending.clear()
            if text.strip():
                yield text


def _read_plain_line(_: str) -> str:
    with io_errors("<standard input>"):
        line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _prompt(shell: Shell) -> Callable[[str], str]:
    """A line editor with history and completion."""
    with needing("the shell"):
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter

    def words() -> list[str]:
        return [f":{name}" for name in _COMMANDS] + sorted(shell.kb.predicates)

    completer = WordCompleter(words, pattern=re.compile(r":?\w+(?::\w*)?"))
    session: PromptSession[str] = PromptSession(history=_history(), completer=completer, complete_while_typing=False)
    return lambda prompt: session.prompt(prompt)


def _history() -> Any:
    """The history of all sessions; of this one alone where no file can be kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "tidelog"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "history").touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(folder / "history"))
