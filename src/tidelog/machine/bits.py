"""Bits of 64-bit words: how many are set, which is the first, and unions of whole rows of words.

In compiled code, counting and finding bits are single instructions. The unions are loops over plain pointers, which the
compiler vectorises, unlike loops over computed addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidelog.machine.jit import COMPILING, inlined, load_i64, store_i64

# 64 bits wide in plain Python too, so that the last bit is the sign.
ONE = np.int64(1)


if COMPILING and not TYPE_CHECKING:
    from tidelog.machine.compiler.instructions import first_bit, or_words, population, unite_words
else:

    def population(word: int) -> int:
        """How many bits of a word are set."""
        return (int(word) & 0xFFFFFFFFFFFFFFFF).bit_count()

    def first_bit(word: int) -> int:
        """The number of the lowest bit that is set; the word is not 0."""
        return (int(word) & -int(word)).bit_length() - 1

    def unite_words(target: int, source: int, count: int) -> int:
        """Add the bits of `source` to those of `target`, both addresses of `count` words; returns how many were new."""
        added = 0
        for at in range(0, 8 * count, 8):
            new = load_i64(source + at) & ~load_i64(target + at)
            store_i64(target + at, load_i64(target + at) | new)
            added += population(new)
        return added

    def or_words(target: int, source: int, count: int) -> None:
        """The same without counting."""
        unite_words(target, source, count)


@inlined
def bit_of(number: int) -> int:
    """The word in which only this bit is set; bits from 64 on are in later words."""
    return ONE << (number & 63)  # type: ignore[return-value]
