"""Parts of JSON texts by plain paths such as `$.a[0]`. Whole documents are checked, as Python reads them.

Addresses of values stand for them. 0 stands for none, and -1 for what only Python knows.
"""

from tidelog.joins.expressions import term_kind
from tidelog.joins.functions import numbering as N
from tidelog.joins.functions.conversions import FALSE, TRUE, word
from tidelog.joins.functions.digits import (
    MINUS,
    PLUS,
    POINT,
    READ,
    ZERO,
    digits_end,
    is_digit,
    read_float,
    read_integer,
)
from tidelog.joins.functions.numbering import ASK
from tidelog.joins.functions.results import MOST_BYTES, boolean_result, float_result, integer_result, text_result
from tidelog.joins.texts import same_text, size_of, text_of
from tidelog.machine import registers as M
from tidelog.machine import term_kinds as K
from tidelog.machine.jit import device, inlined, load_u8

NULL = word("null")
QUOTE, ESCAPE, COMMA, COLON, DOLLAR, UNDERSCORE, DASH = (ord(character) for character in '"\\,:$_-')
OBJECT, OBJECT_END, ARRAY, ARRAY_END = (ord(character) for character in "{}[]")
E, F, N_SMALL, T, U = (ord(character) for character in "efntu")
MOST_DEPTH = 60
MOST_DIGITS = 400  # of a number; Python refuses some thousands

NOWHERE, UNSURE = 0, -1


@inlined
def is_space(byte):
    return byte in (32, 9, 10, 13)


@inlined
def is_letter(byte):
    return 97 <= byte | 32 <= 122


@device
def behind_spaces(at, end):
    while at < end and is_space(load_u8(at)):
        at += 1
    return at


@device
def begins_with(at, end, text, size):
    """Whether a text begins with at most eight characters."""
    if end - at < size:
        return False
    for place in range(size):  # noqa: SIM110  (kernels have no generators)
        if load_u8(at + place) != text >> (8 * place) & 0xFF:
            return False
    return True


@device
def behind_escape(at, end):
    """The address behind an escape sequence, or 0."""
    if at + 1 >= end:
        return NOWHERE
    byte = load_u8(at + 1)
    if byte != U:
        return at + 2 if byte in (34, 92, 47, 98, 102, 110, 114, 116) else NOWHERE  # "\/bfnrt
    if at + 6 > end:
        return NOWHERE
    for place in range(at + 2, at + 6):
        digit = load_u8(place)
        if not (is_digit(digit) or 97 <= digit | 32 <= 102):
            return NOWHERE
    return at + 6


@device
def behind_string(at, end):
    if at >= end or load_u8(at) != QUOTE:
        return NOWHERE
    at += 1
    while at < end:
        byte = load_u8(at)
        if byte == QUOTE:
            return at + 1
        if byte < 32:
            return NOWHERE
        at = behind_escape(at, end) if byte == ESCAPE else at + 1
        if at == NOWHERE:
            return NOWHERE
    return NOWHERE


@device
def behind_number(at, end):
    first = at
    if at < end and load_u8(at) == MINUS:
        at += 1
    last = digits_end(at, end)
    if last == at or (load_u8(at) == ZERO and last > at + 1):
        return NOWHERE
    if last < end and load_u8(last) == POINT:
        at = last + 1
        last = digits_end(at, end)
        if last == at:
            return NOWHERE
    if last < end and load_u8(last) | 32 == E:
        at = last + 1
        if at < end and load_u8(at) in (PLUS, MINUS):
            at += 1
        last = digits_end(at, end)
        if last == at:
            return NOWHERE
    return last if last - first <= MOST_DIGITS else NOWHERE


@device
def behind_scalar(at, end):
    """The address behind a string, a number, or a word."""
    byte = load_u8(at)
    if byte == QUOTE:
        return behind_string(at, end)
    if byte == T:
        return at + 4 if begins_with(at, end, TRUE, 4) else NOWHERE
    if byte == F:
        return at + 5 if begins_with(at, end, FALSE, 5) else NOWHERE
    if byte == N_SMALL:
        return at + 4 if begins_with(at, end, NULL, 4) else NOWHERE
    return behind_number(at, end)


@device
def behind_key(at, end):
    """The address behind the key of a member and its colon."""
    at = behind_string(behind_spaces(at, end), end)
    if at == NOWHERE:
        return NOWHERE
    at = behind_spaces(at, end)
    return at + 1 if at < end and load_u8(at) == COLON else NOWHERE


@device
def behind_value(at, end):
    """The address behind a value, or 0. `kinds` has a bit for each object or array that is open, 1 for an object."""
    kinds = 1
    while True:
        at = behind_spaces(at, end)
        if at >= end:
            return NOWHERE
        byte = load_u8(at)
        if byte in (OBJECT, ARRAY):
            if kinds >> MOST_DEPTH != 0:
                return NOWHERE
            at = behind_spaces(at + 1, end)
            if at >= end:
                return NOWHERE
            kinds = kinds << 1 | (1 if byte == OBJECT else 0)
            if load_u8(at) != (OBJECT_END if byte == OBJECT else ARRAY_END):
                if byte == OBJECT:
                    at = behind_key(at, end)
                    if at == NOWHERE:
                        return NOWHERE
                continue
        else:
            at = behind_scalar(at, end)
            if at == NOWHERE or kinds == 1:
                return at
            at = behind_spaces(at, end)
        while at < end and load_u8(at) == (OBJECT_END if kinds & 1 == 1 else ARRAY_END):
            kinds >>= 1
            if kinds == 1:
                return at + 1
            at = behind_spaces(at + 1, end)
        if at >= end or load_u8(at) != COMMA:
            return NOWHERE
        at += 1
        if kinds & 1 == 1:
            at = behind_key(at, end)
            if at == NOWHERE:
                return NOWHERE


@device
def has_escape(at, end):
    while at < end:
        if load_u8(at) == ESCAPE:
            return True
        at += 1
    return False


@device
def member_of(at, end, name, size):
    """The value of the last member of an object with a name."""
    if load_u8(at) != OBJECT:
        return NOWHERE
    found = NOWHERE
    at = behind_spaces(at + 1, end)
    while load_u8(at) == QUOTE:
        key_end = behind_string(at, end)
        if has_escape(at, key_end):
            return UNSURE
        value = behind_spaces(behind_key(at, end), end)
        if key_end - at - 2 == size and same_text(at + 1, name, size):
            found = value
        at = behind_spaces(behind_value(value, end), end)
        if load_u8(at) == COMMA:
            at = behind_spaces(at + 1, end)
    return found


@device
def element_of(at, end, place):
    """An element of an array."""
    if load_u8(at) != ARRAY:
        return NOWHERE
    at = behind_spaces(at + 1, end)
    if load_u8(at) == ARRAY_END:
        return NOWHERE
    while place > 0:
        at = behind_spaces(behind_value(at, end), end)
        if load_u8(at) != COMMA:
            return NOWHERE
        at = behind_spaces(at + 1, end)
        place -= 1
    return at


@device
def name_end(at, end):
    """The address behind a name of ASCII characters, which is empty where there is none."""
    if at < end and is_digit(load_u8(at)):
        return at
    first = at
    while at < end:
        byte = load_u8(at)
        if not (is_letter(byte) or is_digit(byte) or byte == UNDERSCORE or (byte == DASH and at > first)):
            break
        at += 1
    return at


@device
def found_by(at, end, path, path_end):
    """The value that a path leads to, in a document that has been checked."""
    if path == path_end or load_u8(path) != DOLLAR:
        return UNSURE
    path += 1
    while path < path_end:
        byte = load_u8(path)
        path += 1
        last = name_end(path, path_end) if byte == POINT else digits_end(path, path_end)
        if last == path or byte not in (POINT, ARRAY):
            return UNSURE
        if byte == POINT:
            at = member_of(at, end, path, last - path) if at > 0 else at
        else:
            status, place = read_integer(path, last)
            if last == path_end or load_u8(last) != ARRAY_END or last - path > 9 or status != READ:
                return UNSURE
            at = element_of(at, end, place) if at > 0 else at
            last += 1
        path = last
    return at


@device
def is_value(at, last):
    """Whether Python makes a value of JSON: 1, 0, or -1."""
    byte = load_u8(at)
    if byte == N_SMALL:
        return 0
    if byte in (QUOTE, OBJECT, ARRAY):
        return UNSURE if has_escape(at, last) else 1
    if byte in (T, F):
        return 1
    status, _ = read_integer(at, last)
    if status != READ:
        status, _ = read_float(at, last)
    return 1 if status == READ else UNSURE


@device
def value_at(m, at, last):
    """The term of a string, a number or a boolean."""
    byte = load_u8(at)
    if byte == QUOTE:
        return ASK if has_escape(at, last) else text_result(m, at + 1, last - 1)
    if byte in (T, F):
        return boolean_result(m, byte == T)
    if byte in (OBJECT, ARRAY, N_SMALL):
        return ASK
    status, whole = read_integer(at, last)
    if status == READ:
        return integer_result(m, whole)
    read, value = read_float(at, last)
    return float_result(m, value) if read == READ else ASK


@device
def of_document(m, function, document, path):
    """The result of a function of a JSON text and a path."""
    at = text_of(m, document)
    end = at + size_of(m, document)
    if term_kind(m, document) != K.STRING or term_kind(m, path) != K.STRING or end - at > MOST_BYTES:
        return ASK
    m[M.BUDGET] -= (end - at) >> 3
    behind = behind_value(at, end)
    if behind == NOWHERE or behind_spaces(behind, end) != end:
        return ASK
    found = found_by(behind_spaces(at, end), end, text_of(m, path), text_of(m, path) + size_of(m, path))
    if found <= 0:
        return boolean_result(m, False) if found == NOWHERE and function == N.HAS_JSON else ASK
    last = behind_value(found, end)
    if function == N.JSON:
        return value_at(m, found, last)
    valued = is_value(found, last)
    return boolean_result(m, valued == 1) if valued != UNSURE else ASK
