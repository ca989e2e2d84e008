"""The time of a knowledge base: who says it, and who keeps it from when on it matters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tidelog.engine.engine import Engine
from tidelog.engine.update.deltas import Request
from tidelog.facts.arguments import checked_time
from tidelog.facts.reading import Reader
from tidelog.language.syntax import Expiry
from tidelog.live.expiring.lifetimes import has_windows, is_of_time
from tidelog.program.catalogue import Catalogue, RuleUpdate
from tidelog.runtime.knowledge_lock import KnowledgeLock

if TYPE_CHECKING:
    from tidelog.live.expiring.keeper import TimeKeeper
    from tidelog.live.expiring.preparation import Preparation


class Timing:
    """The clock and the keeper, if there are any. `now` and `expiries` take the lock themselves."""

    def __init__(self, engine: Engine, catalogue: Catalogue, reader: Reader, lock: KnowledgeLock) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._reader = reader
        self._lock = lock
        self.clock: Callable[[], object] | None = None  # says what time it is
        self.keeper: TimeKeeper | None = None  # from when on time matters

    def is_said(self, at: int | None) -> bool:
        """Whether an update that comes at a time, or at any, may let time pass."""
        return at is not None or self.clock is not None

    def check(self, update: RuleUpdate) -> None:
        """Refuse an update of rules, and of what expires, that does not go together."""
        keeper = self._keeper_for(update)
        if keeper is not None:
            keeper.check(update)

    def _keeper_for(self, update: RuleUpdate) -> TimeKeeper | None:
        """Who keeps time, if time matters, or will after an update."""
        if self.keeper is None and (update.expires or update.expires_no_longer or has_windows(update.added.values())):
            self._keep_time()
        return self.keeper

    def _keep_time(self) -> TimeKeeper:
        if self.keeper is None:
            from tidelog.live.expiring.keeper import TimeKeeper

            self.keeper = TimeKeeper(self._engine, self._reader, self._catalogue)
        return self.keeper

    def prepared(self, request: Request, update: RuleUpdate, at: int | None) -> Preparation | None:
        """An update with all that time does to it, if it comes at a time, or time matters anyway."""
        if at is None and self.clock is not None:
            at = checked_time(self.clock())
        keeper = self._keeper_for(update) if at is None else self._keep_time()
        if keeper is None:
            return None
        with self._engine.store.hooks.using_terms():
            return keeper.prepare(request, update, at)

    def committed(self, preparation: Preparation) -> None:
        """The update has been made."""
        self._keep_time().committed(preparation)

    def resume(self, predicates: Iterable[str]) -> None:
        """Facts of these predicates have come from elsewhere; those of time among them count."""
        if self.keeper is not None:
            self.keeper.forget()
        elif any(map(is_of_time, predicates)) or has_windows(self._engine.graph.rules.values()):
            self._keep_time()

    def now(self) -> int | None:
        """The time, in microseconds."""
        return self._lock.read(lambda: None if self.keeper is None else self.keeper.known.now)

    def expiries(self) -> list[Expiry]:
        """What expires."""
        return self._lock.read(lambda: [] if self.keeper is None else list(self.keeper.known.expiries.values()))
