"""The result of any function that kernels compute."""

from tidelog.joins.functions import numbering as N
from tidelog.joins.functions.conversions import converted, formatted
from tidelog.joins.functions.json_paths import of_document
from tidelog.joins.functions.moments import of_moment
from tidelog.joins.functions.numbers import of_number
from tidelog.joins.functions.texts import of_text
from tidelog.joins.memos import value_of
from tidelog.machine.jit import device, load_i32


@device
def result_of(m, function, count, sources, variables):
    """The term of a function's result; `ASK` where Python has to compute it, `FULL` if the dictionary must grow."""
    first = value_of(load_i32(sources), variables)
    if function < N.FORMAT:
        return of_text(m, function, first, sources, variables)
    if function == N.FORMAT:
        return formatted(m, first, count, sources, variables)
    if function <= N.TYPE:
        return converted(m, function, first)
    if function <= N.RADIANS:
        return of_number(m, function, first, sources, variables)
    if function <= N.SECONDS:
        return of_moment(m, function, first)
    return of_document(m, function, first, value_of(load_i32(sources + 4), variables))
