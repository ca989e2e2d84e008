"""The programs of a keyed stream, one after the other: a change of rules takes effect with the next batch.

All keys must see the same program in the same batch, also when a batch is applied again. So each program is a file,
named after the first batch that it holds for, and never changes.
"""

from __future__ import annotations

import re
from pathlib import Path

from tidelog.language import parse_program
from tidelog.language.checks import check_arities
from tidelog.storage.durable_files import replace_file, storage_errors

_NAME = re.compile(r"(\d+)\.dlog")


class Programs:
    """A folder of programs, which all executors can reach."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def _numbers(self) -> list[int]:
        return sorted(int(found[1]) for path in self._folder.iterdir() if (found := _NAME.fullmatch(path.name)))

    def begin(self, text: str) -> None:
        """The program of the first batch, unless there is one."""
        if not (self._folder / "0.dlog").exists():
            self.put(0, text)

    def put(self, first_batch: int, text: str) -> None:
        with storage_errors("write", self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._folder / f"{first_batch}.dlog", text.encode())

    def number_for(self, batch: int) -> int:
        """The number of the program that holds for a batch."""
        with storage_errors("read", self._folder):
            return max(number for number in self._numbers if number <= batch)

    def check_arities(self, text: str) -> None:
        """Refuse a program that the facts of an earlier one would no longer fit."""
        arities: dict[str, int] = {}
        for known in (*map(self.text, self._numbers), text):
            program = parse_program(known)
            arities |= check_arities((*program.facts, *program.rules), arities, dict(program.prefixes))

    def text(self, number: int) -> str:
        with storage_errors("read", self._folder):
            return (self._folder / f"{number}.dlog").read_text(encoding="utf-8")
