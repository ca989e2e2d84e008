"""The tables of the automata, which lie beside the grammars they were made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.language import make_tables
from tidelog.language.syntaxes import SYNTAXES


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_the_tables_are_those_of_the_grammar(syntax: str) -> None:
    found = SYNTAXES[syntax]
    stored = Path(make_tables.__file__).with_name(found.tables).read_text("utf-8")
    made = make_tables.text_of(make_tables.tables_of(found.grammar))
    assert made == stored, "the grammar has changed: run `python -m tidelog.language.make_tables`"
