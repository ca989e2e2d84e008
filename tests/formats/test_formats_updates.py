"""Update streams: JSON Lines in, changes out, and folders of Prolog files."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog import IRI, DataError, Literal
from tidelog.formats import change_to_json, open_updates, read_updates
from tidelog.values import Row, identity

values = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.builds(IRI, st.text(st.characters(exclude_categories=["Cs"]))),
    st.builds(Literal, st.text(st.characters(exclude_categories=["Cs"])), language=st.just("en")),
)


@dataclass
class Change:
    added: dict[str, set[Row]] = field(default_factory=dict)
    removed: dict[str, set[Row]] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)


def test_an_update_with_every_part() -> None:
    line = '{"add": {"edge": [["a", 1], [{"iri": "http://x"}, {"text": "chat", "language": "fr"}]]}'
    line += ', "delete": {"rain": [[]]}'
    line += ', "add_rules": "p(X) :- edge(X, _).", "remove_rules": "q :- p(a)."}'
    assert list(read_updates([line])) == [
        {
            "add": {"edge": [("a", 1), (IRI("http://x"), Literal("chat", language="fr"))]},
            "delete": {"rain": [()]},
            "add_rules": "p(X) :- edge(X, _).",
            "remove_rules": "q :- p(a).",
        }
    ]


def test_updates_come_as_lines_do_and_blank_lines_are_skipped() -> None:
    seen: list[int] = []

    def lines() -> Any:
        for number, line in enumerate([b"\xef\xbb\xbf{}\n", b"\n", b'{"add": {"p": [[1]]}}\r\n']):
            seen.append(number)
            yield line

    updates = read_updates(lines())
    assert next(updates) == {}
    assert seen == [0]
    assert next(updates) == {"add": {"p": [(1,)]}}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[]", "an update is an object"),
        ("{", "not JSON"),
        ('{"ad": {}}', "no key 'ad'; did you mean add?"),
        ('{"zzz": {}}', "use add, delete, add_rules, remove_rules"),
        ('{"add": {}, "add": {}}', "twice"),
        ('{"add": {"p": [["a"]], "p": []}}', "twice"),
        ('{"add": []}', '"add" is an object of predicates'),
        ('{"add": {"p": 1}}', '"add" is an object of predicates'),
        ('{"delete": {"p": [["a"], "b"]}}', "delete p, row 2: a row is an array"),
        ('{"add": {"p": [[null]]}}', "add p, row 1: a null"),
        ('{"add": {"p": [[99999999999999999999]]}}', "64 bits"),
        ('{"add": {"p": [[1e400]]}}', "1e400 is too large"),
        ('{"add_rules": ["p :- q."]}', '"add_rules" is a string of rules'),
        (b'{"add": {"p": [["\xff"]]}}', "not UTF-8"),
        ('{"add": {"p": [' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_lines_are_told_with_their_number(line: str | bytes, reason: str) -> None:
    updates = read_updates(["{}", "", line], "updates.jsonl")
    next(updates)
    with pytest.raises(DataError) as told:
        next(updates)
    assert "updates.jsonl, line 3: " in str(told.value)
    assert reason in str(told.value)


def test_a_stream_can_go_on_after_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "updates.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"add": {}}\nbad\n{"delete": {}}'))
    first, second, third = open_updates(str(path))
    assert first.read() == {"add": {}}
    assert second.place == f"{path}, line 2"
    with pytest.raises(DataError, match="line 2: not JSON"):
        second.read()
    assert third.read() == {"delete": {}}
    with pytest.raises(DataError, match="No such file"):
        list(open_updates(str(tmp_path / "none.jsonl")))


@given(st.lists(st.tuples(values, values), max_size=5))
def test_changes_read_back_as_updates(rows: list[Row]) -> None:
    distinct = {tuple(map(identity, row)): row for row in rows}
    line = json.loads(change_to_json(Change(added={"p": list(distinct.values())}, work={"insertion": 3})))  # type: ignore[dict-item]
    assert line["removed"] == {}
    assert line["work"] == {"insertion": 3}
    (update,) = read_updates([json.dumps({"add": line["added"]})])
    assert {tuple(map(identity, row)) for row in update["add"]["p"]} == distinct.keys()


def test_changes_are_json_whatever_their_floats() -> None:
    rows: set[Row] = {(math.inf,), (-math.inf,), (math.nan,)}
    text = change_to_json(Change(added={"p": rows}))
    line = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    (update,) = read_updates([json.dumps({"add": line["added"]})])
    assert {identity(value) for (value,) in update["add"]["p"]} == {identity(value) for (value,) in rows}


def test_a_number_that_is_too_large_in_prolog_is_told(tmp_path: Path) -> None:
    (tmp_path / "00.pl").write_text("add(p(1.5)).\nadd(p(1e400)).\n")
    with pytest.raises(DataError, match="line 2: the number 1e400 is too large"):
        next(open_updates(str(tmp_path))).read()


def test_a_folder_of_prolog_files_is_a_stream(tmp_path: Path) -> None:
    (tmp_path / "01.pl").write_text("delete(edge(12, 16)).\nadd(rain).\n")
    (tmp_path / "00.pl").write_text(
        "% first\nadd(edge(12, 16)).\n\nadd(edge(a, -1.5)).\n"
        "add('a1:Image'('http://x/y?a=1&b=(2)', 'it''s, \\'so\\'', \"s\")).\nadd('http://x/p'(b)).\n"
    )
    first, second = (unread.read() for unread in open_updates(str(tmp_path)))
    assert first == {
        "add": {
            "edge": [(12, 16), ("a", -1.5)],
            "a1:Image": [("http://x/y?a=1&b=(2)", "it's, 'so'", "s")],
            "<http://x/p>": [("b",)],
        },
        "delete": {},
    }
    assert second == {"add": {"rain": [()]}, "delete": {"edge": [(12, 16)]}}


@pytest.mark.parametrize(
    "line", ["edge(1, 2).", "add(edge(1, 2))", "add(edge(X)).", "add(edge(1,)).", "add(edge(1 2))."]
)
def test_bad_prolog_lines_are_told(tmp_path: Path, line: str) -> None:
    path = tmp_path / "00.pl"
    path.write_text(f"add(p(1)).\n{line}\n")
    (unread,) = open_updates(str(path))
    with pytest.raises(DataError, match=r"00\.pl, line 2: "):
        unread.read()


def test_a_folder_without_updates_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="without updates"):
        list(open_updates(str(tmp_path)))
