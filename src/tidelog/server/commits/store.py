"""The store of a server: the folder whose journal numbers the updates, and what is read from it at the start.

The note of each commit (`commit=` of an update) has its number, its time, and the keys of its requests. So numbers and
keys survive a restart, and the journal tells the history of the commits since the last snapshot.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.api.persistence import image_of, opened
from tidelog.api.programs import read_program
from tidelog.engine.update.deltas import Request
from tidelog.engine.update.runner import Limits as EngineLimits
from tidelog.errors import StorageWarning
from tidelog.facts.results import Change
from tidelog.language import syntax_of_file
from tidelog.live.knowledge import Knowledge
from tidelog.server.commits.history import History, commit_of
from tidelog.server.commits.keys import Keys
from tidelog.server.settings import Settings
from tidelog.storage.backups import RESTORED
from tidelog.storage.durable_files import storage_errors
from tidelog.storage.home import is_home

Found = TypeVar("Found")

# The parts of a commit's note.
UPDATE, AT, KEYS, UNDONE = "update", "at", "keys", "undone"

# Numbers of commits that a restored store leaves out.
LEFT_OUT = 1_000_000_000


def now() -> str:
    """The time of a commit."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class ServedStore:
    """A knowledge base with its journal, the history of its commits, and the keys of its updates."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.folder = settings.store
        self.is_new = not is_home(self.folder)
        if self.is_new:
            self._create()
        self.keys = Keys(settings.limits.keys)
        with opened(self.folder, journal=True, read_only=False) as saved:
            with saved.fitting():
                self.kb = KnowledgeBase(**saved.image.options)
            self._register(self.kb)
            self.knowledge: Knowledge = self.kb._knowledge
            self.history = History(_number(saved.image.commit), settings.limits.history)
            self.keys.read(self.folder)
            self.history.read(self.folder)
            saved.restore(self.knowledge, self._replayed)
        if (self.folder / RESTORED).exists():
            self._begin_again()
        self._before = self.history.number - self.knowledge.version
        limits = self.knowledge.engine.limits
        self.knowledge.engine.limits = EngineLimits(
            limits.max_facts if settings.max_facts is None else settings.max_facts,
            limits.timeout if settings.timeout is None else settings.timeout,
            settings.limits.max_matches,
        )

    def _create(self) -> None:
        program = self.settings.program
        kb = KnowledgeBase(max_facts=self.settings.max_facts)
        self._register(kb)  # The program may call them.
        if program is not None:
            kb._knowledge.add_program(read_program(program), syntax_of_file(program), program)
        with warnings.catch_warnings():  # Functions are not saved, and are registered at every start.
            warnings.simplefilter("ignore", StorageWarning)
            kb.save(self.folder)

    def _register(self, kb: KnowledgeBase) -> None:
        for name, function in self.settings.functions.items():
            kb.register(name, function)

    def _replayed(self, note: Mapping[str, str], change: Change) -> None:
        """An update of the journal was made again."""
        number = _number(note) or self.history.number + 1
        commit = commit_of(self.knowledge, number, change, self.settings.limits.history)
        commit.at = note.get(AT, "")
        commit.undone = int(note[UNDONE]) if UNDONE in note else None
        self.history.append(commit)
        self.keys.note_replayed(note.get(KEYS), number)

    def _begin_again(self) -> None:
        """Number a restored store so that nobody takes its commits for those that were made after the backup, which
        clients may know: an empty commit leaves out more numbers than there can have been.
        """
        note = {UPDATE: str(self.history.number + LEFT_OUT), AT: now()}
        self._replayed(note, self.knowledge.update(commit=note))
        with storage_errors("write", self.folder):
            (self.folder / RESTORED).unlink()

    def number(self, version: int | None = None) -> int:
        """The number of the commit that made a version of the knowledge base, or the last one."""
        return self._before + (self.knowledge.version if version is None else version)

    @property
    def journal_bytes(self) -> int:
        """How long the journal is."""
        home = self.knowledge.home
        return 0 if home is None else home.journal_bytes

    def save(self) -> None:
        """Write a snapshot, after which the journal is empty. For the thread that makes the updates; others read
        meanwhile.
        """
        knowledge = self.knowledge
        home = knowledge.home
        assert home is not None
        with knowledge.lock.working():
            image = image_of(knowledge)
        self.keys.write(self.folder)
        self.history.write(self.folder)
        home.save(image)

    def in_state(self, number: int, look: Callable[[], Found]) -> Found:
        """What can be found in the state after a commit. For the thread that makes the updates."""
        knowledge, way = self.knowledge, self.history.to_the_state(number)
        with knowledge.lock.working(), knowledge.reader.terms_for_a_question():
            if not way:
                return look()
            update = knowledge.catalogue.check(way.add_rules, way.remove_rules, knowledge.functions.keys())
            arities = dict(update.arities)
            delete, add = knowledge.incoming.encode(way.delete, arities), knowledge.incoming.encode(way.add, arities)
            request = Request(delete, add, tuple(update.removed), tuple(update.added.values()))

            def looked(_: object) -> Found:
                with knowledge.engine.store.borrowed():
                    return look()

            return knowledge.trials.look(request, looked)

    def close(self) -> None:
        self.kb.close()


def _number(note: Mapping[str, str]) -> int:
    text = note.get(UPDATE, "")
    return int(text) if text.isdigit() else 0
