"""Modules that somebody adds: they change nothing but how facts are found, and can break nothing."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit import audit, check_refused, fingerprint
from engine_util import ALGORITHMS, knowledge_base
from naive import State, Update, database
from plugins import LiteralModule
from soaking import seeds
from tidelog import Dataset, LimitError, ModuleError, TidelogError, UnfitError
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.engine.update import rows as lazy_rows
from tidelog.language.syntax import Aggregate, Negation, Rule

from test_exchange import recursions  # isort: skip

STEP = "anc(X, Z) :- par(X, Y), anc(Y, Z)."
BASE = "anc(X, Y) :- par(X, Y)."


def declarable(rule: Rule) -> bool:
    negated = any(isinstance(item, Negation) for item in rule.body)
    return not negated and not any(isinstance(term, Aggregate) for term in rule.head.arguments)


def plugged_in(seed: int, maintenance: str, length: int = 4) -> tuple[KnowledgeBase, list[LiteralModule], list[Update]]:
    """A recursion with closures, of which one or two modules take some rules, before or after its facts are there."""
    dice = random.Random(seed)
    state, stream = recursions(seed, length)
    rules = [rule for rule in state.rules if declarable(rule) and "!=" not in str(rule)]
    dice.shuffle(rules)
    sizes = [dice.randint(1, 3) for _ in range(dice.randint(1, 2))]
    chosen = [rules[sum(sizes[:place]) :][:size] for place, size in enumerate(sizes)]
    modules = [LiteralModule(" ".join(map(str, some))) for some in chosen if some]
    early = dice.random() < 0.5
    kb = knowledge_base(State(state.rules, {}) if early else state, maintenance)
    for module in modules:
        kb.add_module(module)
    audit(kb)
    if early:
        kb.update(**Update(state.explicit, {}, (), ()).mapping())  # type: ignore[arg-type]
    return kb, modules, stream


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_modules_change_nothing(maintenance: str) -> None:
    calls: set[str] = set()
    for seed in seeds((20, 21, 24, 27), f"plug-ins, {maintenance}"):
        kb, modules, stream = plugged_in(seed, maintenance)
        for update in stream:
            kb.update(**update.mapping())  # type: ignore[arg-type]
            audit(kb)
        calls.update(name for module in modules for name in module.calls)
    assert calls == {"add", "delete", "difference", "rederive"}


def test_a_failed_update_leaves_modules_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds((21, 23), "failed updates with plug-ins"):
        kb, _, stream = plugged_in(seed, "auto", length=2)
        for update in stream:
            check_refused(kb, update, monkeypatch)
            kb.update(**update.mapping())  # type: ignore[arg-type]
            audit(kb)


def test_a_module_that_fails_at_any_call_breaks_nothing() -> None:
    most = 0
    for seed in seeds((20, 24), "plug-ins that fail"):
        kb, modules, stream = plugged_in(seed, "auto", length=2)
        for update in stream:
            before = fingerprint(kb)
            for at in count():
                for module in modules:
                    module.fail_after(at)
                try:
                    kb.update(**update.mapping())  # type: ignore[arg-type]
                    break
                except ModuleError:
                    assert fingerprint(kb) == before, f"call {at} of seed {seed}"
                    most = max(most, at)
            audit(kb)
    assert most > 2


def ancestors(module: object, **options: Any) -> KnowledgeBase:
    kb = KnowledgeBase(BASE + STEP, **options)
    kb.add_module(module)  # type: ignore[arg-type]
    kb.update(add={"par": [("a", "b"), ("b", "c"), ("c", "d")]})
    return kb


def test_it_takes_part_as_soon_as_all_of_its_rules_are_there() -> None:
    module = LiteralModule(STEP + "anc(X, Y) :- par(X, Y), old(X).")
    kb = ancestors(module)
    assert not module.calls
    assert kb._engine.closures.predicates == ("anc",)
    kb.add_rules("anc(A, B) :- par(A, B), old(A).")
    assert module.calls
    assert not kb._engine.closures.predicates
    audit(kb)
    kb.update(add={"par": [("d", "e")], "old": [("a",)]}, delete={"par": [("b", "c")]})
    audit(kb)
    kb.remove_rules("anc(A, B) :- par(A, B), old(A).")
    assert kb._engine.closures.predicates == ("anc",)
    audit(kb)


def test_it_takes_over_from_a_closure_with_facts() -> None:
    kb = KnowledgeBase(BASE + STEP)
    kb.update(add={"par": [("a", "b"), ("b", "c")], "anc": [("x", "a")]})
    module = LiteralModule(STEP)
    kb.add_module(module)
    assert "add" in module.calls
    audit(kb)
    assert len(kb.facts("anc")) == 4
    kb.update(delete={"par": [("a", "b")]})
    audit(kb)


def test_a_change_that_is_read_after_a_module_came_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_rows, "LAZY_FROM", 2)
    kb = KnowledgeBase(BASE + STEP + "anc(X, Y) :- old(X), anc(Y, X), anc(X, Y).")
    kb.update(add={"par": [(node, node + 1) for node in range(9)]})
    change = kb.update(add={"par": [(9, 10), (20, 21), (21, 22)]})
    kb.add_module(LiteralModule(BASE + STEP))
    assert change.added["anc"] == {(node, 10) for node in range(10)} | {(20, 21), (20, 22), (21, 22)}


@pytest.mark.parametrize("late", [False, True])
def test_under_an_equality_plain_rules_do_the_work(late: bool) -> None:
    found = []
    for module in (LiteralModule(STEP), None):
        kb = KnowledgeBase(BASE + STEP + ("" if late else "@equality same."))
        if module is not None:
            kb.add_module(module)
        kb.update(add={"par": [(1, 2), (2, 3), (3, 4), (7, 8)]})
        if late:
            kb.add_rules("@equality same.")
        kb.update(add={"same": [(4, 7)]})
        kb.update(delete={"par": [(2, 3)]}, add={"same": [(2, 7)]})
        found.append(set(kb.facts("anc")))
    assert found[0] == found[1]


def test_modules_off_means_none() -> None:
    module = LiteralModule(STEP)
    kb = ancestors(module, modules=False)
    assert len(kb.facts("anc")) == 6
    assert not module.calls


def test_it_is_added_again_after_opening(tmp_path: Path) -> None:
    kb = ancestors(LiteralModule(STEP + BASE))
    kb.update(delete={"par": [("a", "b")]})
    kb.save(tmp_path / "saved")
    again = KnowledgeBase.open(tmp_path / "saved")
    audit(again, may_be_opened=True)
    again.update(add={"par": [("d", "e")]}, delete={"par": [("b", "c")]})
    audit(again, may_be_opened=True)
    module = LiteralModule(STEP + BASE)
    again.add_module(module)
    again.update(add={"par": [("a", "b")]})
    assert module.calls
    audit(again, may_be_opened=True)


class Choosy(LiteralModule):
    """Takes no more than three parents."""

    def difference(self, facts: Dataset, changed: Dataset) -> dict[str, list[np.ndarray]]:
        if facts.count("par") > 3:
            raise UnfitError("too many")
        return super().difference(facts, changed)


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_plain_rules_take_the_place_of_one_that_cannot_take_the_facts(
    maintenance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Choosy(STEP + BASE)
    kb = ancestors(module, maintenance=maintenance)
    audit(kb)
    # It still takes part if the update fails.
    check_refused(kb, Update(add=database({"par": {("d", "e"), ("e", "f")}})), monkeypatch)
    kb.update(add={"par": [("d", "e")]}, delete={"par": [("a", "b")]})
    assert len(kb.facts("anc")) == 6
    assert not kb._engine.plugins._unfit
    audit(kb)
    kb.update(add={"par": [("e", "f"), ("a", "b")]})
    audit(kb)
    calls = len(module.calls)
    kb.update(delete={"par": [("a", "b")]}, add={"par": [("g", "h")]})
    assert len(module.calls) == calls
    audit(kb)


def test_limits_name_a_rule_of_the_module() -> None:
    kb = ancestors(LiteralModule(STEP), max_facts=30)
    before = fingerprint(kb)
    with pytest.raises(LimitError, match="more than 30 facts"):
        kb.update(add={"par": [(name, chr(ord(name) + 1)) for name in "defghijk"]})
    assert fingerprint(kb) == before
    audit(kb)


def test_streams_and_live_updates_know_modules() -> None:
    updates = [{"add": {"par": [("d", "e")]}}, {"delete": {"par": [("b", "c")]}}, {"add": {"par": [("b", "c")]}}]
    for maintenance in ("auto", "dred", "backward-forward"):
        kb = ancestors(LiteralModule(STEP), maintenance=maintenance)
        assert len(list(kb.stream(updates))) == 3
        audit(kb)
        live = kb.live()
        for update in updates[1:]:
            live.submit(**update)  # type: ignore[arg-type]
        live.settle()
        audit(kb)
        assert kb.what_if(delete={"par": [("b", "c")]}).removed
        audit(kb)


def test_names_with_prefixes_are_those_that_the_module_writes() -> None:
    text = "@prefix ex: <http://example.org/> . ex:anc(X, Y) :- ex:par(X, Y)."

    class Copies(LiteralModule):
        rules = text

        def difference(self, facts: Dataset, changed: Dataset) -> dict[str, list[np.ndarray]]:
            assert list(facts) == ["ex:anc", "ex:par"]
            return {"ex:anc": list(changed["ex:par"])}

    kb = KnowledgeBase(text)
    kb.add_module(Copies(text))
    kb.update(add={"ex:par": [("a", "b")]})
    assert list(kb.facts("ex:anc")) == [("a", "b")]


def test_a_module_may_make_constants() -> None:
    class Successors(LiteralModule):
        def difference(self, facts: Dataset, changed: Dataset) -> dict[str, list[np.ndarray]]:
            values = changed.values(changed["n"][0])
            return {"next": [changed["n"][0], changed.terms(value + 1 for value in values)]}

        def add(self, facts: Dataset, new: Dataset) -> dict[str, list[np.ndarray]]:
            return {}

    rules = "next(X, Y) :- n(X), Y = X + 1."
    kb = KnowledgeBase(rules)
    kb.add_module(Successors(rules))
    kb.update(add={"n": [(1,), (7,)]})
    assert set(kb.facts("next")) == {(1, 2), (7, 8)}
    audit(kb)


# --- misuse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("", "declares no rules"),
        ("p(X) :- q(X), not r(X).", "with negation: `p.X. :- q.X., not r.X.."),
        ("p(count(X)) :- q(X).", "with an aggregate"),
        ("p :- q(X).", "whose head has no arguments"),
        ("p(a).", "rule"),
        ("p(X :- q(X).", "rules of LiteralModule"),
        ("anc(X) :- par(X, _).", "anc"),
        (STEP, "LiteralModule stands for `anc.X, Z. :- par.X, Y., anc.Y, Z..` already"),
    ],
)
def test_rules_that_no_module_can_stand_for_are_refused(rules: str, message: str) -> None:
    kb = ancestors(LiteralModule(STEP))
    module = LiteralModule(STEP)
    module.rules = rules
    with pytest.raises(TidelogError, match=message):
        kb.add_module(module)
    assert len(kb._engine.plugins._plugins) == 1


def test_what_is_no_module_is_refused() -> None:
    kb = KnowledgeBase()
    with pytest.raises(ModuleError, match="`rules`"):
        kb.add_module(3)  # type: ignore[arg-type]
    module = LiteralModule(STEP)
    module.rederive = None  # type: ignore[assignment, method-assign]
    with pytest.raises(ModuleError, match="LiteralModule has no function `rederive`"):
        kb.add_module(module)


ONE = np.array([1], np.int32)


@pytest.mark.parametrize(
    ("function", "found", "message"),
    [
        ("add", None, "`add` returned None; it returns a mapping"),
        ("add", {"par": [ONE, ONE]}, "`add` returned facts of 'par'; the module's rules derive `anc`"),
        ("add", {"anc": [ONE]}, "1 columns; it has 2 arguments"),
        ("add", {"anc": [ONE, np.array([1, 2])]}, "different lengths"),
        ("add", {"anc": [ONE, np.array(["a"])]}, "no terms"),
        ("add", {"anc": [ONE, np.array([10_000])]}, "no terms"),
        ("add", {"anc": [ONE, np.array([0])]}, "no terms"),
        ("delete", {"anc": [ONE, ONE]}, r"`delete` returned anc\(a, a\), which did not hold"),
        ("rederive", {"anc": [ONE, ONE]}, r"`rederive` returned anc\(a, a\), which was not overdeleted"),
    ],
)
def test_what_functions_return_is_checked(function: str, found: object, message: str) -> None:
    module = LiteralModule(STEP)
    kb = ancestors(module)
    before = fingerprint(kb)
    setattr(module, function, lambda *_: found)
    with pytest.raises(ModuleError, match=message):
        kb.update(delete={"par": [("b", "c")]}, add={"par": [("d", "e")]})
    assert fingerprint(kb) == before
    audit(kb)


def test_datasets_cannot_be_written_to_and_name_their_predicates() -> None:
    module = LiteralModule(STEP)
    kb = ancestors(module)
    seen: list[Dataset] = []

    def write(facts: Dataset, *_: Dataset) -> dict[str, list[np.ndarray]]:
        seen.append(facts)
        assert set(facts) == {"anc", "par"}
        facts["par"][0][:] = 1
        return {}

    module.difference = write  # type: ignore[method-assign]
    with pytest.raises(ModuleError, match="read-only"):
        kb.update(add={"par": [("d", "e")]})
    with pytest.raises(ModuleError, match="asks for `other`, and this dataset has: `anc`, `par`"):
        seen[0]["other"]
