"""The dictionary: turns constants into dense 32-bit numbers, grows, and frees terms. `term_table` decodes.

Everything is in flat arrays, so that kernels can use numbers, and whole columns of numbers are encoded without a Python
object for each cell (`arrow_columns` does so with all that Arrow has).

Terms that are no longer used are freed all at once, when there may be many (`keep_only`). New terms get their numbers.
All others keep theirs, so that no record has to change. Those who have read facts before keep the table of that time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.errors import DataError, LimitError
from tidelog.machine import array_memory as rooms
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine import term_kinds as K
from tidelog.machine.growth import Pause, grown, no_pause
from tidelog.machine.jit import address
from tidelog.store.letter_cases import letter_cases
from tidelog.store.term_kernels import encode_numbers, encode_texts, hash_terms, rebuild_term_slots
from tidelog.store.term_table import Ids, TermTable
from tidelog.values import (
    INTEGER_MAX,
    INTEGER_MIN,
    IRI,
    SEPARATOR,
    Literal,
    Record,
    Value,
    canonical,
    check_language,
    in_microseconds,
    literal_of,
)

# As many values as are encoded in some tenths of a millisecond.
BLOCK = 1 << 13

# Numbers of terms and sizes of texts have 32 bits, and the product of a hash with the number of slots has 64. There are
# enough slots for all terms.
MOST_TERMS = 3 << 29
MOST_SLOTS = 1 << 31
MOST_BYTES = (1 << 31) - 1

_KIND_OF_DTYPE = {"b": K.BOOLEAN, "i": K.INTEGER, "u": K.INTEGER}


class Terms:
    """The dictionary. Its addresses are in the machine's registers, which it updates whenever it grows."""

    def __init__(self, machine: npt.NDArray[np.int64], capacity: int = 1024) -> None:
        self._machine = machine
        capacity = max(capacity, 4)
        payloads, sizes = np.zeros(capacity, np.int64), np.zeros(capacity, np.int32)
        self.table = TermTable(np.zeros(capacity, np.uint8), payloads, sizes, np.zeros(max(capacity, 16), np.uint8))
        self._hashes = np.zeros(capacity, np.int32)
        self._slots = np.full(2 * capacity, R.EMPTY, np.int32)
        self._free: Ids = np.empty(0, np.int32)  # freed numbers; those at the end are used first
        self._freed = 0  # how many terms have been freed so far
        self.between_blocks: Pause = no_pause  # between two blocks of values, when other values may be encoded
        machine[M.TERM_COUNT] = K.FAILURE + 1  # term 0 is reserved
        machine[M.TERM_FREE_COUNT] = machine[M.TERM_TEXT_USED] = 0
        machine[M.CASES] = address(letter_cases())
        self.table.kinds[K.FAILURE] = K.NONE
        self._publish()

    def _publish(self) -> None:
        machine, table = self._machine, self.table
        machine[M.TERM_KINDS] = address(table.kinds)
        machine[M.TERM_PAYLOADS] = address(table.payloads)
        machine[M.TERM_SIZES] = address(table.sizes)
        machine[M.TERM_HASHES] = address(self._hashes)
        machine[M.TERM_SLOTS] = address(self._slots)
        machine[M.TERM_SLOT_COUNT] = len(self._slots)
        machine[M.TERM_LIMIT] = len(table.kinds)
        machine[M.TERM_TEXT], machine[M.TERM_TEXT_SIZE] = address(table.text), len(table.text)
        machine[M.TERM_FREE] = address(self._free)

    def __len__(self) -> int:
        """All numbers in use, including those that were freed and not yet used again."""
        return int(self._machine[M.TERM_COUNT])

    @property
    def free(self) -> int:
        """How many of them belong to no term now."""
        return int(self._machine[M.TERM_FREE_COUNT])

    @property
    def _text_used(self) -> int:
        """The bytes of texts, those of terms that were freed included."""
        return int(self._machine[M.TERM_TEXT_USED])

    @property
    def created(self) -> int:
        """How many terms have been created so far."""
        machine = self._machine  # every update needs this
        return self._freed + int(machine[M.TERM_COUNT] - machine[M.TERM_FREE_COUNT])

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + sum(array.nbytes for array in (self._hashes, self._slots, self._free))

    def reserve(self, more: int, text_bytes: int = 0) -> None:
        """Make room for `more` new terms and their texts."""
        table = self.table
        needed = len(self) + max(0, more - self.free)
        if needed > MOST_TERMS:
            raise LimitError(
                f"room is needed for {needed:,} constants, and a knowledge base holds at most {MOST_TERMS:,}; "
                "split it into several"
            )
        if needed > len(table.kinds):
            capacity = max(needed, min(2 * len(table.kinds), MOST_TERMS))
            # All or none: the memory may run out in between.
            kinds, payloads = grown(table.kinds, capacity), grown(table.payloads, capacity)
            sizes, hashes = grown(table.sizes, capacity), grown(self._hashes, capacity)
            slots = rooms.full(min(2 * capacity, MOST_SLOTS), R.EMPTY, np.int32)
            table.kinds, table.payloads, table.sizes = kinds, payloads, sizes
            self._hashes, self._slots = hashes, slots
            self._publish()
            rebuild_term_slots(self._machine)
        text_needed = self._text_used + text_bytes
        if text_needed > len(table.text):
            table.text = grown(table.text, max(text_needed, 2 * len(table.text)))
            self._publish()

    def keep_only(self, used: npt.NDArray[np.bool_]) -> None:
        """Free all terms but these: one entry for each number. If memory runs out, nothing changes."""
        used[K.FAILURE] = False
        (kept,) = used.nonzero()
        count = int(kept[-1]) + 1 if len(kept) else K.FAILURE + 1
        table, text_used = self.table.with_only(kept, count)
        free = np.flatnonzero(~used[K.FAILURE + 1 : count])[::-1].astype(np.int32) + np.int32(K.FAILURE + 1)
        hashes = np.zeros(len(table.kinds), np.int32)
        hashes[:count] = self._hashes[:count]
        slots = rooms.full(min(2 * len(table.kinds), MOST_SLOTS), R.EMPTY, np.int32)
        self._freed += len(self) - self.free - 1 - len(kept)
        self.table, self._hashes, self._slots, self._free = table, hashes, slots, free
        self._machine[M.TERM_TEXT_USED] = text_used
        self._machine[M.TERM_COUNT] = count
        self._machine[M.TERM_FREE_COUNT] = len(free)
        self._publish()
        rebuild_term_slots(self._machine)

    # --- encoding -----------------------------------------------------------------------------------------------------

    @staticmethod
    def load_kernels() -> None:
        """Load the kernels of encoding now, instead of with the first values: loading one from the cache takes
        milliseconds, and compiling it seconds.
        """
        Terms(np.zeros(M.SIZE, np.int64), capacity=4).encode_values(["a text", *range(4)])

    def encode(self, value: Value) -> int:
        """The number of one value, a new one if needed."""
        return int(self.encode_values([value])[0])

    def encode_values(self, values: Sequence[Any]) -> Ids:
        """The numbers of a column of Python values."""
        kinds = list(dict.fromkeys(map(type, values)))
        if len(kinds) == 1:
            return self._encode_uniform(values, kinds[0])
        result = np.empty(len(values), np.int32)
        for kind in kinds:
            places = [place for place, value in enumerate(values) if type(value) is kind]
            result[places] = self._encode_uniform([values[place] for place in places], kind)
        return result

    def _encode_uniform(self, values: Sequence[Any], kind: type) -> Ids:
        if issubclass(kind, str):
            return self._encode_texts(values, K.STRING)
        if kind is int:
            return self._encode_integers(values)
        if kind is IRI:
            return self._encode_texts([value.value for value in values], K.IRI)
        if issubclass(kind, Literal):
            return self._encode_literals(values)
        if issubclass(kind, tuple):
            return self._encode_literals([Record(*value) for value in values])
        if issubclass(kind, bool | np.bool_):
            return self._encode_bits(np.array(values, np.int64), K.BOOLEAN)
        if issubclass(kind, np.datetime64 | np.timedelta64):
            return self.encode_values([in_microseconds(value) for value in values])
        if issubclass(kind, int | np.integer):
            return self._encode_integers(values)
        if issubclass(kind, float | np.floating):
            return self._encode_floats(np.array(values, np.float64))
        literals = [literal for literal in map(literal_of, values) if literal is not None]
        if len(literals) == len(values):
            return self._encode_literals(literals)
        raise DataError(
            f"a fact cannot hold {values[0]!r} of type {kind.__name__}: use str, int, float, bool or tidelog.IRI"
        )

    def _encode_integers(self, values: Sequence[Any]) -> Ids:
        for value in values:
            if not INTEGER_MIN <= value <= INTEGER_MAX:
                raise DataError(f"the integer {value} does not fit in 64 bits; write a literal, a float or a string")
        return self._encode_bits(np.array(values, np.int64), K.INTEGER)

    def _encode_literals(self, literals: Sequence[Literal]) -> Ids:
        for literal in literals:
            check_language(literal)
        values = list(map(canonical, literals))
        proper = [value for value in values if isinstance(value, Literal)]
        if len(proper) < len(values):
            return self.encode_values(values)  # some of them are plain values
        texts = [SEPARATOR.join((value.datatype, value.language, value.text)) for value in proper]
        return self._encode_texts(texts, K.LITERAL)

    def encode_numbers(self, numbers: npt.NDArray[Any]) -> Ids:
        """The numbers of a column of integers that fit in 64 bits, of floats, or of booleans."""
        if numbers.dtype.kind == "f":
            return self._encode_floats(numbers.astype(np.float64, copy=False))
        return self._encode_bits(numbers.astype(np.int64, copy=False), _KIND_OF_DTYPE[numbers.dtype.kind])

    def encode_padded(self, texts: npt.NDArray[np.str_]) -> Ids:
        """The numbers of a column of NumPy's texts, which are code points with NUL behind them."""
        texts = np.ascontiguousarray(texts, texts.dtype.newbyteorder("="))
        points = texts.view(np.uint32).reshape(len(texts), -1)
        try:
            plain = points.max(initial=0) < 0x80  # ASCII, as most are
            characters = points.astype(np.uint8) if plain else np.char.encode(texts, "utf-8").view(np.uint8)
        except UnicodeEncodeError as problem:
            raise _no_unicode(problem) from None
        characters = characters.reshape(len(texts), -1)
        width, used = characters.shape[1], characters != 0
        sizes = np.where(used.any(axis=1), width - used[:, ::-1].argmax(axis=1), 0)
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        heap = characters[np.arange(width) < sizes[:, None]]
        return self.encode_heap(np.append(heap, np.uint8(0)), offsets, K.STRING)

    def _encode_texts(self, texts: Sequence[str], kind: int) -> Ids:
        whole, encoded = "".join(texts), texts
        try:
            heap = whole.encode()
            if not whole.isascii():
                encoded = [text.encode() for text in texts]  # type: ignore[misc]
        except UnicodeEncodeError as problem:
            raise _no_unicode(problem) from None
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
        return self.encode_heap(np.frombuffer(heap or b"\0", np.uint8), offsets, kind)

    def encode_heap(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], kind: int) -> Ids:
        """The numbers of texts that lie one after the other, each from its offset to the next."""
        count = len(offsets) - 1
        result = np.empty(count, np.int32)
        # Reserve for one block at a time: most texts of a long column are known already.
        for first, last in self._blocks(count):
            size = int(offsets[last] - offsets[first])
            longest = int(np.diff(offsets[first : last + 1]).max()) if size > MOST_BYTES else 0
            if longest > MOST_BYTES:
                most = f"{MOST_BYTES:,} bytes at most"
                raise DataError(f"a text of {longest:,} bytes is longer than a constant can be: {most}")
            self.reserve(last - first, size)
            encode_texts(self._machine, address(data), address(offsets), first, last, kind, address(result))
        return result

    def _blocks(self, count: int) -> Iterator[tuple[int, int]]:
        """The start and end of each block, with a pause between two of them."""
        for first in range(0, count, BLOCK):
            if first:
                self.between_blocks()
            yield first, min(first + BLOCK, count)

    def _encode_bits(self, bits: npt.NDArray[np.int64], kind: int) -> Ids:
        result = np.empty(len(bits), np.int32)
        bits = np.ascontiguousarray(bits)
        for first, last in self._blocks(len(bits)):
            self.reserve(last - first)
            encode_numbers(self._machine, address(bits), first, last, kind, address(result))
        return result

    def _encode_floats(self, values: npt.NDArray[np.float64]) -> Ids:
        values = np.where(values == 0.0, 0.0, values)
        values[np.isnan(values)] = math.nan
        return self._encode_bits(values.view(np.int64), K.FLOAT)

    # --- saving -------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The whole dictionary, for a file."""
        count, table = len(self), self.table
        return {
            "kinds": table.kinds[:count],
            "payloads": table.payloads[:count],
            "sizes": table.sizes[:count],
            "text": table.text[: self._text_used],
        }

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore what `to_arrays` returned; the dictionary must be empty."""
        count = len(arrays["kinds"])
        text = arrays["text"]
        self.reserve(count, len(text))
        table = self.table
        table.kinds[:count] = arrays["kinds"]
        table.payloads[:count] = arrays["payloads"]
        table.sizes[:count] = arrays["sizes"]
        table.text[: len(text)] = text
        self._machine[M.TERM_TEXT_USED] = len(text)
        self._machine[M.TERM_COUNT] = count
        hash_terms(self._machine)
        rebuild_term_slots(self._machine)

    def has_duplicates(self) -> bool:
        """Whether a constant has two numbers, so that facts with one of them could not be found by the other. Only
        constants with equal hashes are compared.
        """
        count, table = len(self), self.table
        keys = self._hashes[:count].astype(np.int64) << 32 | table.sizes[:count]
        ordered = np.sort(keys)
        suspects = np.flatnonzero(np.isin(keys, ordered[1:][ordered[1:] == ordered[:-1]]))
        seen: set[tuple[int, int | bytes]] = set()
        for number in suspects.tolist():
            kind, payload = int(table.kinds[number]), int(table.payloads[number])
            is_text = kind in (K.STRING, K.IRI, K.LITERAL)
            seen.add((kind, table.text[payload : payload + int(table.sizes[number])].tobytes() if is_text else payload))
        return len(seen) < len(suspects)


def _no_unicode(problem: UnicodeEncodeError) -> DataError:
    return DataError(f"a text is no valid Unicode: {problem}")
