"""What a knowledge base gives back: views of facts, snapshots, answers, and the tables that they turn into."""

from __future__ import annotations

from tidelog import KnowledgeBase
from tidelog.cli.console import answer_lines
from tidelog.language import parse_query


def test_a_view_follows_a_predicate_that_comes_later() -> None:
    kb = KnowledgeBase()
    facts, explicit = kb.facts("p"), kb.explicit("p")
    assert (list(facts), facts.to_arrow().num_rows, facts.to_arrow().column_names) == ([], 0, [])
    kb.update(add={"p": [(1, 2)]})
    for view in (facts, explicit):
        assert list(view) == [(1, 2)]
        assert view.to_arrow().to_pylist() == [{"c0": 1, "c1": 2}]
        assert view.to_pandas().values.tolist() == [[1, 2]]
        assert repr(view) == "{(1, 2)}"
        assert "c1" in view._repr_html_()
    kb.update(delete={"p": [(1, 2)]})
    assert facts.to_arrow().column_names == ["c0", "c1"]


def test_facts_without_arguments_are_rows_without_columns() -> None:
    flag = KnowledgeBase("flag.").facts("flag")
    for frame in (flag.to_pandas(), flag.to_polars()):
        assert frame.shape == (1, 0)
    assert (flag.to_arrow().num_rows, flag.to_arrow().num_columns) == (1, 0)


def test_facts_without_arguments_come_in_from_tables() -> None:
    flag = KnowledgeBase("flag.").facts("flag")
    for table in (flag.to_arrow(), flag.to_arrow().to_batches()[0], flag.to_pandas(), flag.to_polars()):
        kb = KnowledgeBase()
        assert kb.update(add={"flag": table}).added == {"flag": {()}}
        assert "flag" in kb
    assert not KnowledgeBase().update(add={"flag": KnowledgeBase().facts("flag").to_arrow()})


def test_a_snapshot_holds_facts_without_arguments() -> None:
    snapshot = KnowledgeBase("flag. p(1).").live().snapshot()
    assert "flag" in snapshot
    assert snapshot.query("flag, p(X)").rows() == [(1,)]


def test_a_query_without_variables_is_a_table_of_one_row_or_none() -> None:
    kb = KnowledgeBase("p(1).")
    assert [len(kb.query(text).to_pandas()) for text in ("p(1)", "p(2)")] == [1, 0]
    assert [kb.query(text).to_arrow().num_rows for text in ("p(1)", "p(2)")] == [1, 0]


def test_variables_that_differ_by_their_mark_are_two_in_every_form() -> None:
    kb = KnowledgeBase("p(1). q(2).")
    text = "p(X), q(?X)"
    answers = kb.query(text)
    assert answers.variables == ("X", "?X")
    assert list(answers) == [answers[0]] == [{"X": 1, "?X": 2}]
    assert answers.to_arrow().to_pylist() == [{"X": 1, "?X": 2}]
    assert list(answers.to_pandas()) == answers.to_polars().columns == ["X", "?X"]
    assert list(answer_lines(parse_query(text, {}), answers, {}))[1:] == ["X = 1, ?X = 2"]
    assert list(kb.query("q(?X), p(X)")) == [{"?X": 2, "X": 1}]


def test_the_mark_of_a_variable_is_left_away_where_one_is_meant() -> None:
    answers = KnowledgeBase("p(1).").query("p(?x)")
    assert list(answers) == [{"x": 1}]
    assert list(answer_lines(parse_query("p(?x)", {}), answers, {}))[1:] == ["?x = 1"]


def test_integers_among_floats_stay_integers() -> None:
    kb = KnowledgeBase("p(9223372036854775807). p(0.5). p(1). p(1.0).")
    for frame in (kb.facts("p").to_pandas(), kb.query("p(X)").to_pandas(), kb.facts("p").to_polars()):
        column = frame[frame.columns[0]].to_list()
        assert sorted(map(repr, column)) == ["0.5", "1", "1.0", "9223372036854775807"]
    assert not kb.update(add={"p": kb.facts("p").to_pandas()})
