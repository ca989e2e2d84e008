"""Texts that are not Unicode, and names that need escapes: refused clearly or kept whole, wherever they go."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog import IRI, DataError, KnowledgeBase, Literal, ParseError, StorageError, TidelogError
from tidelog.cli.command_line import main
from tidelog.errors import UnknownRuleError
from tidelog.formats import WRITE_FORMATS, columns_of, read_facts, read_file, read_updates, write_facts
from tidelog.language import parse_program, render, resolve_predicate
from tidelog.language.names import bracketed
from tidelog.language.syntax import Atom, Constant, Disjunction, Program, Rule, Variable
from tidelog.values import SEPARATOR

pytestmark = pytest.mark.plain

HALF = "\ud800"
RULE = "q(X) :- p(X)."

# What cannot stand between angle brackets, and what must not be taken for something else there.
AWKWARD = (
    "".join(map(chr, (*range(0x21), *b"<>\"{}|^`\\'@", 0x7F, 0x85, 0xA0, 0x2028, 0x2029, 0xFEFF, 0xFFFF))) + "%/é,()"
)
awkward_texts = st.text(st.sampled_from(AWKWARD) | st.characters(exclude_categories=["Cs"]), max_size=6)
datatypes = awkward_texts.map(lambda text: text.replace(SEPARATOR, ""))
iris = awkward_texts.map(lambda text: f"http://e/{text}")

# ── half of a surrogate pair ─────────────────────────────────────────────────────────────────────────────────────────


USES: dict[str, Callable[[KnowledgeBase], Any]] = {
    "a value to add": lambda kb: kb.update(add={"p": [(HALF,)]}),
    "a value to delete": lambda kb: kb.update(delete={"p": [(HALF,)]}),
    "an IRI": lambda kb: kb.update(add={"p": [(IRI(HALF),)]}),
    "a literal": lambda kb: kb.update(add={"p": [(Literal(HALF, language="en"),)]}),
    "a datatype": lambda kb: kb.update(add={"p": [(Literal("a", datatype=HALF),)]}),
    "values of an iterator": lambda kb: kb.update(add={"p": iter([(HALF,)])}),
    "a predicate": lambda kb: kb.update(add={f"<{HALF}>": [("a",)]}),
    "a predicate to read": lambda kb: kb.facts(f"<{HALF}>"),
    "a note": lambda kb: kb.update(commit={"batch": HALF}),
    "rules to add": lambda kb: kb.update(add_rules=f'q("{HALF}") :- p(X).'),
    "rules to remove": lambda kb: kb.update(remove_rules=f'q("{HALF}") :- p(X).'),
    "an IRI in a rule": lambda kb: kb.add_rules(f"q(<{HALF}>) :- p(X)."),
    "a prefix": lambda kb: kb.add_rules(f"@prefix e: <{HALF}> . q(X) :- p(X)."),
    "a comment": lambda kb: kb.add_rules(f"% {HALF}\n{RULE}"),
    "a program": lambda kb: KnowledgeBase(f'p("{HALF}").'),
    "a query": lambda kb: kb.query(f'p("{HALF}")'),
    "a fact to look for": lambda kb: f'p("{HALF}")' in kb,
    "a fact to explain": lambda kb: kb.explain(f'p("{HALF}")'),
    "a fact to ask about": lambda kb: kb.why_not(f'p("{HALF}")'),
    "a stream": lambda kb: list(kb.stream([{"add": {"p": [(HALF,)]}}])),
    "a live update": lambda kb: submit_and_settle(kb, {"p": [(HALF,)]}),
    "a folder to save to": lambda kb: kb.save(HALF),
    "a folder to open": lambda kb: KnowledgeBase.open(HALF),
    "a path with NUL": lambda kb: kb.save("a\0b"),
    "a folder of facts": lambda kb: kb.load(read_facts(HALF)),
    "a file of facts": lambda kb: kb.load(read_file(f"{HALF}.csv")),
    "a name for a file": lambda kb: write_facts("/nowhere", f"<{HALF}>", [], "csv"),
    "JSON with an escape": lambda kb: list(read_updates([b'{"add": {"p": [["\\ud800"]]}}'])),
    "JSON with an escape in a name": lambda kb: list(read_updates([b'{"\\uDC00": 1}'])),
    "JSON as a text": lambda kb: list(read_updates([f'{{"add": {{"p": [["{HALF}"]]}}}}'])),
}


def submit_and_settle(kb: KnowledgeBase, add: dict[str, Any]) -> None:
    live = kb.live()
    live.submit(add=add)
    live.settle()


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_half_of_a_surrogate_pair_is_refused(use: Callable[[KnowledgeBase], Any]) -> None:
    kb = KnowledgeBase(f"{RULE} p(a).")
    with pytest.raises((DataError, ParseError, StorageError)) as refused:
        use(kb)
    str(refused.value).encode(errors="surrogateescape")
    assert len(kb) == 2
    assert kb.rules == [RULE]


def test_a_whole_pair_as_escapes_is_one_character() -> None:
    (update,) = read_updates([rb'{"add": {"p": [["\ud83c\udf0a"]]}}'])
    assert update == {"add": {"p": [("\N{WATER WAVE}",)]}}


def test_what_can_be_no_fact_is_not_among_them() -> None:
    kb = KnowledgeBase("p(a).")
    assert (HALF,) not in kb.facts("p")
    assert (IRI(HALF),) not in kb.explicit("p")


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "{program}", b'p("\xff")'],
        ["run", b"\xff.dlog"],
        ["run", "{program}", "--facts", b"\xff"],
        ["stream", "{program}", "--updates", b"\xff"],
    ],
)
def test_the_command_line_takes_any_bytes(tmp_path: Path, arguments: list[str | bytes]) -> None:
    program = tmp_path / "p.dlog"
    program.write_text("p(a). ?- p(X).")
    given = [word.format(program=program) if isinstance(word, str) else word for word in arguments]
    done = subprocess.run([sys.executable, "-m", "tidelog", *given], capture_output=True, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(b"error: ")
    assert b"Traceback" not in done.stderr


# ── values that are none ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: IRI(5), "an IRI is a str, not 5 of type int"),  # type: ignore[arg-type]
        (lambda: IRI(None), "not None"),  # type: ignore[arg-type]
        (lambda: IRI(b"http://e"), "of type bytes"),  # type: ignore[arg-type]
        (lambda: Literal(5), "the text of a literal is a str"),  # type: ignore[arg-type]
        (lambda: Literal("5", 5), "the datatype of a literal is a str"),  # type: ignore[arg-type]
        (lambda: Literal("5", language=None), "the language of a literal is a str"),  # type: ignore[arg-type]
        (lambda: Literal("5", "a\x1fb"), "the datatype of a literal cannot hold .* U[+]001F"),
        (lambda: Literal("5", language="a\x1fb"), "the language of a literal cannot hold"),
        (lambda: Literal("5", "a\x1fb", "en"), "the datatype of a literal cannot hold"),
    ],
)
def test_constants_are_made_of_texts(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        make()


def test_special_kinds_of_texts_are_plain_ones() -> None:
    import numpy as np

    for constant in (IRI(np.str_("a")), Literal(np.str_("a"), np.str_("b"))):
        kb = KnowledgeBase()
        kb.update(add={"p": [(constant,)]})
        assert list(kb.facts("p")) == [(constant,)]
        assert type(str(constant)) is str


def test_a_literal_keeps_control_characters_in_its_text(tmp_path: Path) -> None:
    kb = KnowledgeBase()
    kb.update(add={"p": [(Literal("a\x1fb\x1f", "http://e/\x1e"),), (Literal("\x1f", language="en"),)]})
    kb.save(tmp_path / "kb")
    assert set(KnowledgeBase.open(tmp_path / "kb").facts("p")) == set(kb.facts("p"))


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("p.csv", r'"x"^^<a\u001Fb>', "p.csv, line 1: .*U[+]001F"),
        ("p.jsonl", r'[{"text": "x", "datatype": "a\u001Fb"}]', "p.jsonl, line 1: .*U[+]001F"),
        ("p.nt", r'<a:b> <a:c> "x"^^<a:\u001Fb> .', "p.nt: .*U[+]001F"),
        ("p.dlog", r'p("x"^^<a\u001Fb>).', "p.dlog:1:3: .*U[+]001F"),
    ],
)
def test_a_datatype_with_a_separator_is_told_with_its_place(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=reason):
        KnowledgeBase().load(read_facts(tmp_path))


@pytest.mark.parametrize("tag", ["no such", "a_b", "é", "-", "en-", "a\n"])
def test_a_language_is_a_tag(tag: str) -> None:
    with pytest.raises(DataError, match="is no language tag"):
        KnowledgeBase().update(add={"p": [(Literal("x", language=tag),)]})


@given(st.from_regex(r"[A-Za-z0-9]{1,3}(?:-{1,2}[A-Za-z0-9]{1,3}){0,2}", fullmatch=True))
def test_every_tag_can_be_printed_and_parsed(tag: str) -> None:
    literal = Literal("x", language=tag)
    assert parse_program(f"p({render(Constant(literal))}).").facts[0].arguments == (Constant(literal),)


def test_what_has_a_language_has_no_other_datatype() -> None:
    assert Literal("x", "http://e/d", "en") == Literal("x", language="EN")


# ── names that need escapes ──────────────────────────────────────────────────────────────────────────────────────────


@given(iris)
def test_a_name_that_is_resolved_stays_as_it_is(iri: str) -> None:
    name = bracketed(iri)
    assert resolve_predicate(name, {}) == name
    escaped = "<" + "".join(f"\\U{ord(character):08X}" for character in iri) + ">"
    assert resolve_predicate(escaped, {}) == name


@given(iris, iris, datatypes, st.booleans())
def test_programs_with_such_names_print_and_parse(predicate: str, iri: str, datatype: str, prefixed: bool) -> None:
    name = bracketed(predicate)
    values = (Constant(IRI(iri)), Constant(Literal("x", datatype)), Variable("X"))
    rule = Rule(Atom(name, values), (Atom("p", (Variable("X"),)),))
    prefixes = (("e", predicate),) if prefixed else ()
    fact = Atom(f"<{bracketed(predicate)[1:-1]}a>", (Constant(IRI(f"{predicate}b")),))
    program = Program(prefixes, (fact,), (rule,), ())
    assert parse_program(render(program)) == program


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(iris.filter(lambda iri: len(iri.encode()) < 40), iris, datatypes)
def test_such_names_survive_files_and_stores(tmp_path: Path, predicate: str, iri: str, datatype: str) -> None:
    """What a rule derives under a name that needs escapes is written, read, saved and opened."""
    name, row = bracketed(predicate), (IRI(iri), Literal("x", f"d{datatype}"))
    kb = KnowledgeBase(f"{name}(X, Y) :- {bracketed(predicate + 'o')}(X, Y).")
    kb.update(add={bracketed(predicate + "o"): [row]})
    assert list(kb.facts(name)) == [row]
    assert kb.explain(render(Atom(name, tuple(map(Constant, row))))) is not None
    for format in WRITE_FORMATS:
        columns = columns_of([row], name)
        assert columns is not None
        path = write_facts(tmp_path / format, name, [columns], format)
        back = KnowledgeBase()
        back.load(read_file(path))
        assert back.predicates == [name], format
        assert list(back.facts(name)) == [row], format
        path.unlink()
    kb.save(tmp_path / "kb")
    assert list(KnowledgeBase.open(tmp_path / "kb").facts(name)) == [row]


@pytest.mark.parametrize("format", WRITE_FORMATS)
def test_commands_write_such_names(tmp_path: Path, capsys: pytest.CaptureFixture[str], format: str) -> None:
    program = tmp_path / "p.dlog"
    facts, rule = r"<a:\u0020>(<b:\u0020>, <c:\u003E>).", r"<d:\u0020>(X, Y) :- <a:\u0020>(X, Y)."
    program.write_text(rf"{facts} {rule} ?- <d:\u0020>(X, Y).")
    out = str(tmp_path / "out")
    assert main(["run", str(program), "--out", out, "--format", format, "--explain-plan"]) == 0
    assert r"X = <b:\u0020>, Y = <c:\u003E>" in capsys.readouterr().out
    kb = KnowledgeBase()
    kb.load(read_facts(out))
    assert {name: list(kb.facts(name)) for name in kb.predicates} == {r"<d:\u0020>": [(IRI("b: "), IRI("c:>"))]}


def test_such_rules_are_found_again() -> None:
    kb = KnowledgeBase(r"<a:\u0020>(X) :- p(X).")
    with pytest.raises(UnknownRuleError):
        kb.remove_rules(r"<a:\u0021>(X) :- p(X).")
    kb.remove_rules(r"<a:\U00000020>(X) :- p(X).")
    assert kb.rules == []
    with pytest.raises(TidelogError, match="not the name of a predicate"):
        kb.facts("<a: >")


MANY = ", ".join(["ab"] * 40)


@pytest.mark.parametrize(
    "text",
    [
        f"q(X) :- p({MANY}, 1 + X), r(X).",
        f"q(X) :- r(X), p({MANY}, X",
        f"p({MANY}) & ",
        f"q(X) :- p(X), (<{'ab#' * 40}c> = X",
        f"q(X) :- p(X), ({'X % ' * 40}",
        f"q(X) :- p(X), ({' % X' * 40}",
        f"q(X) :- p(X), ({' // X' * 40}",
        f"q(X) :- ({'(X % [X ), ' * 40}X",
        f"q(X) :- {'(a, ' * 40}X{')' * 40}",
        f"q(X) :- p(X), X = 7 {'% (X mod ' * 400}4",
        f"q(X) :- p(X), X = 7 % ({'X mod ' * 20_000}4",
        f"p({'a-' * 10_000}b)",
    ],
)
def test_texts_that_could_be_many_things_take_no_longer(text: str) -> None:
    """Each of these once had more ways to be read in vain than there is time to try."""
    with contextlib.suppress(TidelogError):
        parse_program(text)


def test_a_wide_rule_may_compute() -> None:
    (rule,) = parse_program(f"q(X) :- p({MANY}, 1 + X), r(X).").rules
    assert len(rule.body[0].arguments) == 41


@pytest.mark.parametrize(
    "body",
    [
        "( a(X) % one; two\n ; b(X) )",
        "( X = 7 % 2 ; b(X) )",
        "( b(X), X % 2 = 1 ; a(X) )",
        "( a(X), # it's one\n b(X) ; c(X) )",
        "( same(X, <http://example.org/#a;b>) ; X < 3, b(X) )",
        '( a(X), Y = "; (", b(Y) // (\n ; c(X) )',
        "( ( a(X) ; ( b(X) ; c(X), [X, [1, 2]] = [X, Z] ) ) ; d(X) )",
    ],
)
def test_alternatives_among_signs_with_two_meanings(body: str) -> None:
    (rule,) = {rule.written for rule in parse_program(f"q(X) :- e(X), {body}.").rules}
    assert isinstance(rule.body[1], Disjunction)
