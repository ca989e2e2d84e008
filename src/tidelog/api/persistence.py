"""Saving a knowledge base into a folder and opening it from there: what is saved, and how a journal is applied.

`storage` knows folders and files; this module knows what they hold of a knowledge base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tidelog.engine.image import MOST_COUNTED, Image
from tidelog.engine.imaging import image_of_engine, restore_engine
from tidelog.engine.update.deltas import Request
from tidelog.engine.update.failures import Failures
from tidelog.engine.update.runner import Limits
from tidelog.errors import StorageError, StorageWarning, TidelogError, warn
from tidelog.facts.arguments import checked_path
from tidelog.facts.encoding import check_arities_of
from tidelog.facts.results import Change
from tidelog.language.checks import check_arities, foreign_functions
from tidelog.language.records.types import check_declarations
from tidelog.live.knowledge import Knowledge
from tidelog.storage.follower import Follower
from tidelog.storage.home import Home, read_image, save_image
from tidelog.storage.journal import from_json

OnReplay = Callable[[Mapping[str, str], Change], None]


def save(knowledge: Knowledge, into: str | PathLike[str]) -> None:
    """Save into a folder, which may be the one whose journal this knowledge base keeps."""
    folder = checked_path(into)
    home, followed = knowledge.home, knowledge.followed
    if followed is not None and followed.folder == folder.resolve():
        raise StorageError(f"{folder} is open for reading only, and belongs to its writer; save elsewhere")
    if home is not None and home.folder == folder.resolve():
        home.save(image_of(knowledge))
    else:
        save_image(folder, image_of(knowledge))


def image_of(knowledge: Knowledge) -> Image:
    """All that has to be saved."""
    limits, catalogue = knowledge.engine.limits, knowledge.catalogue
    options = {
        "maintenance": knowledge.maintenance,
        "modules": knowledge.modules,
        "max_facts": limits.max_facts,
        "timeout": limits.timeout,
        "on_error": knowledge.failures.on_error,
    }
    return image_of_engine(
        knowledge.engine,
        options,
        catalogue.prefixes,
        catalogue.arities,
        int(knowledge.failures.seen),
        knowledge.commit_info,
        catalogue.declared,
    )


@dataclass(frozen=True, slots=True)
class SavedFolder:
    """A snapshot, and the updates of the journal since. `home` is the folder if it is open for writing, `followed` if
    somebody else may go on writing to it.
    """

    folder: Path
    image: Image
    payloads: list[bytes]
    home: Home | None = None
    followed: Follower | None = None

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Each file may be in order, and yet they may not fit together."""
        try:
            yield
        except TidelogError as problem:
            raise StorageError(
                f"the files in {self.folder} do not fit together; restore a copy: {problem}"
            ) from problem
        except MemoryError as problem:
            raise StorageError(
                f"memory is too short for what the files in {self.folder} hold, or say that they do"
            ) from problem

    def restore(self, knowledge: Knowledge, on_replay: OnReplay | None) -> None:
        """Fill an empty knowledge base. From then on it records its updates here, if the folder is open for writing, or
        takes in what its writer does.
        """
        self.fill(knowledge, on_replay)
        if self.home is not None:
            self.home.prefixes = dict(knowledge.catalogue.prefixes)
            knowledge.home = self.home
        knowledge.followed = self.followed
        missing = ", ".join(f"`{name}`" for name in knowledge.missing_functions())
        if missing:
            advice = "pass them to open as `functions`, or register them before the next update"
            warn(f"rules call {missing}, and functions are not saved: {advice}", StorageWarning)

    def fill(self, knowledge: Knowledge, on_replay: OnReplay | None = None) -> None:
        """Put everything into an empty knowledge base."""
        image, engine = self.image, knowledge.engine
        with self.fitting():
            arities = restore_engine(engine, image)
        with self.fitting():
            check_arities(image.declared.values(), arities, image.prefixes)
            check_declarations(image.declared.values(), {}, image.prefixes)
        knowledge.catalogue.restore(image.prefixes, arities, engine.graph.rules, image.declared)
        knowledge.failures.seen = Failures(min(image.errors, MOST_COUNTED))
        knowledge.commit_info = image.commit
        # The updates of the journal kept within their limits once, so none hold now; nor is any refused for failures.
        limits, engine.limits = engine.limits, Limits()
        on_error, knowledge.failures.on_error = knowledge.failures.on_error, "count"
        for number, payload in enumerate(self.payloads, start=1):
            self._replay(knowledge, payload, f"update {number} of the journal in {self.folder}", on_replay)
        engine.limits, knowledge.failures.on_error = limits, on_error
        with self.fitting():
            knowledge.timing.resume(engine.store.named())
            knowledge.timing.now()

    def _replay(self, knowledge: Knowledge, payload: bytes, place: str, on_replay: OnReplay | None) -> None:
        """Apply an update of the journal again."""
        catalogue = knowledge.catalogue
        try:
            record = from_json(payload, knowledge.engine.store.terms.encode_values, Path(place))
            catalogue.declare(record.prefixes.items())
            functions = foreign_functions(record.add_rules)
            update = catalogue.check(record.add_rules, record.remove_rules, functions, record.declared.values())
            check_arities_of((record.add, record.delete), update.arities)
            request = Request(record.delete, record.add, tuple(update.removed), tuple(update.added.values()))
            change = knowledge.replay(request, update, record.commit)
        except StorageError:
            raise
        except TidelogError as problem:
            raise StorageError(f"{place} cannot be applied again: {problem}") from problem
        if on_replay is not None:
            on_replay(record.commit, change)


@contextmanager
def opened(saved: str | PathLike[str], journal: bool, read_only: bool) -> Iterator[SavedFolder]:
    """A folder to restore a knowledge base from. It is closed again if that fails."""
    folder = checked_path(saved)
    if read_only:
        if journal:
            raise StorageError("a knowledge base that is open for reading only keeps no journal; choose one of the two")
        followed = Follower(folder)
        news = followed.everything()
        assert news.image is not None
        yield SavedFolder(folder, news.image, news.payloads, followed=followed)
        followed.took(news)
        return
    home, image, payloads = Home.open(folder) if journal else (None, *read_image(folder))
    try:
        yield SavedFolder(folder, image, payloads, home)
    except BaseException:
        if home is not None:
            home.close()
        raise
