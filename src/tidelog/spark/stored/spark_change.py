"""What an update did: as frames of decoded terms, or as facts on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tidelog.formats.updates import Facts


class Decoded(Mapping[str, DataFrame]):
    """Facts by predicate as frames of decoded terms, each made on demand."""

    def __init__(self, names: Iterable[str], decode: Callable[[str], DataFrame]) -> None:
        self._names = sorted(names)
        self._decode = decode

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._names:
            raise KeyError(name)
        return self._decode(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class SparkChange:
    """What an update did: the version it made, the facts that came and went by predicate, and the work it took."""

    version: int
    added: Mapping[str, DataFrame]
    removed: Mapping[str, DataFrame]
    added_counts: Mapping[str, int]
    removed_counts: Mapping[str, int]
    work: Mapping[str, int]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def __str__(self) -> str:
        counts = (("+", self.added_counts), ("-", self.removed_counts))
        return "\n".join(f"{sign} {name}: {count:,}" for sign, found in counts for name, count in found.items())


@dataclass(frozen=True)
class Collected:
    """What an update did, with its facts on the driver: for changes that are small or needed there anyway."""

    added: Facts
    removed: Facts
    work: Mapping[str, int]
