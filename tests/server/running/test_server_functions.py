"""Functions and lattices that whoever starts a server registers: the first program, queries and streams know them."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from server_util import served, subscribed

MODULE = """
import tidelog

functions = {"double": lambda x: 2 * x, "far": lambda x: x > 5, "widest": tidelog.Lattice(max)}
"""
PROGRAM = """
item(1).  item(7).  score(a, 3).
twice(X, double(X)) :- item(X).
outside(X) :- item(X), far(X).
best(X, widest(V)) :- score(X, V).
"""


def test_they_are_known_from_the_first_start_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_ours.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    queries = {
        "twice(X, Y)": [[1, 2], [7, 14]],
        "outside(X)": [[7]],
        "best(X, V)": [["a", 3]],
        "item(X), far(X)": [[7]],
        "item(X), Y = double(X), far(Y)": [[7, 14]],
    }
    added = {"item": [[9]], "score": [["a", 5]]}
    for start in range(2):
        with served(tmp_path / "store", "--functions", "of_ours", program=PROGRAM) as server:
            assert {line["level"] for line in server.log} == {"info"}
            with httpx.Client(base_url=server.url, timeout=60) as http:
                for query, rows in queries.items():
                    assert sorted(http.post("/query", json={"query": query}).json()["rows"]) == rows
                before = http.post("/update", json={"add": added}).json()["update"] - 1
                for query in queries:
                    with subscribed(server.url, last=before, query=query) as stream:
                        kind, _, data = next(stream)
                        assert (kind, len(data["added"]), len(data["removed"])) == ("change", 1, query[0] == "b")
                http.post("/update", json={"delete": added})
            assert server.stop() == 0, start
