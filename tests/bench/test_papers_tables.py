"""The tables of both B/F papers, and the data that they are measured on, at small sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidelog import KnowledgeBase
from tidelog.bench.data import claros, uobm
from tidelog.bench.data.update_streams import P_SEQ, P_TRANS, coin_stream
from tidelog.bench.options import Options
from tidelog.bench.runs import bf, marking
from tidelog.language import parse_program

CLAROS = """
PREFIX a1: <http://purl.org/NET/crm-owl#>
a1:E53_Place[?X1] :- a1:P7_took_place_at[?X,?X1] .
a1:P67_refers_to[?X,?Y] :- a1:P70_documents[?X,?Y] .
a1:referredBySame[?X0,?X2] :- a1:P67_refers_to[?X1,?X0], a1:P67_refers_to[?X1,?X2] .
a1:P_E53_Place[?X,?X] :- a1:E53_Place[?X] .
a1:relatedPlaces[?X0,?X3] :- a1:P_E53_Place[?X0,?X1], a1:referredBySame[?X1,?X2], a1:P_E53_Place[?X2,?X3] .
a1:relatedPlaces[?X,?Y] :- a1:relatedPlaces[?Y,?X] .
a1:relatedPlaces[?X,?Z] :- a1:relatedPlaces[?X,?Y], a1:relatedPlaces[?Y,?Z] .
"""


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A folder like the public one, with a few rules of Claros."""
    folder = tmp_path / "kb" / "claros"
    folder.mkdir(parents=True)
    (folder / "claros.dlog").write_text(CLAROS)
    return tmp_path


# --- data ---


def test_regions_of_claros_become_cliques_under_the_hard_rules_only(public: Path) -> None:
    assert len(parse_program(claros.rules(public, harder=False)).rules) == 2
    kb = KnowledgeBase(claros.rules(public, harder=True))
    kb.update(add=claros.generate(20, [5, 3], 1))
    assert len(kb.facts("a1:relatedPlaces")) == 5**2 + 3**2
    assert len(kb.facts("a1:E53_Place")) == 8


def test_uobm_has_towns_and_the_running_example() -> None:
    facts = uobm.generate(1, 1, departments=1, town=6)
    assert all(facts[name].equals(again) for name, again in uobm.generate(1, 1, departments=1, town=6).items())
    kb = KnowledgeBase(uobm.rules())
    kb.update(add=facts)
    people = {row[0] for row in kb.facts("ub:Person")}
    towns = {frozenset(other for one, other in kb.facts("ub:hasSameHomeTownWith") if one == name) for name in people}
    assert all(2 <= len(town) <= 9 for town in towns if town)
    assert {row[0] for row in kb.facts("ub:TA")} == {row[0] for row in kb.facts("ub:tutor")} < people
    assert {row[0] for row in kb.facts("ub:Woman")} == people
    assert ("some Course",) in kb.facts("ub:Course")


def test_streams_of_coins_delete_what_is_there_and_may_fall_short() -> None:
    present: set[object] = set()
    sizes = []
    for number, update in enumerate(coin_stream(20, 80, 1)):
        deleted, added = (update[key].get("edge", []) for key in ("delete", "add"))
        assert set(deleted) <= present
        assert not present & set(added)
        present = present.difference(deleted).union(added)
        if number:
            sizes.append((len(deleted), len(added)))
    assert all(max(pair) <= 80 for pair in sizes)
    assert min(min(pair) for pair in sizes) < 80
    assert len(sizes) == 49


# --- tables ---


def in_place(function: Callable[..., Any], *arguments: Any, timeout: float) -> Any:
    return function(*arguments)


def test_table_2_of_bf_has_the_papers_counts(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bf, "isolated", in_place)
    monkeypatch.setattr(bf, "equilibrium", lambda total, balance: 2)
    report = bf.run(Options(quick=True, size=0.02, data=public))
    assert report.sound
    tables = [table for table in report.tables if "M_d" in table.title]
    assert [table.title.split(":")[0] for table in tables] == ["LUBM-L", "UOBM", "Claros-L", "Claros-LE"]
    for table in tables:
        for cells in table.rows:
            row = dict(zip(table.columns, cells, strict=True))
            gone = row["|I∖I′|"]
            assert min(row["|D|"], row["|C|"]) >= max(gone, row["|E⁻|"])  # type: ignore[type-var]
    assert [data.name for data in bf.SETS if data.of(None) is None] == ["Claros-L", "Claros-LE"]


def test_tables_of_marking_count_by_the_lines_of_the_paper() -> None:
    stream = coin_stream(20, 5, 1)[:5]
    found = marking.both_ways(P_TRANS, stream, 1)
    kb = KnowledgeBase(P_TRANS)
    derived = sum(len(kb.update(**update).added.get("path", ())) for update in stream)
    assert found.old_paper.work["insertion"] == found.new_paper.work["insertion"] == derived
    assert found.new_paper.work["marked_explicit"] == sum(len(update["delete"]["edge"]) for update in stream[2:])
    cells = dict(zip(marking._COLUMNS, marking._cells(found, "paper"), strict=True))
    assert cells["insertions"] == derived


def test_checks_of_sequences_hold_and_notice_a_wrong_count() -> None:
    stream = coin_stream(100, 8, 1)[:6]
    found = marking.both_ways(P_SEQ, stream, 1)
    assert all(check.holds for check in marking._sequence_checks("P_seq", stream, found))
    found.new_paper.work["deletion"] += 1
    assert not all(check.holds for check in marking._sequence_checks("P_seq", stream, found))


def test_tracks_are_held_against_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A track of two updates has other counts than the paper's: the check says so."""
    for track in range(3):
        folder = tmp_path / "updates" / "real" / "ways" / str(track) / "gps-track"
        folder.mkdir(parents=True)
        (folder / "000.pl").write_text("add(nextInWay(1, 2, a)).\nadd(nextInWay(2, 3, b)).\n")
        (folder / "001.pl").write_text("delete(nextInWay(1, 2, a)).\n")
    monkeypatch.setattr(marking, "isolated", in_place)
    monkeypatch.setattr(marking, "_RUNS", 1)
    report = marking.Report("tracks")
    table = marking._tracks(report, Options(data=tmp_path))
    assert [row[table.columns.index("insertions")] for row in table.rows] == [4, 4, 4]
    assert not report.sound
