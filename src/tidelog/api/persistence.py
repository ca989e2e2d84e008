"""Saving a knowledge base into a folder, and opening it from there: what of it is saved, and how a journal is applied.

`storage` knows folders and files; here is what they hold of a knowledge base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.engine.image import MOST_COUNTED, Image
from tidelog.engine.imaging import image_of_engine, restore_engine
from tidelog.engine.outcome import Request
from tidelog.engine.runner import Limits
from tidelog.errors import StorageError, TidelogError
from tidelog.facts.arguments import check_folder
from tidelog.facts.encoding import check_arities_of
from tidelog.facts.results import Change
from tidelog.language.checks import foreign_functions
from tidelog.program.catalogue import Catalogue
from tidelog.storage.home import Home, read_image, save_image, warn_of_functions
from tidelog.storage.journal_record import Record, from_json

if TYPE_CHECKING:
    from tidelog.api.knowledge_base import KnowledgeBase

OnReplay = Callable[[Mapping[str, str], Change], None]


def save(kb: KnowledgeBase, folder: Path) -> None:
    """Save into a folder, also into the one whose journal this knowledge base keeps."""
    check_folder(folder)
    if kb._home is not None and kb._home.folder == folder.resolve():
        kb._home.save(image_of(kb))
    else:
        save_image(folder, image_of(kb))


def open_folder(
    kind: type[KnowledgeBase],
    folder: Path,
    journal: bool,
    functions: Mapping[str, Callable[..., Any]],
    on_replay: OnReplay | None,
) -> KnowledgeBase:
    """A knowledge base as it was saved, and all updates of its journal after that."""
    check_folder(folder)
    home, image, payloads = Home.open(folder) if journal else (None, *read_image(folder))
    try:
        kb = _restored(kind, folder, image, functions)
        _replay(kb, payloads, folder, on_replay)
    except BaseException:
        if home is not None:
            home.close()
        raise
    if home is not None:
        home.begin(kb._catalogue.prefixes)
        kb._home = home
    if kb.missing_functions:
        warn_of_functions(kb.missing_functions)
    return kb


def image_of(kb: KnowledgeBase) -> Image:
    """All that has to be saved."""
    limits = kb._engine.limits
    options = {
        "maintenance": kb._maintenance,
        "modules": kb._modules,
        "max_facts": limits.max_facts,
        "timeout": limits.timeout,
    }
    catalogue = kb._catalogue
    return image_of_engine(kb._engine, options, catalogue.prefixes, catalogue.arities, kb._errors, kb._commit)


def _restored(
    kind: type[KnowledgeBase], folder: Path, image: Image, functions: Mapping[str, Callable[..., Any]]
) -> KnowledgeBase:
    """A knowledge base as an image says, with functions registered."""
    with _misfits(folder):
        kb = kind(**image.options)
    for name, function in functions.items():
        kb.register(name, function)
    with _misfits(folder):
        arities = restore_engine(kb._engine, image)
    kb._catalogue = Catalogue(image.prefixes, arities, kb._engine.graph.rules)
    kb._errors = min(image.errors, MOST_COUNTED)
    kb._commit = image.commit
    return kb


@contextmanager
def _misfits(folder: Path) -> Iterator[None]:
    """Every file may be in order, and yet they do not fit together."""
    try:
        yield
    except TidelogError as problem:
        raise StorageError(f"the files in {folder} do not fit together; restore a copy: {problem}") from problem
    except MemoryError as problem:
        raise StorageError(f"memory is too short for what the files in {folder} hold, or say that they do") from problem


def _replay(kb: KnowledgeBase, payloads: Iterable[bytes], folder: Path, on_replay: OnReplay | None) -> None:
    """Apply the updates of a journal again. They took place within their limits once."""
    limits, kb._engine.limits = kb._engine.limits, Limits()
    for number, payload in enumerate(payloads, start=1):
        try:
            record = from_json(
                payload, kb._engine.store.terms.encode_values, Path(f"update {number} of the journal in {folder}")
            )
            change = _apply_again(kb, record)
        except StorageError:
            raise
        except TidelogError as problem:
            raise StorageError(
                f"update {number} of the journal in {folder} cannot be applied again: {problem}"
            ) from problem
        if on_replay is not None:
            on_replay(record.commit, change)
    kb._engine.limits = limits


def _apply_again(kb: KnowledgeBase, record: Record) -> Change:
    kb._catalogue.declare(record.prefixes.items())
    update = kb._catalogue.check(record.add_rules, record.remove_rules, foreign_functions(record.add_rules))
    check_arities_of((record.add, record.delete), update.arities)
    request = Request(record.delete, record.add, tuple(update.removed), tuple(update.added.values()))
    return kb._apply(request, update, record.commit)
