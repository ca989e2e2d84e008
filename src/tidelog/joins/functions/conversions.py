"""Conversions between texts and numbers, tests whether they have a value, and `format`."""

import math

from tidelog.joins.expressions import TWO_63, as_float, is_number, term_kind, term_payload
from tidelog.joins.functions import numbering as N
from tidelog.joins.functions.digits import (
    MOST_WRITTEN,
    READ,
    UNSURE,
    digits_end,
    number_of_digits,
    read_float,
    read_integer,
    write_float,
    write_integer,
)
from tidelog.joins.functions.numbering import ASK, FULL
from tidelog.joins.functions.results import (
    MOST_BYTES,
    boolean_result,
    float_result,
    has_room,
    integer_result,
    new_text,
    text_result,
)
from tidelog.joins.memos import value_of
from tidelog.joins.texts import copy_text, size_of, text_of
from tidelog.machine import registers as M
from tidelog.machine import term_kinds as K
from tidelog.machine.jit import device, float_of_bits, inlined, load_i32, load_u8, store_i64, store_u8
from tidelog.values import SEPARATOR

OPENING, CLOSING = 123, 125  # braces
PART_END = ord(SEPARATOR)  # between the parts of a literal


def word(text: str) -> int:
    """At most eight ASCII characters as the 64 bits that they are in memory."""
    return int.from_bytes(text.encode("ascii"), "little")


TRUE, FALSE = word("true"), word("false")
STRING, INTEGER, FLOAT, BOOLEAN, IRI, LITERAL = map(word, ("string", "integer", "float", "boolean", "iri", "literal"))


@device
def content_of(m, term):
    """Where the text of a literal begins, behind its datatype and its language."""
    at = text_of(m, term)
    parts = 0
    while parts < 2:
        if load_u8(at) == PART_END:
            parts += 1
        at += 1
    return at


@device
def write_value(m, at, term):
    """Write a value as a text; the address behind it, or 0 where only Python can."""
    kind = term_kind(m, term)
    if kind == K.INTEGER:
        return write_integer(at, term_payload(m, term))
    if kind == K.FLOAT:
        return write_float(at, float_of_bits(term_payload(m, term)))
    if kind == K.BOOLEAN:
        holds = term_payload(m, term) != 0
        store_i64(at, TRUE if holds else FALSE)
        return at + (4 if holds else 5)
    source = content_of(m, term) if kind == K.LITERAL else text_of(m, term)
    size = text_of(m, term) + size_of(m, term) - source
    copy_text(source, at, size)
    return at + size


@inlined
def most_written(m, term):
    """The most bytes that a value takes as a text."""
    return max(size_of(m, term), MOST_WRITTEN)


@device
def as_text(m, term):
    if term_kind(m, term) == K.STRING:
        return term
    if size_of(m, term) > MOST_BYTES:
        return ASK
    if not has_room(m, most_written(m, term)):
        return FULL
    made = new_text(m)
    end = write_value(m, made, term)
    return text_result(m, made, end) if end != 0 else ASK


@inlined
def is_finite(kind, bits):
    return kind == K.INTEGER or float_of_bits(bits) - float_of_bits(bits) == 0.0


@inlined
def fits_integer(value):
    return -TWO_63 <= value < TWO_63


@device
def as_integer(m, term, kind, tested):
    """`int`, or whether it has a value."""
    bits = term_payload(m, term)
    if kind == K.INTEGER:
        return boolean_result(m, True) if tested else term
    if kind == K.FLOAT:
        fits = fits_integer(float_of_bits(bits))
        if tested:
            return boolean_result(m, fits)
        return integer_result(m, math.trunc(float_of_bits(bits))) if fits else ASK
    status, value = read_integer(text_of(m, term), text_of(m, term) + size_of(m, term))
    if tested:
        return boolean_result(m, status == READ) if status != UNSURE else ASK
    return integer_result(m, value) if status == READ else ASK


@device
def as_number(m, term, kind, tested):
    """`float`, or whether it has a value."""
    bits = term_payload(m, term)
    if is_number(kind):
        if tested:
            return boolean_result(m, is_finite(kind, bits))
        return float_result(m, as_float(kind, bits)) if is_finite(kind, bits) else ASK
    status, value = read_float(text_of(m, term), text_of(m, term) + size_of(m, term))
    if tested:
        return boolean_result(m, status == READ) if status != UNSURE else ASK
    return float_result(m, value) if status == READ else ASK


@device
def type_of(m, kind):
    """The name of the type of a value."""
    if not has_room(m, 8):
        return FULL
    made = new_text(m)
    if kind in (K.STRING, K.FLOAT):
        store_i64(made, STRING if kind == K.STRING else FLOAT)
        return text_result(m, made, made + (6 if kind == K.STRING else 5))
    if kind == K.IRI:
        store_i64(made, IRI)
        return text_result(m, made, made + 3)
    store_i64(made, INTEGER if kind == K.INTEGER else (BOOLEAN if kind == K.BOOLEAN else LITERAL))
    return text_result(m, made, made + 7)


@device
def converted(m, function, term):
    """The result of a conversion."""
    kind = term_kind(m, term)
    if function == N.STR:
        return as_text(m, term)
    if function == N.TYPE:
        return type_of(m, kind)
    tested = function in (N.IS_INT, N.IS_FLOAT)
    if kind in (K.BOOLEAN, K.IRI):
        return boolean_result(m, False) if tested else ASK
    if kind == K.LITERAL or (kind == K.STRING and size_of(m, term) > MOST_BYTES):
        return ASK
    if function in (N.INT, N.IS_INT):
        return as_integer(m, term, kind, tested)
    return as_number(m, term, kind, tested)


# ---- format


@device
def most_formatted(m, at, end, count, sources, variables):
    """The most bytes that a pattern takes when it is filled."""
    longest = MOST_WRITTEN
    for position in range(1, count):
        longest = max(longest, size_of(m, value_of(load_i32(sources + 4 * position), variables)))
    fields = 0
    while at < end:
        fields += 1 if load_u8(at) == OPENING else 0
        at += 1
    return fields * longest


@device
def filled(m, at, end, to, count, sources, variables):
    """Write a pattern with its values; the address behind it, or 0 where only Python can, or knows what is wrong."""
    used = 1
    while at < end:
        byte = load_u8(at)
        at += 1
        if byte not in (OPENING, CLOSING):
            store_u8(to, byte)
            to += 1
            continue
        if at == end:
            return 0
        if load_u8(at) == byte:
            store_u8(to, byte)
            to += 1
            at += 1
            continue
        behind = digits_end(at, end)
        if byte == CLOSING or behind == end or load_u8(behind) != CLOSING or behind - at > 6:
            return 0
        position = used if behind == at else 1 + number_of_digits(at, behind)
        used += 1 if behind == at else 0
        if position >= count:
            return 0
        to = write_value(m, to, value_of(load_i32(sources + 4 * position), variables))
        if to == 0:
            return 0
        at = behind + 1
    return to


@device
def formatted(m, pattern, count, sources, variables):
    """The result of `format`."""
    at = text_of(m, pattern)
    end = at + size_of(m, pattern)
    if term_kind(m, pattern) != K.STRING or end - at > MOST_BYTES:
        return ASK
    most = end - at + most_formatted(m, at, end, count, sources, variables)
    if most > MOST_BYTES:
        return ASK
    m[M.BUDGET] -= most >> 4
    if not has_room(m, most):
        return FULL
    made = new_text(m)
    to = filled(m, at, end, made, count, sources, variables)
    return text_result(m, made, to) if to != 0 else ASK
