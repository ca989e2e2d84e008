"""Fully Dynamic Materialization Maintenance (Illich, Glimm): Examples 1 to 4 of section 3.

As in the paper, facts have no arguments. The second update comes after any number of units of work on the first.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from engine_util import ALGORITHMS
from tidelog import KnowledgeBase

CYCLE = "b() :- a(). c() :- b(). a() :- c()."


class Update(NamedTuple):
    """What an update adds and deletes, a letter for each fact."""

    add: str = ""
    delete: str = ""

    def arguments(self) -> dict[str, dict[str, list[tuple[()]]]]:
        return {"add": {name: [()] for name in self.add}, "delete": {name: [()] for name in self.delete}}


class Example(NamedTuple):
    """Rules, the explicit facts before, two updates, and all facts in the end."""

    rules: str
    before: str
    first: Update
    second: Update
    after: str

    def run(self, maintenance: str) -> KnowledgeBase:
        kb = KnowledgeBase(self.rules, maintenance=maintenance)
        kb.update(**Update(add=self.before).arguments())
        return kb


EXAMPLE_1 = Example(CYCLE, "", Update(add="a"), Update(delete="a"), "")
EXAMPLE_2 = Example(CYCLE + "a() :- d().", "a", Update(add="d", delete="a"), Update(), "abcd")
EXAMPLE_3 = Example("b() :- a(). c() :- a(). c() :- d().", "", Update(add="ad"), Update(delete="a"), "cd")
EXAMPLE_4 = Example("b() :- a(). c() :- a().", "a", Update(delete="a"), Update(add="a"), "abc")
EXAMPLES = {
    "1, invalid addition": EXAMPLE_1,
    "2, invalid deletion": EXAMPLE_2,
    "2, taken back": EXAMPLE_2._replace(second=Update(delete="d"), after=""),
    "3, deletion without derivation": EXAMPLE_3,
    "4, duplicate derivation": EXAMPLE_4,
}


@pytest.mark.usefixtures("_tiny_slices")
@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("units", range(6))
def test_examples_1_to_4(example: Example, maintenance: str, units: int) -> None:
    kb = example.run(maintenance)
    live = kb.live()
    for update in (example.first, example.second):
        live.submit(**update.arguments())
        if units:
            live.step(units)
    # It always ends: deleting and adding again takes a bounded number of units.
    for _ in range(100):
        if not live.step():
            break
    assert live.pending == 0
    assert {name for name in "abcd" if len(kb.facts(name))} == set(example.after)


@pytest.mark.plain
@pytest.mark.parametrize("example", [EXAMPLE_1, EXAMPLE_4], ids=["1", "4"])
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_in_examples_1_and_4_the_second_update_overtakes_the_first(example: Example, maintenance: str) -> None:
    """If U2 takes back what U1 asked for before work begins, nothing is done; later on, nothing is done twice."""
    live = example.run(maintenance).live()
    live.submit(**example.first.arguments())
    live.submit(**example.second.arguments())
    settled = live.settle()
    assert not settled
    assert not settled.work
