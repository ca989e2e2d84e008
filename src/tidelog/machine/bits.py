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
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def population(typing_context: Any, word: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.int64(types.int64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def first_bit(typing_context: Any, word: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.int64), codegen

    def _words(context: Any, builder: Any, addresses: Any, count: Any) -> Any:
        """Pointers to rows of so many words; each row is checked as a whole."""
        for at in addresses:
            check_access(context, builder, at, builder.mul(count, ir.IntType(64)(8)))
        return [builder.inttoptr(at, ir.IntType(64).as_pointer()) for at in addresses]

    @intrinsic  # type: ignore[untyped-decorator]
    def unite_words(typing_context: Any, target: Any, source: Any, count: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            targets, sources = _words(context, builder, arguments[:2], arguments[2])
            added = cgutils.alloca_once_value(builder, ir.IntType(64)(0))
            with cgutils.for_range(builder, arguments[2]) as loop:
                at = builder.gep(targets, [loop.index])
                old = builder.load(at)
                new = builder.and_(builder.load(builder.gep(sources, [loop.index])), builder.not_(old))
                builder.store(builder.or_(old, new), at)
                builder.store(builder.add(builder.load(added), builder.ctpop(new)), added)
            return builder.load(added)

        return types.int64(types.int64, types.int64, types.int64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def or_words(typing_context: Any, target: Any, source: Any, count: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            targets, sources = _words(context, builder, arguments[:2], arguments[2])
            with cgutils.for_range(builder, arguments[2]) as loop:
                at = builder.gep(targets, [loop.index])
                builder.store(builder.or_(builder.load(at), builder.load(builder.gep(sources, [loop.index]))), at)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), codegen


@inlined
def bit_of(number: int) -> int:
    """The word in which only this bit is set; bits from 64 on are in later words."""
    return ONE << (number & 63)  # type: ignore[return-value]
