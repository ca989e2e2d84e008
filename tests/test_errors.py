"""Errors go from process to process, with all that they know."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable

import pytest

import tidelog
from tidelog import KnowledgeBase, Record, TidelogError, errors
from tidelog.proofs.proof import Proof

PATHS = "path(X, Y) :- edge(X, Y).  path(X, Z) :- path(X, Y), edge(Y, Z).  :- path(0, 3000)."


def fails_to_divide() -> None:
    KnowledgeBase("part(X, 1 / N) :- share(X, N).", on_error="raise").update(add={"share": [(Record(1, "a"), 0)]})


RAISE: list[Callable[[], object]] = [
    lambda: KnowledgeBase("p(a"),
    lambda: KnowledgeBase("p(X, Z) :- q(X)."),
    fails_to_divide,
    lambda: KnowledgeBase(PATHS).update(add={"edge": [(number, number + 1) for number in range(3000)]}),
]


def known_to(error: BaseException) -> dict[str, object]:
    """What an error knows, as far as it can be compared."""

    def plain(value: object) -> object:
        if isinstance(value, tuple) and all(isinstance(each, Proof) for each in value):
            return [(proof.to_dict(), [step.is_part for step in proof.steps()]) for proof in value]
        return getattr(value, "first", value)

    return {name: plain(value) for name, value in vars(error).items()}


@pytest.mark.parametrize("cause", RAISE)
def test_errors_are_pickled_with_what_they_know(cause: Callable[[], object]) -> None:
    with pytest.raises(TidelogError) as found:
        cause()
    assert vars(found.value)
    for copied in (pickle.loads(pickle.dumps(found.value)), copy.copy(found.value)):
        assert (type(copied), str(copied)) == (type(found.value), str(found.value))
        assert known_to(copied) == known_to(found.value)


def test_every_error_can_be_pickled() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, TidelogError)]
    assert len(kinds) > 15
    for kind in kinds:
        values = {"line": 1, "column": 2, "failures": 3, "problem": {"status": 403}, "definition": 4}
        taken = inspect.signature(kind.__init__).parameters
        error = kind("said", **{name: value for name, value in values.items() if name in taken})
        copied = pickle.loads(pickle.dumps(error))
        assert (type(copied), str(copied), vars(copied)) == (kind, "said", vars(error))
    missing = pickle.loads(pickle.dumps(tidelog.MissingPackageError("said")))
    assert missing.msg == "said"
