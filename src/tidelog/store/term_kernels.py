"""Kernels of the dictionary: encode columns of texts and numbers, gather texts, rebuild the hash table."""

from __future__ import annotations

from tidelog.joins.expressions import intern_number, number_hash, term_kind, term_payload
from tidelog.joins.texts import copy_text, intern_text, is_text, text_arrays, text_hash
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import term_kinds as K
from tidelog.machine.hash_tables import MASK_32, is_never, probe_number, slot_of_hash
from tidelog.machine.jit import (
    Registers,
    device,
    entry_point,
    load_i32,
    load_i64,
    prefetch,
    store_i32,
)

# Texts are looked up in blocks: while one is compared, the others are prefetched.
BLOCK = 32


@device
def size_at(offsets, position):
    """The size of a text of an Arrow-like heap."""
    return load_i64(offsets + 8 * (position + 1)) - load_i64(offsets + 8 * position)


@device
def hash_block(m, data, offsets, begin, end, kind, result):
    """Write the hashes of texts where their numbers will be, and prefetch all that will be compared: slots, terms and
    their texts.
    """
    slots = m[M.TERM_SLOTS]
    slot_count = m[M.TERM_SLOT_COUNT]
    for position in range(begin, end):
        hashed = text_hash(data + load_i64(offsets + 8 * position), size_at(offsets, position), kind)
        store_i32(result + 4 * position, hashed)
        prefetch(slots + 4 * slot_of_hash(hashed, slot_count))
    for position in range(begin, end):
        term = load_i32(slots + 4 * slot_of_hash(load_i32(result + 4 * position) & MASK_32, slot_count))
        if term != R.EMPTY:
            prefetch(m[M.TERM_HASHES] + 4 * term)
            prefetch(m[M.TERM_SIZES] + 4 * term)
            prefetch(m[M.TERM_PAYLOADS] + 8 * term)
    for position in range(begin, end):
        term = load_i32(slots + 4 * slot_of_hash(load_i32(result + 4 * position) & MASK_32, slot_count))
        if term != R.EMPTY:
            prefetch(m[M.TERM_TEXT] + term_payload(m, term))


@device
def follow_texts(m, data, offsets, begin, end, kind, result, term):
    """Number texts while each is the same as the last, initially `term`, or was numbered right after it.

    Most tables list the same things in the same order, and comparing with the next in memory is much faster than a
    lookup.
    """
    position = begin
    arrays = text_arrays(m)
    while term >= 0 and position < end:
        at = data + load_i64(offsets + 8 * position)
        size = size_at(offsets, position)
        if not is_text(arrays, term, kind, at, size):
            term += 1
            if term == m[M.TERM_COUNT] or not is_text(arrays, term, kind, at, size):
                break
        store_i32(result + 4 * position, term)
        position += 1
    return position


@entry_point
def encode_texts(m: Registers, data: int, offsets: int, begin: int, end: int, kind: int, result: int) -> None:
    """Number the texts `begin` to `end` of an Arrow-like heap; there is room for all of them."""
    position = begin
    term = R.EMPTY
    while position < end:
        position = follow_texts(m, data, offsets, position, end, kind, result, term)
        block_end = min(position + BLOCK, end)
        hash_block(m, data, offsets, position, block_end, kind, result)
        while position < block_end:
            at = data + load_i64(offsets + 8 * position)
            hashed = load_i32(result + 4 * position) & MASK_32
            term = intern_text(m, kind, at, size_at(offsets, position), hashed)
            store_i32(result + 4 * position, term)
            position += 1


@entry_point
def encode_numbers(m: Registers, bits: int, begin: int, end: int, kind: int, result: int) -> None:
    """Number the payloads `begin` to `end`; there is room for all of them. As with texts, the last number or the next
    one needs no lookup.
    """
    term = K.FAILURE
    for position in range(begin, end):
        payload = load_i64(bits + 8 * position)
        if term_payload(m, term) != payload or term_kind(m, term) != kind:
            term += 1
            if term == m[M.TERM_COUNT] or term_payload(m, term) != payload or term_kind(m, term) != kind:
                term = intern_number(m, kind, payload)
        store_i32(result + 4 * position, term)


@entry_point
def gather_texts(heap: int, payloads: int, sizes: int, ids: int, count: int, data: int, offsets: int) -> None:
    """Copy the texts of many terms into one Arrow-like heap. The arrays are arguments, not registers: other threads may
    grow the dictionary meanwhile, and a reader keeps the arrays that it began with.
    """
    for position in range(count):
        term = load_i32(ids + 4 * position)
        source = heap + load_i64(payloads + 8 * term)
        target = data + load_i64(offsets + 8 * position)
        copy_text(source, target, load_i32(sizes + 4 * term))


@entry_point
def hash_terms(m: Registers) -> None:
    """Compute the hash of every term: hashes are not saved in files."""
    for term in range(K.FAILURE + 1, m[M.TERM_COUNT]):
        kind = term_kind(m, term)
        if kind == K.NONE:
            continue
        payload = term_payload(m, term)
        if kind in (K.INTEGER, K.FLOAT, K.BOOLEAN):
            hashed = number_hash(kind, payload)
        else:
            hashed = text_hash(m[M.TERM_TEXT] + payload, load_i32(m[M.TERM_SIZES] + 4 * term), kind)
        store_i32(m[M.TERM_HASHES] + 4 * term, hashed)


@entry_point
def rebuild_term_slots(m: Registers) -> None:
    """Enter every term into an empty hash table."""
    slots = m[M.TERM_SLOTS]
    slot_count = m[M.TERM_SLOT_COUNT]
    for term in range(K.FAILURE + 1, m[M.TERM_COUNT]):
        if term_kind(m, term) == K.NONE:
            continue
        hashed = load_i32(m[M.TERM_HASHES] + 4 * term) & MASK_32
        slot, _ = probe_number(slots, slot_count, hashed, is_never, 0)
        store_i32(slots + 4 * slot, term)
