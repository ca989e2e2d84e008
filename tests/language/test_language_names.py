"""Names of predicates between what users write and what is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog import KnowledgeBase
from tidelog.errors import ParseError
from tidelog.language import display_predicate, resolve_predicate
from tidelog.language.names import bracketed

PREFIXES = {"ex": "http://example.org/", "deep": "http://example.org/deep/", "": "urn:"}


@pytest.mark.parametrize(
    ("written", "kept", "shown"),
    [
        ("edge", "edge", "edge"),
        ("Edge", "Edge", "Edge"),
        ("ex:Person", "<http://example.org/Person>", "ex:Person"),
        ("<http://example.org/Person>", "<http://example.org/Person>", "ex:Person"),
        ("<http://example.org/deep/x>", "<http://example.org/deep/x>", "deep:x"),
        ("ex:time-span", "<http://example.org/time-span>", "ex:time-span"),
        (":a", "<urn:a>", ":a"),
        ("other:Person", "other:Person", "other:Person"),
        ("<http://example.org/>", "<http://example.org/>", "<http://example.org/>"),
        ("<http://example.org/a.b>", "<http://example.org/a.b>", "<http://example.org/a.b>"),
        ("<http://other.org/\\u0020x>", "<http://other.org/\\u0020x>", "<http://other.org/\\u0020x>"),
    ],
)
def test_names_of_predicates(written: str, kept: str, shown: str) -> None:
    assert resolve_predicate(written, PREFIXES) == kept
    assert display_predicate(kept, PREFIXES) == shown


@pytest.mark.parametrize(
    "name", ["", "a b", "my-table", "1st", "not", "true", "p(X)", "<a b>", "ex:", "http://e.org/p", "<\\uD800>"]
)
def test_no_names_of_predicates(name: str) -> None:
    with pytest.raises(ParseError, match="is not the name of a predicate"):
        resolve_predicate(name, PREFIXES)


def test_an_iri_without_brackets_gets_a_hint() -> None:
    with pytest.raises(ParseError, match=r"hint: .*`<http://e\.org/p>`"):
        resolve_predicate("http://e.org/p", PREFIXES)


@given(st.text(max_size=10) | st.builds(str.__add__, st.sampled_from(sorted(PREFIXES.values())), st.text(max_size=5)))
def test_what_is_shown_resolves_to_what_is_kept(iri: str) -> None:
    kept = bracketed(iri)
    assert resolve_predicate(display_predicate(kept, PREFIXES), PREFIXES) == kept
    assert resolve_predicate(kept, PREFIXES) == kept


def test_predicates_with_explicit_facts_are_listed_as_others_are() -> None:
    kb = KnowledgeBase("@prefix ex: <http://e/> . ex:p(1). b(1). ex:q(X) :- ex:p(X).")
    assert kb.explicit_predicates == ["b", "ex:p"]
    assert kb.predicates == ["b", "ex:p", "ex:q"]
