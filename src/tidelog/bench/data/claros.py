"""Data like that of Claros, for the public rules of its ontology (the CIDOC reference model and others).

Claros joins the catalogues of museums: objects with their makers, places, periods, materials, pictures and records. The
rules come from a folder in the layout of M-Illich/inc-mat-mark. All of them are Claros-LE. Claros-L leaves out the
"hard" ones, which relate what is mentioned together. With them, the places of a region, which gazetteers mention two by
two, become a clique of the symmetric and transitive `relatedPlaces`.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pyarrow as pa

from tidelog.bench.data import graphs
from tidelog.bench.data.cases import Case, scaled
from tidelog.bench.data.columns import Columns
from tidelog.bench.data.update_streams import read_rules

_HARD = re.compile(r"a1:(related|refer|P_E)")
"""Where the head of a hard rule begins."""
_TYPES, _MATERIALS, _PERIODS = 60, 25, 80


def rules(data: Path, harder: bool) -> str:
    """The public rules, with or without the hard ones."""
    text = read_rules(data, "claros")
    return text if harder else "".join(line for line in text.splitlines(keepends=True) if not _HARD.match(line))


def case(data: Path, harder: bool) -> Case:
    """Claros-LE or Claros-L."""
    return Case("Claros-LE" if harder else "Claros-L", rules(data, harder), facts)


def facts(seed: int, size: float) -> dict[str, pa.Table]:
    """20,000 objects, 4 regions of 250 places and 300 of 8, times `size`; large regions grow with its root, because
    the pairs of a region do so with its square."""
    return generate(scaled(20_000, size), [scaled(250, size**0.5)] * 4 + [8] * scaled(300, size), seed)


def generate(objects: int, regions: list[int], seed: int = 0) -> dict[str, pa.Table]:
    """So many museum objects, and regions of so many places each."""
    world = _World(Columns("a1:"), random.Random(f"claros {seed}"), max(1, objects // 2_000), max(1, objects // 20))
    world.places(regions, seed)
    world.people()
    for number in range(objects):
        world.object(number)
    return world.data.tables()


class _World:
    """Everything is made by its number; what is made later refers to what is there."""

    def __init__(self, data: Columns, rng: random.Random, museums: int, people: int) -> None:
        self.data = data
        self._rng = rng
        self._museums = museums
        self._people = people
        self._places = 0

    def _some(self, kind: str, count: int) -> str:
        return f"{kind}{self._rng.randrange(count)}"

    def places(self, regions: list[int], seed: int) -> None:
        """Places within their regions, and gazetteers that mention two places each."""
        for region, size in enumerate(regions):
            for _ in range(size):
                name = f"place{self._places}"
                self._places += 1
                self.data.typed("E53_Place", name)
                self.data.related("P87_is_identified_by", name, f"name of {name}")
                self.data.related("P89_falls_within", name, f"region{region}")
        for number, (one, other) in enumerate(graphs.groups(regions, 1.0, seed)):
            for place in (one, other):
                self.data.related("P67_refers_to", f"gazetteer{number}", f"place{place}")
            self.data.typed("E31_Document", f"gazetteer{number}")

    def people(self) -> None:
        for number in range(self._people):
            name = f"person{number}"
            self.data.typed("E21_Person", name)
            self.data.related("P131_is_identified_by", name, f"name of {name}")
            self.data.related("P98i_was_born", name, f"birth of {name}")
            self.data.related("P7_took_place_at", f"birth of {name}", self._some("place", self._places))

    def object(self, number: int) -> None:
        """An object, how it was made, and its record in a museum's catalogue."""
        data, name = self.data, f"object{number}"
        data.typed("E22_Man-Made_Object", name)
        data.related("P102_has_title", name, f"title of {name}")
        data.related("P2_has_type", name, self._some("type", _TYPES))
        data.related("P45_consists_of", name, self._some("material", _MATERIALS))
        data.related("P50_has_current_keeper", name, self._some("museum", self._museums))
        data.related("P138i_has_representation", name, f"picture of {name}")
        data.related("P70_documents", f"record of {name}", name)
        if self._rng.random() < 0.1:
            data.related("P46i_forms_part_of", name, self._some("object", number + 1))
        making = f"making of {name}"
        data.related("P108i_was_produced_by", name, making)
        data.related("P14_carried_out_by", making, self._some("person", self._people))
        data.related("P7_took_place_at", making, self._some("place", self._places))
        data.related("P4_has_time-span", making, self._some("period", _PERIODS))
