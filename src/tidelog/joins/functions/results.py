"""Results of functions as terms. A text is put together at the end of the text heap, where it stays if it is new.

Results that are known are often met in the order in which they were new: the term behind the last one needs no lookup.
"""

from tidelog.joins.expressions import intern_number, term_kind, term_payload
from tidelog.joins.functions.numbering import FULL
from tidelog.joins.texts import intern_text, is_text, text_arrays, text_hash
from tidelog.machine import registers as M
from tidelog.machine import term_kinds as K
from tidelog.machine.jit import bits_of_float, device, inlined

# Of a result, and of a text that something is looked for in. Python is as quick with longer ones.
MOST_BYTES = 1 << 16


@device
def has_room(m, size):
    """Whether a text of so many bytes fits into the heap; if not, how many are wanted is noted."""
    if m[M.TERM_TEXT_USED] + size <= m[M.TERM_TEXT_SIZE]:
        return True
    m[M.TEXT_WANTED] = size
    return False


@inlined
def new_text(m):
    """Where a text is put together. Ask first whether there is room."""
    return m[M.TERM_TEXT] + m[M.TERM_TEXT_USED]


@device
def literal_result(m, kind, at, end):
    """The term of a text, or of a literal that is stored as this text."""
    size = end - at
    following = m[M.RESULT] + 1
    if following < m[M.TERM_COUNT] and is_text(text_arrays(m), following, kind, at, size):
        m[M.RESULT] = following
        return following
    if not has_room(m, size):
        return FULL
    term = intern_text(m, kind, at, size, text_hash(at, size, kind))
    m[M.RESULT] = term
    return term if term >= 0 else FULL


@device
def text_result(m, at, end):
    return literal_result(m, K.STRING, at, end)


@device
def number_result(m, kind, bits):
    following = m[M.RESULT] + 1
    if following >= m[M.TERM_COUNT] or term_payload(m, following) != bits or term_kind(m, following) != kind:
        following = intern_number(m, kind, bits)
    m[M.RESULT] = following
    return following if following >= 0 else FULL


@device
def integer_result(m, value):
    return number_result(m, K.INTEGER, value)


@device
def boolean_result(m, holds):
    return number_result(m, K.BOOLEAN, 1 if holds else 0)


@device
def float_result(m, value):
    """The term of a finite float."""
    return number_result(m, K.FLOAT, bits_of_float(value))
