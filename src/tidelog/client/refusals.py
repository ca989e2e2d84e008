"""What a knowledge base has that a connection has not, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tidelog.errors import TidelogError
from tidelog.language import DLOG, syntax_named

NOTES = "the notes of commits are the server's own; `version` is the number of the last update"

INSTEAD: dict[str, str] = {
    "register": "no code of a client runs on a server; whoever starts it registers functions: `tidelog serve STORE "
    "--functions MODULE`",
    "register_lattice": "no code of a client runs on a server; whoever starts it registers lattices, as functions: "
    "`tidelog serve STORE --functions MODULE`",
    "live": "a server is live already: it commits updates that wait together, and reads do not wait for them; use "
    "`update` from several threads, or `connect_async`",
    "live_async": "a server is live already; use `tidelog.connect_async`",
    "add_module": "no code of a client runs on a server; its rules hold without a module of one's own",
    "declarations": "`predicates` of the server's HTTP interface names the columns of each predicate",
    "describe": "`predicates` of the server's HTTP interface names the columns of each predicate, and says what it is",
    "time": "`advance(to)` and `at` of an update say what time it is",
    "expiries": "`@expire` comes with the rules of an update; what expires is listed beside the server: "
    "`KnowledgeBase.open(store, read_only=True)`",
    "refresh": "a connection always sees the last update; there is nothing to refresh",
    "open": "a store is opened by its server; `tidelog.connect` connects with that",
    "violations": "what only records violations is read beside the server: `KnowledgeBase.open(store, read_only=True)`",
    "commit_info": NOTES,
}


class NotOverHttp(TidelogError, AttributeError):
    """A method of a knowledge base that a connection cannot have."""


class Remote:
    """Says of each such method what to do instead. Others it does not know."""

    instead: ClassVar[Mapping[str, str]] = INSTEAD

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if name in self.instead:
            raise NotOverHttp(f"a {kind} has no `{name}`: {self.instead[name]}")
        raise AttributeError(f"a {kind} has no attribute {name!r}")


def refuse_other_syntax(syntax: str) -> None:
    """Refuse rules in another syntax than that of the language."""
    syntax_named(syntax)  # refuses an unknown one
    if syntax != DLOG:
        raise TidelogError(
            "a server takes rules in the syntax of tidelog alone: `tidelog convert` translates other ones, and so does "
            "`tidelog.language.convert`"
        )


def refuse_note(commit: object) -> None:
    """Refuse a note of an update."""
    if commit is not None:
        raise TidelogError(f"an update of a server has no `commit`: {NOTES}")


def refuse_folder(folder: object) -> None:
    """Refuse to save elsewhere than in the server's store."""
    if folder is not None:
        raise TidelogError(
            "a server saves into its own store: call `save()`; `export` writes facts here, and `tidelog backup` copies "
            "the store where the server runs"
        )
