"""Ids of constants that every task computes by itself: a hash of the constant, the same in Python and in Java.

The hash is XXH64, as Spark's function `xxhash64` computes it: of the text, the integer or the float of a constant, and
then, seeded with the result, of its kind. One bit less keeps ids above `NOT_A_TERM`. Here whole Arrow columns are
hashed, in steps over all texts that still have bytes left. That two constants share a hash is found and mended where
dictionaries are made (`dictionary.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidelog.formats.batch import BOOL, FLOAT, INT, KINDS, Part

Words = npt.NDArray[np.uint64]
HashIds = npt.NDArray[np.int64]

_PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_P1, _P2, _P3, _P4, _P5 = map(np.uint64, _PRIMES)
_SEED = 42
MOST = (1 << 63) - 1
_WORD = (1 << 64) - 1
_STRIPE = 32
_AT_ONCE = 1 << 13  # so many texts that what is computed of them stays in the cache


def hashes_of(part: Part, attempt: int = 0) -> HashIds:
    """The hashes of constants of one kind; a later attempt has other ones."""
    if part.kind in (INT, BOOL):
        hashed = _of_words(part.values.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64))
    elif part.kind == FLOAT:
        numbers = part.values.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
        hashed = _of_words(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64))
    else:
        hashed = _of_texts(part.values)
    return (_with_kind(hashed, part.kind + attempt * len(KINDS)) & np.uint64(MOST)).view(np.int64)


def hash_column(value: str) -> Column:
    """The same of a column of values, computed by Java."""
    kind = f"int({value}.kind)"
    hashed = (
        f"CASE WHEN {value}.kind IN ({INT}, {BOOL}) THEN xxhash64({value}.integer, {kind}) "
        f"WHEN {value}.kind = {FLOAT} THEN xxhash64({value}.number, {kind}) ELSE xxhash64({value}.text, {kind}) END"
    )
    return F.expr(f"({hashed}) & {MOST}L")


def _with_kind(hashed: Words, kind: int) -> Words:
    found = (hashed + _word(_PRIMES[4] + 4)) ^ _word(kind * _PRIMES[0])
    return _mixed(_rotated(found, 23) * _P2 + _P3)


def _of_words(words: Words) -> Words:
    found = np.full(len(words), _word(_SEED + _PRIMES[4] + 8))
    found ^= _rotated(words * _P2, 31) * _P1
    return _mixed(_rotated(found, 27) * _P1 + _P4)


def _word(number: int) -> np.uint64:
    return np.uint64(number & _WORD)


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _mixed(words: Words) -> Words:
    words ^= words >> np.uint64(33)
    words *= _P2
    words ^= words >> np.uint64(29)
    words *= _P3
    words ^= words >> np.uint64(32)
    return words


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_texts(texts: pa.Array) -> Words:
    data, starts, lengths = _bytes_of(texts)
    found = np.empty(len(lengths), np.uint64)
    # Texts with as many whole stripes take the same steps.
    stripes = lengths // _STRIPE
    for count in np.unique(stripes).tolist():
        similar = np.flatnonzero(stripes == count)
        for first in range(0, len(similar), _AT_ONCE):
            rows = similar[first : first + _AT_ONCE]
            found[rows] = _of_similar(data, starts[rows], lengths[rows], count)
    return found


def _bytes_of(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], HashIds, HashIds]:
    """The bytes of all texts, with a word of zeros behind, and where each begins and how long it is."""
    texts = texts.cast(pa.large_string())
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, len(texts) + 1, texts.offset * 8)
    begin, end = int(offsets[0]), int(offsets[-1])
    data = np.zeros(end - begin + 8, np.uint8)
    if end > begin:
        data[:-8] = np.frombuffer(data_buffer, np.uint8, end - begin, begin)
    return data, offsets[:-1] - begin, np.diff(offsets)


def _of_similar(data: npt.NDArray[np.uint8], starts: HashIds, lengths: HashIds, stripes: int) -> Words:
    """The hashes of texts with this many whole stripes of 32 bytes."""
    # Every place as the beginning of a word.
    words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    found = _of_stripes(words, starts, stripes) if stripes else np.full(len(starts), _word(_SEED + _PRIMES[4]))
    found += lengths.astype(np.uint64)
    place, left = starts + stripes * _STRIPE, lengths - stripes * _STRIPE
    for rows in _steps(place, left, 8):
        found[rows] = _rotated(found[rows] ^ _round(np.uint64(0), words[place[rows]]), 27) * _P1 + _P4
    for rows in _steps(place, left, 4):
        half = words[place[rows]] & np.uint64(0xFFFFFFFF)
        found[rows] = _rotated(found[rows] ^ (half * _P1), 23) * _P2 + _P3
    for rows in _steps(place, left, 1):
        found[rows] = _rotated(found[rows] ^ (data[place[rows]] * _P5), 11) * _P1
    return _mixed(found)


def _steps(place: HashIds, left: HashIds, size: int) -> Iterator[HashIds]:
    """The texts that have so many bytes left, as long as there are any; each step moves them on by these bytes."""
    while (rows := np.flatnonzero(left >= size)).size:
        yield rows
        place[rows] += size
        left[rows] -= size


def _of_stripes(words: Words, starts: HashIds, stripes: int) -> Words:
    first, second = _PRIMES[:2]
    lanes = [np.full(len(starts), _word(_SEED + begin)) for begin in (first + second, second, 0, -first)]
    for stripe in range(stripes):
        for number, lane in enumerate(lanes):
            lanes[number] = _round(lane, words[starts + (stripe * _STRIPE + 8 * number)])
    turned = [_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)]
    found = turned[0] + turned[1] + turned[2] + turned[3]
    for lane in lanes:
        found = (found ^ _round(np.uint64(0), lane)) * _P1 + _P4
    return found


def _round(lane: Any, words: Words) -> Words:
    turned: Words = _rotated(lane + words * _P2, 31) * _P1
    return turned
