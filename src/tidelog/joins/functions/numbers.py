"""Functions of numbers that are no operators: logarithms, trigonometry, rounding to digits."""

import math

from tidelog.joins.expressions import (
    O_POWER,
    as_float,
    binary_operation,
    is_number,
    term_kind,
    term_payload,
)
from tidelog.joins.functions import numbering as N
from tidelog.joins.functions.conversions import fits_integer, is_finite
from tidelog.joins.functions.digits import all_digits, decimal_places, power_of_ten
from tidelog.joins.functions.numbering import ASK
from tidelog.joins.functions.results import float_result, integer_result, number_result
from tidelog.joins.memos import value_of
from tidelog.machine import registers as M
from tidelog.machine import term_kinds as K
from tidelog.machine.jit import device, float_of_bits, load_i32, load_i64, store_i64

PER_DEGREE = math.pi / 180.0
PER_RADIAN = 180.0 / math.pi
MOST_PLACES = 400  # to which a number is rounded


@device
def trigonometric(function, value):
    """A function of a finite float; NaN where it has no value."""
    if function == N.SIN:
        return math.sin(value)
    if function == N.COS:
        return math.cos(value)
    if function == N.TAN:
        return math.tan(value)
    if function == N.ATAN:
        return math.atan(value)
    if function == N.DEGREES:
        return value * PER_RADIAN
    if function == N.RADIANS:
        return value * PER_DEGREE
    if function in (N.LOG2, N.LOG10):
        if value <= 0.0:
            return math.nan
        return math.log2(value) if function == N.LOG2 else math.log10(value)
    if abs(value) > 1.0:
        return math.nan
    return math.asin(value) if function == N.ASIN else math.acos(value)


@device
def power(m, base, exponent):
    slot = m[M.SCRATCH]
    store_i64(slot, term_kind(m, base))
    store_i64(slot + 8, term_payload(m, base))
    store_i64(slot + 16, term_kind(m, exponent))
    store_i64(slot + 24, term_payload(m, exponent))
    fine = binary_operation(O_POWER, slot, slot + 16)
    return number_result(m, load_i64(slot), load_i64(slot + 8)) if fine else ASK


@device
def half_even(digits, step):
    """The quotient, rounded to the nearest integer, and to the even one of two."""
    quotient = digits // step
    rest = digits % step
    return quotient + (1 if 2 * rest > step or (2 * rest == step and quotient % 2 == 1) else 0)


@device
def rounded_to(m, term, kind, places):
    """A number rounded to decimal places, as it is written."""
    if not 0 <= places <= MOST_PLACES:
        return ASK
    if kind == K.INTEGER:
        return term
    value = float_of_bits(term_payload(m, term))
    known = decimal_places(value)
    if known < 0:
        return ASK
    if known <= places:
        return term
    digits = half_even(all_digits(value, known), power_of_ten(known - places))
    found = float(digits) / float(power_of_ten(places))
    return float_result(m, -found if value < 0.0 else found)


@device
def of_number(m, function, term, sources, variables):
    """The result of a function whose first argument is a number."""
    kind = term_kind(m, term)
    bits = term_payload(m, term)
    if not is_number(kind) or not is_finite(kind, bits):
        return ASK
    value = as_float(kind, bits)
    if function == N.TRUNC:
        if kind == K.INTEGER:
            return term
        return integer_result(m, math.trunc(value)) if fits_integer(value) else ASK
    if function == N.SIGN:
        return integer_result(m, (1 if value > 0.0 else 0) - (1 if value < 0.0 else 0))
    if function >= N.LOG2:
        result = trigonometric(function, value)
        return float_result(m, result) if result - result == 0.0 else ASK
    second = value_of(load_i32(sources + 4), variables)
    second_kind = term_kind(m, second)
    second_bits = term_payload(m, second)
    if not is_number(second_kind) or not is_finite(second_kind, second_bits):
        return ASK
    if function == N.POW:
        return power(m, term, second)
    if function == N.ATAN2:
        return float_result(m, math.atan2(value, as_float(second_kind, second_bits)))
    return rounded_to(m, term, kind, second_bits) if second_kind == K.INTEGER else ASK
