"""Bits of 64-bit words: how many are set, which is the first, and unions of whole rows of words.

In compiled code, counting and finding bits are single instructions. The unions are loops over plain pointers, which the
compiler vectorises, unlike loops over computed addresses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.machine.jit import JIT_DISABLED, check_access, inlined, load_i64, store_i64

# 64 bits wide in plain Python too, so that the last bit is the sign.
ONE = np.int64(1)


if JIT_DISABLED:

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

else:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    from tidelog.machine.jit import LONG, instruction

    @instruction(types.int64, types.int64)
    def population(_context: Any, builder: Any, word: Any) -> Any:
        return builder.ctpop(word)

    @instruction(types.int64, types.int64)
    def first_bit(_context: Any, builder: Any, word: Any) -> Any:
        return builder.cttz(word, ir.Constant(ir.IntType(1), 1))

    def _words(context: Any, builder: Any, count: Any, *addresses: Any) -> Any:
        """Pointers to rows of so many words; each row is checked as a whole."""
        for at in addresses:
            check_access(context, builder, at, builder.mul(count, LONG(8)))
        return [builder.inttoptr(at, LONG.as_pointer()) for at in addresses]

    @instruction(types.int64, types.int64, types.int64, types.int64)
    def unite_words(context: Any, builder: Any, target: Any, source: Any, count: Any) -> Any:
        targets, sources = _words(context, builder, count, target, source)
        added = cgutils.alloca_once_value(builder, LONG(0))
        with cgutils.for_range(builder, count) as loop:
            at = builder.gep(targets, [loop.index])
            old = builder.load(at)
            new = builder.and_(builder.load(builder.gep(sources, [loop.index])), builder.not_(old))
            builder.store(builder.or_(old, new), at)
            builder.store(builder.add(builder.load(added), builder.ctpop(new)), added)
        return builder.load(added)

    @instruction(types.void, types.int64, types.int64, types.int64)
    def or_words(context: Any, builder: Any, target: Any, source: Any, count: Any) -> None:
        targets, sources = _words(context, builder, count, target, source)
        with cgutils.for_range(builder, count) as loop:
            at = builder.gep(targets, [loop.index])
            builder.store(builder.or_(builder.load(at), builder.load(builder.gep(sources, [loop.index]))), at)


@inlined
def bit_of(number: int) -> int:
    """The word in which only this bit is set; bits from 64 on are in later words."""
    return ONE << (number & 63)  # type: ignore[return-value]
