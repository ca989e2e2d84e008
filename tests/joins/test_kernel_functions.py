"""Functions that kernels compute, against those of Python, which also compute whatever kernels leave to them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta, timezone
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_util import ALGORITHMS
from tidelog import IRI, DataError, KnowledgeBase, Literal
from tidelog.joins.functions import characters, numbering
from tidelog.joins.functions.results import MOST_BYTES
from tidelog.language.functions import BUILT_IN, CallFailed
from tidelog.store.letter_cases import letter_cases
from tidelog.values import XSD, Record, Value, checked_value, identity

Call = tuple[str, tuple[Value, ...]]

LITTLE = "aAbBzZ09 ,.-+eE{}\t\n\x00\x1c\x1f\x7f\x85\xa0éßÿıİſµŉǅΣσς̈ЖжѠ\u1680\u2003\u2028\u3000€中Ａ가ﬁ𝒜😀"
TEXTS = st.text(st.sampled_from(LITTLE), max_size=9) | st.text(max_size=5)
PARTS = st.text(st.sampled_from(LITTLE), max_size=2)
INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20) | st.integers(-(10**16), 10**16)
FLOATS = (
    st.floats()
    | st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9).map(float)
    | st.builds(lambda digits, places: float(f"{digits}e-{places}"), st.integers(-(10**16), 10**16), st.integers(0, 25))
)
NUMERALS = st.from_regex(r"[+-]?[0-9]{0,20}\.?[0-9]{0,8}([eE][+-]?[0-9]{1,3})?\n?", fullmatch=True)
OTHERS: Sequence[Any] = (
    *(True, False, IRI("http://example.org/ä"), IRI(""), Literal("chat\x1f", language="fr"), Record(1, ("a", 2.5))),
    *(Literal("2", f"{XSD}precisionDecimal"), Literal(str(2**70), f"{XSD}integer"), Literal("x", "http://d")),
)
ONE_TEXT = ("length", "upper", "lower", "trim")
CONVERSIONS = ("str", "int", "float", "is_int", "is_float", "type")
NAMES = list(numbering.ARITIES)
NUMBERS, OF_MOMENTS = NAMES[numbering.TRUNC : numbering.YEAR], NAMES[numbering.YEAR : numbering.JSON]


def expected(name: str, arguments: tuple[Value, ...]) -> object:
    """What Python gives, as a fact holds it; None if it has no value."""
    try:
        return identity(checked_value(BUILT_IN[name](*arguments)))
    except (CallFailed, DataError):
        return None


def computed(calls: Sequence[Call]) -> tuple[list[object], int]:
    """The result of each call in rules, None where a rule instance failed; how many calls were left to Python."""
    shapes = {(name, len(arguments)) for name, arguments in calls}
    rules = []
    for name, count in sorted(shapes):
        variables = ", ".join(f"X{place}" for place in range(count))
        rules.append(f"{name}_is{count}(N, {name}({variables})) :- {name}_of{count}(N, {variables}).")
    kb = KnowledgeBase("\n".join(rules))
    facts: dict[str, list[tuple[Any, ...]]] = {f"{name}_of{count}": [] for name, count in shapes}
    for place, (name, arguments) in enumerate(calls):
        facts[f"{name}_of{len(arguments)}"].append((place, *arguments))
    change = kb.update(add=facts)
    results: list[object] = [None] * len(calls)
    for name, count in shapes:
        for place, value in kb.facts(f"{name}_is{count}"):
            results[place] = identity(value)
    assert change.errors == results.count(None)
    store = kb._engine.store
    return results, sum(store.relations[memo].count for memo in store.memo_functions)


def check(calls: Iterable[Call]) -> int:
    """Check calls; how many were left to Python."""
    asked = [(name, tuple(map(checked_value, arguments))) for name, arguments in calls]
    results, left = computed(asked)
    for (name, arguments), result in zip(asked, results, strict=True):
        assert result == expected(name, arguments), (name, arguments)
    return left


# ---- texts


@given(st.lists(st.tuples(TEXTS, PARTS | TEXTS, PARTS, st.integers(-1, 6), st.integers(-1, 6)), max_size=12))
def test_texts(rows: list[tuple[str, str, str, int, int]]) -> None:
    calls: list[Call] = []
    for whole, part, other, begin, count in rows:
        calls += [(name, (whole,)) for name in ONE_TEXT]
        calls += [(name, (whole, part)) for name in ("concat", "contains", "starts_with", "ends_with")]
        calls += [("replace", (whole, part, other)), ("split", (whole, part, begin))]
        calls += [("substr", (whole, begin, count)), ("starts_with", (whole, whole[:begin]))]
        calls += [("ends_with", (whole, whole[-1:])), ("contains", (whole, whole[1:3]))]
        calls += [("replace", (whole, whole[:1], other)), ("split", (whole, whole[1:2], count))]
    check(calls)


def test_every_character() -> None:
    points = [*range(0x3100), *range(0x9F00, 0xAC10), *range(0xD700, 0xD800), *range(0xE000, 0x10000, 7), 0x1F600]
    characters_of_scripts = [*map(chr, points), chr(0x1E900), chr(0x10FFFF)]
    check((name, (f"{character}a{character}",)) for character in characters_of_scripts for name in ONE_TEXT)


def test_characters_without_case() -> None:
    for point in range(sys.maxunicode + 1):
        if characters.has_no_case(point):
            assert chr(point).upper() == chr(point).lower() == chr(point)
        assert characters.is_blank(point) == chr(point).isspace()
    assert len(letter_cases()) == 2 * characters.IN_TABLE


@pytest.mark.plain
def test_other_values_than_texts() -> None:
    values: Sequence[Value] = ("ab", 1, 1.5, *OTHERS)
    calls: list[Call] = [(name, (value,)) for value in values for name in (*ONE_TEXT, *CONVERSIONS)]
    for pair in product(values, values):
        calls += [(name, pair) for name in ("concat", "contains", "starts_with", "ends_with")]
        calls += [("replace", ("abab", *pair)), ("replace", (pair[0], "b", pair[1])), ("split", ("abab", *pair))]
        calls += [("substr", ("abab", *pair)), ("format", (pair[0], pair[1])), ("format", ("{1}{0}", *pair))]
    check(calls)


def test_long_texts() -> None:
    calls: list[Call] = []
    for size in (4000, MOST_BYTES - 1, MOST_BYTES, MOST_BYTES + 1):
        whole = "aß " * (size // 4) + "b" * (size % 4)
        calls += [(name, (whole,)) for name in (*ONE_TEXT, *CONVERSIONS)]
        calls += [("contains", (whole, "b" * 9)), ("replace", (whole, "a", "abc" * 9)), ("split", (whole, "ß", 90))]
        calls += [("concat", (whole, whole)), ("substr", (whole, size // 4, 9)), ("format", ("{0}{0}", whole))]
        calls += [("int", ("1" * size,)), ("float", ("1" * size,)), ("contains", ("a" * size, "a" * (size // 2) + "b"))]
    check(calls)


@given(st.lists(st.tuples(TEXTS | st.from_regex(r"([{}0-3a]){0,9}", fullmatch=True), TEXTS, INTEGERS, FLOATS)))
def test_format(rows: list[tuple[str, str, int, float]]) -> None:
    calls: list[Call] = [("format", row) for row in rows]
    calls += [("format", (f"{{}}{text}{{2}}", number, real)) for text, _, number, real in rows]
    calls += [("format", (pattern,)) for pattern, *_ in rows]
    check(calls)


# ---- numbers


@given(st.lists(INTEGERS | FLOATS | NUMERALS | TEXTS))
def test_conversions(values: list[Value]) -> None:
    check((name, (value,)) for value in values for name in CONVERSIONS)


@pytest.mark.plain
def test_conversions_at_the_edges() -> None:
    texts = [
        "",
        "+",
        "-",
        ".",
        "+.",
        "1.",
        ".5",
        "-.5",
        "1e5",
        "1e",
        "e5",
        "1.e5",
        "1e400",
        "1_0",
        " 1",
        "1 ",
        "١",
        "nan",
    ]
    texts += ["9" * digits for digits in range(1, 25)] + ["-" + "0" * 30 + "7", "0" * 17 + "1", "0." + "0" * 14 + "1"]
    texts += [str(edge) for edge in (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**18, 10**18 - 1)]
    floats = [0.0, 0.1, 0.3, 1e-4, 9.999e-5, 1e14, 999999999999999.0, 1e15, 1e16, 2.0**53, 2.0**63, 5e-324, 1.7e308]
    floats += [0.1 + 0.2, 1 / 3, 123456789.012345, 99999999999999.9, 0.00012345678901234, float("inf"), float("nan")]
    numbers = [0, 7, 10**17, 2**63 - 1, -(2**63), -(2**63) + 1, 2**53 + 1]
    values: list[Value] = [*texts, *floats, *(-value for value in floats), *numbers]
    check((name, (value,)) for value in values for name in CONVERSIONS)


@given(st.lists(st.tuples(INTEGERS | FLOATS, INTEGERS | FLOATS | st.integers(-3, 20))))
def test_numbers(pairs: list[tuple[Value, Value]]) -> None:
    calls: list[Call] = []
    for first, second in pairs:
        for name in NUMBERS:
            calls.append((name, (first, second) if numbering.ARITIES[name] == 2 else (first,)))
    check(calls)


@pytest.mark.plain
def test_numbers_at_the_edges() -> None:
    values: Sequence[Value] = (
        *(0, 1, -1, 10, 2**63 - 1, -(2**63), 0.0, 0.5, 1.0, -1.0, 1.5, 2.5, 2.345, 0.285, 1e22, 1e300, 5e-324),
        *(2.0**63, -(2.0**63), float("inf"), float("-inf"), float("nan"), "1", *OTHERS),
    )
    calls: list[Call] = [(name, (value,)) for value in values for name in NUMBERS if numbering.ARITIES[name] == 1]
    calls += [(name, pair) for pair in product(values, values) for name in ("pow", "atan2", "round_to")]
    calls += [("round_to", (value, places)) for value in values for places in (2, 17, 400, 401, -1)]
    check(calls)


# ---- dates


MOMENTS = st.datetimes() | st.datetimes(timezones=st.timezones() | st.just(timezone(timedelta(hours=2))))
LENGTHS = st.timedeltas() | st.integers(-(10**14), 10**14).map(lambda seconds: timedelta(seconds=seconds % 10**13))


@given(st.lists(MOMENTS | st.dates() | LENGTHS | st.times(), max_size=6), st.lists(INTEGERS | FLOATS, max_size=6))
def test_moments(moments: list[Any], numbers: list[Value]) -> None:
    calls: list[Call] = []
    for moment in moments:
        value = checked_value(moment)
        text = value.text if isinstance(value, Literal) else ""
        calls += [(name, (either,)) for either in (value, text) for name in OF_MOMENTS]
    calls += [(name, (number,)) for number in numbers for name in OF_MOMENTS]
    check(calls)


@given(st.lists(st.text("0123456789-:TZ.+PDHMS", max_size=24), max_size=4))
def test_texts_that_look_like_dates(texts: list[str]) -> None:
    types = [f"{XSD}{name}" for name in ("dateTime", "date", "dayTimeDuration", "dateTimeStamp", "duration", "time")]
    values = [value for text in texts for value in (text, *(Literal(text, kind) for kind in types))]
    check((name, (value,)) for value in values for name in OF_MOMENTS)


@pytest.mark.plain
def test_moments_at_the_edges() -> None:
    dates = ["2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "0001-01-01", "9999-12-31"]
    dates += ["2024-13-01", "2024-00-10", "2024-04-31", "2024-12-00", "2024-1-01", "12024-01-01", "-024-01-01"]
    clocks = ["00:00:00", "23:59:59", "24:00:00", "12:60:00", "12:00:60", "12:00:00.5", "12:00:00.50", "12:00:00."]
    clocks += ["12:00:00.0", "12:00:00.123456", "12:00:00.1234567", "12:0:00", "1a:00:00"]
    moments = [f"{day}T{clock}Z" for day, clock in product(dates[:2], clocks)]
    moments += [f"{day}T00:00:00{zone}" for day in dates for zone in ("", "Z", "+01:00", "z", "ZZ")]
    lengths = [
        "P",
        "PT",
        "PT0S",
        "P1D",
        "-P1DT2H",
        "PT1H30M",
        "PT1M1H",
        "P1DT",
        "PT1.5S",
        "P1Y",
        "PT5",
        "P5",
        "T5S",
        "-",
    ]
    lengths += ["P999999999D", "P1000000000D", "PT999999999999S", "--P1D", "P1D1D", "P1DT1S1S", ""]
    kinds = [("date", dates), ("dateTime", moments), ("dayTimeDuration", lengths), ("date", moments[:9])]
    values = [Literal(text, f"{XSD}{kind}") for kind, texts in kinds for text in texts]
    texts = [*dates, *moments, *lengths]
    edges: list[Value] = [-62135596800, -62135596801, 253402300799, 253402300800, 0, -1, 10**13, -(10**13), 86400, 3661]
    check((name, (value,)) for value in (*values, *texts, *edges, *OTHERS) for name in OF_MOMENTS)


# ---- JSON


VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "a-b", "ä", '"']), inner, max_size=3)
    ),
    max_leaves=8,
)
DOCUMENTS = st.builds(
    lambda value, plain, spread: json.dumps(value, ensure_ascii=not plain, indent=1 if spread else None),
    VALUES,
    st.booleans(),
    st.booleans(),
)
BROKEN = st.text(st.sampled_from('{}[]:,"ab01.-e+ \\untrfls'), max_size=12)
PATHS = ("$", "$.a", "$.b[0]", "$.a.a-b", "$[1]", "$[0].a", "$.a[0][1]", '$["a"]', "$.ä", "$.", "$[", "$[x]", "a", "")


@given(st.lists(DOCUMENTS | BROKEN, max_size=8), st.integers(0, 40))
def test_json(documents: list[str], cut: int) -> None:
    texts = [text for document in documents for text in (document, document[:cut], f" {document}\n", f"{document},")]
    check((name, (text, path)) for text in texts for path in PATHS for name in ("json", "has_json"))


@pytest.mark.plain
def test_json_at_the_edges() -> None:
    texts = [
        '{"a": 1, "a": 2}',
        '{"a": {"a-b": null}}',
        '{"a": "x\\ty"}',
        '{"\\u0061": 1}',
        '{"a": "\\ud800"}',
        "[0, [1, 2]]",
    ]
    texts += [
        '"a\tb"',
        "NaN",
        "[NaN]",
        "-Infinity",
        "01",
        "-0",
        "-",
        "1.",
        "1.e5",
        "1e5",
        "1E+5",
        "1e999",
        '{"a": 1e400}',
        "--1",
    ]
    texts += [str(2**63), str(2**63 - 1), "1" * 17, "1" * 500, "0.1", "-1.50", "[" * 59 + "]" * 59, "[" * 70 + "]" * 70]
    texts += [
        "",
        " ",
        "\ufeff1",
        "tru",
        "true",
        "nul",
        "null",
        "[1,]",
        "{,}",
        "[,]",
        '{"a"}',
        '{"a":}',
        '{"a":1',
        '["a"',
        "[}",
    ]
    texts += [
        '{"a": [[0, true], "b"]}',
        '[{"a": []}, {}]',
        '{"b": ["é", 1], "a": [{}]}',
        '{"a":"\\x"}',
        "1 2",
        "{} {}",
        '{"": 1}',
    ]
    check((name, (text, path)) for text in texts for path in PATHS for name in ("json", "has_json"))


def test_every_day_of_the_calendar() -> None:
    numbers = [*range(-719162 * 86400, 253402300799, 86400 * 97 + 3571)]
    numbers += [int((date(year, 3, 1) - date(1970, 1, 1)).days) * 86400 - 1 for year in range(1, 10000, 3)]
    assert check(("from_epoch", (number,)) for number in numbers) == 0
    start = datetime(1, 1, 1)
    moments = [checked_value(start + timedelta(days=41 * place, seconds=place)) for place in range(3000)]
    fields = ("year", "month", "day", "weekday", "epoch", "date")
    assert check((name, (moment,)) for moment in moments for name in fields) == 0


# ---- who computes what


USUAL: Sequence[Call] = (
    *((name, (" Straße nach Kyjiw, Київ 東京 ",)) for name in ("length", "trim", "lower")),
    *((name, ("Äpfel, “Birnen” und Київ",)) for name in ("upper", "lower")),
    ("upper", ("Größe",)),
    *((name, ("a, b, c", ", ")) for name in ("concat", "contains", "starts_with", "ends_with")),
    *(("replace", ("a, b", ", ", "é")), ("split", ("a, b", ", ", 1)), ("substr", ("héllo", 1, 3))),
    *((name, (value,)) for name in CONVERSIONS for value in ("12", "-3", 7, 2.5)),
    *((name, ("12.75",)) for name in ("float", "is_float", "str")),
    *((name, (0.5, 2) if numbering.ARITIES[name] == 2 else (0.5,)) for name in NUMBERS),
    *(("format", ("{}: {} {0}", "a", 2.5)), ("str", (IRI("http://a"),)), ("type", (Literal("a", language="en"),))),
    *((name, (Literal("2024-02-29T12:00:00Z", f"{XSD}dateTime"),)) for name in OF_MOMENTS[:9]),
    *(("datetime", ("2024-02-29T12:00:00",)), ("date", ("2024-02-29",)), ("from_epoch", (12,)), ("duration", (90,))),
    *(
        (name, ('{"a": [1, "é\\n", 2.5], "b": {}}', path))
        for name in ("json", "has_json")
        for path in ("$.a[0]", "$.a[2]")
    ),
    *(("decimal", (3,)), ("decimal", (2.50,)), ("seconds", (Literal("PT1M30S", f"{XSD}dayTimeDuration"),))),
)


@pytest.mark.plain
def test_usual_arguments_are_not_left_to_python() -> None:
    assert {name for name, _ in USUAL} == set(numbering.ARITIES)
    assert check(USUAL) == 0


def test_functions_are_numbered_in_their_order() -> None:
    named = {name: getattr(numbering, name.upper()) for name in numbering.ARITIES}
    assert named == {name: number for number, name in enumerate(numbering.ARITIES)}
    assert numbering.ARITIES.keys() <= BUILT_IN.keys()


def test_a_registered_function_takes_the_place_of_one() -> None:
    kb = KnowledgeBase("p(X, trim(X)) :- e(X).")
    kb.update(add={"e": [(" a ",)]})
    kb.register("trim", lambda text: f"<{text}>")
    kb.update(add={"e": [(" b ",)]})
    assert set(kb.facts("p")) == {(" a ", "a"), (" b ", "< b >")}


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_results_come_and_go_with_their_facts(maintenance: Any) -> None:
    kb = KnowledgeBase(maintenance=maintenance)
    kb.add_rules("""
        part(T, 0, split(T, ",", 0)) :- line(T).
        part(T, M, split(T, ",", M)) :- part(T, N, _), length(replace(T, ",", "")) > N, M = N + 1, contains(T, ",").
        sum(T, sum(int(P))) :- part(T, _, P), is_int(P).
        shown(format("{} has {}", upper(trim(T)), S)) :- sum(T, S).
    """)
    kb.update(add={"line": [("1,2,a",), ("b,é,3",), ("x",)]})
    assert set(kb.facts("shown")) == {("1,2,A has 3",), ("B,É,3 has 3",)}
    change = kb.update(delete={"line": [("1,2,a",)]}, add={"line": [(" 7,7 ",), ("7 ,7",)]})
    assert change.added["shown"] == {("7 ,7 has 7",)}
    assert set(kb.facts("shown")) == {("B,É,3 has 3",), ("7 ,7 has 7",)}
