"""What functions, aggregates and predicates of other languages are called here, for hints."""

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

_PREDICATES: Mapping[str, str] = {
    "`X in range(1, 11)`": "between range",
    "`( X = red ; X = blue )`, or a fact for each member": "member memberchk",
    '`type(X) = "integer"`': "number integer atom string var nonvar is_list ground",
    "`?- edge(X, Y).`, which prints its answers": "write writeln print nl format",
    "`@predicate edge/2.`, if it is needed at all": "dynamic discontiguous initialization use_module ensure_loaded",
    "`not` in a rule, which says what holds and not how it is looked for": "fail forall once",
    "updates, which add and delete facts": "assert asserta assertz retract",
}


def _by_name(ours: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({name: here for here, names in ours.items() for name in names.split()})


ELSEWHERE = _by_name(_NAMES)
"""By names of functions elsewhere, in lower case, what to write here."""

PREDICATES_ELSEWHERE = _by_name(_PREDICATES)
"""By names of predicates elsewhere, what to write here."""
