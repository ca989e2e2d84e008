"""Facts that expire, windows, and how time passes: in updates, streams, live mode and on disk, with and without a
clock.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tidelog import ConstraintError, DataError, KnowledgeBase, ParseError, StorageError, TidelogError
from tidelog.engine.algorithms.names import Maintenance

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
SENSORS = """
    @expire reading 60 s.
    busy(S) :- reading(S, V) in last 10 s, V > 5.
    quiet(S) :- sensor(S), not reading(S, _) in last 10 s.
    mean(S, avg(V)) :- reading(S, V) in last 30 s.
    sensor(hall).
"""


def rows(kb: KnowledgeBase, predicate: str) -> set[Any]:
    return set(kb.facts(predicate))


# Facts that expire


def test_an_expiry_is_an_ordinary_deletion() -> None:
    kb = KnowledgeBase("@expire reading 60 s.  seen(S) :- reading(S, _).")
    kb.update(add={"reading": [("hall", 7)]}, at=0)
    assert not kb.advance(59.999).removed
    change = kb.advance(60)
    assert {name: set(found) for name, found in change.removed.items()} == {
        "reading": {("hall", 7)},
        "seen": {("hall",)},
    }
    assert "reading(hall, 7)  explicit  ← gone" in str(change.explain("seen(hall)"))
    assert not rows(kb, "reading")


@pytest.mark.parametrize(
    ("age", "seconds"), [("50 ms", 0.05), ("2s", 2), ("1.5 min", 90), ("2 h", 7200), ("1 d", 86400)]
)
def test_units(age: str, seconds: float) -> None:
    kb = KnowledgeBase(f"@expire flag {age}.")
    kb.update(add={"flag": [()]}, at=1000)
    kb.advance(1000 + seconds - 0.001)
    assert "flag" in kb
    kb.advance(1000 + seconds)
    assert "flag" not in kb


@pytest.mark.parametrize(
    "time",
    [
        NOON,
        NOON.replace(tzinfo=None),
        NOON.astimezone(timezone(timedelta(hours=5))),
        NOON.timestamp(),
        "2026-11-18T12:00:00Z",
    ],
)
def test_a_time_can_be_given_in_several_ways(time: Any) -> None:
    kb = KnowledgeBase()
    kb.advance(time)
    assert kb.time == NOON


@pytest.mark.parametrize("time", ["noon", True, float("nan"), 1e30, [], timedelta(1)])
def test_what_is_no_time_is_refused(time: Any) -> None:
    kb = KnowledgeBase(SENSORS)
    with pytest.raises(DataError, match="is no time; give a datetime"):
        kb.advance(time)
    assert kb.time is None


def test_time_never_goes_back() -> None:
    kb = KnowledgeBase(SENSORS)
    kb.update(add={"reading": [("hall", 7)]}, at=100)
    assert not kb.advance(50)
    assert kb.time == datetime.fromtimestamp(100, UTC)


def test_a_fact_that_comes_again_counts_from_then() -> None:
    kb = KnowledgeBase("@expire alive 30 s.")
    for time in (0, 20, 40):
        kb.update(add={"alive": [("host",)]}, at=time)
    assert not kb.advance(69)
    assert kb.advance(70).removed


def test_late_facts_are_not_taken_in() -> None:
    kb = KnowledgeBase("@expire reading 60 s.  @expire sent(_, T) 60 s by T.  late(X) :- reading(X) in last 10 s.")
    kb.advance(100)
    change = kb.update(add={"reading": [("a",)], "sent": [("a", 40), ("b", 41)]}, at=40)
    assert {name: set(found) for name, found in change.added.items()} == {"sent": {("b", 41)}}
    kb.update(add={"reading": [("a",)]}, at=80)  # It is late for the window, and not for itself.
    assert rows(kb, "reading") == {("a",)}
    assert not rows(kb, "late")
    assert kb.advance(140).removed


def test_time_is_driven_by_the_times_in_facts() -> None:
    kb = KnowledgeBase("@expire reading(_, T) 60 s by T.  now(S) :- reading(S, T) in last 10 s by T.")
    kb.update(add={"reading": [("a", NOON)]})
    assert kb.time == NOON
    change = kb.update(add={"reading": [("b", NOON + timedelta(seconds=10))]})
    assert set(change.removed["now"]) == {("a",)}
    kb.update(add={"reading": [("c", (NOON + timedelta(seconds=60)).isoformat().replace("+00:00", "Z"))]})
    assert {row[0] for row in rows(kb, "reading")} == {"b", "c"}
    kb.update(add={"reading": [("d", date(2026, 11, 19))]})
    assert {row[0] for row in rows(kb, "reading")} == {"d"}


def test_a_value_that_is_no_time_is_refused() -> None:
    kb = KnowledgeBase("@expire reading(_, T) 60 s by T.")
    with pytest.raises(DataError, match="`reading` is counted from argument 2, and 'soon' is no time"):
        kb.update(add={"reading": [("a", 10), ("b", "soon")]})
    assert not rows(kb, "reading")
    assert kb.time is None


def test_facts_without_a_time_count_from_when_it_is_known() -> None:
    kb = KnowledgeBase(SENSORS + "reading(hall, 9).")
    kb.update(add={"reading": [("attic", 3)]})
    assert rows(kb, "busy") == {("hall",)}
    assert not kb.advance(1000).removed
    assert set(kb.advance(1010).removed) == {"busy"}
    assert len(kb.advance(1060).removed["reading"]) == 2


def test_facts_are_as_old_as_an_expiry_that_comes_later() -> None:
    kb = KnowledgeBase("reading(hall, 9).")
    kb.advance(100)
    kb.add_rules("@expire reading 60 s.")
    assert kb.expiries == ["@expire reading 60 s."]
    assert not kb.advance(159)
    assert kb.advance(160).removed


def test_an_expiry_can_be_removed_and_replaced() -> None:
    kb = KnowledgeBase("@expire reading 60 s.")
    kb.update(add={"reading": [("hall", 9)]}, at=0)
    kb.update(remove_rules="@expire reading 60 s.", add_rules="@expire reading 90 s.")
    assert not kb.advance(80)
    kb.remove_rules("@expire reading 90 s.")
    assert not kb.advance(1000)
    assert rows(kb, "reading")
    with pytest.raises(ParseError, match="nothing expires in this way"):
        kb.remove_rules("@expire reading 90 s.")


# Windows


def test_windows_of_different_ages_over_one_predicate() -> None:
    kb = KnowledgeBase(SENSORS)
    change = kb.update(add={"reading": [("hall", 7), ("hall", 9)]}, at=100)
    assert set(change.added) == {"reading", "busy", "mean"}
    assert rows(kb, "mean") == {("hall", 8.0)}
    change = kb.advance(110)
    assert (set(change.removed), set(change.added)) == ({"busy"}, {"quiet"})
    assert set(kb.advance(130).removed) == {"mean"}
    assert set(kb.advance(160).removed) == {"reading"}


def test_a_closure_over_a_window() -> None:
    kb = KnowledgeBase("near(X, Y) :- met(X, Y) in last 10 s.  near(X, Z) :- near(X, Y), near(Y, Z).")
    for time, pair in enumerate([("a", "b"), ("b", "c"), ("c", "d")]):
        kb.update(add={"met": [pair]}, at=time)
    assert len(rows(kb, "near")) == 6
    kb.advance(10.5)
    assert rows(kb, "near") == {("b", "c"), ("c", "d"), ("b", "d")}
    assert len(rows(kb, "met")) == 3


def test_proofs_show_windows() -> None:
    kb = KnowledgeBase("@prefix ex: <http://e.org/> .  busy(S) :- ex:reading(S, T) in last 10 s by T.")
    kb.update(add={"ex:reading": [("hall", 7)]})
    assert "ex:reading(hall, 7) in last 10 s by 7  explicit" in str(kb.explain("busy(hall)"))
    assert "ex:reading(attic, T) in last 10 s by T  no fact matches" in str(kb.why_not("busy(attic)"))
    assert kb.rules == ["busy(S) :- ex:reading(S, T) in last 10 s by T."]
    assert kb.predicates == ["busy", "ex:reading"]
    assert "in last 10 s" in str(kb.graph)


def test_windows_over_derived_predicates_are_refused() -> None:
    text = "seen(S) :- reading(S).\nbusy(S) :- seen(S) in last 10 s."
    with pytest.raises(
        ParseError, match=r"<program>:2:12: `seen\(S\) in last 10 s` is a window over a derived predicate"
    ):
        KnowledgeBase(text)
    kb = KnowledgeBase("busy(S) :- seen(S) in last 10 s.")
    with pytest.raises(ParseError, match="window over a derived predicate: `seen"):
        kb.add_rules("seen(S) :- reading(S).")
    assert len(kb.rules) == 1


def test_windows_over_what_an_equality_applies_to_are_refused() -> None:
    kb = KnowledgeBase("busy(S) :- seen(S) in last 10 s.  @equality same on node.")
    kb.remove_rules("@equality same on node.")
    with pytest.raises(ParseError, match="is a window over a predicate that `@equality same on seen"):
        kb.add_rules("@equality same on seen.")


def test_queries_ask_for_windows_that_rules_have() -> None:
    kb = KnowledgeBase(SENSORS)
    kb.update(add={"reading": [("hall", 7)]}, at=0)
    assert kb.query("reading(S, V) in last 10 s").rows() == [("hall", 7)]
    kb.advance(10)
    assert not kb.query("reading(S, V) in last 10 s")
    with pytest.raises(ParseError, match=r"<query>:1:1: no rule has the window"):
        kb.query("reading(S, V) in last 11 s")


@pytest.mark.parametrize("asked", ["seen(S) in last 5 s", "not seen(hall) in last 5 s"])
def test_no_window_is_asked_for_where_there_is_none(asked: str) -> None:
    kb = KnowledgeBase("seen(hall).")
    with pytest.raises(ParseError, match="no rule has the window"):
        kb.query(asked)
    with pytest.raises(ParseError, match="no rule has the window"):
        kb.subscribe(asked, lambda _change: None)


def test_removing_a_rule_ends_its_window() -> None:
    rule = "busy(S) :- reading(S) in last 10 s."
    kb = KnowledgeBase(rule)
    kb.update(add={"reading": [("hall",)]}, at=0)
    kb.remove_rules(rule)
    kb.update(add={"reading": [("attic",)]}, at=5)
    assert rows(kb, "reading") == {("hall",), ("attic",)}
    kb.add_rules(rule)  # Nobody knows any longer when they came in.
    assert rows(kb, "busy") == {("hall",), ("attic",)}
    assert len(kb.advance(15).removed["busy"]) == 2


# All or nothing


def test_a_refused_expiry_leaves_everything_as_it_was() -> None:
    kb = KnowledgeBase("@expire guard 10 s.  :- open(D), not guard(D).")
    kb.update(add={"guard": [("gate",)], "open": [("gate",)]}, at=0)
    with pytest.raises(ConstraintError):
        kb.advance(10)
    assert kb.time == datetime.fromtimestamp(0, UTC)
    assert rows(kb, "guard") == {("gate",)}
    assert kb.update(delete={"open": [("gate",)]}, at=10).removed.keys() == {"guard", "open"}


def test_what_if_time_passes() -> None:
    kb = KnowledgeBase(SENSORS)
    kb.update(add={"reading": [("hall", 7)]}, at=0)
    assert set(kb.what_if(at=100).removed) == {"reading", "busy", "mean"}
    assert kb.time == datetime.fromtimestamp(0, UTC)
    assert set(kb.advance(10).removed) == {"busy"}


def test_subscriptions_are_told() -> None:
    kb = KnowledgeBase(SENSORS)
    told: list[Any] = []
    with kb.subscribe("busy(S)", lambda change: told.append((change.added.rows(), change.removed.rows()))):
        kb.update(add={"reading": [("hall", 7)]}, at=0)
        kb.advance(5)
        kb.advance(10)
    assert told == [([], []), ([("hall",)], []), ([], [("hall",)])]


def test_terms_that_are_reused_do_not_expire_in_the_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.engine.reclaiming.WORTH_FROM", 500)
    kb = KnowledgeBase("@expire reading(_, T) 10 s by T.  @expire word 10 s.  last(W) :- word(W) in last 3 s.")
    for time in range(60):
        readings = [(f"r{time} {number}", time) for number in range(200)]
        words = [(f"w{time} {number}",) for number in range(100)]
        kb.update(add={"reading": readings, "word": words}, at=time)
        if time % 3 == 0:
            kb.update(delete={"reading": readings, "word": words})
        since = {each for each in range(max(0, time - 9), time + 1) if each % 3}
        assert {row[1] for row in rows(kb, "reading")} == since
        assert {row[0].split()[0] for row in rows(kb, "word")} == {f"w{each}" for each in since}
        assert {row[0].split()[0] for row in rows(kb, "last")} == {f"w{each}" for each in since if each > time - 3}
        assert len(kb.facts("reading")) == 200 * len(since)
    assert kb.constants < 10_000  # of 18,000 that came


# Where updates come from


def times(count: int) -> list[dict[str, Any]]:
    return [{"add": {"reading": [("hall", number)]}, "at": 4 * number} for number in range(count)]


def test_a_stream_says_when_updates_come() -> None:
    kb = KnowledgeBase(SENSORS)
    changes = list(kb.stream([*times(20), {"at": 1000}]))
    assert [len(change.removed.get("reading", ())) for change in changes] == [0] * 15 + [1] * 5 + [15]
    assert rows(kb, "quiet") == {("hall",)}


@pytest.mark.parametrize("maintenance", ["dred", "backward-forward", "auto"])
def test_marking_looks_ahead_to_what_will_expire(maintenance: str) -> None:
    program = "path(X, Y) :- link(X, Y) in last 10 s.  path(X, Z) :- path(X, Y), link(Y, Z) in last 10 s."
    updates = [{"add": {"link": [(number, number + 1)]}, "at": number} for number in range(25)]
    with_marks, without = (KnowledgeBase(program, maintenance=maintenance, modules=False) for _ in range(2))
    marked = 0
    pairs = zip(with_marks.stream(updates), without.stream(updates, marking=False), strict=True)
    for change, plain in pairs:
        assert (change.added, change.removed) == (plain.added, plain.removed)
        marked += change.work["marked_explicit"]
        assert not plain.work["marked_explicit"]
    assert marked >= 10
    assert rows(with_marks, "path") == rows(without, "path")


@pytest.mark.parametrize("overlap", ["batches", "operations"])
def test_live_updates_say_when_they_come(overlap: str) -> None:
    kb = KnowledgeBase("@expire reading 60 s.  busy(S) :- reading(S, V) in last 10 s.")
    live = kb.live(overlap=overlap)
    for update in times(20):
        live.submit(**update)
    live.submit(add={"reading": [("attic", 1)]})
    change = live.settle()
    assert len(change.added["reading"]) == 16
    assert set(change.added["busy"]) == {("hall",), ("attic",)}
    live.submit(at=1000)
    assert len(live.settle().removed["reading"]) == 16


def test_live_updates_in_the_background() -> None:
    kb = KnowledgeBase(SENSORS)
    with kb.live() as live:
        for update in times(50):
            live.submit(**update)
    assert len(kb.facts("reading")) == 15

    async def run() -> int:
        async with kb.live_async() as live:
            await live.update(at=196 + 56)
            return len(kb.facts("reading"))

    assert asyncio.run(run()) == 1


def test_a_clock_says_what_time_it_is() -> None:
    now = [100.0]
    kb = KnowledgeBase(SENSORS, clock=lambda: now[0])
    kb.update(add={"reading": [("hall", 7)]})
    now[0] = 110.0
    assert set(kb.advance().removed) == {"busy"}
    now[0] = 170.0
    assert "reading" in kb.update(add={"sensor": [("attic",)]}).removed
    with pytest.raises(TidelogError, match="only a knowledge base with a `clock`"):
        KnowledgeBase().advance()


# On disk


@pytest.mark.parametrize("maintenance", [each.value for each in Maintenance])
def test_deadlines_are_saved_and_replayed(maintenance: str, tmp_path: Path) -> None:
    kb = KnowledgeBase(SENSORS, maintenance=maintenance)
    kb.update(add={"reading": [("hall", 7)]}, at=0)
    kb.save(tmp_path)
    with KnowledgeBase.open(tmp_path, journal=True) as opened:
        opened.update(add={"reading": [("hall", 9)]}, at=5)
        assert not opened.advance(9)
    with KnowledgeBase.open(tmp_path, journal=True) as opened:
        assert opened.time == datetime.fromtimestamp(9, UTC)
        assert not opened.advance(10)
        assert set(opened.advance(15).removed) == {"busy"}
    opened = KnowledgeBase.open(tmp_path)
    assert opened.expiries == ["@expire reading 60 s."]
    assert set(opened.advance(60).removed["reading"]) == {("hall", 7)}
    assert set(opened.advance(65).removed["reading"]) == {("hall", 9)}


@pytest.mark.parametrize(
    ("predicate", "row"),
    [
        ("<tidelog:part/time-now/>", ("noon",)),
        ("<tidelog:part/time-now/>", (1, 2)),
        ("<tidelog:part/time-expires/>", ("reading", "60 years", 0, 0)),
        ("<tidelog:part/time-expires/>", ("reading", "60 s", 3, 2)),
        ("<tidelog:part/time-arrived/reading>", ("hall", 7, "noon")),
        ("<tidelog:part/time-arrived/reading>", ("hall",)),
    ],
)
def test_a_folder_with_wrong_times_is_refused(predicate: str, row: tuple[Any, ...], tmp_path: Path) -> None:
    kb = KnowledgeBase(SENSORS.replace("@expire reading 60 s.", ""))
    kb.update(add={"reading": [("hall", 7)]})
    kb.update(add={predicate: [row]})
    kb.save(tmp_path)
    with pytest.raises(StorageError, match="do not fit together"):
        KnowledgeBase.open(tmp_path)


def test_a_reader_follows_time(tmp_path: Path) -> None:
    KnowledgeBase(SENSORS).save(tmp_path)
    with KnowledgeBase.open(tmp_path, journal=True) as writer:
        reader = KnowledgeBase.open(tmp_path, read_only=True)
        writer.update(add={"reading": [("hall", 7)]}, at=0)
        assert set(reader.refresh().added) == {"reading", "busy", "mean"}
        assert set(reader.what_if(at=10).removed) == {"busy"}
        writer.advance(10)
        writer.save(tmp_path)
        assert set(reader.refresh().removed) == {"busy"}
        assert reader.time == datetime.fromtimestamp(10, UTC)


def test_a_program_in_parts(tmp_path: Path) -> None:
    (tmp_path / "sensors.dlog").write_text(
        "@module room.\n@expire reading 60 s.\nbusy(S) :- reading(S) in last 10 s.\n"
    )
    (tmp_path / "main.dlog").write_text('@import "sensors.dlog".\nalarm(S) :- room:busy(S).\n')
    kb = KnowledgeBase(tidelog.read_program(tmp_path / "main.dlog"))
    assert kb.expiries == ["@expire room:reading 60 s."]
    kb.update(add={"room:reading": [("hall",)]}, at=0)
    assert rows(kb, "alarm") == {("hall",)}
    assert set(kb.advance(10).removed) == {"alarm", "room:busy"}
