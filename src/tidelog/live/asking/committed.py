"""What was committed last, for those who read while an update is in work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.engine.engine import Engine
from tidelog.program.catalogue import Catalogue


class Committed:
    """The last commit. It must not refer to `Knowledge`, which has to go as soon as nobody uses it."""

    def __init__(self, engine: Engine, catalogue: Catalogue) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self.version = 0  # how many updates have been made
        self.prefixes: dict[str, str] | None = None  # while an update is in work that may declare others

    @contextmanager
    def looking_back(self, at_rest: bool) -> Iterator[None]:
        """Within, everything is as before the update in work."""
        catalogue, now = self._catalogue, self._catalogue.prefixes
        with self._engine.past.looking_back(at_rest):
            try:
                if self.prefixes is not None:
                    catalogue.prefixes = self.prefixes
                yield
            finally:
                catalogue.prefixes = now
