"""`check_module` accepts what follows the definitions, and says of everything else which definition it breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from plugins import LiteralModule
from tidelog import Dataset, ModuleError, UnfitError
from tidelog.testing import check_module

TRANSITIVE = "p(X, Z) :- p(X, Y), p(Y, Z)."
LINEAR = "anc(X, Z) :- par(X, Y), anc(Y, Z)."

Found = dict[str, list[np.ndarray]]


def broken(rules: str, function: str, how: Callable[..., Found]) -> LiteralModule:
    """A module of which one function returns something else."""
    module = LiteralModule(rules)
    right = getattr(module, function)
    setattr(module, function, lambda *given: how(right(*given), *given))
    return module


def without_one(found: Found, *_: Dataset) -> Found:
    return {name: [column[1:] for column in columns] for name, columns in found.items()}


def one_step(found: Found, facts: Dataset, new: Dataset) -> Found:
    """What follows in one step, without what follows from that."""
    (a, b), (c, d) = facts["p"], new["p"]
    pairs = [(x, w) for x, y in zip(a, b, strict=True) for z, w in zip(c, d, strict=True) if y == z]
    return _pairs("p", [pair for pair in pairs if not facts.contains("p", _pairs("p", [pair])["p"]).all()])


def _pairs(name: str, pairs: list[tuple[Any, Any]]) -> Found:
    return {name: list(np.array(pairs, np.int32).reshape(-1, 2).T)}


def known_too(found: Found, facts: Dataset, *_: Dataset) -> Found:
    """With all that was there."""
    return {"anc": list(facts["anc"])}


@pytest.mark.parametrize(
    "rules",
    [
        TRANSITIVE,
        LINEAR + "anc(X, Y) :- par(X, Y).",
        "p(X, Y) :- q(Y, X), p(X, X). q(X, Y) :- p(X, Y), e(Y, _). p(3, X) :- e(X, 3).",
        "same(X, Y) :- big(X, Y, Z), big(Y, X, Z), X != Y.",
    ],
)
def test_what_follows_the_definitions_passes(rules: str) -> None:
    tried = check_module(LiteralModule(rules), cases=30)
    assert tried == {3: 30, 5: 30, 6: 30, 7: 30}


@pytest.mark.parametrize(
    ("definition", "module"),
    [
        pytest.param(3, broken(TRANSITIVE, "add", one_step), id="Add does not close"),
        pytest.param(3, broken(LINEAR, "add", known_too), id="Add returns what was there"),
        pytest.param(5, broken(LINEAR, "difference", without_one), id="Diff leaves out a fact"),
        pytest.param(5, broken(LINEAR, "difference", known_too), id="Diff returns what does not depend on the change"),
        pytest.param(6, broken(TRANSITIVE, "delete", without_one), id="Del overdeletes less than DRed^c"),
        pytest.param(6, broken(LINEAR, "delete", known_too), id="Del overdeletes more than DRed"),
        pytest.param(7, broken(TRANSITIVE, "rederive", without_one), id="Red forgets a fact"),
        pytest.param(7, broken(LINEAR, "rederive", lambda _, left, gone: {"anc": gone["anc"]}), id="Red believes all"),
    ],
)
def test_a_broken_module_is_told_which_definition_it_breaks(definition: int, module: LiteralModule) -> None:
    with pytest.raises(ModuleError, match=f"breaks Definition {definition} ") as error:
        check_module(module)
    assert error.value.definition == definition


def test_the_smallest_input_is_shown() -> None:
    with pytest.raises(ModuleError) as error:
        check_module(broken(TRANSITIVE, "rederive", lambda *_: {}))
    _, left, gone = str(error.value).splitlines()
    # Two edges that are left, and the pair that follows from them.
    assert (left.count("p("), gone.count("p(")) == (2, 1)


def test_a_module_that_remembers_is_found_out() -> None:
    module = LiteralModule(LINEAR)
    right, seen = module.add, []

    def add(facts: Dataset, new: Dataset) -> Found:
        seen.append(new)
        return right(facts, new) if len(seen) % 2 else {}

    module.add = add  # type: ignore[method-assign]
    with pytest.raises(ModuleError, match="must depend on its arguments alone"):
        check_module(module)


def test_what_is_raised_is_told() -> None:
    def fail(*_: object) -> Found:
        raise ZeroDivisionError("oh")

    with pytest.raises(ModuleError, match=r"`delete` .Del. raises ZeroDivisionError: oh"):
        check_module(broken(LINEAR, "delete", fail))


def test_a_module_that_takes_nothing_has_not_been_tested() -> None:
    def refuse(*_: object) -> Found:
        raise UnfitError("never")

    with pytest.raises(ModuleError, match="`rederive` took none of 10 random inputs"):
        check_module(broken(LINEAR, "rederive", refuse), cases=10)


def test_facts_can_be_given() -> None:
    module = LiteralModule(LINEAR)
    kinds: set[type] = set()
    right = module.add

    def add(facts: Dataset, new: Dataset) -> Found:
        kinds.update(map(type, facts.values(facts["par"][0])))
        return right(facts, new)

    module.add = add  # type: ignore[method-assign]
    check_module(module, facts=lambda dice: {"par": [("a", dice.choice("bc"))]}, cases=10)
    assert kinds == {str}
