"""A folder that is read while somebody else writes to it: what counts there now, and what has come since.

No lock is taken, and the writer never waits. It appends to the journal, and saves by writing a new generation beside
the present one, to which `CURRENT` then leads. So what `CURRENT` names is complete, and stays until the next save: if a
file is missing because there was one meanwhile, the new generation is read instead. Records that are not complete are
not committed, and are left for the next time.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidelog.engine.image import Image
from tidelog.errors import StorageError
from tidelog.storage.home import Generation, read_current, require_folder
from tidelog.storage.journal import Position, read_journal
from tidelog.storage.snapshot_files import read_snapshot

# A journal may look damaged while its writer takes a record back that could not be written: worth another look.
_LOOKS = 5
_BETWEEN_LOOKS = 0.02


@dataclass(frozen=True, slots=True)
class News:
    """Updates since the last time, and where they end. With an `image`, all before it does not count any more."""

    image: Image | None
    payloads: list[bytes]
    generation: Generation
    position: Position


class Follower:
    """Reads a folder again and again. What it gives is read again until `took` says that it was taken in."""

    def __init__(self, folder: Path) -> None:
        require_folder(folder)
        self.folder = folder.resolve()
        self._generation: Generation | None = None
        self._position: Position | None = None

    def everything(self) -> News:
        """The generation that counts, whole."""
        looks = 0
        while True:
            generation = read_current(self.folder)
            try:
                image = read_snapshot(generation.snapshot(self.folder), generation.manifest)
                contents = read_journal(generation.journal(self.folder))
            except StorageError:
                if read_current(self.folder) == generation:
                    looks += 1
                    if looks == _LOOKS:
                        raise
                    time.sleep(_BETWEEN_LOOKS)
            else:
                return News(image, contents.payloads, generation, contents.position)

    def news(self) -> News:
        """What has come since the last time: updates, or all anew if the writer has saved."""
        generation = read_current(self.folder)
        if generation == self._generation and self._position is not None:
            # If this part of the journal cannot be read, reading all of it says why.
            with suppress(StorageError):
                contents = read_journal(generation.journal(self.folder), self._position)
                return News(None, contents.payloads, generation, contents.position)
        return self.everything()

    def took(self, news: News) -> None:
        """What was read has been taken in."""
        self._generation, self._position = news.generation, news.position
