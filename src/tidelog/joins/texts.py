"""Texts of terms: how they are hashed, compared, copied and interned."""

from tidelog.joins.expressions import enter_term, term_payload
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.hash_tables import MASK_32, SECOND_SEED, SEED, mix, probe_number
from tidelog.machine.jit import device, inlined, load_i32, load_i64, load_u8, store_i64, store_u8


@inlined
def text_of(m, term):
    """The address of a term's text."""
    return m[M.TERM_TEXT] + term_payload(m, term)


@inlined
def size_of(m, term):
    """The bytes of a term's text."""
    return load_i32(m[M.TERM_SIZES] + 4 * term)


@device
def text_hash(at, size, kind):
    # Two chains, which the processor computes in parallel.
    hashed = mix(SEED, kind ^ (size << 3))
    other = SECOND_SEED
    position = 0
    while position + 8 <= size:
        hashed = mix(hashed, load_i32(at + position) & MASK_32)
        other = mix(other, load_i32(at + position + 4) & MASK_32)
        position += 8
    while position < size:
        hashed = mix(hashed, load_u8(at + position))
        position += 1
    return mix(hashed, other)


@device
def same_text(left, right, size):
    position = 0
    while position + 8 <= size:
        if load_i64(left + position) != load_i64(right + position):
            return False
        position += 8
    while position < size:
        if load_u8(left + position) != load_u8(right + position):
            return False
        position += 1
    return True


@device
def copy_text(source, target, size):
    position = 0
    while position + 8 <= size:
        store_i64(target + position, load_i64(source + position))
        position += 8
    while position < size:
        store_u8(target + position, load_u8(source + position))
        position += 1


@inlined
def text_arrays(m):
    """The addresses of all that tells texts apart."""
    return m[M.TERM_KINDS], m[M.TERM_SIZES], m[M.TERM_PAYLOADS], m[M.TERM_TEXT]


@device
def is_text(arrays, term, kind, at, size):
    kinds, sizes, payloads, text = arrays
    return (
        load_u8(kinds + term) == kind
        and load_i32(sizes + 4 * term) == size
        and same_text(text + load_i64(payloads + 8 * term), at, size)
    )


@inlined
def is_sought_text(term, sought):
    arrays, hashes, kind, at, size, hashed = sought
    return (load_i32(hashes + 4 * term) & MASK_32) == hashed and is_text(arrays, term, kind, at, size)


@device
def intern_text(m, kind, at, size, hashed):
    """The term of a text with this hash, a new one if need be: there is room for the text. -1 if the dictionary must
    grow first.
    """
    sought = (text_arrays(m), m[M.TERM_HASHES], kind, at, size, hashed)
    slot, term = probe_number(m[M.TERM_SLOTS], m[M.TERM_SLOT_COUNT], hashed, is_sought_text, sought)
    if term != R.EMPTY:
        return term
    used = m[M.TERM_TEXT_USED]
    term = enter_term(m, slot, kind, used, size, hashed)
    if term >= 0:
        copy_text(at, m[M.TERM_TEXT] + used, size)
        m[M.TERM_TEXT_USED] = used + size
    return term
