"""Functions on texts. Bytes of UTF-8 are searched as they are: no character is found within another one."""

from tidelog.joins.expressions import term_kind, term_payload
from tidelog.joins.functions import numbering as N
from tidelog.joins.functions.characters import (
    SECOND,
    UNKNOWN,
    character_at,
    continues,
    is_blank,
    other_case,
    width_of,
    write_character,
)
from tidelog.joins.functions.numbering import ASK, FULL
from tidelog.joins.functions.results import (
    MOST_BYTES,
    boolean_result,
    has_room,
    integer_result,
    new_text,
    text_result,
)
from tidelog.joins.memos import value_of
from tidelog.joins.texts import copy_text, same_text, size_of, text_of
from tidelog.machine import registers as M
from tidelog.machine import term_kinds as K
from tidelog.machine.jit import device, load_i32, load_u8, store_u8

# A search compares at most so many bytes, and Python's search is better then.
MOST_COMPARED = 1 << 18


@device
def found_at(at, end, part, size):
    """Where a part that is not empty first occurs, or -1."""
    first = load_u8(part)
    last = end - size
    while at <= last:
        if load_u8(at) == first and same_text(at, part, size):
            return at
        at += 1
    return -1


@device
def occurrences(at, end, part, size):
    """How often a part occurs, from left to right and without overlaps."""
    count = 0
    found = found_at(at, end, part, size)
    while found >= 0:
        count += 1
        found = found_at(found + size, end, part, size)
    return count


@device
def length_of(at, end):
    """The number of characters."""
    count = 0
    while at < end:
        count += 0 if continues(load_u8(at)) else 1
        at += 1
    return count


@device
def skipped(at, end, count):
    """The address behind so many characters, or the end."""
    while count > 0 and at < end:
        at += width_of(load_u8(at))
        count -= 1
    return at


@device
def in_case(m, at, end, upper):
    """A text in upper or in lower case."""
    if not has_room(m, 2 * (end - at) + 8):
        return FULL
    made = new_text(m)
    to = made
    smallest, change = (97, -32) if upper else (65, 32)
    while at < end:
        byte = load_u8(at)
        if byte < 0x80:
            store_u8(to, byte + change if smallest <= byte < smallest + 26 else byte)
            at += 1
            to += 1
            continue
        other = other_case(m, character_at(at), upper)
        if other == UNKNOWN:
            return ASK
        to = write_character(to, other & 0xFFFF)
        if other >> SECOND != 0:
            to = write_character(to, other >> SECOND)
        at += width_of(byte)
    return text_result(m, made, to)


@device
def trimmed(m, at, end):
    """A text without blanks at its ends."""
    while at < end and is_blank(character_at(at)):
        at += width_of(load_u8(at))
    while at < end:
        last = end - 1
        while continues(load_u8(last)):
            last -= 1
        if not is_blank(character_at(last)):
            break
        end = last
    return text_result(m, at, end)


@device
def joined(m, at, end, part, size):
    """Two texts as one."""
    if not has_room(m, end - at + size):
        return FULL
    made = new_text(m)
    copy_text(at, made, end - at)
    copy_text(part, made + end - at, size)
    return text_result(m, made, made + end - at + size)


@device
def replaced(m, at, end, part, size, other):
    """A text with another text for each occurrence of a part."""
    other_size = size_of(m, other)
    grown = end - at + occurrences(at, end, part, size) * (other_size - size)
    if grown > MOST_BYTES:
        return ASK
    if not has_room(m, grown):
        return FULL
    made = new_text(m)
    to = made
    found = found_at(at, end, part, size)
    while found >= 0:
        copy_text(at, to, found - at)
        to += found - at
        copy_text(text_of(m, other), to, other_size)
        to += other_size
        at = found + size
        found = found_at(at, end, part, size)
    copy_text(at, to, end - at)
    return text_result(m, made, to + end - at)


@device
def part_of(m, at, end, separator, size, number):
    """The part with a number, from 0 on, of a text that is split."""
    found = found_at(at, end, separator, size)
    while number > 0 and found >= 0:
        at = found + size
        found = found_at(at, end, separator, size)
        number -= 1
    if number > 0:
        return ASK  # There are not so many.
    return text_result(m, at, found if found >= 0 else end)


@device
def of_part(m, function, at, end, second, sources, variables):
    """The result of a function of a text and a part of it."""
    part = text_of(m, second)
    size = size_of(m, second)
    if size > MOST_BYTES or (end - at) * size > MOST_COMPARED:
        return ASK
    if function == N.STARTS_WITH:
        return boolean_result(m, size <= end - at and same_text(at, part, size))
    if function == N.ENDS_WITH:
        return boolean_result(m, size <= end - at and same_text(end - size, part, size))
    if function == N.CONCAT:
        return joined(m, at, end, part, size)
    if function == N.CONTAINS:
        return boolean_result(m, size == 0 or found_at(at, end, part, size) >= 0)
    third = value_of(load_i32(sources + 8), variables)
    if size == 0:
        return ASK
    if function == N.REPLACE:
        return replaced(m, at, end, part, size, third) if term_kind(m, third) == K.STRING else ASK
    number = term_payload(m, third)
    if term_kind(m, third) != K.INTEGER or number < 0:
        return ASK
    return part_of(m, at, end, part, size, number)


@device
def substring(m, at, end, begin, count):
    """The part of a text from a character on."""
    if term_kind(m, begin) != K.INTEGER or term_kind(m, count) != K.INTEGER:
        return ASK
    if term_payload(m, begin) < 0 or term_payload(m, count) < 0:
        return ASK
    first = skipped(at, end, term_payload(m, begin))
    return text_result(m, first, skipped(first, end, term_payload(m, count)))


@device
def of_text(m, function, whole, sources, variables):
    """The result of a function whose first argument is a text."""
    at = text_of(m, whole)
    end = at + size_of(m, whole)
    if term_kind(m, whole) != K.STRING or end - at > MOST_BYTES:
        return ASK
    m[M.BUDGET] -= (end - at) >> 4
    if function == N.LENGTH:
        return integer_result(m, length_of(at, end))
    if function == N.TRIM:
        return trimmed(m, at, end)
    if function in (N.UPPER, N.LOWER):
        return in_case(m, at, end, function == N.UPPER)
    second = value_of(load_i32(sources + 4), variables)
    if function == N.SUBSTR:
        return substring(m, at, end, second, value_of(load_i32(sources + 8), variables))
    return of_part(m, function, at, end, second, sources, variables) if term_kind(m, second) == K.STRING else ASK
