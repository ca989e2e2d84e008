"""Characters in UTF-8: where they begin, which are blank, what their other case is."""

from tidelog.machine import registers as M
from tidelog.machine.jit import device, inlined, load_i32, load_u8, store_u8

UNKNOWN = -1  # the other case of a character that only Python knows

# The other case may be two characters: the second is these bits further up.
SECOND = 16

# Below this, `M.CASES` has the upper and the lower case of each character; see `store.letter_cases`.
IN_TABLE = 0x800


@inlined
def continues(byte):
    """Whether a byte is not the first of a character."""
    return byte & 0xC0 == 0x80


@inlined
def width_of(byte):
    """How many bytes a character has that begins with this one."""
    return 1 if byte < 0x80 else (2 if byte < 0xE0 else (3 if byte < 0xF0 else 4))


@device
def character_at(at):
    """The code point of a character."""
    first = load_u8(at)
    if first < 0x80:
        return first
    second = load_u8(at + 1) & 0x3F
    if first < 0xE0:
        return (first & 0x1F) << 6 | second
    third = load_u8(at + 2) & 0x3F
    if first < 0xF0:
        return (first & 0x0F) << 12 | second << 6 | third
    return (first & 0x07) << 18 | second << 12 | third << 6 | (load_u8(at + 3) & 0x3F)


@device
def write_character(at, point):
    """Write a character of at most three bytes; the address behind it."""
    if point < 0x80:
        store_u8(at, point)
        return at + 1
    if point < 0x800:
        store_u8(at, 0xC0 | point >> 6)
        store_u8(at + 1, 0x80 | (point & 0x3F))
        return at + 2
    store_u8(at, 0xE0 | point >> 12)
    store_u8(at + 1, 0x80 | (point >> 6 & 0x3F))
    store_u8(at + 2, 0x80 | (point & 0x3F))
    return at + 3


@device
def is_blank(point):
    """Whether Python strips a character."""
    if point < 0x80:
        return point == 32 or 9 <= point <= 13 or 28 <= point <= 31
    if point in (0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000):
        return True
    return 0x2000 <= point <= 0x200A


@inlined
def has_no_case(point):
    """Whether a character beyond the table is a sign or one of the scripts of East Asia."""
    return 0x2000 <= point < 0x2100 or 0x3000 <= point < 0xA640 or 0xAC00 <= point < 0xD800


@device
def other_case(m, point, upper):
    """The upper or the lower case of a character beyond ASCII, or UNKNOWN."""
    if point < IN_TABLE:
        return load_i32(m[M.CASES] + 4 * (point if upper else point + IN_TABLE))
    return point if has_no_case(point) else UNKNOWN
