"""The command line: every command, what it prints and writes, and how errors end."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from programs_util import Example, examples
from tidelog.cli.command_line import main
from tidelog.formats import read_file, values_of
from tidelog.machine.jit import JIT_DISABLED

PATHS = """\
edge(a, b). edge(b, c).
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
?- path(a, X).
?- path(c, X).
?- path(a, c).
"""
# Seconds for a process that has to compile the kernels first.
COLD = 300
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "paths.dlog"
    path.write_text(PATHS)
    return str(path)


def facts_of(path: Path) -> set[tuple[object, ...]]:
    return {row for batch in read_file(path) for row in zip(*map(values_of, batch.columns), strict=True)}


def in_process(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run(command, text=True, timeout=COLD, check=False, **(pipes | options))  # type: ignore[call-overload, no-any-return]


# ---- run


def test_run_prints_answers(program: str, capsys: Captured) -> None:
    assert main(["run", program]) == 0
    assert capsys.readouterr().out == "?- path(a, X).\nX = b\nX = c\n?- path(c, X).\nno\n?- path(a, c).\nyes\n"


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_run_on_the_example_programs(example: Example, tmp_path: Path, capsys: Captured) -> None:
    facts = ["--facts", str(example.facts_path)] if example.facts_path else []
    assert main(["run", str(example.program_path), "--out", str(tmp_path), *facts]) == 0
    expected = {path.name: path.read_text() for path in (example.folder / "expected").iterdir()}
    assert capsys.readouterr().out == expected.pop("answers.txt", "")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == expected


@pytest.mark.parametrize("format", ["csv", "tsv", "parquet", "jsonl", "dlog"])
def test_run_writes_derived_predicates(program: str, tmp_path: Path, format: str) -> None:
    out = tmp_path / "new" / "out"
    assert main(["run", program, "--out", str(out), "--format", format]) == 0
    assert [path.name for path in out.iterdir()] == [f"path.{format}"]
    assert facts_of(out / f"path.{format}") == {("a", "b"), ("b", "c"), ("a", "c")}


def test_run_writes_triples(tmp_path: Path) -> None:
    program = tmp_path / "p.dlog"
    program.write_text("@prefix ex: <http://e/> . ex:p(ex:a, 1). ex:C(X) :- ex:p(X, _). ex:q(X, Y) :- ex:p(X, Y).")
    assert main(["run", str(program), "--out", str(tmp_path / "out"), "--format", "nt"]) == 0
    lines = sorted(line for path in (tmp_path / "out").iterdir() for line in path.read_text().splitlines())
    assert lines == [
        '<http://e/a> <http://e/q> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .',
        "<http://e/a> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/C> .",
    ]


def test_run_reads_a_folder_of_facts(program: str, tmp_path: Path, capsys: Captured) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()
    (facts / "edge.csv").write_text("from,to\nc,d\n")
    (facts / "edge.jsonl.gz").write_bytes(gzip.compress(b'["d", 1]\n'))
    assert main(["run", program, "--facts", str(facts), "--header"]) == 0
    assert "X = 1\nX = b\nX = c\nX = d\n" in capsys.readouterr().out


def test_run_reads_the_program_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    done = in_process("run", "-", input=PATHS)
    assert done.stdout.startswith("?- path(a, X).\nX = b\n")
    assert in_process("run", "-", input="p(").stderr.startswith("error: <standard input>:1:")


def test_run_shows_statistics(program: str, capsys: Captured) -> None:
    assert main(["run", program, "--stats"]) == 0
    captured = capsys.readouterr()
    assert "path(X, Z) :- path(X, Y), edge(Y, Z)." in captured.err
    assert "5 facts" in captured.err
    assert captured.out.startswith("?- path(a, X).")


def test_run_shows_plans(program: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["run", program, "--explain-plan"]) == 0
    assert "closure" in capsys.readouterr().out
    other = tmp_path / "other.dlog"
    other.write_text("p(X, Y) :- q(X), not r(X), s(X, Y), Y > 3. t(X, Y) :- q(X), u(Y).")
    assert main(["run", str(other), "--explain-plan"]) == 0
    shown = capsys.readouterr().out
    assert "rule 1: p(X, Y) :- q(X), not r(X), s(X, Y), Y > 3." in shown
    assert "absent r(X)" in shown
    assert "cross product" in shown


def test_run_says_what_to_do_next_when_there_is_nothing_to_print(tmp_path: Path, capsys: Captured) -> None:
    program = tmp_path / "p.dlog"
    program.write_text("p(1). q(X) :- p(X).")
    assert main(["run", str(program)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "2 facts in all" in captured.err


@pytest.mark.parametrize("maintenance", ["auto", "recompute", "dred-counting"])
def test_run_takes_an_algorithm(program: str, maintenance: str, capsys: Captured) -> None:
    assert main(["run", program, "--maintenance", maintenance, "--no-modules"]) == 0
    assert "X = b\nX = c\n" in capsys.readouterr().out


def test_likely_misspellings_are_warned_about(tmp_path: Path, capsys: Captured) -> None:
    program = tmp_path / "p.dlog"
    program.write_text("edge(a, b). path(X, Y) :- egde(X, Y). ?- path(X, Y).")
    assert main(["run", str(program)]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("warning: ")
    assert "did you mean `edge`?" in captured.err
    assert captured.out == "?- path(X, Y).\nno\n"


# ---- errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path(X, Y) :- edge(X, Y)", "p.dlog:1:"),
        (
            "p(X) :- q(Y).",
            "p.dlog:1:3: variable `X` is not bound in the rule\n   1 | p(X) :- q(Y).\n     |   ^\nhint: ",
        ),
        ("p(X) :- q(X), not p(X).", "p.dlog: negation through recursion"),
        (
            "p(1).\np(1, 2).",
            "p.dlog:2:1: `p` has 2 arguments here, but 1 argument in line 1, column 1\n   2 | p(1, 2).",
        ),
        ("p(1).\n?- p(X, Y).", "p.dlog:2:4: `p` has 2 arguments here, but 1 argument before\n   2 | ?- p(X, Y)."),
        ("p(1).\n?- p(X), Y > X.", "p.dlog:2:10: variable `Y` is not bound in the query\n   2 | ?- p(X), Y > X."),
        (b"p(\xff).", "p.dlog, line 1: byte 0xff is not UTF-8"),
        (b"p(1).\n\0", "p.dlog, line 2: a NUL byte"),
    ],
)
def test_bad_programs_end_with_one_message(tmp_path: Path, text: str | bytes, message: str, capsys: Captured) -> None:
    program = tmp_path / "p.dlog"
    program.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["run", str(program)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_missing_programs_and_folders(program: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["run", str(tmp_path / "none.dlog")]) == 2
    assert "none.dlog: No such file" in capsys.readouterr().err
    assert main(["run", program, "--facts", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(["run", program, "--out", program]) == 2
    assert "File exists" in capsys.readouterr().err


def test_bad_facts_are_told_and_nothing_is_written(program: str, tmp_path: Path, capsys: Captured) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()
    (facts / "edge.csv").write_text("c,d\nd\n")
    assert main(["run", program, "--facts", str(facts), "--out", str(tmp_path / "out")]) == 2
    assert f"{facts / 'edge.csv'}, line 2: 1 column" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (facts / "edge.csv").write_text("c\n")
    assert main(["run", program, "--facts", str(facts)]) == 2
    assert "edge" in capsys.readouterr().err


def test_limits_end_a_program_that_runs_away(tmp_path: Path, capsys: Captured) -> None:
    program = tmp_path / "p.dlog"
    program.write_text("n(0). n(Y) :- n(X), Y = X + 1.")
    assert main(["run", str(program), "--max-facts", "1000"]) == 2
    assert "n(Y) :- n(X), Y = X + 1." in capsys.readouterr().err
    assert main(["run", str(program), "--timeout", "0.2"]) == 2
    assert "n(Y) :- n(X), Y = X + 1." in capsys.readouterr().err


def test_expressions_without_a_value_are_told(tmp_path: Path, capsys: Captured) -> None:
    program = tmp_path / "p.dlog"
    program.write_text("n(0). n(2). half(X, Y) :- n(X), Y = 10 / X. ?- n(X), X / 0 > 1.")
    assert main(["run", str(program)]) == 0
    told = capsys.readouterr().err
    assert told.startswith("note: 3 rule instances failed: 3 expressions without a value\n")
    assert "\n  half(X, Y) :- n(X), Y = 10 / X.\n    with X = 0: 10 / 0 is a division by zero\n" in told
    program.write_text("half(X, Y) :- n(X), Y = 10 / X.")
    updates = tmp_path / "updates.jsonl"
    updates.write_text('{"add": {"n": [[0]]}}\n')
    assert main(["stream", str(program), "--updates", str(updates)]) == 0
    assert "note: 1 rule instance failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["run"],
        ["run", "p", "--format", "xml"],
        ["run", "p", "--max-facts", "0"],
        ["run", "p", "--timeout", "x"],
        ["stream", "p", "--updates", "u", "--marking", "-1"],
        ["stream", "p", "--updates", "u", "--marking", "2", "--no-marking"],
        ["bench", "list", "more"],
        ["bench", "updates", "--repeat", "0"],
        ["bench", "updates", "--size", "-1"],
        ["bench", "updates", "--timeout", "nan"],
    ],
)
def test_bad_usage(arguments: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: tidelog" in capsys.readouterr().err


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")
def test_warmup_says_where_the_kernels_are(capsys: Captured) -> None:
    assert main(["warmup"]) == 0
    told, place = capsys.readouterr().out.rstrip().split(": ")
    assert told == "compiled kernels"
    assert Path(place).exists()


def test_help_and_version_import_nothing_heavy() -> None:
    code = "import sys; from tidelog.cli.command_line import main\ntry: main([sys.argv[1]])\nexcept SystemExit: pass\n"
    code += "assert not {'numba', 'pyarrow', 'lark', 'rich'} & set(sys.modules)"
    for option in ("--help", "--version"):
        done = subprocess.run([sys.executable, "-c", code, option], capture_output=True, text=True, check=True)
        assert done.stdout.startswith(("usage: tidelog", "tidelog 0."))


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    program = tmp_path / "p.dlog"
    program.write_text("".join(f"p({number}).\n" for number in range(20_000)) + "?- p(X).")
    _leave_early([sys.executable, "-m", "tidelog", "run", str(program)])


def test_a_reader_of_benchmarks_may_leave_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(sys.stdout, "write", closed)
    assert main(["bench", "list"]) == 0


def _leave_early(command: list[str]) -> None:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(COLD) == 0


# ---- stream

UPDATES = [
    {"add": {"edge": [["c", "d"]]}},
    {"delete": {"edge": [["a", "b"]]}, "add_rules": "twice(X, Z) :- edge(X, Y), edge(Y, Z)."},
    {"remove_rules": "twice(A, C) :- edge(A, B), edge(B, C)."},
]
CHANGES = [
    {"added": {"edge": [["c", "d"]], "path": [["a", "d"], ["b", "d"], ["c", "d"]]}, "removed": {}},
    {
        "added": {"twice": [["b", "d"]]},
        "removed": {"edge": [["a", "b"]], "path": [["a", "b"], ["a", "c"], ["a", "d"]]},
    },
    {"added": {}, "removed": {"twice": [["b", "d"]]}},
]


def changes(text: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(change.pop("work"), dict) for change in found)
    return found


@pytest.mark.parametrize("marking", [[], ["--no-marking"], ["--marking", "3"]])
def test_stream_gives_a_change_per_update(program: str, tmp_path: Path, marking: list[str], capsys: Captured) -> None:
    updates = tmp_path / "updates.jsonl"
    updates.write_text("\n".join(map(json.dumps, UPDATES)))
    assert main(["stream", program, "--updates", str(updates), *marking]) == 0
    assert changes(capsys.readouterr().out) == CHANGES
    assert main(["stream", program, "--updates", str(updates), "--out", str(tmp_path / "out"), *marking]) == 0
    assert changes((tmp_path / "out").read_text()) == CHANGES
    assert capsys.readouterr().out == ""


def test_stream_says_when_updates_come(tmp_path: Path, capsys: Captured) -> None:
    rules, updates = tmp_path / "rules.dlog", tmp_path / "updates.jsonl"
    rules.write_text("@expire reading 60 s.\nbusy(S) :- reading(S, V) in last 10 s.\n")
    given = [{"add": {"reading": [["hall", 7]]}, "at": 0}, {"at": "1970-01-01T00:00:10Z"}, {"at": 60}]
    updates.write_text("\n".join(map(json.dumps, given)))
    assert main(["stream", str(rules), "--updates", str(updates)]) == 0
    assert changes(capsys.readouterr().out) == [
        {"added": {"busy": [["hall"]], "reading": [["hall", 7]]}, "removed": {}},
        {"added": {}, "removed": {"busy": [["hall"]]}},
        {"added": {}, "removed": {"reading": [["hall", 7]]}},
    ]
    updates.write_text('{"at": "soon"}')
    assert main(["stream", str(rules), "--updates", str(updates)]) == 2
    assert '"at" is a time, such as' in capsys.readouterr().err


def test_stream_reads_folders_of_prolog_files(program: str, tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "stream"
    folder.mkdir()
    (folder / "00.pl").write_text("add(edge(c, d)).\n")
    (folder / "01.pl").write_text("delete(edge(c, d)).\n")
    assert main(["stream", program, "--updates", str(folder)]) == 0
    first, second = changes(capsys.readouterr().out)
    assert first == CHANGES[0]
    assert second == {"added": {}, "removed": first["added"]}


BAD_LINES = ["bad", '{"add": {"edge": [["x"]]}}', '{"remove_rules": "p(X) :- q(X)."}', '{"add_rules": "p(X) :- q(Y)."}']


@pytest.mark.parametrize("bad", BAD_LINES)
@pytest.mark.parametrize("marking", [[], ["--no-marking"], ["--marking", "3"]])
def test_stream_stops_at_a_bad_update_or_goes_on(
    program: str, tmp_path: Path, bad: str, marking: list[str], capsys: Captured
) -> None:
    updates = tmp_path / "updates.jsonl"
    updates.write_text("\n".join([json.dumps(UPDATES[0]), bad, *map(json.dumps, UPDATES[1:])]))
    command = ["stream", program, "--updates", str(updates), *marking]
    assert main(command) == 2
    captured = capsys.readouterr()
    assert changes(captured.out) == CHANGES[:1]
    assert captured.err.startswith(f"error: {updates}, line 2: ")
    assert main([*command, "--on-error", "continue"]) == 0
    captured = capsys.readouterr()
    assert changes(captured.out) == CHANGES
    assert captured.err.count("error: ") == 1


def test_stream_answers_each_update_before_the_next_comes(program: str) -> None:
    command = [sys.executable, "-m", "tidelog", "stream", program, "--updates", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for update, change in zip(UPDATES, CHANGES, strict=True):
            running.stdin.write(json.dumps(update) + "\n")
            running.stdin.flush()
            assert changes(running.stdout.readline()) == [change]
        running.stdin.close()
        assert running.wait(COLD) == 0


def test_an_interruption_ends_with_130(program: str) -> None:
    command = [sys.executable, "-m", "tidelog", "stream", program, "--updates", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdin.write(b"{}\n")
        running.stdin.flush()
        running.stdout.readline()
        time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        assert running.wait(COLD) == 130
        assert b"Traceback" not in running.stderr.read()


# ---- explain, graph and the rest


def test_explain_draws_a_proof(program: str, capsys: Captured) -> None:
    assert main(["explain", program, "path(a, c)"]) == 0
    shown = capsys.readouterr().out
    assert "path(a, c)" in shown
    assert "edge(b, c)" in shown


def test_explain_says_why_a_fact_does_not_hold(program: str, capsys: Captured) -> None:
    assert main(["explain", program, "path(c, a)"]) == 0
    assert "path(c, a)" in capsys.readouterr().out
    assert main(["explain", program, "path(c"]) == 2


@pytest.mark.parametrize(("format", "sign"), [("dot", "digraph"), ("svg", "<svg"), ("mermaid", "flowchart")])
def test_graph_draws_rules(program: str, tmp_path: Path, format: str, sign: str, capsys: Captured) -> None:
    assert main(["graph", program, "--format", format]) == 0
    shown = capsys.readouterr().out
    assert sign in shown
    assert main(["graph", program, "--format", format, "--out", str(tmp_path / "drawing")]) == 0
    assert (tmp_path / "drawing").read_text() == shown


def test_graph_shows_what_an_update_would_touch(program: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["graph", program]) == 0
    before = capsys.readouterr().out
    assert main(["graph", program, "--if-added", "far(X) :- path(a, X)."]) == 0
    assert "far(X) :- path(a, X)." in capsys.readouterr().out
    assert main(["graph", program, "--if-removed", "path(A, B) :- edge(A, B)."]) == 0
    assert capsys.readouterr().out != before
    assert main(["graph", program, "--if-removed", "path(A, B) :- edge(B, A)."]) == 2
    assert "no rule `path(A, B) :- edge(B, A).`" in capsys.readouterr().err
    assert main(["graph", program, "--if-added", "path(X, X) :- not path(a, b), edge(X, X)."]) == 2
    assert main(["graph", program, "--if-added", "far(X) :- path(a, X, X)."]) == 2
    assert "error: --if-added:1:11: `path` has 3 arguments here" in capsys.readouterr().err
    assert main(["graph", program, "--if-added", "far(Y) :- path(a, X)."]) == 2
    assert main(["graph", program, "--if-added", "far(Y) :- path(a, X), Y = registered(X)."]) == 0
    rules = tmp_path / "rules.dlog"
    rules.write_text("far(X) :- path(a, X).\nnear(X) :- edge(a, X).\n")
    capsys.readouterr()
    assert main(["graph", program, "--if-added", str(rules)]) == 0
    assert "near(X) :- edge(a, X)." in capsys.readouterr().out
    assert main(["graph", program, "--if-added", "near(a, b)."]) == 2
    assert "a fact stands among rules" in capsys.readouterr().err
    assert main(["graph", program, "--if-removed", str(tmp_path / "none.dlog")]) == 2
    assert "none.dlog" in capsys.readouterr().err


def test_graph_as_data(program: str, capsys: Captured) -> None:
    assert main(["graph", program, "--format", "json"]) == 0
    graph = json.loads(capsys.readouterr().out)
    assert [node["id"] for node in graph["hyper_nodes"]] == [1, 2]
    assert main(["graph", program, "--format", "json", "--if-added", "far(X) :- path(a, X)."]) == 0
    impact = json.loads(capsys.readouterr().out)
    assert (impact["before"], impact["new"], impact["direct"], impact["plan"]) == (graph, [3], [3], [3])


def test_graph_adds_no_rule_that_is_there(program: str, capsys: Captured) -> None:
    assert main(["graph", program, "--if-removed", ""]) == 0
    before = capsys.readouterr().out
    assert main(["graph", program, "--if-added", "path(A, B) :- edge(A, B)."]) == 0
    assert capsys.readouterr().out == before


@pytest.mark.parametrize("text", ["p(X) :- not q(X).", "p(X) :- q(X), not p(X).", "p(X) :- q(X), q(X, X)."])
def test_graph_refuses_what_could_not_be_run(text: str, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "p.dlog"
    path.write_text(text)
    assert main(["graph", str(path)]) == 2
    assert re.match(f"error: {re.escape(str(path))}:(?: |1:)", capsys.readouterr().err)


@pytest.mark.parametrize("command", ["run", "graph"])
def test_a_bad_program_on_standard_input_is_called_that(command: str) -> None:
    done = in_process(command, "-", input="p(X) :- not q(X).")
    assert done.returncode == 2
    assert done.stderr.startswith("error: <standard input>:1:3: ")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize("arguments", [["run"], ["run", "--explain-plan"], ["stream"], ["shell"], ["explain"]])
def test_a_full_standard_output_is_told(program: str, tmp_path: Path, arguments: list[str]) -> None:
    updates = tmp_path / "updates.jsonl"
    updates.write_text(json.dumps(UPDATES[0]))
    command, *options = arguments
    more = {"stream": ["--updates", str(updates)], "explain": ["path(a, b)"]}.get(command, [])
    with open("/dev/full", "w") as full:
        done = in_process(command, program, *more, *options, stdout=full, input="?- path(a, X).\n?- path(c, X).\n")
    assert done.stderr == "error: cannot write to standard output: No space left on device; write elsewhere\n"
    assert done.returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize("option", ["--help", "--version"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_told_of_help_too(option: str, unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        done = in_process(option, stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write to standard output")


@pytest.mark.parametrize("command", ["run -", "stream {program} --updates -", "shell"])
def test_a_closed_standard_input_is_told(program: str, command: str) -> None:
    done = in_process(*command.format(program=program).split(), preexec_fn=lambda: os.close(0))
    assert done.stderr == "error: <standard input>: Bad file descriptor; check the path and its permissions\n"
    assert done.returncode == 2


@pytest.mark.parametrize("command", ["run {program}", "graph {program}", "shell {program}", "run none.dlog"])
def test_messages_go_nowhere_where_standard_error_is_closed(program: str, command: str) -> None:
    arguments = command.format(program=program).split()
    whole = in_process(*arguments, input="?- path(a, X).\n")
    done = in_process(*arguments, input="?- path(a, X).\n", preexec_fn=lambda: os.close(2))
    assert (done.returncode, done.stdout, done.stderr) == (whole.returncode, whole.stdout, "")


@pytest.mark.parametrize("command", ["run {program}", "graph {program}", "shell {program}", "--help"])
def test_a_closed_standard_output_is_told(program: str, command: str) -> None:
    arguments = command.format(program=program).split()
    done = in_process(*arguments, input="?- path(a, X).\n", preexec_fn=lambda: os.close(1))
    assert done.returncode == 2
    assert done.stderr == "error: cannot write to standard output: Bad file descriptor; write elsewhere\n"


def test_who_prints_nothing_needs_no_standard_output(program: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.dlog"
    rules.write_text("p(a). q(X) :- p(X).")
    out = tmp_path / "out"
    done = in_process("run", str(rules), "--out", str(out), preexec_fn=lambda: os.close(1))
    assert (done.returncode, done.stderr, (out / "q.csv").read_text()) == (0, "", "a\n")


def test_a_character_that_standard_output_lacks_is_told(tmp_path: Path) -> None:
    path = tmp_path / "p.dlog"
    path.write_text('p("größe"). ?- p(X).', encoding="utf-8")
    done = in_process("run", str(path), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout) == (2, "?- p(X).\n")
    assert done.stderr.startswith("error: cannot write '\\xf6' to standard output, whose encoding is ascii")


def test_an_unwritable_output_is_told(program: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["graph", program, "--out", str(tmp_path / "no" / "such" / "folder")]) == 2
    assert "No such file" in capsys.readouterr().err
    (tmp_path / "out" / "path.csv").mkdir(parents=True)
    assert main(["run", program, "--out", str(tmp_path / "out")]) == 2
    assert f"error: {tmp_path / 'out' / 'path.csv'}: Is a directory" in capsys.readouterr().err


def test_missing_packages_are_told(program: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def no_spark(name: str) -> object:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")

    monkeypatch.setattr("tidelog.cli.commands.import_module", no_spark)
    assert main(["run", program, "--engine", "spark"]) == 2
    assert "pip install 'tidelog[spark]'" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_told(tmp_path: Path, capsys: Captured) -> None:
    program = tmp_path / "p.dlog"
    program.write_text("p(1).")
    program.chmod(0)
    assert main(["run", str(program)]) == 2
    assert "Permission denied" in capsys.readouterr().err
