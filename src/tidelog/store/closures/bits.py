"""Bits of 64-bit words: how many are set, and which is the first. One machine instruction each in compiled code."""

from __future__ import annotations

from typing import Any

from tidelog.store.jit import JIT_DISABLED

if JIT_DISABLED:

    def population(word: int) -> int:
        """How many bits of a word are set."""
        return (int(word) & 0xFFFFFFFFFFFFFFFF).bit_count()

    def first_bit(word: int) -> int:
        """The number of the lowest bit that is set; the word is not 0."""
        return (int(word) & -int(word)).bit_length() - 1

else:
    from llvmlite import ir
    from numba import types
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
