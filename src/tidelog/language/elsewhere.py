"""What functions and aggregates of other languages are called here, for hints."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_NAMES: Mapping[str, str] = {
    "`length(S)`": "strlen len char_length string_length string_len atom_length",
    "`substr(S, START, COUNT)`": "substring sub_string string_substr mid",
    "`concat(S, T)`": "cat strcat atom_concat string_append",
    "`split(S, T, N)`": "strsplit string_split",
    "`str(X)`": "to_string tostring itoa string cast",
    "`int(X)`": "to_number to_int tonumber parse_int integer number ftoi",
    "`float(X)`": "to_float to_double double parse_double itof",
    "`lower(S)`": "lcase to_lower tolower lowercase downcase",
    "`upper(S)`": "ucase to_upper toupper uppercase upcase",
    "`matches(S, R)`": "regex regexp_like match regex_match",
    "`min2(X, Y)`": "least minimum",
    "`max2(X, Y)`": "greatest maximum",
    "`ceil(X)`": "ceiling",
    "`log(X)`": "ln",
    "`pow(X, Y)`": "power",
    "`X mod Y`": "rem",
    "`X bxor -1`": "bnot",
    "the aggregate `avg(X)`": "mean average",
    'the aggregate `string_agg(X, ", ")`': "group_concat listagg array_agg collect",
    "an aggregate in a body, `N = count { Y : edge(X, Y) }`": "findall setof bagof aggregate_all",
    "`X in range(1, 10)`": "range",
    "a number by order, `N = count { Y : node(Y), Y < X }`": "autoinc counter row_number",
    "two rules, one for each case": "if iif case coalesce",
}

ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {name: ours for ours, names in _NAMES.items() for name in names.split()}
)
"""By names elsewhere, in lower case, what to write here."""
