"""Functions of dates, moments and durations that are written in their usual form; a moment without a zone, or in UTC.

A literal is stored as its datatype, its language and its text, with a control character behind each of the first two.
"""

from tidelog.joins.expressions import integer_quotient, term_kind, term_payload
from tidelog.joins.functions import numbering as N
from tidelog.joins.functions.conversions import PART_END, word
from tidelog.joins.functions.digits import (
    MINUS,
    POINT,
    ZERO,
    decimal_places,
    digits_end,
    is_digit,
    number_of_digits,
    write_float,
    write_integer,
    write_natural,
    write_padded,
)
from tidelog.joins.functions.numbering import ASK, FULL
from tidelog.joins.functions.results import (
    float_result,
    has_room,
    integer_result,
    literal_result,
    new_text,
)
from tidelog.joins.texts import copy_text, size_of, text_of
from tidelog.machine import term_kinds as K
from tidelog.machine.jit import device, float_of_bits, inlined, load_i32, load_i64, load_u8, store_i64, store_u8
from tidelog.moments import XSD

# The prefix of all these datatypes without its last character has 32 bytes.
HTTP, WWW, DOMAIN, SCHEMA = (word(XSD[place : place + 8]) for place in range(0, 32, 8))

# Datatypes, by the words behind the prefix, and how many bytes they have.
ENDING = chr(PART_END) * 2
DATE_TYPE = word(f"#date{ENDING}")
DATE_SIZE = 32 + 7
MOMENT_TYPE, MOMENT_REST = word("#dateTim"), word(f"e{ENDING}")
MOMENT_SIZE = 32 + 11
DURATION_TYPE, DURATION_MIDDLE, DURATION_REST = word("#dayTime"), word("Duration"), word(ENDING)
DURATION_SIZE = 32 + 18
DECIMAL_TYPE, DECIMAL_MIDDLE, DECIMAL_REST = word("#precisi"), word("onDecima"), word(f"l{ENDING}")
DECIMAL_SIZE = 32 + 19
INTEGER_TYPE = word("#integer")
INTEGER_SIZE = 32 + 10

MOST_SIZE = 96  # bytes of a literal that is made here, and more than are written beyond its end

FROM_DATE, UNTIL_SECOND = 10, 19  # bytes of a date and of a moment
DASH, COLON, T, Z, P, D, H, S = (ord(character) for character in "-:TZPDHS")
MINUTES = ord("M")

DAY = 86400
LEAST_SECOND, LAST_SECOND = -62135596800, 253402300799  # of the years 1 to 9999
MOST_SECONDS = 10**13
MICRO = 1000000


@inlined
def begins_as(at, first, second, third):
    """Whether 24 bytes are these words."""
    return load_i64(at) == first and load_i64(at + 8) == second and load_i64(at + 16) == third


@device
def has_space(m, term, size):
    """Whether a literal is longer than a datatype of so many bytes, which begins with XML Schema's prefix."""
    at = text_of(m, term)
    return size_of(m, term) > size and begins_as(at, HTTP, WWW, DOMAIN) and load_i64(at + 24) == SCHEMA


@device
def is_date(m, term):
    return has_space(m, term, DATE_SIZE) and load_i64(text_of(m, term) + 32) & 0xFFFFFFFFFFFFFF == DATE_TYPE


@device
def is_moment(m, term):
    at = text_of(m, term) + 32
    # No more is loaded than such a literal has at least.
    return (
        has_space(m, term, MOMENT_SIZE) and load_i64(at) == MOMENT_TYPE and load_i32(at + 8) & 0xFFFFFF == MOMENT_REST
    )


@device
def is_duration(m, term):
    at = text_of(m, term) + 32
    return (
        has_space(m, term, DURATION_SIZE)
        and load_i64(at) == DURATION_TYPE
        and load_i64(at + 8) == DURATION_MIDDLE
        and load_u8(at + 16) == PART_END
        and load_u8(at + 17) == PART_END
    )


@device
def has_no_text_order(m, term):
    """Whether a literal is a duration, a decimal or a large integer, which texts do not order."""
    at = text_of(m, term) + 32
    if has_space(m, term, INTEGER_SIZE) and load_i64(at) == INTEGER_TYPE:
        return load_u8(at + 8) == PART_END
    if has_space(m, term, DECIMAL_SIZE) and load_i64(at) == DECIMAL_TYPE and load_i64(at + 8) == DECIMAL_MIDDLE:
        return load_i32(at + 16) & 0xFFFFFF == DECIMAL_REST
    return is_duration(m, term)


# ---- the calendar


@inlined
def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@device
def days_of_month(year, month):
    if month == 2:
        return 29 if is_leap(year) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@device
def day_number(year, month, day):
    """Days since 1970 began. Years are counted from March on, so that the day that some have is their last."""
    shifted = year - (1 if month <= 2 else 0)
    place = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + place - 719468


@device
def date_of(number):
    """The year, the month and the day of so many days since 1970 began."""
    shifted = number + 719468
    era = shifted // 146097
    place = shifted - 146097 * era
    year = (place - place // 1460 + place // 36524 - place // 146096) // 365
    rest = place - (365 * year + year // 4 - year // 100)
    month = (5 * rest + 2) // 153
    day = rest - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return 400 * era + year + (1 if month <= 2 else 0), month, day


# ---- reading


@device
def two_digits(at):
    """The number that two digits stand for, or -1."""
    return number_of_digits(at, at + 2) if is_digit(load_u8(at)) and is_digit(load_u8(at + 1)) else -1


@device
def reads_date(at, end):
    """Whether a text begins with a date."""
    if end - at < FROM_DATE or load_u8(at + 4) != DASH or load_u8(at + 7) != DASH or digits_end(at, at + 4) < at + 4:
        return False
    year = number_of_digits(at, at + 4)
    month = two_digits(at + 5)
    day = two_digits(at + 8)
    return year >= 1 and 1 <= month <= 12 and 1 <= day <= days_of_month(year, month)


@device
def behind_fraction(at, end):
    """The address behind a fraction of a second in its usual form; 0 for another one."""
    if at == end or load_u8(at) != POINT:
        return at
    last = digits_end(at + 1, end)
    return last if 1 <= last - at - 1 <= 6 and load_u8(last - 1) != ZERO else 0


@device
def reads_moment(at, end):
    """Whether a text is a moment."""
    if end - at < UNTIL_SECOND or not reads_date(at, end):
        return False
    if load_u8(at + 10) != T or load_u8(at + 13) != COLON or load_u8(at + 16) != COLON:
        return False
    if not (0 <= two_digits(at + 11) <= 23 and 0 <= two_digits(at + 14) <= 59 and 0 <= two_digits(at + 17) <= 59):
        return False
    last = behind_fraction(at + UNTIL_SECOND, end)
    return last != 0 and (last == end or (last == end - 1 and load_u8(last) == Z))


@device
def days_at(at):
    """Days since 1970 began of a date."""
    return day_number(number_of_digits(at, at + 4), two_digits(at + 5), two_digits(at + 8))


@device
def seconds_at(at):
    """Whole seconds since 1970 began of a moment."""
    return DAY * days_at(at) + 3600 * two_digits(at + 11) + 60 * two_digits(at + 14) + two_digits(at + 17)


@device
def epoch(m, at, end):
    """The seconds of a moment since 1970 began: a float if it has a fraction."""
    last = behind_fraction(at + UNTIL_SECOND, end)
    count = last - at - UNTIL_SECOND - 1
    if count <= 0:
        return integer_result(m, seconds_at(at))
    fraction = number_of_digits(last - count, last)
    for _ in range(6 - count):
        fraction *= 10
    return float_result(m, integer_quotient(MICRO * seconds_at(at) + fraction, MICRO))


@device
def part_of_length(at, end, unit):
    """A number of days, hours, minutes or seconds and the address behind its unit, where one is next; -1 for more
    digits than are usual.
    """
    last = digits_end(at, end)
    if last in (at, end) or load_u8(last) != unit:
        return 0, at
    return (number_of_digits(at, last) if last - at <= 9 else -1), last + 1


@device
def seconds_of(m, at, end):
    """The seconds of a duration without a fraction."""
    sign = 1
    if at < end and load_u8(at) == MINUS:
        sign = -1
        at += 1
    if at == end or load_u8(at) != P or load_u8(end - 1) in (P, T):
        return ASK
    days, at = part_of_length(at + 1, end, D)
    if at < end and load_u8(at) == T:
        at += 1
    elif at < end:
        return ASK
    hours, at = part_of_length(at, end, H)
    minutes, at = part_of_length(at, end, MINUTES)
    seconds, at = part_of_length(at, end, S)
    if at != end or min(days, hours, minutes, seconds) < 0:
        return ASK
    total = DAY * days + 3600 * hours + 60 * minutes + seconds
    return integer_result(m, sign * total) if total < MOST_SECONDS else ASK


# ---- writing


@device
def new_literal(m, kind, middle, rest):
    """Where a literal is put together, with the words of its datatype; 0 if there is no room."""
    if not has_room(m, MOST_SIZE):
        return 0
    made = new_text(m)
    store_i64(made, HTTP)
    store_i64(made + 8, WWW)
    store_i64(made + 16, DOMAIN)
    store_i64(made + 24, SCHEMA)
    store_i64(made + 32, kind)
    store_i64(made + 40, middle)
    store_i64(made + 48, rest)
    return made


@device
def put_date(at, number):
    year, month, day = date_of(number)
    at = write_padded(at, year, 4)
    store_u8(at, DASH)
    at = write_padded(at + 1, month, 2)
    store_u8(at, DASH)
    return write_padded(at + 1, day, 2)


@device
def put_pair(at, sign, value):
    """A sign and two digits."""
    store_u8(at, sign)
    return write_padded(at + 1, value, 2)


@device
def moment_after(m, seconds):
    """The moment so many seconds after 1970 began, in UTC."""
    if not LEAST_SECOND <= seconds <= LAST_SECOND:
        return ASK
    made = new_literal(m, MOMENT_TYPE, MOMENT_REST, 0)
    if made == 0:
        return FULL
    at = put_date(made + MOMENT_SIZE, seconds // DAY)
    rest = seconds % DAY
    at = put_pair(at, T, rest // 3600)
    at = put_pair(at, COLON, rest // 60 % 60)
    at = put_pair(at, COLON, rest % 60)
    store_u8(at, Z)
    return literal_result(m, K.LITERAL, made, at + 1)


@device
def moment_of(m, at, end):
    """The moment that a text stands for."""
    made = new_literal(m, MOMENT_TYPE, MOMENT_REST, 0)
    if made == 0:
        return FULL
    copy_text(at, made + MOMENT_SIZE, end - at)
    return literal_result(m, K.LITERAL, made, made + MOMENT_SIZE + end - at)


@device
def day_of(m, at):
    """The date that a text begins with."""
    made = new_literal(m, DATE_TYPE, 0, 0)
    if made == 0:
        return FULL
    copy_text(at, made + DATE_SIZE, FROM_DATE)
    return literal_result(m, K.LITERAL, made, made + DATE_SIZE + FROM_DATE)


@device
def put_length(at, value, unit):
    """A number and its unit, unless it is zero."""
    if value == 0:
        return at
    at = write_natural(at, value)
    store_u8(at, unit)
    return at + 1


@device
def duration_of(m, seconds):
    """The duration of a number of seconds."""
    if not -MOST_SECONDS < seconds < MOST_SECONDS:
        return ASK
    made = new_literal(m, DURATION_TYPE, DURATION_MIDDLE, DURATION_REST)
    if made == 0:
        return FULL
    at = made + DURATION_SIZE
    if seconds < 0:
        store_u8(at, MINUS)
        at += 1
    length = abs(seconds)
    store_u8(at, P)
    at = put_length(at + 1, length // DAY, D)
    clock = length % DAY
    if clock != 0 or length == 0:
        store_u8(at, T)
        at = put_length(at + 1, clock // 3600, H)
        at = put_length(at, clock // 60 % 60, MINUTES)
        at = put_length(at, clock % 60, S)
    if length == 0:
        store_u8(at, ZERO)
        store_u8(at + 1, S)
        at += 2
    return literal_result(m, K.LITERAL, made, at)


@device
def decimal_of(m, kind, bits):
    """The decimal of a number as it is written."""
    made = new_literal(m, DECIMAL_TYPE, DECIMAL_MIDDLE, DECIMAL_REST)
    if made == 0:
        return FULL
    if kind == K.INTEGER:
        at = write_integer(made + DECIMAL_SIZE, bits)
    else:
        value = float_of_bits(bits)
        at = write_float(made + DECIMAL_SIZE, value)
        if at != 0 and decimal_places(value) == 0:
            at -= 2  # There is nothing behind its point.
    return literal_result(m, K.LITERAL, made, at) if at != 0 else ASK


# ---- functions


@device
def of_seconds(m, function, bits):
    """What an integer stands for."""
    if function == N.FROM_EPOCH:
        return moment_after(m, bits)
    if function == N.DURATION:
        return duration_of(m, bits)
    return decimal_of(m, K.INTEGER, bits) if function == N.DECIMAL else ASK


@device
def of_text(m, function, at, end):
    """What a text stands for."""
    if function == N.DATETIME and end - at <= UNTIL_SECOND + 8 and reads_moment(at, end):
        return moment_of(m, at, end)
    if function == N.DATE and end - at == FROM_DATE and reads_date(at, end):
        return day_of(m, at)
    return ASK


@device
def part_of_moment(m, function, at, end):
    """A part of a moment, at this place of a literal."""
    if not reads_moment(at, end):
        return ASK
    if function == N.HOUR:
        return integer_result(m, two_digits(at + 11))
    if function == N.MINUTE:
        return integer_result(m, two_digits(at + 14))
    if function == N.SECOND:
        return integer_result(m, two_digits(at + 17))
    if function == N.EPOCH:
        return epoch(m, at, end)
    return day_of(m, at) if function == N.DATE else part_of_date(m, function, at)


@device
def part_of_date(m, function, at):
    """A part of a date that has been checked."""
    if function == N.YEAR:
        return integer_result(m, number_of_digits(at, at + 4))
    if function == N.MONTH:
        return integer_result(m, two_digits(at + 5))
    if function == N.DAY:
        return integer_result(m, two_digits(at + 8))
    return integer_result(m, (days_at(at) + 3) % 7 + 1) if function == N.WEEKDAY else ASK


@device
def of_moment(m, function, term):
    """The result of a function of dates, moments and durations, or one that makes them."""
    kind = term_kind(m, term)
    if kind == K.INTEGER:
        return of_seconds(m, function, term_payload(m, term))
    if kind == K.FLOAT:
        return decimal_of(m, kind, term_payload(m, term)) if function == N.DECIMAL else ASK
    if kind not in (K.STRING, K.LITERAL):
        return ASK
    at = text_of(m, term)
    end = at + size_of(m, term)
    if kind == K.STRING:
        return of_text(m, function, at, end)
    if function == N.SECONDS:
        return seconds_of(m, at + DURATION_SIZE, end) if is_duration(m, term) else ASK
    if is_moment(m, term):
        return part_of_moment(m, function, at + MOMENT_SIZE, end) if function != N.DATETIME else ASK
    if not is_date(m, term) or end - at != DATE_SIZE + FROM_DATE or not reads_date(at + DATE_SIZE, end):
        return ASK
    return term if function == N.DATE else part_of_date(m, function, at + DATE_SIZE)
