"""The benchmarks: generators give what they promise, peers agree on sizes, and every quick form runs on tiny sizes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench import command
from tidelog.bench.command import BENCHMARKS, benchmark, run
from tidelog.bench.data import graphs, lubm, skos, turbines
from tidelog.bench.data import update_streams as streams
from tidelog.bench.data.cases import CASES, random_rows, scaled
from tidelog.bench.measure import Failed, Measured, isolated, measure, tree_cpu, tree_peak
from tidelog.bench.options import Options
from tidelog.bench.parts import subscriptions, within
from tidelog.bench.parts.latency import latencies
from tidelog.bench.peers.engines import (
    PEERS,
    Souffle,
    agreeing,
    count_facts,
    derived_predicates,
    installed,
    materialise,
)
from tidelog.bench.peers.floor import materialise as floor_materialise
from tidelog.bench.peers.peer import Task
from tidelog.bench.peers.recursive_sql import in_spark
from tidelog.bench.peers.translate import CLINGO, PROLOG, program_of, rule_text
from tidelog.bench.report import Check, Plot, Report, Table, cell_text, ratio, write_json
from tidelog.bench.runs import choice as run_choice
from tidelog.bench.runs import dynamic as run_dynamic
from tidelog.bench.runs import functions as run_functions
from tidelog.bench.runs import modular as run_modular
from tidelog.bench.runs import streams as run_streams
from tidelog.bench.runs.bf import equilibrium
from tidelog.bench.runs.peers import pathway_changes, tidelog_changes
from tidelog.bench.work import percentile, without
from tidelog.errors import DataError, MissingPackageError
from tidelog.facts.results import Change
from tidelog.formats.files.updates import Update
from tidelog.language import parse_program
from tidelog.program.graph import RuleGraph

# --- generators ---


def edge_set(edges: graphs.Edges) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in edges}


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_have_different_edges_and_no_loops(seed: int) -> None:
    for make in (graphs.random_graph, graphs.random_dag):
        edges = edge_set(make(30, 200, seed))
        assert len(edges) == 200
        assert all(a != b and 0 <= a < 30 and 0 <= b < 30 for a, b in edges)
    assert all(a < b for a, b in edge_set(graphs.random_dag(30, 200, seed)))
    assert edge_set(graphs.random_dag(30, 200, seed)) == edge_set(graphs.random_dag(30, 200, seed))


def test_all_edges_of_small_graphs_can_be_drawn() -> None:
    assert edge_set(graphs.random_dag(5, 10, 1)) == {(a, b) for b in range(5) for a in range(b)}
    assert edge_set(graphs.random_graph(4, 12, 1)) == set(permutations(range(4), 2))
    with pytest.raises(ValueError, match="only 10"):
        graphs.random_dag(5, 11, 1)


def test_shapes() -> None:
    assert edge_set(graphs.chain(3)) == {(0, 1), (1, 2)}
    assert edge_set(graphs.cycle(3)) == {(0, 1), (1, 2), (2, 0)}
    assert edge_set(graphs.chains(2, 3)) == {(0, 1), (1, 2), (3, 4), (4, 5)}
    assert all(b // 10 == a // 10 - 1 for a, b in edge_set(graphs.family(40, 4, 1)))


def test_groups_become_cliques() -> None:
    kb = materialise(CASES["places"].rules, {"relatedPlaces": graphs.groups([4, 7], 1.0, 3)})
    assert len(kb.facts("relatedPlaces")) == 4**2 + 7**2


def test_lubm_has_the_published_size_and_the_rules_of_the_ontology() -> None:
    facts = lubm.generate(1)
    assert len(facts["ub:Department"]) == 15
    assert sum(map(len, facts.values())) == pytest.approx(100_543, rel=0.03)
    assert len(parse_program(lubm.rules()).rules) == 107


@pytest.mark.parametrize(("case", "not_recursive", "recursive"), [("lubm", 85, 22), ("skos", 26, 15), ("dag-r", 1, 1)])
def test_programs_have_as_many_rules_of_each_kind_as_the_paper_on_modules(
    case: str, not_recursive: int, recursive: int
) -> None:
    graph = RuleGraph(parse_program(CASES[case].rules).rules)
    found = [graph.recursive(number) for number in graph.rules]
    assert (found.count(False), found.count(True)) == (not_recursive, recursive)


def test_both_hierarchies_of_skos_are_one_recursion() -> None:
    assert set(RuleGraph(parse_program(skos.rules()).rules).component("broaderTransitive").predicates) == {
        "broaderTransitive",
        "narrowerTransitive",
    }
    kb = KnowledgeBase(skos.rules())
    kb.update(add={"broader": [(1, 2)], "narrowerTransitive": [(3, 2)], "exactMatch": [(4, 5)]})
    assert set(kb.facts("broaderTransitive")) == {(1, 2), (2, 3), (1, 3)}
    assert set(kb.facts("narrowerTransitive")) == {(2, 1), (3, 2), (3, 1)}
    assert set(kb.facts("concept")) == {(number,) for number in range(1, 6)}


def test_categories_hold_cycles_that_few_of_them_reach() -> None:
    facts = skos.categories(12_000, 1)
    kb = materialise(skos.rules(), facts)
    on_cycles = {row[0] for row in kb.facts("broaderTransitive") if row[0] == row[1]}
    reaching = {row[0] for row in kb.facts("broaderTransitive") if row[1] in on_cycles}
    assert 10 <= len(on_cycles) < len(reaching) < len(kb.facts("concept")) / 2
    assert all(facts[name].equals(again) for name, again in skos.categories(12_000, 1).items())


TURBINES = {
    "RS1": (400, lambda n: n * n + 2 * n),
    "RS2": (200, lambda n: (21 * n * n + 43 * n) // 2),
    "RS3": (200, lambda n: (21 * n * n + 43 * n) // 2 - 6 * n + 1),
}


@pytest.mark.parametrize("count", [10, 50])
@pytest.mark.parametrize("name", TURBINES)
def test_turbines_derive_the_papers_numbers_of_facts(name: str, count: int) -> None:
    """On a few turbines by formula; the formula gives the paper's numbers for the paper's turbines."""
    turbines_there, formula = TURBINES[name]
    assert formula(turbines_there) == turbines.DERIVED[name]
    case = CASES[name.lower()]
    kb = materialise(case.rules, case.facts(0, count / turbines_there))
    assert count_facts(kb, derived_predicates(case.rules)) == formula(count)


@pytest.mark.parametrize("overlap", [0.0, 0.5])
def test_streams_delete_what_is_there_and_add_what_is_not(overlap: float) -> None:
    stream = streams.random_stream(20, 10, 3, overlap)
    present: set[object] = set()
    for number, update in enumerate(stream):
        deleted, added = (update[key].get("edge", []) for key in ("delete", "add"))
        assert set(deleted) <= present
        present -= set(deleted)
        assert not present & set(added)
        present |= set(added)
        assert len(present) == 100
        if number > 1:
            back = set(added) & set(stream[number - 1]["delete"]["edge"])
            assert len(back) >= 10 * overlap
    assert len(stream) == 50


def test_batches_and_operations_end_with_the_same_facts() -> None:
    stream = streams.random_stream(100, 10, 3, 0.5)[:6]
    runs, seen = run_dynamic.both_modes(streams.P_SEQ, stream, [("batches", 0), ("operations", 3)])
    assert len({facts for _, facts in runs}) == 1
    assert all(step.applications > 0 for step, _ in runs)
    assert [len(each) for each in seen] == [6, 6, 6]


def test_random_rows_of_one_seed_hold_each_other() -> None:
    facts = CASES["points-to"].facts(1, 0.02)

    def rows(count: int) -> set[object]:
        drawn = random_rows(facts, count, 5)
        return {(name, *row.values()) for name, table in drawn.items() for row in table.to_pylist()}

    assert len(rows(20)) == 20
    assert rows(5) < rows(20)
    assert sum(map(len, without(facts, random_rows(facts, 20, 5)).values())) == sum(map(len, facts.values())) - 20


def test_public_streams_are_read_from_a_folder(tmp_path: Path) -> None:
    for run_number in (0, 1):
        folder = tmp_path / "updates" / "random" / "path" / str(run_number) / "100-10-200"
        folder.mkdir(parents=True)
        (folder / "00.pl").write_text("add(edge(1, 2)).\n")
        (folder / "01.pl").write_text("delete(edge(1, 2)).\n")
    found = streams.read_streams(tmp_path, "random", "path")
    assert [len(stream) for stream in found] == [2, 2]
    assert found[0][1]["delete"] == {"edge": [(1, 2)]}
    with pytest.raises(DataError, match="--data"):
        streams.read_streams(tmp_path, "overlap", "path")


def test_public_facts_come_with_their_rules(tmp_path: Path) -> None:
    folder = tmp_path / "kb" / "some"
    folder.mkdir(parents=True)
    with pytest.raises(DataError, match="--data"):
        streams.read_case(tmp_path, "some")
    (folder / "some.dlog").write_text("PREFIX e: http://e/\ne:path[?X,?Y] :- e:edge[?X,?Y] .\n")
    (folder / "some.ttl").write_text(
        "@prefix e: <http://e/> . e:a e:edge e:b, e:c . e:a e:name 'a'@en . e:a e:edge e:b ."
    )
    case = streams.read_case(tmp_path, "some")
    assert {name: len(rows) for name, rows in case.facts(1, 1.0).items()} == {
        "<http://e/edge>": 2,
        "<http://e/name>": 1,
    }
    assert sum(map(len, case.facts(1, 0.5).values())) == 2
    kb = materialise(case.rules, case.facts(1, 1.0))
    assert set(kb.facts("e:path")) == {("http://e/a", "http://e/b"), ("http://e/a", "http://e/c")}


def test_public_streams_come_with_their_rules(tmp_path: Path) -> None:
    for kind, program, run_number in (("random", "path", 0), ("random", "path", 1), ("real", "ways", 0)):
        folder = tmp_path / "updates" / kind / program / str(run_number) / "some"
        folder.mkdir(parents=True)
        (folder / "00.pl").write_text("add(edge(1, 2)).\n")
    (tmp_path / "kb" / "path").mkdir(parents=True)
    (tmp_path / "kb" / "path" / "path.dlog").write_text(streams.P_TRANS)
    found = [(source.kind, source.program, source.run) for source in run_streams.sources(Options(data=tmp_path))]
    assert found == [("random", "path", "0/some"), ("random", "path", "1/some"), ("real", "ways", "0/some")]
    quick = [source.run for source in run_streams.sources(Options(data=tmp_path, quick=True))]
    assert quick == ["0/some"]
    with pytest.raises(DataError, match="--data"):
        list(run_streams.sources(Options(data=tmp_path / "kb")))


def test_streams_are_compared_in_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    source = run_streams.Source("drawn", "path", "0", streams.P_TRANS, streams.random_stream(20, 3, 1, 0.5)[:4])
    monkeypatch.setattr(run_streams, "MAINTENANCE", ("auto", "dred"))
    verdict = run_streams.verify(source, 0)
    assert (verdict.ways, verdict.problems) == (2 * 2 * len(run_streams._MODES), [])
    assert set(verdict.cpu) == set(run_streams._MODES)

    def forgets_deletions(kb: KnowledgeBase, updates: list[Update], _: object) -> Iterator[tuple[int, Change]]:
        return enumerate((kb.update(add=update["add"]) for update in updates), 1)

    monkeypatch.setattr(run_streams, "_MODES", {"update": forgets_deletions})
    assert len(run_streams.verify(source, 0).problems) == 4


def test_every_update_that_is_submitted_meanwhile_becomes_visible() -> None:
    seconds, found = latencies("deletion of 2 %: same generation", 0, 0.05)
    assert seconds > 0
    assert len(found.returned) == len(found.taken_in) == len(found.visible) == len(found.answered) >= 1
    assert all(taken < seen for taken, seen in zip(found.taken_in, found.visible, strict=True))


def test_subscriptions_are_told_of_what_changes_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "UPDATES", 2)
    assert subscriptions.cost("reading($s, V), all the same $s").messages == 1000
    assert subscriptions.cost("reaches($s, X), a closure").messages == 10


# --- peers ---

_SMALL = ("dag-right", "dag-nonlinear", "cycle", "same-generation", "points-to", "lubm-plain", "rs2", "rs3")


def expected_count(case: str, size: float) -> int:
    chosen = CASES[case]
    kb = materialise(chosen.rules, chosen.facts(1, size))
    return count_facts(kb, chosen.answer or derived_predicates(chosen.rules))


@pytest.mark.parametrize("case", _SMALL)
@pytest.mark.parametrize("peer", sorted(installed().keys() - {"Spark SQL", "Pathway"}))
def test_peers_find_as_many_facts(peer: str, case: str) -> None:
    size = 0.001 if case == "lubm-plain" else 0.01
    if not PEERS[peer].takes(CASES[case]):
        pytest.skip("no such query")
    if peer == "SWI-Prolog" and case == "lubm-plain":
        pytest.skip("takes seconds")
    assert PEERS[peer].materialise(Task.of(CASES[case], 1, size)).value == expected_count(case, size)


def test_a_peer_that_found_other_facts_is_not_timed() -> None:
    ours = Measured(1.0, 1.0, 1.0, 10)
    assert agreeing(ours, Measured(0.1, 0.1, 1.0, 9)) == Failed("found 9 facts")
    assert agreeing(ours, Measured(0.1, 0.1, 1.0, 10)).value == 10
    assert agreeing(Failed("too long"), ours) is ours


def test_variables_that_stand_alone_are_unnamed_for_other_engines() -> None:
    (rule,), _ = program_of("p(X) :- q(X, Y), not r(X, Z), X != 3.")
    assert rule_text(rule, CLINGO) == "p_p(VX) :- p_q(VX, _), not p_r(VX, _), VX != 3."
    assert rule_text(rule, PROLOG) == "p_p(VX) :- p_q(VX, _), \\+ p_r(VX, _), VX \\== 3."


def test_souffle_gets_declarations_inputs_and_sizes() -> None:
    text = Souffle().program(Task.of(CASES["dag-right"], 1, 0.01)).splitlines()
    assert ".decl p_edge(c0: number, c1: number)" in text
    assert ".input p_edge" in text
    assert "p_path(VX, VZ) :- p_edge(VX, VY), p_path(VY, VZ)." in text
    assert text[-1] == ".printsize p_path"


_FAKE_SOUFFLE = """#!{python}
import sys
from pathlib import Path
if "--version" in sys.argv:
    print("-" * 40); print("Version: 2.5"); sys.exit()
assert sys.argv[1:] == ["-j1", "-F.", "program.dl"], sys.argv
assert ".printsize p_path" in Path("program.dl").read_text().splitlines()
rows = [line.split("\\t") for line in Path("p_edge.facts").read_text().splitlines()]
assert all(len(row) == 2 and all(cell.isdigit() for cell in row) for row in rows), rows
print("p_path", len(rows), sep="\\t")
"""


def test_souffle_is_found_and_given_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "souffle"
    program.write_text(_FAKE_SOUFFLE.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    task = Task.of(CASES["dag-right"], 1, 0.01)
    assert installed()["Soufflé"] == "Version: 2.5"
    assert Souffle().materialise(task).value == len(task.facts["p_edge"])


def test_a_recursive_query_is_rewritten_for_spark() -> None:
    assert " ".join(in_spark(CASES["dag-right"].query).split()) == (
        "WITH RECURSIVE path(c0, c1) MAX RECURSION LEVEL 10000 AS ( SELECT c0, c1 FROM edge UNION ALL SELECT DISTINCT "
        "edge.c0, path.c1 FROM edge JOIN path ON edge.c1 = path.c0) SELECT count(*) FROM (SELECT DISTINCT * FROM path)"
    )


@pytest.mark.parametrize("case", ["dag-right", "same-generation", "points-to"])
def test_pathway_finds_as_many_facts_and_follows_changes(case: str) -> None:
    pytest.importorskip("pathway")
    found = isolated(pathway_changes, case, 1, 0.02)
    assert found.facts == tidelog_changes(case, 1, 0.02, modules=True).facts
    assert isolated(PEERS["Pathway"].materialise, Task.of(CASES[case], 1, 0.02)).value == expected_count(case, 0.02)


def test_floor_handles_negation_and_repeated_variables() -> None:
    rules, _ = program_of("loop(X) :- e(X, X). alone(X) :- n(X), not e(X, _). far(X, Y) :- e(X, Y), X != Y.")
    facts = {"e": [(1, 1), (1, 2)], "n": [(1,), (2,)]}
    found = floor_materialise(rules, facts)
    assert (found["loop"], found["alone"], found["far"]) == ({(1,)}, {(2,)}, {(1, 2)})


# --- measuring and reporting ---


def _fill(megabytes: int) -> Measured:
    return measure(lambda: int(np.ones(megabytes << 17).sum()))


def _fail() -> None:
    raise ValueError("no luck")


def _sleep() -> None:
    import time

    time.sleep(60)


def test_work_in_a_process_of_its_own_has_memory_and_failures_of_its_own() -> None:
    found = isolated(_fill, 64)
    assert found.value == 64 << 17
    assert found.memory >= 60
    assert isolated(_fail) == Failed("ValueError: no luck")
    assert isolated(_sleep, timeout=0.5) == Failed("> 0.5 s", is_timeout=True)


def test_processes_that_end_while_one_looks_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*listed(path), str(ended.pid)])
    assert tree_cpu() > 0
    assert tree_peak() >= 0


def test_reports_are_readable_and_written(tmp_path: Path) -> None:
    table = Table("times", ["a", "b"], [[1234, Measured(0.5, 1, 2)], [None, Failed("too long")]], note="a note")
    assert [list(map(cell_text, row)) for row in table.rows] == [["1,234", "0.5"], ["–", "too long"]]
    assert ratio(0.5, Measured(5.0, 1, 1)) == "10×"
    assert ratio(None, 1.0) is None
    assert cell_text(0.000123) == "0.00012"
    report = Report("title", [table], [Plot("p", "x", "y", {"s": [(1, 2.0)]})], [Check("c", 1, 2)])
    assert not report.sound
    write_json(report, tmp_path / "r.json", {"seed": 1})
    written = json.loads((tmp_path / "r.json").read_text())
    assert written["tables"][0]["rows"][0] == [1234, {"cpu": 0.5, "wall": 1, "memory": 2, "value": None}]
    assert written["options"] == {"seed": 1}


def test_plots_are_png_and_svg(tmp_path: Path) -> None:
    plotting = pytest.importorskip("tidelog.bench.plotting")
    pytest.importorskip("matplotlib")
    plots = [
        Plot("lines", "x", "y", {"a": [(1, 2.0), (10, 3.0)], "b": [(1, 5.0), (10, 3.0)]}, log_x=True),
        Plot("dots", "", "y", {"a": [("one", 1.0)], "b": [("one", None), ("two", 3.0)]}, bars=True, limit=12),
        *(Plot(name, "x", "MB", {name: [(1, 2.0), (10, 3.0)]}, picture="together") for name in ("left", "right")),
    ]
    written = plotting.write_plots(plots, tmp_path / "deep" / "plot")
    assert [path.name for path in written] == [
        f"plot-{number}.{kind}" for number in (1, 2, 3) for kind in ("png", "svg")
    ]
    assert all(path.stat().st_size > 1000 for path in written)


def test_numbers_on_axes_are_plain() -> None:
    from tidelog.bench.plotting import plain_number

    assert [*map(plain_number, (0.01, 1, 1000, 25_000, 10_000_000, 0))] == ["0.01", "1", "1,000", "25,000", "10 M", "0"]


def test_the_equilibrium_is_where_the_balance_turns() -> None:
    assert equilibrium(1000, lambda count: count - 1001) == 1000
    assert equilibrium(1000, lambda count: count - 300) == pytest.approx(300, rel=1000 ** (1 / 2**7) - 1)


def test_percentiles() -> None:
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile(range(100), 0.95) == 95
    assert scaled(100, 0.001) == 2


def test_names_are_listed_and_unknown_ones_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", []) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in BENCHMARKS)
    with pytest.raises(DataError, match="materialise"):
        run("nothing", [])


def test_every_benchmark_has_a_module() -> None:
    for name in BENCHMARKS:
        assert callable(benchmark(name))


def test_functions_have_results_for_all_values_but_conditions() -> None:
    report = run_functions.run(Options(size=0.001))
    assert report.sound
    assert len(report.checks) == 71
    assert [row[0] for row in report.tables[-1].rows] == [*run_functions.GROUPS, "all but regular expressions"]


def test_every_algorithm_changes_the_same_facts_at_every_size() -> None:
    assert run_choice.sizes_up_to(2_500) == [1, 10, 100, 250, 750, 2_500]
    found = [
        [
            (row.count, row.delete.removed, row.add.added)
            for row in run_choice.measure_sizes("dag-right", 0, 0.02, maintenance, modules=False)
        ]
        for maintenance in ("auto", "recompute")
    ]
    assert found[0] == found[1]
    assert [count for count, _, _ in found[0]] == [1, 10, 20, 60, 200]
    assert all(removed == added >= count for count, removed, added in found[0])


def test_modules_change_the_same_facts_and_are_held_against_the_papers_ratio() -> None:
    assert run_modular.is_reached(0.1, 10.0, (1.0, 10.0)) is True
    assert run_modular.is_reached(0.1, 9.9, (1.0, 10.0)) is False
    assert run_modular.is_reached(0.1, Failed("> 1 s"), (1.0, 10.0)) is None
    found = [
        [(step.added, step.removed) for step in run_modular.maintain("dag-r", 0, 0.03, *way)]
        for way in (("auto", True), ("dred-counting", False))
    ]
    assert found[0] == found[1]
    (_, small), (again, _), (_, large), (back, _) = found[0]
    assert 0 < small == again < large == back


def test_programs_are_counted_as_in_the_papers_table() -> None:
    for name, paper in (("skos", "DBpedia-SKOS"), ("dag-r", "DAG-R")):
        counts = run_modular.program_counts(CASES[name].rules)
        assert counts[:5] == run_modular.PAPER_PROGRAMS[paper]
    inside = run_modular.program_counts(within.GRAPHS["path of 500"].rules)
    assert inside == (1, 1, 3, 1, 0, 1, 1)


def test_ways_that_do_not_end_leave_rows_without_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_modules_too_long(function: Callable[..., Any], *arguments: Any, timeout: float) -> Any:
        return function(*arguments) if arguments[-1] else Failed(f"> {timeout:g} s")

    monkeypatch.setattr(run_modular, "SETS", {"DAG-R": run_modular.SETS["DAG-R"]})
    monkeypatch.setattr(run_modular, "isolated", without_modules_too_long)
    monkeypatch.setattr(run_modular, "within_recursion", lambda *_: (Table("closures within a recursion", []), []))
    report = run_modular.run(Options(quick=True, size=0.2, timeout=10))
    table = next(table for table in report.tables if table.title.startswith("Table 2"))
    assert [row[table.columns.index("update")] for row in table.rows] == list(run_modular.SETS["DAG-R"].updates)
    assert all(row[-1] is None and row[table.columns.index("DRed^c")] == Failed("> 50 s") for row in table.rows)
    assert table.note.endswith("in 0 of 0 rows.")
    assert report.sound


def test_plots_are_refused_before_anything_is_measured_where_they_cannot_be_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackageError, match=r"--plot needs the package matplotlib, .* 'tidelog\[bench\]'"):
        command.run("updates", ["--plot", str(tmp_path / "plot")])


@pytest.mark.parametrize("graph", within.GRAPHS)
def test_closures_within_a_recursion_lose_the_same_facts_with_modules_and_without(graph: str) -> None:
    with_modules, without = (within.delete_edges(graph, 1, 0.05, modules) for modules in (True, False))
    assert (with_modules.facts, with_modules.gone) == (without.facts, without.gone)
    assert with_modules.applications < without.applications
    assert sum(without.gone) >= len(without.gone)
