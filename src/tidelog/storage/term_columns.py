"""The dictionary as columns of a file, and what is checked when it is read back: kinds, numbers, texts in UTF-8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tidelog.engine.image import Arrays
from tidelog.machine import term_kinds as K
from tidelog.storage.array_files import check_layout, refused
from tidelog.values import SEPARATOR

# By kind: a lookup in a table costs nothing.
IS_TEXT = np.isin(np.arange(256), (K.STRING, K.IRI, K.LITERAL))
_IS_KNOWN = IS_TEXT | np.isin(np.arange(256), (K.INTEGER, K.FLOAT, K.BOOLEAN))

# Constants, and bytes of a text, are numbered by 32 bits.
_MOST = 2**31 - 1

_COLUMNS = {"kind": "uint8", "number": "int64", "size": "int32", "text": "uint8"}


def columns_of_terms(terms: Arrays) -> Arrays:
    """A row for each term from number 1 on: its kind, its number or 0, and the bytes of its text or 0. The texts follow
    each other in the heap, in that order.
    """
    kinds, payloads, sizes = (terms[name][1:] for name in ("kinds", "payloads", "sizes"))
    is_text = IS_TEXT[kinds]
    return {
        "kind": kinds,
        "number": np.where(is_text, 0, payloads),
        "size": np.where(is_text, sizes, np.int32(0)),
        "text": terms["text"],
    }


def terms_of_columns(path: Path, columns: Arrays) -> Arrays:
    check_layout(path, columns, _COLUMNS)
    _check_terms(path, columns)
    kinds, numbers, sizes, text = columns.values()
    starts = np.cumsum(sizes, dtype=np.int64) - sizes
    return {
        "kinds": np.concatenate((np.array([255], np.uint8), kinds)),
        "payloads": np.concatenate((np.zeros(1, np.int64), np.where(IS_TEXT[kinds], starts, numbers))),
        "sizes": np.concatenate((np.zeros(1, np.int32), sizes)),
        "text": text,
    }


def _check_terms(path: Path, columns: Arrays) -> None:
    """Check that each constant is of a known kind, and has what its kind needs."""
    kinds, numbers, sizes, text = columns.values()
    if not len(kinds) == len(numbers) == len(sizes):
        raise refused(path, "its columns are not of one length")
    if len(kinds) >= _MOST:
        raise refused(path, f"it has {len(kinds)} constants, and there can be at most {_MOST}")
    check_kinds(path, kinds)
    is_text = IS_TEXT[kinds]
    for fits, problem in (
        (is_text & (sizes >= 0) | (sizes == 0), "a number with characters, or a text with less than none"),
        (~is_text | (numbers == 0), "a text with a number"),
    ):
        if not fits.all():
            raise refused(path, f"row {int(np.argmin(fits))} is {problem}")
    _check_numbers(path, kinds, numbers)
    _check_texts(path, kinds, sizes, text)


def check_kinds(path: Path, kinds: npt.NDArray[np.uint8]) -> None:
    """Refuse kinds that are none."""
    known = _IS_KNOWN[kinds]
    if not known.all():
        raise refused(path, f"row {int(np.argmin(known))} is a constant of an unknown kind")


def _check_numbers(path: Path, kinds: npt.NDArray[np.uint8], numbers: npt.NDArray[np.int64]) -> None:
    truths = numbers[kinds == K.BOOLEAN]
    if ((truths != 0) & (truths != 1)).any():
        raise refused(path, "a boolean is neither true nor false")
    bits = numbers[kinds == K.FLOAT]
    floats = bits.view(np.float64)
    # There is one zero and one NaN: equal constants have the same number.
    usual = np.where(floats == 0.0, 0.0, np.where(np.isnan(floats), np.nan, floats))
    if (usual.view(np.int64) != bits).any():
        raise refused(path, "a float is a zero or NaN other than the canonical one")


def _check_texts(
    path: Path, kinds: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int32], text: npt.NDArray[np.uint8]
) -> None:
    ends = np.cumsum(sizes, dtype=np.int64)
    starts = ends - sizes
    if len(text) != (ends[-1] if len(ends) else 0):
        raise refused(path, f"its texts have {len(text)} bytes, which is not what their sizes say")
    if text.max(initial=0) >= 0x80:
        try:
            str(text.data, "utf-8")
        except UnicodeDecodeError as problem:
            raise refused(path, f"its texts are not UTF-8: {problem.reason} at byte {problem.start}") from None
        if (text[starts[sizes > 0]] & 0xC0 == 0x80).any():
            raise refused(path, "its texts are not UTF-8: one begins within a character")
    literals = kinds == K.LITERAL
    (separators,) = (text == ord(SEPARATOR)).nonzero()
    before, until = (np.searchsorted(separators, places[literals]) for places in (starts, ends))
    if (until - before < 2).any():
        raise refused(path, "a literal has no datatype and language")
