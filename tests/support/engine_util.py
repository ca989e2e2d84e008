"""A knowledge base beside the oracle: after every update I, E and the change must be the oracle's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from naive import NO_FUNCTIONS, Database, State, Update, change, database, without_empty
from naive_functions import Functions
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.engine.algorithms.names import MAINTENANCE

ALGORITHMS = MAINTENANCE


def knowledge_base(
    state: State, maintenance: str, functions: Functions = NO_FUNCTIONS, **options: object
) -> KnowledgeBase:
    """A knowledge base with the rules and explicit facts of a state; functions are registered first."""
    text = "\n".join(map(str, state.rules))
    kb = KnowledgeBase("" if functions else text, maintenance=maintenance, **options)  # type: ignore[arg-type]
    if functions:
        for name, function in functions.items():
            kb.register(name, function)
        kb.add_rules(text)
    kb.update(**Update(add=state.explicit).mapping())  # type: ignore[arg-type]
    return kb


def materialisation(kb: KnowledgeBase) -> Database:
    return without_empty(database({name: list(kb.facts(name)) for name in kb.predicates}))


def explicit(kb: KnowledgeBase) -> Database:
    return without_empty(database({name: list(kb.explicit(name)) for name in kb.predicates}))


def facts_of(change: Mapping[str, Iterable[object]]) -> Database:
    return without_empty(database({name: list(rows) for name, rows in change.items()}))  # type: ignore[arg-type]


def check_stream(
    state: State,
    stream: Sequence[Update],
    maintenance: str,
    also: Callable[[KnowledgeBase], None] = lambda kb: None,
    functions: Functions = NO_FUNCTIONS,
    **options: object,
) -> KnowledgeBase:
    """Run a stream, compare everything with the oracle after each update, and call `also`."""
    kb = knowledge_base(state, maintenance, functions, **options)
    before = without_empty(state.materialise(functions))
    assert materialisation(kb) == before
    for update in stream:
        result = kb.update(**update.mapping())  # type: ignore[arg-type]
        state = state.apply(update)
        after = without_empty(state.materialise(functions))
        assert materialisation(kb) == after
        assert explicit(kb) == without_empty(state.explicit)
        added, removed = change(before, after)
        assert facts_of(result.added) == without_empty(added)
        assert facts_of(result.removed) == without_empty(removed)
        also(kb)
        before = after
    return kb
