"""Numbers as digits: written as Python writes them, and read, as far as that is exact in 64 bits."""

import math

from tidelog.joins.expressions import SMALLEST
from tidelog.machine.jit import device, inlined, load_u8, store_u8

MINUS, PLUS, POINT, ZERO = 45, 43, 46, 48
EXACT_DIGITS = 1e15  # decimal numbers of fewer digits than this has are different floats
MOST_DIGITS = 18  # of an integer that certainly fits into 64 bits
MOST_WRITTEN = 24  # bytes of a number

# What reading gives beside a number.
READ, NO_NUMBER, UNSURE = 1, 0, -1


@inlined
def is_digit(byte):
    return ZERO <= byte < ZERO + 10


@device
def digits_end(at, end):
    """The address of the first byte that is no digit."""
    while at < end and is_digit(load_u8(at)):
        at += 1
    return at


@device
def number_of_digits(at, end):
    """The integer that at most 18 digits stand for."""
    value = 0
    while at < end:
        value = 10 * value + load_u8(at) - ZERO
        at += 1
    return value


@device
def write_padded(at, value, count):
    """Write so many digits; the address behind them."""
    position = at + count
    while position > at:
        position -= 1
        store_u8(position, ZERO + value % 10)
        value //= 10
    return at + count


@device
def write_natural(at, value):
    """Write an integer that is not negative."""
    count = 1
    rest = value // 10
    while rest > 0:
        count += 1
        rest //= 10
    return write_padded(at, value, count)


@device
def write_integer(at, value):
    """Write an integer; the address behind it, or 0 where only Python can."""
    if value == SMALLEST:
        return 0
    if value >= 0:
        return write_natural(at, value)
    store_u8(at, MINUS)
    return write_natural(at + 1, -value)


@device
def power_of_ten(exponent):
    """As an integer, for exponents up to 18."""
    power = 1
    for _ in range(exponent):
        power *= 10
    return power


@device
def decimal_places(value):
    """The places behind the point of the shortest text that reads as a float, if it has at most 15 digits and no
    exponent; -1 otherwise.

    Of decimal numbers of so many digits, no two are the same float. So one that gives the float, found by division,
    which rounds correctly, is the one, and the first to do so has the fewest digits.
    """
    size = abs(value)
    if not (1e-4 <= size < EXACT_DIGITS) and size != 0.0:
        return -1
    power = 1.0
    for places in range(MOST_DIGITS + 1):
        scaled = size * power
        if scaled >= EXACT_DIGITS - 1.0:
            return -1
        if math.floor(scaled + 0.5) / power == size:
            return places
        power *= 10.0
    return -1


@device
def all_digits(value, places):
    """The digits of a float with so many decimal places, as an integer."""
    return math.floor(abs(value) * float(power_of_ten(places)) + 0.5)


@device
def write_float(at, value):
    """Write a float; the address behind it, or 0 where only Python can."""
    places = decimal_places(value)
    if places < 0:
        return 0
    if value < 0.0:
        store_u8(at, MINUS)
        at += 1
    digits = all_digits(value, places)
    power = power_of_ten(places)
    at = write_natural(at, digits // power)
    store_u8(at, POINT)
    return write_padded(at + 1, digits % power, max(places, 1))


@inlined
def behind_sign(at, end):
    return at + 1 if at < end and load_u8(at) in (PLUS, MINUS) else at


@device
def read_integer(at, end):
    """Whether a text is an integer, and which."""
    first = behind_sign(at, end)
    if first == end or digits_end(first, end) < end:
        return NO_NUMBER, 0
    if end - first > MOST_DIGITS:
        return UNSURE, 0
    value = number_of_digits(first, end)
    return READ, (-value if load_u8(at) == MINUS else value)


@device
def read_float(at, end):
    """Whether a text is a float, and which: at most 15 digits without an exponent give it by one division."""
    first = behind_sign(at, end)
    point = digits_end(first, end)
    last = point
    if point < end and load_u8(point) == POINT:
        last = digits_end(point + 1, end)
    count = last - first - (1 if last > point else 0)
    if count == 0:
        return NO_NUMBER, 0.0
    if last < end:
        return (UNSURE if load_u8(last) | 32 == 101 else NO_NUMBER), 0.0  # the E of an exponent
    if count > 15:
        return UNSURE, 0.0
    places = max(last - point - 1, 0)
    value = float(number_of_digits(first, point))
    if places > 0:
        digits = number_of_digits(first, point) * power_of_ten(places) + number_of_digits(point + 1, last)
        value = float(digits) / float(power_of_ten(places))
    return READ, (-value if load_u8(at) == MINUS else value)
