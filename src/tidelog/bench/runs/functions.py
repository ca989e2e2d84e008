"""Functions of the language: what each takes for a value that it has not met, one rule over a column of such values.

What is measured is adding the rule `q(X, f(Y)) :- p(X, Y).` to a knowledge base that has the facts, less a rule that
copies them: finding the arguments, computing, and entering the result as a constant. A known value is one for which
another rule has called the same function before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import fmean
from typing import Any

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.measure import measure
from tidelog.bench.options import Options
from tidelog.bench.report import Cell, Check, Report, Table

VALUES = 200_000

Times = tuple[float, float]
"""Microseconds for a new value and for a known one."""

GROUPS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "strings": {
        "text": (
            *("upper(Y)", "lower(Y)", "length(Y)", "substr(Y, 2, 9)", "trim(Y)", 'concat(Y, "-")', 'contains(Y, "77")'),
            *('starts_with(Y, "Item 1")', 'ends_with(Y, "7 ")', 'replace(Y, "Item", "thing")', 'split(Y, " ", 1)'),
            'format("{}: {}", X, Y)',
        ),
        "accented": ("upper(Y)", "length(Y)", "substr(Y, 2, 9)", "trim(Y)"),
    },
    "conditions": {
        "text": ('contains(Y, "77")', 'starts_with(Y, "Item 1")', 'ends_with(Y, "7 ")'),
        "digits": ("is_int(Y)",),
    },
    "chains": {
        "text": ("upper(trim(substr(Y, 2, 9)))", 'int(split(trim(Y), " ", 1))'),
        "number": ("int(Y / 3)", 'format("{}/{}", Y div 7, Y mod 7)'),
    },
    "conversions": {
        "number": ("str(Y)", "int(Y)", "float(Y)", "is_int(Y)", "type(Y)"),
        "fraction": ("str(Y)", "int(Y)"),
        "digits": ("int(Y)", "float(Y)", "is_int(Y)", "is_float(Y)", "type(Y)"),
        "decimals": ("float(Y)", "is_float(Y)"),
    },
    "numbers": {
        "fraction": (
            *(
                "log2(Y)",
                "log10(Y)",
                "sin(Y)",
                "cos(Y)",
                "tan(Y)",
                "atan(Y)",
                "atan2(Y, X)",
                "degrees(Y)",
                "radians(Y)",
            ),
            *("trunc(Y)", "sign(Y)", "round_to(Y, 1)", "pow(Y, 2)", "floor(Y)", "sqrt(Y)"),
        ),
        "unit": ("asin(Y)", "acos(Y)"),
    },
    "dates": {
        "moment": (
            *("year(Y)", "month(Y)", "day(Y)", "weekday(Y)", "hour(Y)", "minute(Y)", "second(Y)", "epoch(Y)"),
            "date(Y)",
        ),
        "stamp": ("datetime(Y)",),
        "day_text": ("date(Y)",),
        "number": ("from_epoch(Y)", "duration(Y)", "decimal(Y)", "seconds(duration(Y))"),
    },
    "JSON": {"document": ('json(Y, "$.name")', 'json(Y, "$.place[1]")', 'has_json(Y, "$.name")')},
    "regular expressions": {"text": ('matches(Y, ".*7+.*")', 'extract(Y, "[0-9]+")')},
}
"""By columns of values, what is computed of each Y."""

CONDITIONS = "conditions"
"""The group whose expressions stand alone in bodies."""

APART = "regular expressions"
"""The group that has no part in the average."""


def columns(count: int) -> dict[str, list[Any]]:
    """Different values of each kind."""
    places = range(count)
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    moments = [begin + timedelta(seconds=977 * place) for place in places]
    return {
        "text": [f" Item {place} of the store {place % 7} " for place in places],
        "accented": [f" Ärtikel {place} für das Lager ß{place % 7} " for place in places],
        "digits": [str(3 * place + 1) for place in places],
        "decimals": [f"{place}.{place % 10}5" for place in places],
        "number": [3 * place + 1 for place in places],
        "fraction": [place / 8 + 0.3 for place in places],
        "unit": [place / count for place in places],
        "moment": moments,
        "stamp": [f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in moments],
        "day_text": [f"{place // 400 + 1000}-{place // 28 % 12 + 1:02}-{place % 28 + 1:02}" for place in places],
        "document": [f'{{"name": "n{place}", "place": [{place}, {place + 1}], "on": true}}' for place in places],
    }


def run(options: Options) -> Report:
    report = Report("Functions: microseconds of CPU time for each value")
    count = max(100, int(VALUES * options.scale(0.05)))
    bases = _Bases(columns(count), options)
    averages: list[Sequence[Cell]] = []
    together: list[Times] = []
    for group, by_column in GROUPS.items():
        options.progress(group)
        table = Table(f"{group}: {count:,} values", ("", "of", "new", "known"))
        found: list[Times] = []
        for column, expression in ((column, each) for column, many in by_column.items() for each in many):
            example = f"{bases.values[column][1]!s:.30}"
            found.append(bases.times(report, column, expression, group == CONDITIONS))
            table.rows.append((expression, example, *found[-1]))
        report.tables.append(table)
        averages.append((group, len(found), *_mean(found)))
        together += found if group != APART else []
    averages.append((f"all but {APART}", len(together), *_mean(together)))
    report.tables.append(Table("Averages", ("", "functions", "new", "known"), averages))
    return report


def _mean(times: Sequence[Times]) -> Times:
    return fmean(new for new, _ in times), fmean(known for _, known in times)


class _Bases:
    """Knowledge bases with facts, and what it takes there to copy them."""

    def __init__(self, values: Mapping[str, Sequence[Any]], options: Options) -> None:
        self.values = values
        self._options = options
        self._copies: dict[str, float] = {}

    def times(self, report: Report, column: str, expression: str, is_condition: bool) -> Times:
        """Microseconds for a new value, and for one whose result is known."""
        head, more = ("Y", f", {expression}") if is_condition else (expression, "")
        new, known, derived = self._least(column, head, more)
        if not is_condition:
            report.checks.append(Check(f"results of {expression} of {column}", len(self.values[column]), derived))
        copied = self._copying(column)
        return max(0.0, new - copied), max(0.0, known - copied)

    def _copying(self, column: str) -> float:
        if column not in self._copies:
            self._copies[column] = self._least(column, "Y", "")[1]
        return self._copies[column]

    def _least(self, column: str, head: str, more: str) -> tuple[float, float, int]:
        """Microseconds for each value to add a rule, and another one like it, and how many facts the first derives."""
        found = list(self._each(column, [f"{name}(X, {head}) :- {column}(X, Y){more}." for name in ("q", "r")]))
        return min(first for first, _, _ in found), min(second for _, second, _ in found), found[0][2]

    def _each(self, column: str, rules: Sequence[str]) -> Iterator[tuple[float, float, int]]:
        values = self.values[column]
        for _ in range(self._options.repeat):
            kb = KnowledgeBase()
            kb.update(add={column: list(enumerate(values))})
            first, second = (1e6 * measure(partial(kb.add_rules, rule)).cpu / len(values) for rule in rules)
            yield first, second, len(kb.facts("q"))
