"""Saving a knowledge base into a folder, and opening it from there: what of it is saved, and how a journal is applied.

`storage` knows folders and files; here is what they hold of a knowledge base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.arguments import check_folder
from tidelog.errors import StorageError, TidelogError
from tidelog.language.checks import check_arities
from tidelog.reason.outcome import Request
from tidelog.reason.transaction import Limits
from tidelog.results import Change
from tidelog.storage.home import Home, read_image, save_image, warn_of_functions
from tidelog.storage.image import Image, images_of_relations, images_of_rules, restore_engine
from tidelog.storage.record import from_json

if TYPE_CHECKING:
    from tidelog.knowledge_base import KnowledgeBase

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
    home = Home(folder) if journal else None
    try:
        image, payloads = (home.image, home.payloads) if home else read_image(folder)
        kb = kind(**image.options)
        for name, function in functions.items():
            kb.register(name, function)
        _restore(kb, image)
        _replay(kb, payloads, on_replay)
    except BaseException:
        if home is not None:
            home.close()
        raise
    if home is not None:
        home.begin(kb._prefixes)
        kb._home = home
    if kb.missing_functions:
        warn_of_functions(kb.missing_functions)
    return kb


def image_of(kb: KnowledgeBase) -> Image:
    """All that has to be saved."""
    limits = kb._engine.limits
    return Image(
        options={
            "maintenance": kb._maintenance,
            "modules": kb._modules,
            "max_facts": limits.max_facts,
            "timeout": limits.timeout,
        },
        prefixes=kb._prefixes,
        arities=kb._arities,
        errors=kb._errors,
        next_rule=kb._engine.graph.next_number,
        rules=images_of_rules(kb._engine),
        terms=kb._engine.store.terms.to_arrays(),
        relations=images_of_relations(kb._engine),
        closures=(*kb._engine.closures.predicates, *kb._engine.cores.names),
        commit=kb._commit,
    )


def _restore(kb: KnowledgeBase, image: Image) -> None:
    restore_engine(kb._engine, image)
    kb._prefixes = dict(image.prefixes)
    kb._arities = dict(image.arities)
    kb._errors = image.errors
    kb._commit = image.commit
    kb._keys = kb._rule_keys()


def _replay(kb: KnowledgeBase, payloads: Iterable[bytes], on_replay: OnReplay | None) -> None:
    """Apply the updates of a journal again. They took place within their limits once."""
    limits, kb._engine.limits = kb._engine.limits, Limits()
    for number, payload in enumerate(payloads, start=1):
        record = from_json(payload, kb._engine.store.terms)
        kb._prefixes.update(record.prefixes)
        arities = check_arities(record.add_rules, kb._arities, kb._prefixes)
        for predicate, rows in (*record.add.items(), *record.delete.items()):
            arities.setdefault(predicate, rows.shape[1])
        removed = tuple(kb._numbers_of(record.remove_rules))
        try:
            request = Request(record.delete, record.add, removed, record.add_rules)
            change = kb._apply(request, arities, record.commit)
        except TidelogError as problem:
            raise StorageError(f"update {number} of the journal cannot be applied again: {problem}") from problem
        if on_replay is not None:
            on_replay(record.commit, change)
    kb._engine.limits = limits
