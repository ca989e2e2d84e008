"""Several messages of one subscription as one: the net difference, for a reader who is slower than the updates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidelog.engine.update.failures import NO_FAILURES
from tidelog.facts.results import Answers, Encoded, row_identity
from tidelog.live.subscriptions import AnswerChange
from tidelog.machine import registers as M
from tidelog.store.terms import Terms
from tidelog.values import Row


def merged(messages: Sequence[AnswerChange]) -> AnswerChange:
    """What messages, one after the other, say together. An answer that came and went is in neither half."""
    if len(messages) == 1:
        return messages[0]
    net: dict[object, tuple[Row, bool]] = {}
    for message in messages:
        for came, answers in ((False, message.removed), (True, message.added)):
            for row in answers.rows():
                key = row_identity(row)
                # An answer comes and goes in turn: an opposite sign cancels.
                if net.pop(key, (row, came))[1] is came:
                    net[key] = row, came
    names = messages[0].added.variables
    added, removed = (_answers(names, [row for row, sign in net.values() if sign is came]) for came in (True, False))
    errors = sum((message.errors for message in messages), NO_FAILURES)
    return AnswerChange(messages[-1].update, added, removed, messages[0].first, errors)


def _answers(names: Sequence[str], rows: list[Row]) -> Answers:
    """Answers in terms of their own: the numbers of those that they came with may mean other terms by now."""
    terms = Terms(np.zeros(M.SIZE, np.int64), capacity=16)
    columns = [terms.encode_values(column) for column in zip(*rows, strict=True)]
    cells = np.stack(columns, axis=1) if columns else np.empty((len(rows), len(names)), np.int32)
    return Answers(names, Encoded(cells, terms.table))
