"""Terms that come with a question or an update, and may be needed no longer when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.engine.engine import Engine


class PassingTerms:
    """A context that notes the terms that are new within: those of a question, which are then given back if they are
    many, or those of an update that fails. It is no generator, since every update and every `in` enters it.
    """

    __slots__ = ("_before", "_engine", "_for_a_question")

    def __init__(self, engine: Engine, for_a_question: bool) -> None:
        self._engine = engine
        self._for_a_question = for_a_question
        self._before = engine.store.terms.created

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self._for_a_question:
            return
        new = self._engine.store.terms.created - self._before
        if new:
            self._engine.reclaiming.note(new)
            if self._for_a_question:
                self._engine.reclaim_terms()
