"""The dictionary of constants: what is read while it grows, and what it forgets."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog.engine.reclaiming
import tidelog.store.relation
from audit import audit
from engine_util import ALGORITHMS, knowledge_base
from generate import EVERYTHING, soak
from tidelog import IRI, ArityError, KnowledgeBase, LimitError
from tidelog.engine.update.runner import Limits
from tidelog.formats.batch import FactBatch

PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z)."


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free terms as soon as a single one may be unused."""
    monkeypatch.setattr(tidelog.engine.reclaiming, "WORTH_FROM", 1)
    monkeypatch.setattr(tidelog.engine.reclaiming, "WORTH_PER_TERM", 0)
    monkeypatch.setattr(tidelog.engine.reclaiming, "WORTH_PER_CELL", 0)
    monkeypatch.setattr(tidelog.store.relation, "COMPACT_FROM", 1)


def terms_in_use(kb: KnowledgeBase) -> int:
    return len(kb._engine.store.terms) - kb._engine.store.terms.free - 1


# Reading while the dictionary grows


@pytest.mark.parametrize("form", ["to_arrow", "to_pandas", "to_polars", "rows"])
def test_answers_are_read_while_the_texts_move(form: str) -> None:
    kb = KnowledgeBase()
    texts = [(f"{number:02}" * 500_000,) for number in range(20)]
    kb.update(add={"text": texts})
    answers = kb.query("text(X)")
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            kb.update(add={"other": [(f"{number:08}" * 200_000,)]})
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            found = getattr(answers, form)()
            if form == "to_arrow":
                found = found.column(0).to_pylist()
            elif form != "rows":
                found = found["X"].to_list()
            assert sorted(text if isinstance(text, str) else text[0] for text in found) == [text for (text,) in texts]
    finally:
        stop.set()
        writer.join()


# Forgetting


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("modules", [True, False])
def test_random_streams_with_a_dictionary_that_forgets(maintenance: str, modules: bool) -> None:
    for seed in range(60, 66):
        case, stream = soak(seed, EVERYTHING)
        kb, state = knowledge_base(case.state, maintenance, modules=modules), case.state
        for update in stream:
            kb.update(**update.mapping())  # type: ignore[arg-type]
            state = state.apply(update)
            audit(kb)


def test_constants_of_facts_that_went_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.engine.reclaiming, "WORTH_FROM", 1000)
    kb = KnowledgeBase("high(S, T) :- reading(S, T, V), V > 0.5.")
    for step in range(40):
        readings = [(f"sensor {number % 7}", 1000 * step + number, random.random()) for number in range(500)]
        kb.update(add={"reading": readings})
        kb.update(delete={"reading": readings})
    assert len(kb) == 0
    assert len(kb._engine.store.terms) < 8000
    assert kb._engine.store.terms.nbytes < 1 << 20


Rows = list[tuple[Any, ...]]


def _delete_what_is_not_there(kb: KnowledgeBase, rows: Rows) -> None:
    kb.update(delete={"p": rows})


def _delete_it_in_a_stream(kb: KnowledgeBase, rows: Rows) -> None:
    assert not any(kb.stream([{"delete": {"p": rows[:200]}}, {"delete": {"p": rows[200:]}}]))


def _undo_it_live(kb: KnowledgeBase, rows: Rows) -> None:
    live = kb.live()
    live.submit(add={"p": rows})
    live.submit(delete={"p": rows})
    assert not live.settle()


def _fail(kb: KnowledgeBase, rows: Rows) -> None:
    with pytest.raises(ArityError):
        kb.update(add={"p": rows, "q": [(1, 2, 3)]})


def _fail_by_a_limit(kb: KnowledgeBase, rows: Rows) -> None:
    kb._engine.limits = Limits(max_facts=100)
    with pytest.raises(LimitError):
        kb.update(add={"p": rows})


def _fail_in_a_stream(kb: KnowledgeBase, rows: Rows) -> None:
    kb._engine.limits = Limits(max_facts=100)
    stream = kb.stream([{"add": {"p": rows[:200]}}, {"add": {"p": rows[200:]}}])
    for _ in range(2):
        with pytest.raises(LimitError):
            next(stream)


def _fail_live(kb: KnowledgeBase, rows: Rows) -> None:
    kb._engine.limits = Limits(max_facts=100)
    live = kb.live()
    live.submit(add={"p": rows})
    with pytest.raises(LimitError):
        live.settle()


def _fail_to_read(kb: KnowledgeBase, rows: Rows) -> None:
    def batches() -> Iterator[FactBatch]:
        yield FactBatch("p", [pa.array([text for (text,) in rows])], "a file", 1)
        raise OSError("a bad disk")

    with pytest.raises(OSError, match="a bad disk"):
        kb.load(batches())


def _compute_in_vain(kb: KnowledgeBase, rows: Rows) -> None:
    kb.add_rules('r(X) :- p(X), Y = concat(X, "!"), Y = 1.')
    kb.update(add={"p": rows})
    kb.update(delete={"p": rows})


def _call_in_vain(kb: KnowledgeBase, rows: Rows) -> None:
    kb.register("shout", lambda text: text + "!")
    kb.add_rules("s(X) :- p(X), Y = shout(X), Y = 1.")
    kb.update(add={"p": rows})
    kb.update(delete={"p": rows})


@pytest.mark.parametrize(
    "waste",
    [
        *(_delete_what_is_not_there, _delete_it_in_a_stream, _undo_it_live, _compute_in_vain, _call_in_vain),
        *(_fail, _fail_by_a_limit, _fail_in_a_stream, _fail_live, _fail_to_read),
    ],
)
def test_constants_that_never_were_in_facts_are_forgotten(
    waste: Callable[[KnowledgeBase, Rows], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidelog.engine.reclaiming, "WORTH_FROM", 500)
    kb = KnowledgeBase("q(X) :- p(X).")
    kept = [(f"kept {number}",) for number in range(30)]
    kb.update(add={"p": kept})
    for step in range(20):
        waste(kb, [(f"{step} {number}",) for number in range(400)])
    assert set(kb.facts("q")) == set(kept)
    assert len(kb._engine.store.terms) < 3500


@pytest.mark.usefixtures("eager")
def test_numbers_of_terms_are_used_again() -> None:
    kb = KnowledgeBase(PATHS)
    for step in range(20):
        kb.update(add={"edge": [(f"a {step}", f"b {step}"), (step, step + 0.5)]})
        kb.update(delete={"edge": [(f"a {step}", f"b {step}"), (step, step + 0.5)]})
        assert len(kb) == 0
    assert len(kb._engine.store.terms) < 40


@pytest.mark.usefixtures("eager")
def test_what_was_read_before_stays_what_it_was() -> None:
    kb = KnowledgeBase(PATHS)
    change = kb.update(add={"edge": [("a", "b"), ("b", IRI("http://c"))]})
    answers, snapshot = kb.query("path(a, X)"), kb.live().snapshot()
    expected = {("a", "b"), ("a", IRI("http://c")), ("b", IRI("http://c"))}
    gone = kb.update(delete={"edge": [("a", "b"), ("b", IRI("http://c"))]})
    for step in range(5):
        kb.update(add={"edge": [(step, -step)]}, delete={"edge": [(step - 1, 1 - step)]})
    assert set(change.added["path"]) == set(gone.removed["path"]) == set(snapshot.facts("path")) == expected
    assert {row["X"] for row in answers} == {"b", IRI("http://c")}
    assert answers[0]["X"] in ("b", IRI("http://c"))
    # Facts read from an older table are still facts.
    kb.update(add={"edge": change.added["edge"]})
    assert {row for row in kb.facts("path") if isinstance(row[0], str)} == expected


@pytest.mark.usefixtures("eager")
def test_questions_leave_nothing_behind() -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add={"edge": [("a", "b")]})
    before = terms_in_use(kb)
    for step in range(50):
        assert (f"x {step}", "b") not in kb.facts("path")
        assert f'path("y {step}", b)' not in kb
        assert kb.query(f'path(a, X), Y = concat(X, "{step}")').rows() == [("b", f"b{step}")]
        assert kb.explain(f'path("z {step}", b)') is None
        kb.why_not(f'path("w {step}", b)')
    assert terms_in_use(kb) <= before + 3


@pytest.mark.usefixtures("eager")
def test_constants_of_rules_are_in_use() -> None:
    kb = KnowledgeBase('named(X, "a text of its own") :- edge(X, Y), Y != 77.')
    for step in range(5):
        kb.update(add={"edge": [(step, step + 1)]})
        assert set(kb.facts("named")) == {(step, "a text of its own")}
        kb.update(delete={"edge": [(step, step + 1)]})
        assert len(kb) == 0


@pytest.mark.usefixtures("eager")
def test_functions_are_called_again_for_what_was_forgotten() -> None:
    kb = KnowledgeBase()
    called: list[Any] = []
    kb.register("double", lambda value: (called.append(value), value * 2)[1])
    kb.add_rules("r(X, Y) :- q(X), Y = double(double(X)).")
    for step in range(20):
        kb.update(add={"q": [(f"n{step}",)]})
        assert set(kb.facts("r")) == {(f"n{step}", f"n{step}" * 4)}
        kb.update(delete={"q": [(f"n{step}",)]})
    assert len(kb) == 0
    assert terms_in_use(kb) < 12
    kb.update(add={"q": [("n0",)]})
    assert set(kb.facts("r")) == {("n0", "n0n0n0n0")}
    assert called.count("n0") == 2


@pytest.mark.usefixtures("eager")
def test_updates_that_wait_keep_their_constants() -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add={"edge": [("x", "y")]})
    live = kb.live()
    live.submit(delete={"edge": [("x", "y")]})
    live.submit(add={"edge": [("only here", "and here")]})
    with kb._lock:
        live._intake.take_in()
    for step in range(5):
        kb.query(f'edge(X, Y), Z = concat(X, "{step}")')
        kb.update(add={"other": [(step,)]})
        kb.update(delete={"other": [(step,)]})
    live.settle()
    assert set(kb.facts("path")) == {("only here", "and here")}


@pytest.mark.usefixtures("eager")
def test_streams_with_a_dictionary_that_forgets() -> None:
    kb = KnowledgeBase(PATHS, maintenance="backward-forward", modules=False)
    updates: list[dict[str, Any]] = []
    for step in range(30):
        updates.append({"add": {"edge": [(f"{step}", f"{step + 1}"), (f"{step}", "end")]}})
        updates.append({"delete": {"edge": [(f"{step}", f"{step + 1}"), (f"{step}", "end")]}})
    for change in kb.stream(updates):
        assert len(change.added.get("path", ())) + len(change.removed.get("path", ())) == 2
        kb.query("path(X, Y), Z = 12345")
    assert len(kb) == 0


@pytest.mark.usefixtures("eager")
def test_net_changes_across_what_was_forgotten() -> None:
    kb = KnowledgeBase(PATHS)
    live = kb.live()
    for step in range(6):
        live.submit(add={"edge": [(f"a{step}", f"b{step}")]}, delete={"edge": [(f"a{step - 1}", f"b{step - 1}")]})
        while live.pending:
            live.step(1000)
    change = live.settle()
    assert change.added == {"edge": {("a5", "b5")}, "path": {("a5", "b5")}}
    assert change.removed == {}


def test_what_nobody_uses_is_not_saved(tmp_path: Path) -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add={"edge": [(f"node {number}", number) for number in range(2000)]})
    kb.update(delete={"edge": [(f"node {number}", number) for number in range(1, 2000)]})
    kb.save(tmp_path / "kb")
    opened = KnowledgeBase.open(tmp_path / "kb")
    assert set(opened.facts("path")) == {("node 0", 0)}
    assert terms_in_use(opened) == 2
    audit(opened)
