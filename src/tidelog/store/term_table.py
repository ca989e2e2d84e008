"""What terms are: a kind and a payload for each, and their texts in one heap of UTF-8 bytes. It turns numbers of terms
into values; `arrow_columns` makes whole Arrow columns of them.

Any thread may read a table without a lock while the dictionary (`terms`) appends to it. Entries never change: new ones
are written behind the others, and an array that grows is replaced by a longer one. So each function reads an attribute
once, and then has an array with all the entries that it was asked for. When the dictionary frees terms, it continues
with another table, and this one stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tidelog.machine import term_kinds as K
from tidelog.machine.jit import address
from tidelog.records import RECORD
from tidelog.store.term_kernels import gather_texts
from tidelog.values import IRI, SEPARATOR, Literal, Record, Value

Ids = npt.NDArray[np.int32]

# Decoding up to this many terms takes less time than NumPy takes to find those that are the same.
FEW_TERMS = 16


@dataclass(slots=True, eq=False)
class TermTable:
    """The terms of a knowledge base, by their numbers."""

    kinds: npt.NDArray[np.uint8]
    payloads: npt.NDArray[np.int64]
    sizes: Ids
    text: npt.NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self.kinds, self.payloads, self.sizes, self.text))

    def with_only(self, kept: npt.NDArray[np.int64], count: int) -> tuple[TermTable, int]:
        """A table of the first `count` numbers with only some of the terms, and the bytes that its texts take."""
        capacity = max(4, int(1.125 * count))
        kinds = np.full(capacity, K.NONE, np.uint8)
        payloads = np.zeros(capacity, np.int64)
        sizes = np.zeros(capacity, np.int32)
        kinds[kept], payloads[kept], sizes[kept] = self.kinds[kept], self.payloads[kept], self.sizes[kept]
        texts = kept[np.isin(kinds[kept], (K.STRING, K.IRI, K.LITERAL))].astype(np.int32)
        data, offsets = self.gathered(texts)
        payloads[texts] = offsets[:-1]
        return TermTable(kinds, payloads, sizes, data), int(offsets[-1])

    def gathered(self, ids: Ids) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """The texts of terms, one after the other, and where each begins."""
        text, payloads, sizes = self.text, self.payloads, self.sizes
        offsets = np.zeros(len(ids) + 1, np.int64)
        np.cumsum(sizes[ids], dtype=np.int64, out=offsets[1:])
        data = np.empty(max(int(offsets[-1]), 16), np.uint8)
        gather_texts(
            address(text), address(payloads), address(sizes), address(ids), len(ids), address(data), address(offsets)
        )
        return data, offsets

    def decode(self, term: int) -> Value:
        kind = self.kinds[term]
        payload = int(self.payloads[term])
        if kind == K.INTEGER:
            return payload
        if kind == K.FLOAT:
            return float(self.payloads[term : term + 1].view(np.float64)[0])
        if kind == K.BOOLEAN:
            return bool(payload)
        text = self.text[payload : payload + int(self.sizes[term])].tobytes().decode()
        if kind == K.STRING:
            return text
        if kind == K.IRI:
            return IRI(text)
        datatype, language, content = text.split(SEPARATOR, 2)
        return Record.of_text(content) if datatype == RECORD else Literal(content, datatype, language)

    def names_from(self, start: str, count: int) -> Ids:
        """Of the first `count` numbers, those of IRIs, and of literals with datatypes, that begin with a text."""
        wanted = start.encode()
        named = (self.kinds[:count] == K.IRI) | (self.kinds[:count] == K.LITERAL)
        found = np.flatnonzero(named & (self.sizes[:count] >= len(wanted)))
        for place, byte in enumerate(wanted):
            found = found[self.text[self.payloads[found] + place] == byte]
        return found.astype(np.int32)

    def numbers(self, ids: Ids) -> npt.NDArray[np.int64] | npt.NDArray[np.float64] | None:
        """The values of a column that has only integers or only floats."""
        kinds = self.kinds[ids]
        if (kinds == K.INTEGER).all():
            return self.payloads[ids]
        return self.payloads[ids].view(np.float64) if (kinds == K.FLOAT).all() else None

    def decode_column(self, ids: Ids) -> list[Value]:
        """A column of Python values; each distinct term of a long one is decoded once."""
        if len(ids) <= FEW_TERMS:
            return [self.decode(term) for term in ids.tolist()]
        distinct, inverse = np.unique(ids, return_inverse=True)
        values = np.empty(len(distinct), object)
        kinds = self.kinds[distinct]
        for kind in np.unique(kinds).tolist():
            (places,) = (kinds == kind).nonzero()
            values[places] = _objects(self._decode_uniform(distinct[places], kind))
        return values[inverse].tolist()

    def _decode_uniform(self, ids: Ids, kind: int) -> list[Value]:
        """The values of terms of one kind."""
        if kind == K.INTEGER:
            return self.payloads[ids].tolist()
        if kind == K.FLOAT:
            return self.payloads[ids].view(np.float64).tolist()
        if kind == K.STRING:
            return self._decode_texts(ids)  # type: ignore[return-value]
        return [self.decode(term) for term in ids.tolist()]

    def _decode_texts(self, ids: Ids) -> list[str]:
        data, offsets = self.gathered(ids)
        heap, bounds = data[: int(offsets[-1])].tobytes(), offsets.tolist()
        if heap.isascii():
            text = heap.decode("ascii")
            return [text[first:last] for first, last in pairwise(bounds)]
        return [heap[first:last].decode() for first, last in pairwise(bounds)]


def _objects(values: list[Value]) -> npt.NDArray[np.object_]:
    """The same values as an array of one dimension, whatever they are."""
    array = np.empty(len(values), object)
    array[:] = values
    return array
